from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import logging, sys
from pathlib import Path
from aish_lsp.lsp import logs
logs.configure(*(a if n == 0 else Path(a) for n, a in enumerate(sys.argv[1:])))
log = logging.getLogger("aish_lsp.x")
log.debug("a debug record")
log.info("an info record")
logging.getLogger("pygls.y").error("of pygls, which quotes messages")
logging.getLogger("httpx").info("of httpx")
logging.getLogger("httpx").warning("a warning of httpx")
try:
    raise ValueError("sk-secret")
except ValueError:
    log.exception("it failed")
context = {"message": "a task", "exception": ValueError("sk-secret"), "future": "sk-secret"}
logs.log_loop_error(None, context)
logs.flush(5)
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data folder, which is not there yet."""
    monkeypatch.setenv("AISH_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("level", "there", "missing"),
    [
        ("debug", ["a debug record", "an info record"], []),
        ("info", ["an info record"], ["a debug record"]),
        ("warning", ["it failed"], ["an info record"]),
        ("error", ["it failed"], ["an info record"]),
    ],
)
@pytest.mark.slow
def test_levels_are_ours_and_libraries_are_quiet(
    level: str, there: list[str], missing: list[str]
) -> None:
    text = run(level)
    for words in [*there, "a warning of httpx", "it failed"]:
        assert words in text
    for words in [*missing, "of pygls", "INFO httpx"]:
        assert words not in text


@pytest.mark.slow
def test_stderr_has_warnings_and_worse_and_a_file_more(tmp_path: Path) -> None:
    text = run()
    assert "it failed" in text
    assert "an info record" not in text
    path = tmp_path / "log"
    script = f"from pathlib import Path\n{SCRIPT}".replace(
        "logs.configure(*(a if n == 0 else Path(a) for n, a in enumerate(sys.argv[1:])))",
        "logs.configure(file=Path(sys.argv[1]))",
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert "an info record" in path.read_text()


@pytest.mark.slow
def test_what_went_wrong_is_kept_privately_and_without_what_was_said(data: Path) -> None:
    for _ in range(2):
        run("error")
    kept = data / "recent.log"
    text = kept.read_text()
    assert text.count("it failed") == 2
    assert "a warning of httpx" in text
    assert "sk-secret" not in text
    assert "an info record" not in text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    kept.write_text("x" * 100_000)
    run("error")
    assert kept.read_text().count("it failed") == 1
    assert (data / "recent.log.1").read_text() == "x" * 100_000


@pytest.mark.slow
def test_a_data_folder_that_cannot_be_written_keeps_nothing_and_stops_nothing(data: Path) -> None:
    data.write_text("a file")
    assert "it failed" in run("error")
    assert data.read_text() == "a file"


@pytest.mark.slow
def test_an_exception_is_logged_with_its_stack_and_without_its_text() -> None:
    text = run("info")
    assert "sk-secret" not in text
    assert "ValueError" in text
    assert 'File "<string>", line' in text


def test_what_others_wrote_is_masked_escaped_and_cut() -> None:
    script = (
        "import logging, os\nfrom aish_lsp.foundation import masking\n"
        "from aish_lsp.lsp import logs\n"
        "logs.configure('info'); log = logging.getLogger('aish_lsp.x')\n"
        "masking.withhold(['key-0123456789abcdef'])\n"
        "log.info('hi\\x1b[2J\\x9b\\n2026-01-01 INFO forged\\r\\u202e')\n"
        "log.info('of us %s and %s', 'key-0123456789abcdef', b'key-0123456789')\n"
        "log.info('of the environment %s', 'x' + os.environ['DB_PASSWORD'] + 'x')\n"
        "logging.getLogger('websockets').warning('Authorization: Bearer dXNlcjpwYXNzMTIz')\n"
        "log.info('long %s', 'y' * 100_000)\n"
        "logs.flush(5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "DB_PASSWORD": "trustno1-0987"},
        capture_output=True,
        text=True,
        check=True,
    )
    hostile, keys, password, header, long = done.stderr.splitlines()
    assert hostile.endswith(r"hi\x1b[2J\x9b\n2026-01-01 INFO forged\r\u202e")
    assert keys.endswith("of us [secret] and b'[secret]'")
    assert password.endswith("of the environment x[secret]x")
    assert header.endswith("Bearer [redacted]")
    assert len(long) < 5_000


@pytest.mark.slow
def test_a_file_takes_the_log_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert run("info", str(path)) == ""
    assert "an info record" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_stderr_that_nobody_reads_does_not_stall_the_process() -> None:
    script = (
        "import logging, os; from aish_lsp.lsp import logs; logs.configure('info')\n"
        "for _ in range(5000): logging.getLogger('aish_lsp').info('x' * 1000)\n"
        "logs.flush(); print('done', flush=True); os._exit(0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"
        assert process.wait(30) == 0


@pytest.mark.slow
def test_importing_the_server_configures_no_logging() -> None:
    script = "import logging, aish_lsp.lsp.server; print(logging.getLogger().handlers)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


def test_a_record_that_cannot_be_formatted_is_named_and_stops_nothing() -> None:
    script = (
        "import logging\n"
        "from aish_lsp.lsp import logs\n"
        "logs.configure()\n"
        "logging.getLogger('lib').warning('%d', 'sk-secret')\n"
        "logs.flush(5)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "a record of lib at line 4 cannot be formatted\n"
