"""The conversation: its messages in force, and how they change (seed: aish-context-lua)."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from aish_lsp.context.messages import Message
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aish_lsp.context.measure import MeasuredPrefix
    from aish_lsp.context.messages import Attached, ExecOutput
    from aish_lsp.models.request import StoredReasoning, ToolCall

#: The result of a tool call that never got one.
CANCELLED: Final = "cancelled"


@dataclass(frozen=True, slots=True)
class TakenOut:
    """An exchange that was removed from a conversation, and its index there."""

    messages: tuple[Message, ...]
    at: int


@dataclass(slots=True)
class Conversation:
    """The messages still in force, the summary of those that are not, and output not yet sent.

    ``anchors`` are the servers' token counts of it, by the form in which it was counted.
    """

    messages: list[Message] = field(default_factory=list)
    summary: str = ""
    pending: list[ExecOutput] = field(default_factory=list)
    anchors: dict[str, MeasuredPrefix] = field(default_factory=dict, repr=False)

    def append_output(self, output: ExecOutput) -> None:
        """Keep a command's output for the next user message.

        It never becomes a message of its own: strict chat templates refuse two user messages in a
        row.
        """
        self.pending.append(output)

    def append_user(
        self, text: str, attached: Sequence[Attached] = (), *, n: int = 0, exchange: str = ""
    ) -> Message:
        """Append a user message that carries all pending output and what is ``attached``.

        A preceding question without an answer is withdrawn, and a tool call without a result gets
        ``cancelled``, so that user and assistant always alternate.
        """
        if self.messages and self.messages[-1].role == "user":
            self.withdraw_user()
        self.cancel_calls()
        carried = tuple(self.pending)
        message = Message(
            "user", text, n, exec=carried, attached=tuple(attached), exchange=exchange
        )
        self.pending.clear()
        self.messages.append(message)
        return message

    def append_assistant(
        self,
        text: str,
        *,
        n: int = 0,
        tool_calls: Sequence[ToolCall] = (),
        reasoning: StoredReasoning | None = None,
    ) -> Message:
        """Append the model's reply.

        Raises:
            InvalidArgument: there is neither text nor a tool call, or nothing to answer.
        """
        if not text and not tool_calls:
            raise InvalidArgument("A reply needs text or a tool call.", path="content")
        self.cancel_calls()
        if not self.messages or self.messages[-1].role == "assistant":
            raise InvalidArgument("A reply needs a question before it.", path="role")
        message = Message("assistant", text, n, tool_calls=tuple(tool_calls), reasoning=reasoning)
        self.messages.append(message)
        return message

    def append_tool(self, call_id: str, result: str, *, n: int = 0) -> Message:
        """Append a tool's result after the assistant message that holds its call.

        Raises:
            InvalidArgument: no such call is waiting for a result.
        """
        if all(call.id != call_id for call in self.open_calls()):
            raise InvalidArgument(f"No tool call {call_id!r} is waiting.", path="tool_call_id")
        message = Message("tool", result, n, tool_call_id=call_id)
        self.messages.append(message)
        return message

    def cancel_calls(self) -> None:
        """Give each tool call without a result the result ``cancelled``."""
        for call in self.open_calls():
            self.append_tool(call.id, CANCELLED)

    def open_calls(self) -> list[ToolCall]:
        """Return the last assistant message's calls that have no result yet."""
        answered = set()
        for message in reversed(self.messages):
            if message.role != "tool":
                calls = {call.id: call for call in message.tool_calls}
                return [call for call_id, call in calls.items() if call_id not in answered]
            answered.add(message.tool_call_id)
        return []

    def withdraw_user(self) -> None:
        """Withdraw the last user message, which got no answer; its output is pending again."""
        assert self.messages, "there is no question to withdraw"
        assert self.messages[-1].role == "user", (
            "only a question that nothing answered is withdrawn"
        )
        self.pending[:0] = self.messages.pop().exec
        self._forget_anchors_beyond(len(self.messages))

    def ask_again(self, exchange: str, as_exchange: str) -> TakenOut | None:
        """Remove an exchange and append its question, to be answered again.

        The question carries what it carried before; pending output waits for the next question.
        Return what was removed, or None if there is no such exchange any more.
        """
        places = (at for at in self.exchanges() if self.messages[at[0]].exchange == exchange)
        start, end = next(places, (0, 0))
        if not end:
            return None
        taken = TakenOut(tuple(self.messages[start:end]), start)
        del self.messages[start:end]
        self._forget_anchors_beyond(start)
        self.cancel_calls()
        self.messages.append(replace(taken.messages[0], n=0, exchange=as_exchange))
        return taken

    def put_back(self, taken: TakenOut, evicted: int) -> None:
        """Undo ``ask_again``, which got no answer; ``evicted`` messages were evicted since then."""
        if self.messages and self.messages[-1].role == "user":
            self.messages.pop()
        at = max(0, taken.at - evicted)
        self.messages[at:at] = taken.messages
        self._forget_anchors_beyond(at)

    def _forget_anchors_beyond(self, messages: int) -> None:
        """Forget the servers' counts that cover more than the first ``messages``."""
        for model, anchor in list(self.anchors.items()):
            if anchor.messages > messages:
                del self.anchors[model]

    def exchanges(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each exchange: a user message and all that answers it."""
        start = 0
        for index, message in enumerate(self.messages):
            if message.role == "user" and index > start:
                yield start, index
                start = index
        if self.messages:
            yield start, len(self.messages)

    def evict(
        self, count: int, anchors: Mapping[str, MeasuredPrefix] | None = None
    ) -> list[Message]:
        """Remove and return the first ``count`` messages; ``anchors`` count what is left."""
        evicted = self.messages[:count]
        if evicted:
            del self.messages[:count]
            self.anchors = dict(anchors or {})
        return evicted

    def reset(self) -> None:
        """Forget messages, summary and pending output (memory, project and costs are not here)."""
        self.messages.clear()
        self.summary = ""
        self.pending.clear()
        self.anchors.clear()
