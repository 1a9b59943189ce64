"""How servers tell the tokens of a text and of a conversation: llama.cpp's way, and vLLM's.

And whether one tells them at all.

What a chat template adds to the texts of a request is learned from a few short conversations. Its
source is not looked at: how many tokens the server makes of each conversation, less the tokens of
its texts, is what the template added to it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from aish_lsp.foundation.errors import AishError, BackendUnavailable, InvalidArgument

#: Posts a body to a path beside the server's API and returns the JSON reply; raises AishError.
Post: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

#: A conversation in the form of OpenAI's chat completions.
Messages: TypeAlias = Sequence[Mapping[str, Any]]

# A byte is a token at the most; some tokenizers spell a rare character out before they cut it.
_MOST_TOKENS_A_BYTE = 4
_MOST_TOKENS_ADDED = 16


class NotACountError(ValueError):
    """The reply to a question for tokens holds no number that can be true."""


class TokenizeApi(Protocol):
    """A server's way to count. Both methods raise what ``post`` raises, and NotACountError."""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text`` within a prompt, with no token for the prompt's begin."""
        ...

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of a request's prompt. ``options`` are the request's other fields."""
        ...


class LlamaCppApi:
    """llama.cpp: ``/tokenize`` of a text, ``/apply-template`` to make a text of messages."""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text``; what reads as a special token is one, as in a chat."""
        return _believable(_length(await post("tokenize", {"content": text})), text)

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of the prompt that the template makes of ``messages``."""
        prompt = _field(await post("apply-template", {"messages": messages, **options}), "prompt")
        if not isinstance(prompt, str):
            raise NotACountError
        # As its chat endpoint does it: the tokenizer adds its first token if it has one.
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return _believable(_length(await post("tokenize", body)), prompt)


class VllmApi:
    """vLLM: ``/tokenize`` takes a text or messages."""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text``."""
        body = {"prompt": text, "add_special_tokens": False}
        return _believable(_field(await post("tokenize", body), "count"), text)

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of the prompt that the template makes of ``messages``."""
        body = {"messages": messages, "add_generation_prompt": True, **options}
        return _number(_field(await post("tokenize", body), "count"))


def is_busy(error: AishError) -> bool:
    """Return whether the server may well answer later: it was not reached, or overburdened."""
    status = error.data.get("status")
    if status is None:
        return not isinstance(error, InvalidArgument)
    # What came with a 2xx was no JSON; 501 says that the server will never do it.
    return isinstance(error, BackendUnavailable) and status >= 400 and status != 501


def _field(reply: Any, name: str) -> Any:
    return reply.get(name) if isinstance(reply, dict) else None


def _length(reply: Any) -> int:
    """Return how many tokens a reply lists."""
    tokens = _field(reply, "tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise NotACountError
    return len(tokens)


def _number(value: Any) -> int:
    """Return a count as it came; true is none, nor is a fraction."""
    if type(value) is not int or value < 0:
        raise NotACountError
    return value


def _believable(value: Any, text: str) -> int:
    """Return a count that ``text`` can have. White space alone may be nothing to a tokenizer."""
    tokens = _number(value)
    size = len(text.encode("utf-8", "replace"))
    too_many = tokens > _MOST_TOKENS_A_BYTE * size + _MOST_TOKENS_ADDED
    if too_many or (tokens == 0 and text.strip()):
        raise NotACountError
    return tokens


# Whether a server counts tokens for us: it does, it is busy, or it never will (context.md).

logger = logging.getLogger(__name__)

#: Seconds without a question to a server that is busy: at first, and at most.
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0

_DENIED = frozenset({401, 403})


class Pause:
    """A time without questions, each twice as long as the last until something was answered.

    ``clock`` tells seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = -math.inf
        self._next = FIRST_PAUSE

    @property
    def lasts(self) -> bool:
        """Whether nothing is to be asked."""
        return self._clock() < self._end

    def begin(self) -> None:
        """Begin a pause; one that lasts is not prolonged by what was under way before it."""
        if not self.lasts:
            self._end = self._clock() + self._next
            self._next = min(2 * self._next, LONGEST_PAUSE)

    def reset(self) -> None:
        """Have the next pause be a short one."""
        self._next = FIRST_PAUSE


class Capability:
    """What is known of one way to have the tokens of a model counted.

    Args:
        model: the preset's name, for the user.
        clock: tells seconds.

    Attributes:
        lasting: false once it is known that it is of no use.
        pause: while it lasts, nothing is to be asked.
    """

    def __init__(self, model: str, clock: Callable[[], float]) -> None:
        self.lasting = True
        self.pause = Pause(clock)
        self._model = model
        self._notices: list[str] = []

    @property
    def may_ask(self) -> bool:
        """Whether there is somebody to ask now."""
        return self.lasting and not self.pause.lasts

    def failed(self, error: AishError) -> None:
        """Take in that a question failed: wait, or never ask again."""
        if is_busy(error):
            self.pause.begin()
            return
        if self.lasting and error.data.get("status") in _DENIED:
            self._notices.append(
                f"Tokens are only estimated for model {self._model!r}: {error.message} "
                "To do without the server's counts, set `tokenize.use_endpoint` to false."
            )
        self.give_up(error.message)

    def distrust(self, counted: int, actual: int) -> None:
        """Ask no more: of a request it said ``counted`` tokens and the model ``actual``."""
        if self.lasting:
            self._notices.append(
                f"Tokens are only estimated for model {self._model!r}: of the last request "
                f"its server's tokenizer counted {counted:,} and the model {actual:,}."
            )
            self.give_up("it counts differently from the model")

    def give_up(self, reason: str) -> None:
        """Never ask again."""
        self.lasting = False
        logger.info("the server of model %r does not count for us: %s", self._model, reason)

    def take_notices(self) -> list[str]:
        """Return what the user should be told; nothing is returned twice."""
        notices, self._notices = self._notices, []
        return notices


#: What a call costs where the template takes none of ours: JSON around it, and two marks.
ASSUMED_CALL = 12

#: A template that adds more than this to a message is not believed.
MOST_ADDED = 4096

_Counts: TypeAlias = Mapping[str, int | None]
_T = TypeVar("_T")

# A text's end may make a token with the mark behind it, where marks are no tokens of their own: one
# that ends in a letter never does, one that ends in a period may. Real texts end in either.
_SYSTEM_TEXT = "You are a shell assistant"
_USER_TEXT = "Which files are here"
_ASSISTANT_TEXT = "There are three of them."
_CALL_NAME = "list_files"
_CALL_ARGUMENTS = '{"path": "src"}'
_RESULT_TEXT = "main.py"

# Nine letters: the only form of an id that every template takes.
_CALL_ID = "abcdefghi"

_SYSTEM = {"role": "system", "content": _SYSTEM_TEXT}
_USER = {"role": "user", "content": _USER_TEXT}
_ASSISTANT = {"role": "assistant", "content": _ASSISTANT_TEXT}
_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": _CALL_ID,
            "type": "function",
            "function": {"name": _CALL_NAME, "arguments": _CALL_ARGUMENTS},
        }
    ],
}
_RESULT = {"role": "tool", "content": _RESULT_TEXT, "tool_call_id": _CALL_ID}


@dataclass(frozen=True, slots=True)
class TemplateOverhead:
    """Tokens that a chat template adds: to a request, to a message of each role, to a tool call.

    What precedes the first message and what opens the reply is in ``request``. Only sums can be
    learned of some: ``request`` and ``system``, which are in every request, and ``tool`` and
    ``call``, which come in pairs. There ``system`` and ``tool`` are taken to be as ``user``.
    """

    request: int
    system: int
    user: int
    assistant: int
    tool: int
    call: int


@dataclass(frozen=True, slots=True)
class _Probe:
    """A conversation, and the texts in it that are counted by themselves."""

    messages: Messages
    texts: tuple[str, ...]


_SYSTEM_ALONE = _Probe((_SYSTEM,), (_SYSTEM_TEXT,))
_QUESTION = _Probe((_SYSTEM, _USER), (_SYSTEM_TEXT, _USER_TEXT))
_DIALOG = _Probe(
    (*_QUESTION.messages, _ASSISTANT, _USER), (*_QUESTION.texts, _ASSISTANT_TEXT, _USER_TEXT)
)
_TOOL_CALL = _Probe(
    (*_QUESTION.messages, _CALL, _RESULT),
    (*_QUESTION.texts, _CALL_NAME, _CALL_ARGUMENTS, _RESULT_TEXT),
)


async def learn_overhead(
    api: TokenizeApi, post: Post, options: Mapping[str, Any]
) -> TemplateOverhead | None:
    """Return what the server's template adds, or None where it does not take our conversations.

    ``options`` are the fields of a request that the template looks at.

    Raises:
        ExceptionGroup: of AishError; the server is busy, and may tell later.
    """
    probes = (_SYSTEM_ALONE, _QUESTION, _DIALOG, _TOOL_CALL)
    texts = tuple(dict.fromkeys(text for probe in probes for text in probe.texts))

    def ask(probe: _Probe) -> Awaitable[int]:
        return api.count_messages(post, probe.messages, options)

    def ask_text(text: str) -> Awaitable[int]:
        return api.count(post, text)

    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(_unless_refused(ask_text, text)) for text in texts]
        totals = [group.create_task(_unless_refused(ask, probe)) for probe in probes]
    count_of = dict(zip(texts, (task.result() for task in counts), strict=True))
    system, question, dialog, call = (
        _added(probe, task.result(), count_of) for probe, task in zip(probes, totals, strict=True)
    )
    if question is None or dialog is None:
        return None
    overhead = _overhead(system, question, dialog, call)
    return overhead if max(astuple(overhead)) <= MOST_ADDED else None


async def _unless_refused(ask: Callable[[_T], Awaitable[int]], what: _T) -> int | None:
    """Return what the server answers, None where it does not take ``what``.

    Raises:
        AishError: the server is busy.
    """
    try:
        return await ask(what)
    except NotACountError:
        return None
    except AishError as error:
        # A template's own refusal ("roles must alternate") comes as a fault of the server.
        if is_busy(error) and error.data.get("status") != 500:
            raise
        return None


def _added(probe: _Probe, total: int | None, counts: _Counts) -> int | None:
    """Return what the template added to a conversation, None where that is not known."""
    for text in probe.texts:
        tokens = counts[text]
        if total is None or tokens is None:
            return None
        total -= tokens
    return total


def _overhead(system: int | None, question: int, dialog: int, call: int | None) -> TemplateOverhead:
    """Return the parts of what was added to the probes.

    A template may drop a text or move it into another message, so that a difference is no
    message's own. Each part is kept within what it is a part of: a sum may get too large by that.
    """
    first = max(0, question)
    exchange = max(0, dialog - question)
    user = first - system if system is not None else -1
    if not 0 <= user <= exchange:
        user = exchange // 2
    user = min(user, first)
    as_system = min(user, first - user)
    return TemplateOverhead(
        request=first - user - as_system,
        system=as_system,
        user=user,
        assistant=exchange - user,
        tool=user,
        call=ASSUMED_CALL if call is None else max(0, call - question - exchange),
    )
