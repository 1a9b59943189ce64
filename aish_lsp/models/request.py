"""Requests and replies, independent of any protocol; memory of token counts."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias

from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.foundation.events import FinishReason, Usage

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the reply's text. The pieces, joined, are exactly the text."""

    kind: ClassVar[str] = "text"
    delta: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's reasoning, which is never scanned for commands."""

    kind: ClassVar[str] = "reasoning"
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete tool call, joined from its pieces; ``arguments`` is the JSON text as received.

    ``extra`` has what else a server said of the call, by the name of the server, which may want it
    back. It is not understood here.
    """

    id: str
    name: str
    arguments: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class ReasoningMetadata:
    """What must be returned with the reasoning, and only to the source that it came from."""

    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the reply. Always the last event of a stream that does not raise.

    ``said`` is the server's own word for the reason; empty if it gave none.
    """

    reason: FinishReason
    said: str = field(default="", compare=False)


ModelEvent: TypeAlias = Text | Reasoning | ToolCall | ReasoningMetadata | Usage | Finish


@dataclass(frozen=True, slots=True)
class StoredReasoning:
    """An earlier reply's reasoning, with the metadata that its provider needs back."""

    text: str
    provider: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One message as the model sees it.

    The first message of a request is ``system``; then ``user`` and ``assistant`` alternate;
    ``tool`` comes after the assistant message that contains its call, and before the next one.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: StoredReasoning | None = None


@dataclass(slots=True)
class Exchange:
    """A reply, and the messages that follow it up to the next one.

    Attributes:
        reply: the assistant's message; an empty one for the messages before the first reply.
        results: the index of a call in the reply, and its result, in the order of the messages;
            then the calls without a result, with None.
        others: the user's messages, and results of calls that the reply does not contain.
    """

    reply: RequestMessage
    results: list[tuple[int, str | None]] = field(default_factory=list)
    others: list[RequestMessage] = field(default_factory=list)


def exchanges(messages: Iterable[RequestMessage]) -> Iterator[Exchange]:
    """Yield a conversation reply by reply.

    A result is assigned to its call even if the user's next message precedes it: servers accept
    nothing between the two.
    """
    replies = [(RequestMessage("assistant", ""), list[RequestMessage]())]
    for message in messages:
        if message.role == "assistant":
            replies.append((message, []))
        else:
            replies[-1][1].append(message)
    for reply, following in replies:
        exchange = Exchange(reply)
        waiting = [(call.id, number) for number, call in enumerate(reply.tool_calls)]
        for message in following:
            answered = (message.tool_call_id or "") if message.role == "tool" else None
            match = next((call for call in waiting if call[0] == answered), None)
            if match is None:
                exchange.others.append(message)
            else:
                waiting.remove(match)
                exchange.results.append((match[1], message.content))
        exchange.results += [(number, None) for _, number in waiting]
        yield exchange


#: In place of a result that is missing: servers refuse a call without one.
NO_RESULT: Final = "There is no result."


@dataclass(frozen=True)
class ToolSchema:
    """A tool that the model may call; ``parameters`` is a JSON schema, which nobody changes."""

    name: str
    description: str
    parameters: dict[str, Any]

    @cached_property
    def text(self) -> str:
        """What is counted of it; each question counts all tools several times."""
        return json.dumps(self.declared(), ensure_ascii=False)

    def declared(self, schema_field: str = "parameters") -> dict[str, Any]:
        """Return the tool as all protocols declare it, its schema under ``schema_field``."""
        return {"name": self.name, "description": self.description, schema_field: self.parameters}


#: What models write around a tool's name: namespaces, quotes, the markup of gpt-oss, the number of
#: the call (Kimi).
_AROUND: Final = re.compile(
    r"^[\s\"'`]*(?:to=)?(?:(?:functions?|tools?|default_api|multi_tool_use|namespace)[.:/]+)*"
    r"|<\|.*|:\d+\s*$|\(\)|[\"'`]+",
    re.DOTALL,
)

#: What models put between the words of a name.
_BETWEEN: Final = re.compile(r"[\s_./:-]+")


def tool_named(name: str, tools: Iterable[str]) -> str:
    """Return the name of the only one of ``tools`` that ``name`` can mean, else ``name``."""
    tools = set(tools)
    if name in tools:
        return name
    meant = _BETWEEN.sub("", _AROUND.sub("", name)).casefold()
    matches = [tool for tool in tools if _BETWEEN.sub("", tool).casefold() == meant]
    return matches[0] if len(matches) == 1 else name


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that one model call needs. ``max_output_tokens`` overrides the preset's.

    ``cut_off`` is called with the usage that is known of a reply that breaks off or is cancelled,
    ``begun`` when a call has begun to arrive: it is an event only when it is complete.
    """

    preset: Preset
    messages: tuple[RequestMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    max_output_tokens: int | None = None
    cut_off: Callable[[Usage], None] | None = field(default=None, compare=False, repr=False)
    begun: Callable[[], None] | None = field(default=None, compare=False, repr=False)

    def tell_cut(self, usage: Usage | None) -> None:
        """Tell the usage of a reply that is not read to its end: it costs something, too."""
        if self.cut_off is not None and usage is not None:
            self.cut_off(usage)

    def tell_begun(self) -> None:
        """Tell that a call is arriving."""
        if self.begun is not None:
            self.begun()


class WithoutPart(BackendRejected):
    """The server refused a part of the request that it can do without.

    The next request to that model leaves the part out, or has another form. ``told`` says in which
    way, for the user; it is empty for what nobody has configured.
    """

    told = ""


class Model(Protocol):
    """An adapter for one wire protocol."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Send ``request`` and yield its reply.

        Closing the generator (or cancelling the task that reads it) closes the connection at once.

        Raises:
            BackendUnavailable: no answer, or it broke off. What was yielded remains valid.
            BackendRejected: the server refused; the message quotes it. A WithoutPart if the next
                request, which leaves something out, may be accepted.
        """
        ...


# Token counts: a memory of counts, whoever counted, and what a chat template adds. This is in this
# module because the budget needs it at startup, even if a server's tokenizer is never asked.


@dataclass(frozen=True, slots=True)
class TemplateOverhead:
    """Tokens that a chat template adds: to a request, to a message of each role, to a tool call.

    ``request`` includes what precedes the first message and what opens the reply. Only sums can be
    measured for ``request`` and ``system``, which are in every request, and for ``tool`` and
    ``call``, which come in pairs; ``system`` and ``tool`` are therefore assumed to equal ``user``.
    """

    request: int
    system: int
    user: int
    assistant: int
    tool: int
    call: int


class TokenCounts:
    """How many tokens each text and each message has, by who counted them.

    The counted objects are not kept alive: the keys are ``text_key`` for a text and the serial
    number for a message. Once there are ``most`` counts, the older half is forgotten.
    """

    def __init__(self, most: int = 1 << 17) -> None:
        self._most = most
        self._held = 0
        self._by: dict[Hashable, dict[Hashable, int]] = {}

    def by(self, who: Hashable) -> Mapping[Hashable, int]:
        """Return what ``who`` has counted so far."""
        return self._by.get(who, {})

    def keep(self, who: Hashable, what: Hashable, tokens: int) -> None:
        """Remember that ``who`` counted ``tokens`` in ``what``."""
        if self._held >= self._most:
            self._forget_half()
        self._by.setdefault(who, {})[what] = tokens
        self._held += 1

    def clear(self) -> None:
        """Forget everything."""
        self._by.clear()
        self._held = 0

    def _forget_half(self) -> None:
        """Forget the older half of each one's counts: a plan in progress needs the newer half."""
        for who, counts in list(self._by.items()):
            for what in list(islice(counts, (len(counts) + 1) // 2)):
                del counts[what]
            if not counts:
                del self._by[who]
        self._held = sum(map(len, self._by.values()))


def text_key(text: str) -> Hashable:
    """Return the key of a text in ``TokenCounts``.

    Python caches a string's hash, and hashes with a secret key, so that collisions cannot be
    provoked.
    """
    return hash(text), len(text)


#: The counts of this process.
COUNTS: Final = TokenCounts()
