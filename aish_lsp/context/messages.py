"""The entries of a conversation (seed: aish-context-lua)."""

from __future__ import annotations

from dataclasses import field
from itertools import count
from typing import TYPE_CHECKING, Literal

from aish_lsp.foundation.dataclass import dataclass

if TYPE_CHECKING:
    from aish_lsp.models.request import StoredReasoning, ToolCall


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """What a command printed, for the user message that follows it.

    ``exit`` is the exit status as in a shell: 128 + N for a command ended by signal N.
    """

    command: str
    exit: int
    output: str


AttachedKind = Literal["selection", "definition", "problems", "file", "terminal", "piped"]


@dataclass(frozen=True, slots=True)
class Attached:
    """Text that a question is about, as it was when the question was asked.

    Attributes:
        kind: the selection, the definition around it, the problems that an editor reports there, a
            file that the question names, what the terminal's last command printed, or what was
            piped into ``aish-lsp ask``.
        path: relative to the workspace if it is inside; for a terminal, the command.
        text: the text, with LF as line ends.
        language: its language, as editors or file names call it; may be empty.
        first: its first line in the file, from 1; 0 if lines do not apply.
        last: its last line.
        cut: whether some of it was left out.
    """

    kind: AttachedKind
    path: str
    text: str
    language: str = ""
    first: int = 0
    last: int = 0
    cut: bool = False

    @property
    def place(self) -> str:
        """Where the text is from, in words."""
        if not self.first:
            return self.path
        lines = (
            f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"
        )
        return f"{self.path}, {lines}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation. It never changes after it is appended.

    The ``content`` of a user message is the user's own text; ``exec`` and ``attached`` are what it
    carries before that; ``exchange`` is the id of the exchange that it begins; ``n`` is its number
    in the session log; ``serial`` identifies it within the process, even among equal messages.
    """

    role: Literal["user", "assistant", "tool"]
    content: str
    n: int = 0
    exec: tuple[ExecOutput, ...] = ()
    attached: tuple[Attached, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: StoredReasoning | None = None
    exchange: str = field(default="", compare=False)
    serial: int = field(default_factory=count().__next__, init=False, compare=False, repr=False)
