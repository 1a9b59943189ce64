"""Turns, and the conversation that holds them (seed: aish-context-lua)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from aish_lsp.foundation.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aish_lsp.context.measure import MeasuredPrefix
    from aish_lsp.models.events import ToolCall
    from aish_lsp.models.request import StoredReasoning

#: The result of a tool call that never got one.
CANCELLED: Final = "cancelled"


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """What a command printed, for the user turn that follows it.

    ``exit`` is the exit status as a shell tells it: 128 + N for a command ended by signal N.
    """

    command: str
    exit: int
    output: str


@dataclass(frozen=True, slots=True)
class Attached:
    """Text that a question is about, as it stood when the question was asked.

    Attributes:
        kind: the selection, the definition around it, what an editor complains of there, or a file
            that the question names.
        path: relative to the workspace where it lies in it.
        text: the text, LF at its line ends.
        language: what it is written in, as editors or file names call it; may be empty.
        first: its first line in the file, from 1; 0 where that means nothing.
        last: its last line.
        cut: whether some of it was left out.
    """

    kind: Literal["selection", "definition", "problems", "file"]
    path: str
    text: str
    language: str = ""
    first: int = 0
    last: int = 0
    cut: bool = False

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if not self.first:
            return self.path
        lines = (
            f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"
        )
        return f"{self.path}, {lines}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the conversation. Never changed once it is appended.

    ``content`` of a user turn is the user's own text; ``exec`` and ``attached`` are what it carries
    before that; ``exchange`` is the id of the exchange that it begins; ``n`` is its number in the
    session log; ``sizes`` is what a ``Counter`` has found it to be.
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
    sizes: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TakenOut:
    """An exchange that was taken out of a conversation, and the place where it stood."""

    turns: tuple[Turn, ...]
    at: int


@dataclass(slots=True)
class Conversation:
    """The turns still in force, the summary of those that are not, and output not yet sent.

    ``anchors`` is what servers have counted of it, by the form that it was counted in.
    """

    turns: list[Turn] = field(default_factory=list)
    summary: str = ""
    pending: list[ExecOutput] = field(default_factory=list)
    anchors: dict[str, MeasuredPrefix] = field(default_factory=dict, repr=False)

    def append_output(self, output: ExecOutput) -> None:
        """Keep a command's output for the next user turn.

        It is never a turn of its own: strict chat templates refuse two user turns in a row.
        """
        self.pending.append(output)

    def append_user(
        self, text: str, attached: Sequence[Attached] = (), *, n: int = 0, exchange: str = ""
    ) -> Turn:
        """Append a user turn that carries all pending output, and what is ``attached`` to it.

        So that user and assistant alternate whatever was cut off, a question before it that got no
        answer is withdrawn, and a tool call that got no result gets ``cancelled``.
        """
        if self.turns and self.turns[-1].role == "user":
            self.withdraw_user()
        self.cancel_calls()
        carried = tuple(self.pending)
        turn = Turn("user", text, n, exec=carried, attached=tuple(attached), exchange=exchange)
        self.pending.clear()
        self.turns.append(turn)
        return turn

    def append_assistant(
        self,
        text: str,
        *,
        n: int = 0,
        tool_calls: Sequence[ToolCall] = (),
        reasoning: StoredReasoning | None = None,
    ) -> Turn:
        """Append the model's reply.

        Raises:
            InvalidArgument: neither text nor a tool call, or nothing to answer.
        """
        if not text and not tool_calls:
            raise InvalidArgument("A reply needs text or a tool call.", path="content")
        self.cancel_calls()
        if not self.turns or self.turns[-1].role == "assistant":
            raise InvalidArgument("A reply needs a question before it.", path="role")
        turn = Turn("assistant", text, n, tool_calls=tuple(tool_calls), reasoning=reasoning)
        self.turns.append(turn)
        return turn

    def append_tool(self, call_id: str, result: str, *, n: int = 0) -> Turn:
        """Append a tool's result after the assistant turn that holds its call.

        Raises:
            InvalidArgument: no such call is waiting for a result.
        """
        if all(call.id != call_id for call in self.open_calls()):
            raise InvalidArgument(f"No tool call {call_id!r} is waiting.", path="tool_call_id")
        turn = Turn("tool", result, n, tool_call_id=call_id)
        self.turns.append(turn)
        return turn

    def cancel_calls(self) -> None:
        """Give each tool call that waits for a result the result ``cancelled``."""
        for call in self.open_calls():
            self.append_tool(call.id, CANCELLED)

    def open_calls(self) -> list[ToolCall]:
        """Return the last assistant turn's calls that have no result yet."""
        answered = set()
        for turn in reversed(self.turns):
            if turn.role != "tool":
                calls = {call.id: call for call in turn.tool_calls}
                return [call for call_id, call in calls.items() if call_id not in answered]
            answered.add(turn.tool_call_id)
        return []

    def withdraw_user(self) -> None:
        """Take back the last user turn, which got no answer; its output is pending again."""
        assert self.turns, "there is no question to withdraw"
        assert self.turns[-1].role == "user", "only a question that nothing answered is withdrawn"
        self.pending[:0] = self.turns.pop().exec
        self._forget_anchors_beyond(len(self.turns))

    def ask_again(self, exchange: str, as_exchange: str) -> TakenOut | None:
        """Take an exchange out and put its question at the end, to be answered anew.

        The question carries what it carried; pending output waits for the one after it. Return
        what was taken out, or None where there is no such exchange (any more).
        """
        places = (at for at in self.exchanges() if self.turns[at[0]].exchange == exchange)
        start, end = next(places, (0, 0))
        if not end:
            return None
        taken = TakenOut(tuple(self.turns[start:end]), start)
        del self.turns[start:end]
        self._forget_anchors_beyond(start)
        self.cancel_calls()
        self.turns.append(replace(taken.turns[0], n=0, exchange=as_exchange))
        return taken

    def put_back(self, taken: TakenOut, evicted: int) -> None:
        """Undo ``ask_again``: its question got no answer. ``evicted`` turns went meanwhile."""
        if self.turns and self.turns[-1].role == "user":
            self.turns.pop()
        at = max(0, taken.at - evicted)
        self.turns[at:at] = taken.turns
        self._forget_anchors_beyond(at)

    def _forget_anchors_beyond(self, turns: int) -> None:
        """Forget what servers have counted of more than the first ``turns``."""
        for model, anchor in list(self.anchors.items()):
            if anchor.turns > turns:
                del self.anchors[model]

    def exchanges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each exchange: a user turn with all that answers it."""
        start = 0
        for index, turn in enumerate(self.turns):
            if turn.role == "user" and index > start:
                yield start, index
                start = index
        if self.turns:
            yield start, len(self.turns)

    def evict(self, count: int, anchors: Mapping[str, MeasuredPrefix] | None = None) -> list[Turn]:
        """Remove and return the first ``count`` turns; ``anchors`` is what is left of those."""
        evicted = self.turns[:count]
        if evicted:
            del self.turns[:count]
            self.anchors = dict(anchors or {})
        return evicted

    def resume(self, turns: Sequence[Turn], summary: str, pending: Sequence[ExecOutput]) -> None:
        """Go on with an earlier conversation in place of this one. Nothing was counted of it."""
        self.reset()
        self.turns += turns
        self.summary = summary
        self.pending += pending

    def reset(self) -> None:
        """Forget turns, summary and pending output (memory, project and costs are not here)."""
        self.turns.clear()
        self.summary = ""
        self.pending.clear()
        self.anchors.clear()
