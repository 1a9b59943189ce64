"""What a turn and a command leave in the chat document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aish_lsp.agent.events import End, Notice, Text
from aish_lsp.chat.markdown import ReplyEscaper, quote
from aish_lsp.foundation.events import Event
from aish_lsp.operations.markdown import open_fence

if TYPE_CHECKING:
    from aish_lsp.agent.execution import RunReport


class ReplyTranscript:
    """Writes the events of a turn as they come; ``append`` as ``ChatWriter.append``."""

    def __init__(self, append: Callable[..., None]) -> None:
        self._append = append
        self._escaper = ReplyEscaper()
        self._written: list[str] = []
        self._held: list[str] = []
        self._in_text = False

    def take(self, event: Event) -> None:
        """Write an event: text at once, notices where they do not break a line of it."""
        match event:
            case Text():
                self._in_text = True
                self._write(self._escaper.feed(event.delta))
            case Notice() if self._in_text:
                self._held.append(event.message)
            case Notice():
                self._append(quote(event.message) + "\n")
            case End(finish_reason="cancelled"):
                self._held.append("Stopped.")
            case End(error={"message": message}) if self._in_text:
                self._held.append(f"The reply broke off: {message}")

    def finish(self) -> None:
        """Write what was held back; end the reply's last line, and the code block it ends in."""
        self._write(self._escaper.finish())
        reply = "".join(self._written)
        fence = open_fence(reply)
        if reply and not reply.endswith("\n"):
            self._append("\n")
        if fence:
            self._append(f"{fence}\n")
        for message in self._held:
            self._append(quote(message), apart=True)

    def _write(self, text: str) -> None:
        self._written.append(text)
        self._append(text)


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

    ``left_out`` is what of the output is not shown.
    """
    if report.finish_reason == "cancelled" and not report.duration_ms:
        return "not run: stopped before it began."
    ended = run_ending(report)
    carried = "The model sees this with your next question"
    if not left_out:
        return f"{ended}. {carried}."
    place = ""
    if report.output_uri is not None:
        name = report.output_uri.rpartition("/")[2]
        # Of the chat, which lies beside the folder.
        place = f": [.aish/output/{name}](output/{name})"
    return f"{ended}. {left_out} left out{place}. {carried} (head and tail, if it is very long)."
