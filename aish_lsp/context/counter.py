"""How many tokens texts, messages and tools take in one model, counted or estimated."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from aish_lsp.context.prompt import as_data, request_message
from aish_lsp.context.tokens import count, family_of, p99_error
from aish_lsp.models.address import without_secrets
from aish_lsp.models.providers import goes_back
from aish_lsp.models.request import COUNTS, TemplateOverhead, text_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aish_lsp.config.schema import Preset
    from aish_lsp.context.messages import Message
    from aish_lsp.models.request import RequestMessage, ToolSchema
    from aish_lsp.models.tokenizer import EndpointTokenizer

#: The share by which a whole request may exceed what was learned about its model.
LEARNED_ERROR: Final = 0.1

#: Tokens that a template puts around a list of tools: Qwen's, the longest that was seen.
TOOLS_HEADING: Final = 200

#: How many tokens more than assumed a template may add to a message, if its markers are not single
#: tokens; and more than learned to a call, for line ends between a text and its calls.
_MESSAGE_SLACK, _CALL_SLACK = 16, 4

#: What a chat template is assumed to add; ChatML's, Llama 3's and Gemma's add about as much.
OVERHEAD: Final = TemplateOverhead(request=4, system=5, user=5, assistant=5, tool=5, call=8)


class Tokens(NamedTuple):
    """Tokens that the model's own tokenizer counted, and tokens that are estimated."""

    counted: int
    estimated: int

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum of both."""
        return Tokens(self.counted + other.counted, self.estimated + other.estimated)

    def less(self, other: Tokens) -> Tokens:
        """Return the difference of both."""
        return Tokens(self.counted - other.counted, self.estimated - other.estimated)


NOTHING: Final = Tokens(0, 0)


class Counter:
    """Counts for one preset.

    Args:
        preset: the model.
        tokenizer: the model's own; None to estimate everything.
        ratio: this model's actual tokens divided by estimated ones, in earlier calls.
    """

    def __init__(
        self, preset: Preset, tokenizer: EndpointTokenizer | None = None, ratio: float = 1.0
    ) -> None:
        self.preset = preset
        self.ratio = ratio
        self.family = family_of(preset.model)
        self._tokenizer = tokenizer
        #: All that a conversation's tokens depend on, except its messages and what counts them.
        folded = "" if preset.use_tool_role else " folded"
        self.form = model_key(preset) + folded + (" compressed" if preset.local_compress else "")
        self._memo = f"{self.form} {self.name}"

    @property
    def name(self) -> str:
        """What counts the tokens, for the user."""
        return "heuristic" if self._tokenizer is None else "endpoint"

    @property
    def overhead(self) -> TemplateOverhead:
        """What the chat template adds."""
        return (self._tokenizer.overhead if self._tokenizer else None) or OVERHEAD

    @property
    def slack(self) -> int:
        """How many more tokens than assumed a template may add to a message."""
        return 0 if self._tokenizer is not None and self._tokenizer.overhead else _MESSAGE_SLACK

    @property
    def next_reply(self) -> int:
        """What a new message adds besides itself, after a reply that the server has counted.

        That is the head of the next reply, and the last reply's end without its final token.
        """
        return max(0, self.overhead.assistant - 1)

    def settled(self, tokens: Tokens) -> int:
        """Return one number for ``tokens``, with estimates corrected by what was learned."""
        return tokens.counted + round(tokens.estimated * self.ratio)

    def at_most(self, tokens: Tokens) -> int:
        """Return an upper bound for ``tokens`` that holds in 99 of 100 cases.

        The family's error is that of plain estimates. What was learned may raise the bound but
        never lower it, since it may have been learned from texts of another kind.
        """
        share = max(1 + p99_error(self.family), self.ratio * (1 + LEARNED_ERROR))
        return tokens.counted + math.ceil(tokens.estimated * share)

    def text(self, text: str) -> Tokens:
        """Return the tokens of a text."""
        tokens = self._tokenizer.known(text) if self._tokenizer else None
        return Tokens(0, _estimate(text, self.family)) if tokens is None else Tokens(tokens, 0)

    def _part(self, text: str) -> Tokens:
        """Return the tokens of a text that is a part of a message."""
        if self._tokenizer is None:
            # The message's size is remembered, so its texts' need not be.
            return Tokens(0, count(text, self.family))
        return self.text(text)

    def added(self, tokens: int) -> Tokens:
        """Return tokens of the chat template, as counted ones if they are known exactly."""
        has_overhead = self._tokenizer is not None and self._tokenizer.overhead is not None
        return Tokens(tokens, 0) if has_overhead else Tokens(0, tokens)

    def tool(self, tool: ToolSchema) -> Tokens:
        """Return the tokens of a tool's schema in a request."""
        return self.text(tool.text).plus(self.added(self.overhead.call))

    def messages(self, messages: Iterable[Message]) -> Tokens:
        """Return the sum of the messages' sizes. Sizes that are already known are looked up."""
        sizes = COUNTS.by(self._memo)
        total = estimated = 0
        for message in messages:
            size = sizes.get(message.serial)
            if size is None:
                tokens = self._message(message)
                size = sum(tokens)
                if self._tokenizer is None or not tokens.estimated:
                    COUNTS.keep(self._memo, message.serial, size)
                else:
                    estimated += tokens.estimated
            total += size
        return Tokens(0, total) if self._tokenizer is None else Tokens(total - estimated, estimated)

    def _message(self, message: Message) -> Tokens:
        """Return the tokens of a message as it is sent, including what the template adds."""
        sent = request_message(message, self.preset)
        overhead = self.overhead
        added = getattr(overhead, sent.role) + (overhead.call + _CALL_SLACK) * len(sent.tool_calls)
        tokens = self.added(added)
        for text in _message_texts(sent, self.preset):
            tokens = tokens.plus(self._part(text))
        if not self.preset.use_tool_role and (sent.tool_calls or sent.role == "tool"):
            # It is sent as a part of another text, which is not counted by itself.
            return Tokens(0, sum(tokens))
        return tokens

    def reasoning(self, messages: Iterable[Message]) -> Tokens:
        """Return the tokens of the reasoning that is sent back with the messages."""
        tokens = NOTHING
        for message in messages:
            if message.reasoning is not None and goes_back(message.reasoning, self.preset):
                tokens = tokens.plus(self.text(message.reasoning.text))
        return tokens

    async def fetch(
        self, texts: Iterable[str], messages: Sequence[Message], tools: Iterable[ToolSchema]
    ) -> None:
        """Let the model's own tokenizer, if there is one, count what it has not counted yet."""
        if self._tokenizer is None:
            return
        sizes = COUNTS.by(self._memo)
        new = [message for message in messages if message.serial not in sizes]
        wanted = [*texts, *(tool.text for tool in tools)]
        for message in new:
            wanted.extend(_message_texts(request_message(message, self.preset), self.preset))
        await self._tokenizer.fetch(wanted)


def model_key(preset: Preset) -> str:
    """Return what identifies a model across sessions: who serves it, and its name there."""
    try:
        where = without_secrets(preset.endpoint) if preset.endpoint else preset.provider
    except ValueError:
        # Not an address; the request will say so.
        where = preset.name
    return f"{where}/{preset.model}"


def _message_texts(sent: RequestMessage, preset: Preset) -> Iterator[str]:
    """Yield every text of a message that the model is sent."""
    yield sent.content
    for call in sent.tool_calls:
        if preset.use_tool_role:
            yield call.name
            yield _spelled_out(call.arguments)
        else:
            yield as_data(call.name, on_one_line=True)
            yield as_data(call.arguments)
    if sent.reasoning is not None:
        yield sent.reasoning.text


def _spelled_out(arguments: str) -> str:
    """Return a call's arguments as templates rewrite them, if that is longer."""
    try:
        written = json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
    return max(arguments, written, key=len)


def schema_tokens(tool: ToolSchema, preset: Preset) -> int:
    """Return the estimated tokens of a tool's schema, without anything that was learned.

    Which tools are offered must not change between requests merely because a ratio did.
    """
    return _estimate(tool.text, family_of(preset.model))


def _estimate(text: str, family: str) -> int:
    """Return the heuristic's count of a text, from memory if it was counted before."""
    key = text_key(text)
    tokens = COUNTS.by(family).get(key)
    if tokens is None:
        tokens = count(text, family)
        COUNTS.keep(family, key, tokens)
    return tokens
