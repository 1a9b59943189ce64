"""What a turn and a command write into the chat document.

Remarks are lines of the chat that are removed when what they describe has ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.events import End, Notice, Output, Step, Text, Tool
from aish_lsp.chat.markdown import MARKS, ReplyEscaper, quote
from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.events import Event
from aish_lsp.foundation.text import clipped, count_of, escaped
from aish_lsp.operations.markdown import open_fence
from aish_lsp.tools.titles import call_title

if TYPE_CHECKING:
    from aish_lsp.agent import Workspace
    from aish_lsp.agent.execution import RunReport

#: The most that is shown: characters of a line of code, and of a call's error; lines of what a
#: command has printed, and of a change.
_WIDTH: Final = 160
_RESULT: Final = 300
_LINES: Final = 8
_DIFF: Final = 40
#: How many characters of an output are kept, to show its last lines.
_OUTPUT: Final = 4_000


class ReplyTranscript:
    """Writes the events of a turn with ``append``, which is ``ChatWriter.append``."""

    def __init__(self, append: Callable[..., None]) -> None:
        self._append = append
        self._escaper = ReplyEscaper()
        self._written: list[str] = []
        self._held: list[str] = []
        self._in_text = False
        self._has_text = False
        self._is_apart = False
        # The command that a step towards a goal runs, by its id, and the end of its output.
        self._running = self._output = ""

    def take(self, event: Event) -> None:
        """Write an event: text at once, notices only where they do not break a line of text."""
        match event:
            case Text():
                self._in_text = self._has_text = True
                self._write(self._escaper.feed(event.delta))
            case Tool():
                self._end_text()
                if ended := call_ended(event, as_code=True):
                    line = f"{MARKS[event.status]} {ended}{_details(event)}"
                    self._append(f"{quote(line)}\n", apart=True)
                    self._is_apart = True
            case Step() | Output():
                self._take_of_goal(event)
            case Notice() if self._in_text:
                self._held.append(event.message)
            case Notice():
                self._append(quote(event.message) + "\n")
            case End(finish_reason="cancelled"):
                self._held.append("Stopped.")
            case End(error={"message": message}) if self._has_text:
                self._held.append(f"The reply broke off: {message}")

    def _take_of_goal(self, event: Step | Output) -> None:
        """Write how a step towards a goal ended, with the end of its last command's output."""
        if isinstance(event, Output):
            if event.command_id != self._running:
                self._running, self._output = event.command_id, ""
            self._output = (self._output + event.delta)[-_OUTPUT:]
        elif event.status not in ("planned", "running"):
            self._end_text()
            text = step_ended(event) + _last_lines(self._output.split("\n"))
            self._append(quote(text) + "\n", apart=True)
            self._is_apart, self._output = True, ""

    def finish(self) -> None:
        """End the reply's last line and any open code block; write what was held back."""
        self._end_text()
        for message in self._held:
            self._append(quote(message), apart=True)

    def _end_text(self) -> None:
        """End the last line of the text so far, and any open code block."""
        self._write(self._escaper.finish())
        text = "".join(self._written)
        fence = open_fence(text)
        if text and not text.endswith("\n"):
            self._append("\n")
        if fence:
            self._append(f"{fence}\n")
        self._escaper = ReplyEscaper()
        self._written.clear()
        self._in_text = False

    def _write(self, text: str) -> None:
        if not self._written:
            # A blank line already separates it from the line of a call.
            text = text.lstrip("\n") if self._is_apart else text
            if not text:
                return
        self._written.append(text)
        self._append(text)


def call_ended(call: Tool, *, as_code: bool = False) -> str:
    """Return how a call ended, and why if it was not made; empty if it has not ended.

    ``as_code``: as for ``call_title``.
    """
    if call.status in ("pending", "running"):
        return ""
    title = _title(call) if as_code else call.title
    if call.status == "done" or _has_run(call):
        return title
    return f"{title}: {clipped(escaped(call.result or ''), _RESULT)}"


def _title(call: Tool) -> str:
    """Return a call's title as Markdown."""
    fields = (call.server, call.name, call.arguments, call.status, call.result or "")
    return call_title(*fields, as_code=True)


def _has_run(call: Tool) -> bool:
    """Return whether a call ran a command, however that ended."""
    is_run = (call.server, call.name) == (OWN_TOOLS, "run_command")
    return is_run and (call.result or "").startswith("[")


def step_ended(step: Step) -> str:
    """Return how a step towards a goal ended, in one line."""
    code = f", exit {step.exit_code}" if step.exit_code is not None else ""
    return f"Step {step.number}: {step.status}{code}."


def _details(call: Tool) -> str:
    """Return a file's change, or what a command of the model printed, shortened; else nothing."""
    if call.diff:
        lines = call.diff.split("\n")
        if len(lines) > _DIFF:
            lines[_DIFF:] = [f"... {count_of(len(lines) - _DIFF, 'more line')}"]
        return _as_code(lines)
    # The title already holds the first line: how it ended.
    lines = (call.result or "").rstrip("\n").split("\n")[1:]
    if not lines or not _has_run(call):
        return ""
    if len(lines) > _LINES:
        left_out = f"... {count_of(len(lines) - _LINES, 'more line')} ..."
        lines = [lines[0], left_out, *lines[1 - _LINES :]]
    return _as_code(lines)


def _last_lines(lines: list[str]) -> str:
    """Return the last lines of an output; empty if there are none."""
    while lines and not lines[-1].strip():
        lines.pop()
    return _as_code(lines[-_LINES:]) if lines else ""


def _as_code(lines: Sequence[str]) -> str:
    # Four blanks make it code.
    return "\n\n" + "\n".join(f"    {clipped(escaped(line), _WIDTH)}" for line in lines)


def run_ending(report: RunReport) -> str:
    """Return how a command ended, and after how long."""
    seconds = report.duration_ms / 1000
    match report.finish_reason:
        case "timeout":
            return f"timed out after {seconds:.1f} s"
        case "cancelled":
            return f"stopped after {seconds:.1f} s"
        case _ if report.signal is not None:
            return f"ended by {report.signal} after {seconds:.1f} s"
        case _:
            return f"exit {report.exit_code} after {seconds:.1f} s"


def run_status(report: RunReport, left_out: str) -> str:
    """Return how a command ended, as the line under its output.

    ``left_out`` says how much of the output is not shown.
    """
    if report.finish_reason == "cancelled" and not report.duration_ms:
        return "not run: stopped before it began."
    ended = run_ending(report)
    carried = "The model sees this with your next question"
    if not left_out:
        return f"{ended}. {carried}."
    folder = ""
    if report.output_uri is not None:
        name = report.output_uri.rpartition("/")[2]
        # The link is relative to the chat, which is in the same folder as ``output``.
        folder = f": [.aish/output/{name}](output/{name})"
    return f"{ended}. {left_out} left out{folder}. {carried} (head and tail, if it is very long)."


_REMARK: Final = re.compile(
    r"^> (?:(?P<what>Running|Waiting for its turn|Now) \((?P<job>[0-9a-f]{8})\)"
    r"(?:\. The code action \*Stop\* ends it\.|: .*)"
    r"|The last session was \*.*\*\. `:resume` continues it\."
    r"|The session \*.*\* continues\. `:session new` begins another\.)$",
    re.MULTILINE,
)


def runs(job_id: str) -> str:
    """Return the line under a command that has not ended yet."""
    return quote(f"Running ({job_id}). The code action *Stop* ends it.")


def waits(job_id: str, question: str) -> str:
    """Return the line of a question that waits; ``question`` is one line."""
    return quote(f"Waiting for its turn ({job_id}): {question}")


def calls(job_id: str, call: Tool) -> str:
    """Return the line of a tool's call that has not ended yet."""
    return quote(f"Now ({job_id}): {_title(call)}")


def last_was(title: str | None) -> str:
    """Return the first line of a new session that follows an earlier one."""
    return quote(f"The last session was *{_shown(title)}*. `:resume` continues it.")


def goes_on(title: str | None) -> str:
    """Return the first line of a continued session."""
    return quote(f"The session *{_shown(title)}* continues. `:session new` begins another.")


def _shown(title: str | None) -> str:
    return escaped(title or "no title")


def left_behind(text: str, is_there: Callable[[str], bool]) -> list[str]:
    """Return the remarks of an earlier server: on its session, and on jobs that have ended."""
    remarks = _REMARK.finditer(text)
    return [f"{line[0]}\n" for line in remarks if not is_there(line["job"] or "")]


async def first_line(workspace: Workspace) -> str:
    """Return the chat's first line, about the session that is or can be continued; may be empty."""
    session = await workspace.sessions.named(None)
    resumed = workspace.sessions.begun_with
    if resumed is not None and resumed.session is session:
        return goes_on(session.recorder.title)
    if workspace.config.sessions.resume != "ask":
        return ""
    try:
        last = await workspace.sessions.last()
    except StoreUnavailable:
        return ""
    return last_was(last.title) if last else ""


def running(text: str) -> list[tuple[int, str]]:
    """Return the lines of a chat, from 0, that say what is running, each with the job's id."""
    return [
        (text.count("\n", 0, line.start()), line["job"])
        for line in _REMARK.finditer(text)
        if line["what"] == "Running"
    ]
