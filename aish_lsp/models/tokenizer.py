"""An endpoint's own tokenizer: asked ahead, side by side, and never waited for long.

Whether there is one shows at the first question. What was counted is remembered, so that a budget
looks it up; what is not known yet, the caller estimates.

And a provider's own count of a whole request: asked seldom, remembered. Anthropic's
``count_tokens``, Gemini's ``countTokens`` and Responses' ``input_tokens`` take a whole request as
it will be sent, and say nothing of its parts.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from aish_lsp.foundation.errors import AishError
from aish_lsp.models.address import server_url
from aish_lsp.models.keys import headers_for
from aish_lsp.models.tokenize_api import (
    Capability,
    LlamaCppApi,
    NotACountError,
    Pause,
    Post,
    TokenizeApi,
    VllmApi,
    learn_overhead,
)

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Model, ModelRequest
    from aish_lsp.models.tokenize_api import TemplateOverhead

logger = logging.getLogger(__name__)

#: Seconds that one ``fetch`` may take.
FETCH_TIMEOUT = 2.0

#: Questions that are asked side by side.
AT_ONCE = 8

#: Counts that are remembered; beyond it the oldest go first.
REMEMBERED = 1 << 15

_APIS: tuple[TokenizeApi, ...] = (LlamaCppApi(), VllmApi())

# The body was not understood; validators say 422.
_MALFORMED = frozenset({400, 422})
_TOO_LARGE = 413

# Fields of a request that both servers' templates look at.
_TEMPLATE_OPTIONS = ("chat_template_kwargs",)


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
        # By hash and length: texts would be kept alive. Python keeps a text's hash with the text,
        # and its secret key leaves nobody a way to make two texts collide.
        self._counts: dict[tuple[int, int], int] = {}
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
        return self._counts.get((hash(text), len(text))) if text else 0

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
        for api in sorted(_APIS, key=lambda api: api is not self._api):
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
            self._remember(text, tokens)
            self._capability.pause.reset()
            return
        self._capability.give_up("it understands neither way to ask")

    def _remember(self, text: str, tokens: int) -> None:
        if len(self._counts) >= REMEMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[hash(text), len(text)] = tokens

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
            return await self._http.post_json(
                url, named, headers=headers, timeout_s=2 * self._timeout_s
            )


#: Counts that are remembered; beyond it the oldest go first.
REQUESTS_REMEMBERED: Final = 64

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
        self._counts: dict[bytes, int] = {}

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
        digest = hashlib.sha256(repr((request.messages, request.tools)).encode("utf-8", "replace"))
        key = digest.digest()
        if key not in self._counts and self._capability.may_ask:
            tokens = await self._ask(adapter, request)
            if tokens is not None:
                if len(self._counts) >= REQUESTS_REMEMBERED:
                    del self._counts[next(iter(self._counts))]
                self._counts[key] = tokens
                self._capability.pause.reset()
        return self._counts.get(key)

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
