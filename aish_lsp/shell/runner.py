"""Runs a command, streams and bounds its output, and ends everything that the command started."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.events import FinishReason
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.output import (
    KeptOutput,
    ends_in_question,
    gave_up_for_terminal,
    refusal_pattern,
    waits_for_terminal,
)
from aish_lsp.shell.process import Pipe, Sandbox, SupervisedProcess

Stream: TypeAlias = Literal["stdout", "stderr"]
OnOutput: TypeAlias = Callable[[Stream, str], Awaitable[None]]

#: Seconds that the supervisor has to end a command: more than it takes for TERM and KILL together.
SUPERVISOR_SECONDS = 10.0
#: Seconds that a listener has to take the last output of a stopped command once it is gone.
LISTENER_SECONDS = 1.0
#: Seconds of silence after which a command without a terminal is assumed to wait for keys.
#: Vim alone pauses for three after its warning.
SILENCE_SECONDS = 10.0

#: Characters of each stream that ``run_quietly`` returns.
_LONGEST_PRINTED = 1 << 20

#: Characters of the longest refusal in any language.
_LONGEST_REFUSAL = 200

#: Shells that end their options at `--`; others may read a text that begins with `-` as options.
_POSIX_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"})

_LEFT_RUNNING = "[aish: the processes that the command left running were ended]\n"
_SUPERVISOR_GONE = (
    "[aish: the command was ended: its supervisor process was killed;"
    " processes that had left its group may still run]\n"
)
_NO_KEYS = "[aish: the command was ended: it was waiting for a terminal, and there is none]\n"


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a command ended, and what it printed.

    Attributes:
        exit_code: the shell's exit code; None if a signal ended it.
        signal: the signal's name, such as ``SIGTERM``; None if the shell exited.
        output: stdout and stderr in the order in which they arrived, cut to head and tail beyond
            64 KiB.
        truncated: whether ``output`` was cut.
        duration_ms: milliseconds from the start until nothing of the command was left.
        finish_reason: ``stop`` when it ended by itself, ``timeout``, ``cancelled``, or ``error``
            when its supervisor was killed.
        wants_terminal: whether it failed, was ended, or asked in vain, because it had no terminal.
        refused: whether its output says that something was refused, perhaps by its confinement.
    """

    exit_code: int | None
    signal: str | None
    output: str
    truncated: bool
    duration_ms: int
    finish_reason: FinishReason
    wants_terminal: bool = False
    refused: bool = False

    @property
    def exit_status(self) -> int:
        """The exit status as a shell reports it: 128 + N for a command ended by signal N."""
        if self.exit_code is not None:
            return self.exit_code
        if self.signal is None:
            return 1
        return 128 + int(getattr(signal, self.signal, signal.SIGTERM))


def inside(root: Path, path: Path) -> bool:
    """Return whether ``path``, with all symbolic links followed, is ``root`` or is inside it.

    Folders are compared by identity, so that a different spelling on a file system that ignores
    case is the same folder. If ``path`` does not exist, its parents that do exist decide.
    """
    try:
        wanted = root.stat()
    except OSError:
        return False
    real = Path(os.path.realpath(path))
    for folder in (real, *real.parents):
        try:
            status = folder.stat()
        except OSError:
            continue
        if os.path.samestat(status, wanted):
            return True
    return False


async def run_command(
    text: str,
    *,
    cwd: Path,
    shell: str,
    timeout: float | None,  # noqa: ASYNC109 - a time-out is a result here, not an exception
    env: Mapping[str, str],
    on_output: OnOutput,
    sandbox: Sandbox | None = None,
) -> RunResult:
    """Run ``shell -c text`` in ``cwd`` and return when nothing of it is left.

    It is confined by ``sandbox``, if given.

    There is no stdin and no terminal. The pieces of output are passed to ``on_output`` one at a
    time; while it is awaited, that stream is not read, so a slow listener slows the command down.
    Background processes that outlive the shell by more than it takes to print a last line are
    ended, and a note at the end of the output says so; on Linux this includes daemons. Another note
    names what could not be ended.

    After ``timeout`` seconds, or when the task is cancelled, the command and all that it started
    get TERM and, 2 s later, KILL; so does an editor that waits for keys from a terminal that does
    not exist. A cancellation is **not** raised: the result is returned instead, with what was
    printed until then.

    Raises:
        InvalidArgument: the text cannot be passed to a shell, or the shell cannot be started.
        Denied: it could not be confined, and was not run.
        NotFound: the folder or the shell does not exist.
        Exception: whatever ``on_output`` raised; the command is ended first.
    """
    *program, script = arguments_of(text, shell, env)
    try:
        encoded = script.encode("utf-8")
    except UnicodeEncodeError as error:
        msg = "The command holds half a character (a lone surrogate), which no shell accepts."
        raise InvalidArgument(msg, path="text") from error
    with SupervisedProcess([*program, encoded], cwd, env, sandbox) as process:
        delivery = _Delivery(process, on_output, refusal_pattern(env) if sandbox else None)
        reason = await _until_end(process, delivery, timeout)
        if sandbox is not None and sandbox.settle is not None:
            ended_by_itself = reason == "stop" and not (delivery.waited or process.survivors)
            settling = asyncio.ensure_future(asyncio.to_thread(sandbox.settle, ended_by_itself))
            await _wait_despite_cancel([settling])
            notices = settling.result()
            if name := process.not_put_aside:
                notices.append(
                    f"a new file that decides what runs cannot be moved: {escaped(name)}"
                )
            await delivery.tell(notices)
        output, truncated = delivery.kept.text()
        failed = process.exit_code != 0 and reason == "stop"
        return RunResult(
            exit_code=process.exit_code,
            signal=_signal_name(process.signal_number),
            output=output,
            truncated=truncated,
            duration_ms=round(process.seconds * 1000),
            finish_reason=reason,
            wants_terminal=delivery.waited
            or (failed and gave_up_for_terminal(output))
            or (reason == "stop" and ends_in_question(output)),
            refused=delivery.refused,
        )


async def run_quietly(
    text: str, *, cwd: Path, env: Mapping[str, str], seconds: float, sandbox: Sandbox
) -> tuple[RunResult, dict[Stream, str]]:
    """Run a command of our own, confined, with ``sh``; return how it ended, and what it printed.

    Of each stream, only the beginning is returned.

    Raises:
        CancelledError: the task was cancelled; the command is ended first.
        InvalidArgument, Denied, NotFound: as ``run_command``.
    """
    printed: dict[Stream, str] = {"stdout": "", "stderr": ""}

    async def on_output(stream: Stream, delta: str) -> None:
        printed[stream] = (printed[stream] + delta)[:_LONGEST_PRINTED]

    with sandbox:
        result = await run_command(  # noqa: S604 - what this program is for
            text,
            cwd=cwd,
            shell="sh",
            timeout=seconds,
            env=env,
            on_output=on_output,
            sandbox=sandbox,
        )
    if result.finish_reason == "cancelled":
        # It is a result only for a command that somebody watches.
        raise asyncio.CancelledError
    return result, printed


def arguments_of(text: str, shell: str, env: Mapping[str, str]) -> list[str]:
    """Return the argument vector with which ``shell`` runs ``text``.

    Raises:
        NotFound: there is no such shell.
    """
    # Unlike ``Path.expanduser``, it leaves the name of an unknown user as it is.
    found = shutil.which(os.path.expanduser(shell), path=env.get("PATH"))  # noqa: PTH111
    if found is None:
        msg = f"The shell {shell!r} was not found: set `safety.shell` to one that is installed."
        raise NotFound(msg)
    options = ["-c", "--"] if Path(shell).name in _POSIX_SHELLS else ["-c"]
    return [str(Path(found).absolute()), *options, text]


async def _until_end(
    process: SupervisedProcess, delivery: _Delivery, seconds: float | None
) -> FinishReason:
    """Wait for the end of the command and its output; end it after ``seconds``."""
    reason: FinishReason = "stop"
    try:
        await asyncio.wait(
            {process.ended, *delivery.tasks},
            timeout=seconds,
            return_when=asyncio.FIRST_EXCEPTION,
        )
        if process.ended.done():
            # Only the listener can be slow now: that is not a time-out of the command.
            await asyncio.wait(delivery.tasks, return_when=asyncio.FIRST_EXCEPTION)
            reason = "error" if process.lost else "stop"
            await delivery.add_notes()
        else:
            reason = "timeout"
    except asyncio.CancelledError:
        _uncancel()
        reason = "cancelled"
    finally:
        process.stop()
        await _wait_despite_cancel([process.ended], SUPERVISOR_SECONDS)
        process.kill()
        await _wait_despite_cancel([process.ended])
        await _wait_despite_cancel(delivery.tasks, LISTENER_SECONDS)
        if reason in ("timeout", "cancelled"):
            delivery.tasks.append(asyncio.create_task(delivery.add_notes()))
            await _wait_despite_cancel(delivery.tasks, LISTENER_SECONDS)
        await delivery.end()
    process.ended.result()
    return reason


async def _wait_despite_cancel(
    futures: Collection[asyncio.Future[Any]], seconds: float | None = None
) -> None:
    """Wait for ``futures``, for ``seconds`` at most, even if the task is cancelled meanwhile."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while waiting := [future for future in futures if not future.done()]:
        left = None if deadline is None else deadline - time.monotonic()
        try:
            await asyncio.wait(waiting, timeout=left)
        except asyncio.CancelledError:
            _uncancel()
        else:
            return


def _uncancel() -> None:
    """Mark a cancellation as dealt with, so that nothing around this task acts on it."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # A real-time signal has no name.


class _Delivery:
    """Keeps the output of both pipes in the order in which it arrives, and passes it on.

    ``waited`` says that the command was ended because it waited for a terminal; ``refused`` says
    that stderr matched ``refusal``.
    """

    def __init__(
        self, process: SupervisedProcess, on_output: OnOutput, refusal: re.Pattern[str] | None
    ) -> None:
        self.kept = KeptOutput()
        self.waited = False
        self.refused = False
        self._refusal = refusal
        self._stderr_tail = ""
        self._process = process
        self._misses_terminal = False
        self._silence: asyncio.TimerHandle | None = None
        self._on_output = on_output
        self._turn = asyncio.Lock()
        self._at_line_start = True
        self._sources = (_Source("stdout", process.stdout), _Source("stderr", process.stderr))
        self.tasks = [asyncio.create_task(self._pump(source)) for source in self._sources]

    async def _pump(self, source: _Source) -> None:
        while data := await source.pipe.read():
            await self._deliver(source.stream, source.decoder.decode(data))
        await self._deliver(source.stream, source.decoder.decode(b"", final=True))

    async def _deliver(self, stream: Stream, text: str) -> None:
        if not text:
            return
        self._keep(text)
        if stream == "stderr":
            self._misses_terminal |= waits_for_terminal(text)
            self._look_for_refusal(text)
        self._watch_for_silence()
        async with self._turn:
            await self._on_output(stream, text)

    def _look_for_refusal(self, text: str) -> None:
        """Look for the words of a refusal, which may be split between two pieces."""
        if self._refusal is not None and not self.refused:
            text = self._stderr_tail + text
            self.refused = self._refusal.search(text) is not None
            self._stderr_tail = text[-_LONGEST_REFUSAL:]

    def _watch_for_silence(self) -> None:
        """Restart the timer for silence, if silence would mean that the command waits for keys."""
        if self._silence is not None:
            self._silence.cancel()
        if self._misses_terminal and not self._process.ended.done():
            loop = asyncio.get_running_loop()
            self._silence = loop.call_later(SILENCE_SECONDS, self._end_waiting)

    def _end_waiting(self) -> None:
        if not self._process.ended.done():
            self.waited = True
            self._process.stop()

    def _keep(self, text: str) -> None:
        self.kept.add(text)
        self._at_line_start = text.endswith("\n")

    async def tell(self, sentences: Iterable[str]) -> None:
        """Add what came of the command when it had ended, without waiting long for the listener."""
        note = "".join(f"[aish: {sentence}]\n" for sentence in sentences)
        if note:
            telling = asyncio.ensure_future(self._note(note))
            await _wait_despite_cancel([telling], LISTENER_SECONDS)
            telling.cancel()

    async def _note(self, note: str) -> None:
        await self._deliver("stderr", note if self._at_line_start else f"\n{note}")

    async def add_notes(self) -> None:
        """Add a note if the command did not end by itself, and one on what could not be ended."""
        process = self._process
        notes = {
            _SUPERVISOR_GONE: process.lost,
            _NO_KEYS: self.waited,
            _LEFT_RUNNING: process.left_running,
        }
        due = [note for note, is_due in notes.items() if is_due][:1]
        if process.survivors:
            due.append(f"[aish: could not be ended: {', '.join(process.survivors)}]\n")
        for note in due:
            await self._note(note)

    async def end(self) -> None:
        """Keep what is still in the pipes, without the listener if it was too slow.

        Raises:
            Exception: what the listener raised.
        """
        if self._silence is not None:
            self._silence.cancel()
        for task in self.tasks:
            task.cancel()
        await _wait_despite_cancel(self.tasks)
        for source in self._sources:
            while data := source.pipe.read_now():
                self._keep(source.decoder.decode(data))
            self._keep(source.decoder.decode(b"", final=True))
        errors = [task.exception() for task in self.tasks if not task.cancelled()]
        for error in filter(None, errors):
            raise error


class _Source:
    """One of the two pipes; a character that is split between two reads is joined again."""

    def __init__(self, stream: Stream, pipe: Pipe) -> None:
        self.stream = stream
        self.pipe = pipe
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
