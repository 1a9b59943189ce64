"""A server that is forked finds itself as one that is started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import fork_server
import pytest
from client import Client

#: Tells what it sees of itself, and ends as its input says.
TELLING = """
import json, os, resource, signal, sys
mask = os.umask(0)
sees = {
    "name": __name__,
    "main": sys.modules["__main__"].__dict__.get("mark"),
    "argv": sys.argv,
    "environment": {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"},
    "folder": os.getcwd(),
    "mask": mask,
    "path": sys.path,
    "files": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:3],
    "more": len(os.listdir("/proc/self/fd")),
    "group": os.getpgid(0),
    "session": os.getsid(0),
    "signals": [repr(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "limits": [resource.getrlimit(n) for n in range(16)],
    "streams": [(s.fileno(), s.encoding, s.errors, s.line_buffering)
                for s in (sys.stdin, sys.stdout, sys.stderr)],
    "nice": os.nice(0),
}
print(json.dumps(sees), flush=True)
word = sys.stdin.readline().strip()
sys.stderr.write(word)
sys.exit(int(word))
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is forked here")


async def told(
    command: list[str], env: dict[str, str], folder: Path, *, word: str
) -> tuple[dict[str, Any], bytes, int]:
    """Return what the program sees, what it wrote on stderr, and its exit code."""
    process: Any = await fork_server.spawn(command, env, folder)
    assert (process is not None) == fork_server.wanted
    if process is None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=folder
        )
    sees = json.loads(await process.stdout.readline())
    process.stdin.write(f"{word}\n".encode())
    error = await process.stderr.read()
    code = await process.wait()
    process.stdin.close()
    if isinstance(process, fork_server.Forked):
        process.close()
    return sees, error, code


@pytest.mark.parametrize("interrupt", [signal.default_int_handler, signal.SIG_IGN])
async def test_it_sees_what_one_that_is_started_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: Any
) -> None:
    script = tmp_path / "telling.py"
    script.write_text(TELLING)
    command = [sys.executable, str(script), "an argument", "--é"]
    env = {**os.environ, "OF_THE_TEST": "yes", "HOME": str(tmp_path)}
    results = []
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        for wanted in (False, True):
            monkeypatch.setattr(fork_server, "wanted", wanted)
            results.append(await told(command, env, tmp_path, word="7"))
    finally:
        signal.signal(signal.SIGINT, before)
    started, forked = results
    assert started[1:] == forked[1:] == (b"7", 7)
    assert started[0] == forked[0]


async def test_a_signal_ends_it(clean_home: Path) -> None:
    async with Client() as client:
        assert isinstance(client.process, fork_server.Forked)
        await client.initialize()
        client.process.kill()
        assert await client.ended() == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            client.process.terminate()
        assert not Path(f"/proc/{client.process.pid}").exists()


@pytest.mark.parametrize(
    ("command", "env"),
    [
        pytest.param(["sh", "-c", "true"], {}, id="another program"),
        pytest.param([sys.executable, "-X", "dev", "-m", "aish_lsp"], {}, id="an option"),
        pytest.param([sys.executable, "-m", "aish_lsp"], {"PYTHONUTF8": "other"}, id="of Python"),
        pytest.param([sys.executable, "-m", "aish_lsp"], {"LC_ALL": "other"}, id="the language"),
    ],
)
async def test_what_is_settled_at_the_start_starts_by_itself(
    command: list[str], env: dict[str, str]
) -> None:
    assert fork_server.wanted
    assert await fork_server.spawn(command, {**os.environ, **env}, None) is None


@pytest.mark.real_start
async def test_what_is_marked_is_started(clean_home: Path) -> None:
    async with Client() as client:
        assert not isinstance(client.process, fork_server.Forked)
        await client.initialize()


#: Tells its number, and ends by a signal alone.
WAITING = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"


async def started(*command: str, **options: Any) -> asyncio.subprocess.Process:
    """Start what others start instead of ``command``."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *fork_server.command_for(command), stdin=pipe, stdout=pipe, stderr=pipe, **options
    )


async def test_what_stands_for_a_server_has_its_streams_and_ends_as_it_does(tmp_path: Path) -> None:
    script = tmp_path / "telling.py"
    script.write_text(TELLING)
    process = await started(sys.executable, str(script), "--é", cwd=tmp_path)
    told, error = await process.communicate(b"7\n")
    sees = json.loads(told)
    assert sees["argv"] == [str(script), "--é"]
    assert sees["folder"] == str(tmp_path)
    assert (error, process.returncode) == (b"7", 7)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_what_ends_what_stands_for_a_server_ends_the_server(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    process = await started(sys.executable, str(script))
    assert process.stdout is not None
    server = int(await process.stdout.readline())
    assert server != process.pid
    process.send_signal(number)
    # Its streams end with the server, which has them.
    _, error = await asyncio.wait_for(process.communicate(), 60)
    assert (error, process.returncode) == (b"", -number)


async def test_what_stands_for_a_server_ends_by_the_signal_that_ends_the_server(
    tmp_path: Path,
) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    process = await started(sys.executable, str(script))
    assert process.stdout is not None
    os.kill(int(await process.stdout.readline()), signal.SIGKILL)
    await process.communicate()
    assert process.returncode == -signal.SIGKILL


async def test_what_cannot_be_forked_takes_the_place(tmp_path: Path) -> None:
    process = await started("/bin/sh", "-c", "echo $PPID; exit 3")
    told, _ = await process.communicate()
    assert (int(told), process.returncode) == (os.getpid(), 3)
