"""Token counts from servers: a text's, by the endpoint's tokenizer, and a whole request's.

The endpoint's tokenizer is called in advance, in parallel and with a short time limit. The first
call shows whether there is one. Counts are remembered, so that a budget can look them up; the
caller estimates what has not been counted yet.

What a chat template adds to the texts of a request is measured with a few short conversations: it
is the tokens of each conversation minus those of its texts. The template's source is not read.

Counting a whole request is rarely needed: Anthropic's ``count_tokens``, Gemini's ``countTokens``
and Responses' ``input_tokens`` take a request as it will be sent, and do not count its parts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable, InvalidArgument
from aish_lsp.models.address import server_url
from aish_lsp.models.local_server import served
from aish_lsp.models.loose_json import as_dict
from aish_lsp.models.providers import protocol
from aish_lsp.models.providers.base import CountingModel, NotACountError
from aish_lsp.models.request import COUNTS, TemplateOverhead, text_key

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Model, ModelRequest

logger = logging.getLogger(__name__)

#: Seconds that one ``fetch`` may take.
FETCH_TIMEOUT = 2.0

#: Requests that are sent at the same time.
AT_ONCE = 8

#: Posts a body to a path outside the server's API and returns the JSON reply; raises AishError.
Post: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

#: A conversation in the form of OpenAI's chat completions.
Messages: TypeAlias = Sequence[Mapping[str, Any]]

# Bounds on a plausible count. A byte is usually at most one token, but some tokenizers expand rare
# characters.
_MOST_TOKENS_A_BYTE: Final = 4
_MOST_TOKENS_ADDED: Final = 16

# Statuses for a body that the server does not understand; some validators answer 422.
_MALFORMED: Final = frozenset({400, 422})
_TOO_LARGE: Final = 413
_DENIED: Final = frozenset({401, 403})

# Fields of a request that the templates of llama.cpp and vLLM use.
_TEMPLATE_OPTIONS: Final = ("chat_template_kwargs",)


@dataclass(frozen=True, slots=True)
class TokenizeApi:
    """How one kind of server counts.

    Attributes:
        text: returns the body for ``/tokenize`` to count a text as part of a prompt, without the
            token that begins a prompt. As in a chat, special tokens in the text are parsed.
        answer: returns the number of tokens in a reply; raises NotACountError.
        template: the path that renders messages as text; empty if ``/tokenize`` takes messages.
    """

    text: Callable[[str], Mapping[str, Any]]
    answer: Callable[[Any], int]
    template: str = ""

    async def count(self, post: Post, text: str) -> int:
        """Return the tokens of ``text``.

        Raises:
            AishError: the request failed.
            NotACountError: the reply contains no plausible count.
        """
        return _plausible(self.answer(await post("tokenize", self.text(text))), text)

    async def count_messages(
        self, post: Post, messages: Messages, options: Mapping[str, Any]
    ) -> int:
        """Return the tokens of the prompt that the template renders from ``messages``.

        ``options`` are the request's other fields. Raises the same errors as ``count``.
        """
        body = {"messages": messages, **options}
        if not self.template:
            return self.answer(await post("tokenize", {**body, "add_generation_prompt": True}))
        prompt = as_dict(await post(self.template, body)).get("prompt")
        if not isinstance(prompt, str):
            raise NotACountError
        # As in the chat endpoint, the tokenizer adds its first token if it has one.
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return _plausible(self.answer(await post("tokenize", body)), prompt)


def _listed(reply: Any) -> int:
    """Return the number of tokens in a reply that lists them."""
    tokens = as_dict(reply).get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise NotACountError
    return len(tokens)


def _stated(reply: Any) -> int:
    """Return the count in a reply that states it. A boolean or a fraction is not a count."""
    tokens = as_dict(reply).get("count")
    if type(tokens) is not int or tokens < 0:
        raise NotACountError
    return tokens


LLAMA_CPP: Final = TokenizeApi(lambda text: {"content": text}, _listed, "apply-template")
VLLM: Final = TokenizeApi(lambda text: {"prompt": text, "add_special_tokens": False}, _stated)


def _plausible(tokens: int, text: str) -> int:
    """Return ``tokens`` if ``text`` can have that many, else raise NotACountError.

    A tokenizer may drop white space.
    """
    size = len(text.encode("utf-8", "replace"))
    too_many = tokens > _MOST_TOKENS_A_BYTE * size + _MOST_TOKENS_ADDED
    if too_many or (tokens == 0 and text.strip()):
        raise NotACountError
    return tokens


#: The first and the longest pause after a server was busy, in seconds.
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 300.0


def is_busy(error: AishError) -> bool:
    """Return whether the server may answer later: it was unreachable or overloaded."""
    status = error.data.get("status")
    if status is None:
        return not isinstance(error, InvalidArgument)
    # A 2xx status means that the body was not JSON; 501 means that the server cannot count.
    return isinstance(error, BackendUnavailable) and status >= 400 and status != 501


class Pause:
    """A pause between requests, each twice as long as the last one until a request succeeds.

    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = 0.0
        self._next = FIRST_PAUSE

    @property
    def is_active(self) -> bool:
        """Whether a pause is in progress."""
        return self._clock() < self._end

    def begin(self) -> None:
        """Begin a pause, unless one is in progress: requests sent before it do not extend it."""
        if not self.is_active:
            self._end = self._clock() + self._next
            self._next = min(2 * self._next, LONGEST_PAUSE)

    def reset(self) -> None:
        """Make the next pause as short as the first one."""
        self._next = FIRST_PAUSE


class Capability:
    """Whether a server counts a model's tokens, and when to ask it.

    ``model`` is the preset's name, for messages; ``clock`` returns seconds.

    Attributes:
        capable: false once the server has turned out not to count, or to count wrongly.
    """

    def __init__(self, model: str, clock: Callable[[], float]) -> None:
        self.capable = True
        self._pause = Pause(clock)
        self._model = model
        self._notices: list[str] = []

    def take_notices(self) -> list[str]:
        """Return and clear the messages for the user."""
        notices, self._notices = self._notices, []
        return notices

    def give_up(self, reason: str) -> None:
        """Never ask again, without telling the user."""
        self.capable = False
        logger.info("the server of model %r does not count for us: %s", self._model, reason)

    @property
    def _may_ask(self) -> bool:
        """Whether the server may be asked now."""
        return self.capable and not self._pause.is_active

    def _failed(self, error: AishError) -> None:
        """Handle a failed request: pause, or never ask again."""
        if is_busy(error):
            self._pause.begin()
            return
        if self.capable and error.data.get("status") in _DENIED:
            self._notices.append(
                f"Tokens are only estimated for model {self._model!r}: its server refuses to count"
                f" them (HTTP {error.data['status']}). `tokenize.use_endpoint = false` ends that."
            )
        self.give_up(error.message)


class EndpointTokenizer(Capability):
    """The tokenizer of ``preset``'s endpoint, if it has one.

    Keys are looked up in ``environ``. ``timeout_s`` limits one ``fetch``, in seconds, and ``clock``
    returns seconds.
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
        super().__init__(preset.name, clock)
        self._http = http
        self._preset = preset
        self._environ = environ
        self._timeout_s = timeout_s
        # The one of the two APIs that has answered; None if neither has yet.
        self._api: TokenizeApi | None = None
        # The key of its counts. With the tokenizer itself as key, it would be kept alive.
        self._who = object()
        self._overhead: TemplateOverhead | None = None
        self._overhead_measured = False
        self._template_pause = Pause(clock)
        self._fetching = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @property
    def overhead(self) -> TemplateOverhead | None:
        """What the chat template adds; None while that is unknown."""
        return self._overhead if self.capable else None

    def known(self, text: str) -> int | None:
        """Return the remembered tokens of ``text``, or None if it was not counted."""
        return COUNTS.by(self._who).get(text_key(text)) if text else 0

    def distrust(self, counted: int, actual: int) -> None:
        """Stop asking: for one request, the tokenizer says ``counted`` and the model ``actual``."""
        if self.capable:
            self._notices.append(
                f"Tokens are only estimated for model {self._model!r}: in the last request "
                f"its server's tokenizer counted {counted:,} and the model {actual:,}."
            )
            self.give_up("it counts differently from the model")

    async def fetch(self, texts: Iterable[str]) -> None:
        """Count those of ``texts`` that are not known, as far as the server answers in time.

        The first call also measures what the chat template adds. Never raises.
        """
        wanted = self._unknown(dict.fromkeys(texts))
        if not self._is_due(wanted):
            return
        missing: list[str] = []
        asked = False
        try:
            # One fetch at a time, so that no text is counted twice.
            async with asyncio.timeout(self._timeout_s), self._fetching:
                missing = self._unknown(wanted)
                if self._is_due(missing):
                    asked = True
                    await self._ask_for(missing)
        except TimeoutError:
            if not asked:
                return
            if missing and self._unknown(missing) == missing:
                self._pause.begin()
            else:
                # Counts that arrived are kept; the rest is asked for again. The template can wait.
                self._template_pause.begin()

    async def _ask_for(self, missing: list[str]) -> None:
        """Count all of ``missing``, and measure what the template adds if that is due."""
        try:
            at = await served(self._preset, self._http)
            headers = await protocol(self._preset.provider).headers(at, self._environ)
        except AishError as error:
            # The question itself will fail for the same reason, which tells the user.
            logger.info("no tokens are counted: %s", error.message)
            self._pause.begin()
            return
        post = partial(self._post, at.endpoint, headers)
        # Long texts come last, so that they do not delay the others or the first request.
        waiting = iter(sorted(missing, key=len))
        if self._api is None:
            # Alone: if there is no tokenizer, one request shows it.
            await self._count(next(waiting), post)
        async with asyncio.TaskGroup() as group:
            if self._api is not None and self._template_due:
                group.create_task(self._measure_overhead(self._api, post))
            for _ in range(min(AT_ONCE, len(missing))):
                group.create_task(self._count_all(waiting, post))

    def _unknown(self, texts: Iterable[str]) -> list[str]:
        return [text for text in texts if self.known(text) is None]

    def _is_due(self, missing: list[str]) -> bool:
        """Return whether there is something to ask for, and the server may be asked."""
        return self._may_ask and (bool(missing) or self._template_due)

    @property
    def _template_due(self) -> bool:
        """Whether what the template adds should be measured now."""
        if self._api is None or self._overhead_measured:
            return False
        return not self._template_pause.is_active

    async def _count_all(self, waiting: Iterator[str], post: Post) -> None:
        """Count what is waiting until a request fails; several of these run at the same time."""
        while self._may_ask and (text := next(waiting, None)) is not None:
            await self._count(text, post)

    async def _count(self, text: str, post: Post) -> None:
        """Count ``text``, with the other API if the server does not understand the first."""
        for api in sorted((LLAMA_CPP, VLLM), key=lambda api: api is not self._api):
            try:
                tokens = await api.count(post, text)
            except NotACountError:
                self.give_up("its answer is not a count")
                return
            except AishError as error:
                if error.data.get("status") in _MALFORMED:
                    continue
                # If it is too large, the server may refuse only this text.
                if error.data.get("status") != _TOO_LARGE:
                    self._failed(error)
                return
            self._api = api
            COUNTS.keep(self._who, text_key(text), tokens)
            self._pause.reset()
            return
        self.give_up("it has neither of the known APIs")

    async def _measure_overhead(self, api: TokenizeApi, post: Post) -> None:
        # What a template adds also depends on these fields.
        extra = self._preset.extra_body
        options = {name: extra[name] for name in _TEMPLATE_OPTIONS if name in extra}
        try:
            self._overhead = await measure_overhead(api, post, options)
            self._overhead_measured = True
        except* AishError:
            self._template_pause.begin()

    async def _post(
        self, endpoint: str, headers: Mapping[str, str], path: str, body: Mapping[str, Any]
    ) -> Any:
        """Post ``body`` to a path outside the endpoint's API; at most ``AT_ONCE`` at a time."""
        url = server_url(endpoint, path)
        named = {"model": self._preset.model, **body} if self._preset.model else body
        async with self._slots:
            # Longer than the timeout of ``fetch``, which knows what the other requests returned.
            return await self._http.fetch_json(
                url, named, headers=headers, timeout_s=2 * self._timeout_s
            )


# Statuses of a server that can count, but refused this request.
_REFUSED: Final = frozenset({400, 413, 422})


class RequestCounter(Capability):
    """Asks a server to count requests to one of its models, each within ``timeout_s`` seconds."""

    def __init__(
        self, model: str, *, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(model, clock)
        self._timeout_s = timeout_s

    async def count(self, adapter: Model, request: ModelRequest) -> int | None:
        """Return the input tokens of ``request``, or None if its server does not answer in time.

        Never raises.
        """
        if not isinstance(adapter, CountingModel):
            self.give_up("its protocol cannot count tokens")
            return None
        if not self._may_ask:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                # The outer timeout includes more: a command that prints the key may take long.
                tokens = await adapter.count_tokens(request, timeout_s=2 * self._timeout_s)
        except NotACountError:
            self.give_up("its answer is not a count")
        except TimeoutError:
            self._pause.begin()
        except AishError as error:
            # Without a status, the request was not sent. The question itself will tell the user.
            if error.data.get("status") in {None, *_REFUSED}:
                logger.info("a request to %s was not counted: %s", self._model, error.message)
                self._pause.begin()
            else:
                self._failed(error)
        else:
            self._pause.reset()
            return tokens
        return None


# What a chat template adds, measured with sample conversations.

#: The tokens assumed for a call if the template refuses the sample: JSON around it, two markers.
ASSUMED_CALL = 12

#: An overhead of more tokens than this is treated as an error.
MOST_ADDED = 4096

# If the template's markers are not special tokens, the end of a text may form one token with the
# marker after it: a full stop may, a letter never does. Real texts end in either.
_SYSTEM: Final = {"role": "system", "content": "You are a shell assistant"}
_USER: Final = {"role": "user", "content": "Which files are here"}
_ASSISTANT: Final = {"role": "assistant", "content": "There are three of them."}
_CALL: Final = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            # Nine letters: the only form of id that every template accepts.
            "id": "abcdefghi",
            "type": "function",
            "function": {"name": "list_files", "arguments": '{"path": "src"}'},
        }
    ],
}
_RESULT: Final = {"role": "tool", "content": "main.py", "tool_call_id": "abcdefghi"}

_PROBES: Final[tuple[Messages, ...]] = (
    [_SYSTEM],
    [_SYSTEM, _USER],
    [_SYSTEM, _USER, _ASSISTANT, _USER],
    [_SYSTEM, _USER, _CALL, _RESULT],
)


def _texts_of(messages: Messages) -> Iterator[str]:
    """Yield the texts of a conversation that are counted separately."""
    for message in messages:
        if message["content"]:
            yield message["content"]
        for call in message.get("tool_calls", ()):
            yield from (call["function"]["name"], call["function"]["arguments"])


async def measure_overhead(
    api: TokenizeApi, post: Post, options: Mapping[str, Any]
) -> TemplateOverhead | None:
    """Return what the server's template adds, or None if it refuses the sample conversations.

    ``options`` are the fields of a request that the template uses.

    Raises:
        ExceptionGroup: of AishError: the server is busy and may answer later.
    """
    texts = dict.fromkeys(text for probe in _PROBES for text in _texts_of(probe))
    async with asyncio.TaskGroup() as group:
        counts = {
            text: group.create_task(_unless_refused(partial(api.count, post, text)))
            for text in texts
        }
        totals = [
            group.create_task(_unless_refused(partial(api.count_messages, post, probe, options)))
            for probe in _PROBES
        ]
    system, question, dialog, call = (
        _added(total.result(), [counts[text].result() for text in _texts_of(probe)])
        for probe, total in zip(_PROBES, totals, strict=True)
    )
    if question is None or dialog is None:
        return None
    overhead = _overhead(system, question, dialog, call)
    return overhead if max(astuple(overhead)) <= MOST_ADDED else None


def _added(total: int | None, texts: Sequence[int | None]) -> int | None:
    """Return what the template added to texts with these tokens, or None if that is unknown."""
    counts = [tokens for tokens in texts if tokens is not None]
    return None if total is None or len(counts) < len(texts) else total - sum(counts)


async def _unless_refused(ask: Callable[[], Awaitable[int]]) -> int | None:
    """Return the server's answer, or None if it refuses the request.

    Raises:
        AishError: the server is busy.
    """
    try:
        return await ask()
    except NotACountError:
        return None
    except AishError as error:
        # A template's own refusal ("roles must alternate") is reported as a server error.
        if is_busy(error) and error.data.get("status") != 500:
            raise
        return None


def _overhead(system: int | None, question: int, dialog: int, call: int | None) -> TemplateOverhead:
    """Split what was added to the sample conversations into its parts.

    A template may drop a text or move it into another message, so a difference between two samples
    need not belong to one message. No part may exceed the whole that it is part of, although a sum
    may then be too large.
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
