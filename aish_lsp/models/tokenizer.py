"""An endpoint's own tokenizer: asked ahead, side by side, and never waited for long.

Whether there is one shows at the first question. What was counted is remembered, so that a budget
looks it up; what is not known yet, the caller estimates.

What a chat template adds to the texts of a request is learned from a few short conversations. Its
source is not looked at: how many tokens the server makes of each conversation, less the tokens of
its texts, is what the template added to it.

And a provider's own count of a whole request, asked seldom: Anthropic's ``count_tokens``, Gemini's
``countTokens`` and Responses' ``input_tokens`` take a whole request as it will be sent, and say
nothing of its parts.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from aish_lsp.foundation.errors import AishError, BackendUnavailable, InvalidArgument
from aish_lsp.models.address import server_url
from aish_lsp.models.counting import COUNTS, NotACountError, TemplateOverhead, text_key
from aish_lsp.models.keys import headers_for
from aish_lsp.models.loose_json import as_dict

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Model, ModelRequest

logger = logging.getLogger(__name__)

#: Seconds that one ``fetch`` may take.
FETCH_TIMEOUT = 2.0

#: Questions that are asked side by side.
AT_ONCE = 8

#: Posts a body to a path beside the server's API and returns the JSON reply; raises AishError.
Post: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

#: A conversation in the form of OpenAI's chat completions.
Messages: TypeAlias = Sequence[Mapping[str, Any]]

# A byte is a token at the most; some tokenizers spell a rare character out before they cut it.
_MOST_TOKENS_A_BYTE: Final = 4
_MOST_TOKENS_ADDED: Final = 16

# The body was not understood; validators say 422.
_MALFORMED: Final = frozenset({400, 422})
_TOO_LARGE: Final = 413
_DENIED: Final = frozenset({401, 403})

# Fields of a request that both servers' templates look at.
_TEMPLATE_OPTIONS: Final = ("chat_template_kwargs",)

#: Seconds without a question to a server that is busy: at first, and at most.
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 300.0


@dataclass(frozen=True, slots=True)
class TokenizeApi:
    """A server's way to count.

    Attributes:
        text: returns the body that asks ``/tokenize`` for a text within a prompt, with no token
            for the prompt's begin; what reads as a special token is one, as in a chat.
        answer: returns the number of tokens that a reply tells; raises NotACountError.
        template: the path that makes a text of messages; empty where ``/tokenize`` takes those.
    """

    text: Callable[[str], Mapping[str, Any]]
    answer: Callable[[Any], int]
    template: str = ""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text``; raises what ``post`` raises, and NotACountError."""
        return _believable(self.answer(await post("tokenize", self.text(text))), text)

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of the prompt that the template makes of ``messages``.

        ``options`` are the request's other fields. Raises as ``count``.
        """
        body = {"messages": messages, **options}
        if not self.template:
            return self.answer(await post("tokenize", {**body, "add_generation_prompt": True}))
        prompt = as_dict(await post(self.template, body)).get("prompt")
        if not isinstance(prompt, str):
            raise NotACountError
        # As its chat endpoint does it: the tokenizer adds its first token if it has one.
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        return _believable(self.answer(await post("tokenize", asked)), prompt)


def _listed(reply: Any) -> int:
    """Return how many tokens a reply lists."""
    tokens = as_dict(reply).get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise NotACountError
    return len(tokens)


def _told(reply: Any) -> int:
    """Return the count that a reply tells; true is none, nor is a fraction."""
    tokens = as_dict(reply).get("count")
    if type(tokens) is not int or tokens < 0:
        raise NotACountError
    return tokens


LLAMA_CPP: Final = TokenizeApi(lambda text: {"content": text}, _listed, "apply-template")
VLLM: Final = TokenizeApi(lambda text: {"prompt": text, "add_special_tokens": False}, _told)


def _believable(tokens: int, text: str) -> int:
    """Return a count that ``text`` can have. White space alone may be nothing to a tokenizer."""
    size = len(text.encode("utf-8", "replace"))
    too_many = tokens > _MOST_TOKENS_A_BYTE * size + _MOST_TOKENS_ADDED
    if too_many or (tokens == 0 and text.strip()):
        raise NotACountError
    return tokens


def is_busy(error: AishError) -> bool:
    """Return whether the server may well answer later: it was not reached, or overburdened."""
    status = error.data.get("status")
    if status is None:
        return not isinstance(error, InvalidArgument)
    # What came with a 2xx was no JSON; 501 says that the server will never do it.
    return isinstance(error, BackendUnavailable) and status >= 400 and status != 501


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


class EndpointTokenizer:
    """The tokenizer of ``preset``'s endpoint, if it has one.

    ``environ`` is where keys are looked up, ``timeout_s`` the seconds that one ``fetch`` may take,
    ``clock`` tells seconds.
    """

    def __init__(
        self,
        http: HttpClient,
        preset: Preset,
        environ: Mapping[str, str] = os.environ,
        *,
        timeout_s: float = FETCH_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self._preset = preset
        self._environ = environ
        self._timeout_s = timeout_s
        # Of the two ways to ask, the one that was answered; None as long as none was.
        self._api: TokenizeApi | None = None
        # Its counts go by this: as a key, the tokenizer itself would be kept alive.
        self._who = object()
        self._overhead: TemplateOverhead | None = None
        self._overhead_learned = False
        self._capability = Capability(preset.name, clock)
        self._template_pause = Pause(clock)
        self._fetching = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @property
    def overhead(self) -> TemplateOverhead | None:
        """What the chat template adds; None as long as that is not known."""
        return self._overhead if self.capable else None

    @property
    def capable(self) -> bool:
        """False once it is known that there is no tokenizer here."""
        return self._capability.lasting

    def known(self, text: str) -> int | None:
        """Return the tokens of ``text`` from memory, None where it was not counted."""
        return COUNTS.by(self._who).get(text_key(text)) if text else 0

    def take_notices(self) -> list[str]:
        """Return what the user should be told; nothing is returned twice."""
        return self._capability.take_notices()

    def distrust(self, counted: int, actual: int) -> None:
        """Ask no more: of a request it said ``counted`` tokens and the model ``actual``."""
        self._capability.distrust(counted, actual)

    async def fetch(self, texts: Iterable[str]) -> None:
        """Count those of ``texts`` that are not known, as far as the server does so in time.

        The first time it also learns what the chat template adds. Never raises.
        """
        wanted = self._unknown(dict.fromkeys(texts))
        if not self._is_due(wanted):
            return
        missing: list[str] = []
        asked = False
        try:
            # One at a time: what another one asks for is not asked twice.
            async with asyncio.timeout(self._timeout_s), self._fetching:
                missing = self._unknown(wanted)
                if self._is_due(missing):
                    asked = True
                    await self._ask_for(missing)
        except TimeoutError:
            if not asked:
                return
            if missing and self._unknown(missing) == missing:
                self._capability.pause.begin()
            else:
                # What came is kept and the rest asked for anew; only the template can wait.
                self._template_pause.begin()

    async def _ask_for(self, missing: list[str]) -> None:
        """Ask for all of ``missing``, and for the template's part where that is due."""
        try:
            headers = await headers_for(self._preset, self._environ)
        except AishError as error:
            # The model cannot be asked either, and that tells the user.
            logger.info("no tokens are counted: %s", error.message)
            self._capability.pause.begin()
            return
        post = partial(self._post, headers)
        # Long texts come last: none holds up the others, nor the first question of all.
        waiting = iter(sorted(missing, key=len))
        if self._api is None:
            # Alone: where there is no tokenizer, that is enough to know it.
            await self._count(next(waiting), post)
        async with asyncio.TaskGroup() as group:
            if self._api is not None and self._template_due:
                group.create_task(self._learn_overhead(self._api, post))
            for _ in range(min(AT_ONCE, len(missing))):
                group.create_task(self._count_all(waiting, post))

    def _unknown(self, texts: Iterable[str]) -> list[str]:
        return [text for text in texts if self.known(text) is None]

    def _is_due(self, missing: list[str]) -> bool:
        """Return whether there is something to ask, and somebody."""
        return self._capability.may_ask and (bool(missing) or self._template_due)

    @property
    def _template_due(self) -> bool:
        asked = self._api is None or self._overhead_learned
        return not asked and not self._template_pause.lasts

    async def _count_all(self, waiting: Iterator[str], post: Post) -> None:
        """Count what is waiting, beside others that do the same, until the server fails one."""
        while self._capability.may_ask and (text := next(waiting, None)) is not None:
            await self._count(text, post)

    async def _count(self, text: str, post: Post) -> None:
        """Count ``text``, in the other way if the server does not understand the first."""
        for api in sorted((LLAMA_CPP, VLLM), key=lambda api: api is not self._api):
            try:
                tokens = await api.count(post, text)
            except NotACountError:
                self._capability.give_up("its answer is not a count")
                return
            except AishError as error:
                if error.data.get("status") in _MALFORMED:
                    continue
                # Of this one text a server may want to know nothing.
                if error.data.get("status") != _TOO_LARGE:
                    self._capability.failed(error)
                return
            self._api = api
            COUNTS.keep(self._who, text_key(text), tokens)
            self._capability.pause.reset()
            return
        self._capability.give_up("it understands neither way to ask")

    async def _learn_overhead(self, api: TokenizeApi, post: Post) -> None:
        # What a template is told beside the messages changes what it adds.
        extra = self._preset.extra_body
        options = {name: extra[name] for name in _TEMPLATE_OPTIONS if name in extra}
        try:
            self._overhead = await learn_overhead(api, post, options)
            self._overhead_learned = True
        except* AishError:
            self._template_pause.begin()

    async def _post(self, headers: Mapping[str, str], path: str, body: Mapping[str, Any]) -> Any:
        """Post ``body`` beside the endpoint's API; at most ``AT_ONCE`` at a time."""
        url = server_url(self._preset.endpoint, path)
        named = {"model": self._preset.model, **body} if self._preset.model else body
        async with self._slots:
            # ``fetch`` ends first: what a time-out means depends on what came beside it.
            return await self._http.fetch_json(
                url, named, headers=headers, timeout_s=2 * self._timeout_s
            )


# The server counts, and found something wrong with the request: it may be this one alone.
_REFUSED: Final = frozenset({400, 413, 422})


@runtime_checkable
class CountsRequests(Protocol):
    """An adapter whose protocol has a question for the tokens of a request."""

    async def count_tokens(self, request: ModelRequest, *, timeout_s: float) -> int:
        """Return the input tokens of ``request``; ``timeout_s`` is in seconds.

        Raises:
            NotACountError: what came is not a count.
            AishError: nothing came.
        """
        ...


class RequestCounter:
    """Counts the requests to one model of one server, as long as that is of use.

    Args:
        model: the preset's name, for the user.
        timeout_s: seconds that one count may take.
        clock: tells seconds.
    """

    def __init__(
        self, model: str, *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._capability = Capability(model, clock)

    @property
    def capable(self) -> bool:
        """False once it is known that its server does not count, or counts wrongly."""
        return self._capability.lasting

    def take_notices(self) -> list[str]:
        """Return what the user should be told; nothing is returned twice."""
        return self._capability.take_notices()

    def distrust(self, reason: str) -> None:
        """Ask no more, without a word to the user: the requests are estimated as without it."""
        self._capability.give_up(reason)

    async def count(self, adapter: Model, request: ModelRequest) -> int | None:
        """Return the input tokens of ``request``; None where its server does not tell in time.

        Never raises.
        """
        if not isinstance(adapter, CountsRequests):
            self._capability.give_up("its protocol cannot count tokens")
            return None
        if not self._capability.may_ask:
            return None
        tokens = await self._ask(adapter, request)
        if tokens is not None:
            self._capability.pause.reset()
        return tokens

    async def _ask(self, adapter: CountsRequests, request: ModelRequest) -> int | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                # The time-out ends first: what holds it up may be a command that prints the key.
                return await adapter.count_tokens(request, timeout_s=2 * self._timeout_s)
        except NotACountError:
            self._capability.give_up("its answer is not a count")
        except TimeoutError:
            self._capability.pause.begin()
        except AishError as error:
            # Without a status the request was not sent: the question itself will tell the user.
            if error.data.get("status") in {None, *_REFUSED}:
                logger.info("a request to %s was not counted: %s", self._model, error.message)
                self._capability.pause.begin()
            else:
                self._capability.failed(error)
        return None


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
