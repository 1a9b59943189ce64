from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.shell.process import Pipe
from aish_lsp.shell.runner import RunResult, Stream, inside, run_command

Listener: TypeAlias = Callable[[Stream, str], Awaitable[None]]


async def ignore(stream: Stream, delta: str) -> None:
    """A listener that takes whatever comes."""


async def run(
    text: str,
    cwd: Path,
    *,
    shell: str = "sh",
    timeout: float | None = 60,
    env: Mapping[str, str] = os.environ,
    on_output: Listener = ignore,
) -> RunResult:
    return await run_command(
        text, cwd=cwd, shell=shell, timeout=timeout, env=env, on_output=on_output
    )


async def test_a_command_and_its_result(tmp_path: Path) -> None:
    heard: list[tuple[Stream, str]] = []

    async def listen(stream: Stream, delta: str) -> None:
        heard.append((stream, delta))

    result = await run("pwd; sleep 0.2; echo oops >&2; exit 3", tmp_path, on_output=listen)
    assert result == RunResult(
        exit_code=3,
        signal=None,
        output=f"{tmp_path.resolve()}\noops\n",
        truncated=False,
        duration_ms=result.duration_ms,
        finish_reason="stop",
    )
    assert 200 <= result.duration_ms < 30_000
    assert heard == [("stdout", f"{tmp_path.resolve()}\n"), ("stderr", "oops\n")]


async def test_output_streams_while_the_command_runs(tmp_path: Path) -> None:
    async def listen(stream: Stream, delta: str) -> None:
        assert delta == "ready\n"
        (tmp_path / "heard").touch()

    text = "echo ready; until [ -e heard ]; do sleep 0.05; done"
    assert (await run(text, tmp_path, on_output=listen)).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        r"""printf '%s' 'a "quoted" $x \n `y` ' """,
        "printf '%s' 'two\nlines'",
        "printf '%s' 'é漢🎉\u202e'",
        "printf '%s' '  spaces  '  ",
    ],
)
async def test_the_shell_gets_the_text_byte_for_byte(tmp_path: Path, text: str) -> None:
    expected = text.split("'")[3]
    assert (await run(text, tmp_path)).output == expected
    # The shell's own command line, NUL between its arguments, where it can be read.
    if sys.platform == "linux":
        shown = await run(f"cat /proc/$$/cmdline; : {text}", tmp_path)
        assert shown.output.split("\0")[1:] == ["-c", "--", f"cat /proc/$$/cmdline; : {text}", ""]


@pytest.mark.parametrize("shell", ["sh", "bash"])
async def test_a_text_that_looks_like_an_option_is_none(tmp_path: Path, shell: str) -> None:
    result = await run("-x", tmp_path, shell=shell)
    assert result.exit_code == 127
    assert "-x" in result.output


async def test_a_shell_that_is_no_posix_shell_gets_plain_c(tmp_path: Path) -> None:
    shell = tmp_path / "myshell"
    shell.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    shell.chmod(0o755)
    assert (await run("-text", tmp_path, shell=str(shell))).output == "-c|-text|"


async def test_a_signal_is_named(tmp_path: Path) -> None:
    result = await run("kill -9 $$", tmp_path)
    assert (result.exit_code, result.signal, result.finish_reason) == (None, "SIGKILL", "stop")


async def test_there_is_no_stdin_and_no_terminal(tmp_path: Path) -> None:
    text = "cat; read x; echo $?; (: </dev/tty) 2>/dev/null || echo none; [ -t 1 ] || echo none"
    assert (await run(text, tmp_path)).output == "1\nnone\nnone\n"


async def test_signals_are_not_ignored_as_python_ignores_them(tmp_path: Path) -> None:
    text = "set -o pipefail; yes | head -n 1; echo $?"
    assert (await run(text, tmp_path, shell="bash")).output == "y\n141\n"


async def test_the_command_has_a_process_group_of_its_own(tmp_path: Path) -> None:
    assert (await run("kill 0; echo survived", tmp_path)).signal == "SIGTERM"


async def test_no_descriptors_of_ours_are_passed_on(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    result = await run("ls /proc/$$/fd", tmp_path)
    assert result.output.split() == ["0", "1", "2"]


async def test_the_environment_is_what_it_is_given(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "A": "é x", "LC_ALL": "C"}
    result = await run("env", tmp_path, env=env)
    lines = result.output.splitlines()
    assert "A=é x" in lines
    # What else stands there is the shell's own.
    assert {line.partition("=")[0] for line in lines} <= {*env, "PWD", "SHLVL", "OLDPWD", "_"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"printf 'caf\303'; sleep 0.3; printf '\251\n'", "café\n"),
        (r"printf '\360\237'; sleep 0.2; printf '\216\211'", "🎉"),
        (r"printf 'a\377b\303'", "a\ufffdb\ufffd"),
        (r"printf '\303' >&2; sleep 0.2; printf x; sleep 0.2; printf '\251' >&2", "xé"),
    ],
)
@pytest.mark.slow
async def test_characters_split_between_reads(tmp_path: Path, text: str, expected: str) -> None:
    heard: list[str] = []

    async def listen(stream: Stream, delta: str) -> None:
        heard.append(delta)

    result = await run(text, tmp_path, on_output=listen)
    assert result.output == "".join(heard) == expected


async def test_much_output_is_streamed_whole_and_kept_in_part(tmp_path: Path) -> None:
    heard = 0

    async def listen(stream: Stream, delta: str) -> None:
        nonlocal heard
        heard += len(delta)

    text = "echo first; head -c 20000000 /dev/zero | tr '\\0' a; echo; echo last"
    result = await run(text, tmp_path, on_output=listen)
    assert heard == len("first\n") + 20_000_000 + len("\nlast\n")
    assert result.truncated
    assert result.output.startswith("first\n")
    assert result.output.endswith("\nlast\n")
    assert len(result.output) < 70_000


async def test_what_a_process_substitution_still_prints_is_not_lost(tmp_path: Path) -> None:
    result = await run("echo x > >(sleep 0.1; cat)", tmp_path, shell="bash")
    assert result.output == "x\n"


@pytest.mark.slow
async def test_several_commands_at_once(tmp_path: Path) -> None:
    results = await asyncio.gather(*(run(f"sleep 0.1; echo {n}", tmp_path) for n in range(6)))
    assert [result.output for result in results] == [f"{n}\n" for n in range(6)]


async def test_what_the_listener_raises_is_raised(tmp_path: Path) -> None:
    async def listen(stream: Stream, delta: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run("echo x; sleep 1000", tmp_path, on_output=listen)


@pytest.mark.slow
async def test_a_slow_listener_is_no_time_out(tmp_path: Path) -> None:
    async def listen(stream: Stream, delta: str) -> None:
        await asyncio.sleep(2.2)

    result = await run("echo x", tmp_path, timeout=2, on_output=listen)
    assert (result.finish_reason, result.exit_code) == ("stop", 0)


@pytest.mark.parametrize(
    "text", ["echo a\0b", "echo \ud800", ": " + "x" * 3_000_000], ids=["NUL", "surrogate", "long"]
)
async def test_a_text_that_no_shell_takes(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await run(text, tmp_path)
    assert caught.value.data["path"] == "text"


async def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="gone"):
        await run("echo x", tmp_path / "gone")
    (tmp_path / "file").touch()
    with pytest.raises(NotFound, match="file"):
        await run("echo x", tmp_path / "file")


async def test_a_shell_that_is_missing_or_broken(tmp_path: Path) -> None:
    for shell in ("no-such-shell", "~no-such-user/bin/bash"):
        with pytest.raises(NotFound, match=r"safety\.shell"):
            await run("echo x", tmp_path, shell=shell)
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    with pytest.raises(InvalidArgument, match="could not be started"):
        await run("echo x", tmp_path, shell=str(broken))


async def test_the_shell_is_looked_up_on_the_commands_path(tmp_path: Path) -> None:
    shell = tmp_path / "sh"
    shell.write_text("#!/bin/sh\necho mine\n")
    shell.chmod(0o755)
    result = await run("x", tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert result.output == "mine\n"


def test_inside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "root2").mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "in").symlink_to(root / "sub")
    (tmp_path / "alias").symlink_to(root)
    for path in ("root", "root/sub", "root/in", "root/sub/..", "alias/sub", "root/not/there"):
        assert inside(root, tmp_path / path), path
        assert inside(tmp_path / "alias", tmp_path / path), path
    for path in (".", "root2", "root/..", "root/out", "root/out/root2", "root/in/../..", "nope"):
        assert not inside(root, tmp_path / path), path
    assert not inside(tmp_path / "gone", tmp_path / "gone")


async def test_reading_without_end_leaves_others_their_turn() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    try:
        pipe = Pipe(descriptor)
        for _ in range(100):
            assert await pipe.read()
    finally:
        os.close(descriptor)
        counting.cancel()
    assert turns >= 50
