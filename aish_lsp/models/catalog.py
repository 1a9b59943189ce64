"""The available models (configured, found, offered, offline), and the choice of one to answer."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Literal, TypeAlias

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, Denied, NotFound
from aish_lsp.foundation.ports import Question, plain
from aish_lsp.models.address import origin, shows_key
from aish_lsp.models.prices import lists_prices
from aish_lsp.models.providers import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Config, Price
    from aish_lsp.config.trust import Consent, TrustStore
    from aish_lsp.foundation.ports import AskUser
    from aish_lsp.models.endpoint import Discovered, KeyOffer
    from aish_lsp.models.http import HttpClient

#: The model that needs no server. It reads only the last question, so its window is nominal.
OFFLINE = Preset(
    name="offline", provider="offline", model="offline", context_window=8192, token_budget=4096
)

#: Seconds for which the result of discovery is cached, and the fact that a server did not report
#: its window or its prices.
_DISCOVERY_TTL = 15.0

#: Seconds for which a window is cached: the server may be restarted with another.
_WINDOW_TTL = 300.0

#: Seconds for which a price is cached.
_PRICE_TTL = 3600.0

Source: TypeAlias = Literal["configured", "found", "offered", "built-in"]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A row of ``aish.model.list``."""

    name: str
    provider: str
    model: str
    endpoint: str
    source: Source


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model chosen to answer a question, and why."""

    preset: Preset
    why: str
    notice: str = ""


class Catalog:
    """The models for all workspaces of a process. Discovery waits for the first question."""

    def __init__(self, http: HttpClient, trust: TrustStore, environ: Mapping[str, str]) -> None:
        self._http = http
        self._trust = trust
        self._environ = environ
        self._found: Discovered | None = None
        self._found_at = 0.0
        self._known: defaultdict[tuple[str, str], _Known] = defaultdict(_Known)
        # Held while the user is asked, so that questions at the same time ask once.
        self._asking = asyncio.Lock()
        self._answers: dict[tuple[Consent, str, str], bool] = {}
        self._warnings: list[str] = []

    async def choose(self, config: Config, name: str | None, ask_user: AskUser) -> Chosen:
        """Return the model for a question; ``name`` is the one that the user named, if any.

        The user is asked before a key found in the environment is used, and before a key is sent
        unencrypted; the answers are remembered.

        Raises:
            NotFound: there is no model with that name.
            Denied: the user did not agree to use the found key of the named model, or to send the
                model's key unencrypted.
        """
        chosen = await self._choose(config, name, ask_user)
        if shows_key(chosen.preset):
            await self._agree_to_show(chosen.preset, ask_user, again=bool(name))
        return chosen

    async def _choose(self, config: Config, name: str | None, ask_user: AskUser) -> Chosen:
        if name:
            return await self._named(config, name, ask_user)
        chosen = configured(config)
        if chosen is not None:
            return chosen
        presets = await self.discover()
        if presets.presets:
            return Chosen(presets.presets[0], "a model server found on this machine")
        for offer in presets.offers:
            if await self._agreed(offer, ask_user):
                return Chosen(offer.preset, f"the key in {offer.variable}, as you agreed")
        return Chosen(OFFLINE, "no model server was found", notice=_OFFLINE_NOTICE)

    async def _named(self, config: Config, name: str, ask_user: AskUser) -> Chosen:
        why = "named by you"
        if name in config.models:
            return Chosen(config.models[name], why)
        if name == OFFLINE.name:
            return Chosen(OFFLINE, why)
        presets = await self.discover()
        for preset in presets.presets:
            if preset.name == name:
                return Chosen(preset, why)
        for offer in presets.offers:
            if offer.preset.name == name:
                if not await self._agreed(offer, ask_user, again=True):
                    msg = f"You did not agree to use {offer.label}; nothing was sent there."
                    raise Denied(msg)
                return Chosen(offer.preset, why)
        names = [info.name for info in await self.list(config)]
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Available: {', '.join(names)}."
        raise NotFound(f"There is no model {name[:60]!r}. {hint}")

    async def list(self, config: Config) -> list[ModelInfo]:
        """Return all models, each name once: configured ones first, the offline one last."""
        presets = await self.discover()
        rows = [_row(preset, "configured") for preset in config.models.values()]
        rows += [_row(preset, "found") for preset in presets.presets]
        rows += [_row(offer.preset, "offered") for offer in presets.offers]
        rows.append(_row(OFFLINE, "built-in"))
        first_of_name: dict[str, ModelInfo] = {}
        for row in rows:
            first_of_name.setdefault(row.name, row)
        return [*first_of_name.values()]

    def _of(self, preset: Preset) -> _Known:
        return self._known[preset.endpoint, preset.model]

    async def window(self, preset: Preset) -> int | None:
        """Return the context window in tokens, asking the server if it is not configured.

        None if the server does not say.
        """
        fresh = time.monotonic() < self._of(preset).window_until
        if preset.context_window is None and preset.provider != OFFLINE.provider and not fresh:
            await self._ask(preset)
        return self.known_window(preset)

    def known_window(self, preset: Preset) -> int | None:
        """Return the context window in tokens, or None if unknown, without asking the server."""
        window = self._of(preset)
        if preset.context_window is None or window.window is None:
            return preset.context_window or window.window
        # Once expired: the server may have been restarted with the configured window.
        fresh = time.monotonic() < window.window_until
        return min(preset.context_window, window.window) if fresh else preset.context_window

    def asked_window(self, preset: Preset) -> bool:
        """Return whether the window is known, or the server answered without reporting one."""
        return preset.context_window is not None or self._of(preset).answered

    def refuses_key(self, preset: Preset) -> bool:
        """Return whether the server would say more with another key, as far as is known."""
        return self._of(preset).refuses_key

    def told_window(self, preset: Preset, tokens: int) -> None:
        """Remember the window that a server reported when it refused a request as too long."""
        known = self._of(preset)
        known.window, known.window_until = tokens, time.monotonic() + _WINDOW_TTL
        known.answered, known.refuses_key = True, False

    def takes_tools(self, preset: Preset) -> bool:
        """Return whether to offer the model tools: true until its server refuses them."""
        return preset.provider != OFFLINE.provider and self._of(preset).takes_tools

    def refused_tools(self, preset: Preset) -> None:
        """Stop offering tools to a model whose server has refused them."""
        self._of(preset).takes_tools = False

    async def price(self, preset: Preset) -> Price | None:
        """Return the model's price in its server's list of models, fetching the list if needed.

        None if the preset has a price, or the server lists none.
        """
        if preset.price is not None or not lists_prices(preset.endpoint):
            return None
        if time.monotonic() >= self._of(preset).price_until:
            await self._ask(preset)
        return self.known_price(preset)

    def known_price(self, preset: Preset) -> Price | None:
        """Return the model's price in its server's list, or None if that was not fetched."""
        return self._of(preset).price

    async def _ask(self, preset: Preset) -> None:
        """Ask the server for the window, and for the price if it lists prices."""
        info = await describe(self._http, preset, self._environ)
        known, now = self._of(preset), time.monotonic()
        if preset.context_window is None:
            # A server that is briefly down must not shrink the budget, or turns would be evicted.
            known.window = info.context_window or known.window
            known.window_until = now + (_WINDOW_TTL if info.context_window else _DISCOVERY_TTL)
            known.answered = bool(known.window or info.models)
            known.refuses_key = info.refuses_key
        if lists_prices(preset.endpoint):
            if info.models:
                known.price = info.price
            known.price_until = now + (_PRICE_TTL if info.models else _DISCOVERY_TTL)

    def drain_warnings(self) -> tuple[str, ...]:
        """Return and clear the warnings about answers of the user that could not be stored."""
        warnings = tuple(self._warnings)
        self._warnings.clear()
        return warnings

    async def discover(self) -> Discovered:
        """Probe the loopback ports and look for keys in the environment; the result is cached."""
        if self._found is None or time.monotonic() - self._found_at > _DISCOVERY_TTL:
            from aish_lsp.models.endpoint import discover  # noqa: PLC0415 - brings httpx

            self._found = await discover(self._http, self._environ)
            self._found_at = time.monotonic()
        return self._found

    async def _agreed(self, offer: KeyOffer, ask_user: AskUser, *, again: bool = False) -> bool:
        """Return whether the user agrees to send text to ``offer``; remember a yes or no.

        ``again`` asks even after a no, because the user has just named that model.
        """
        async with self._asking:
            answer = self._answer("provider", offer.label, offer.host)
            if answer is None or (again and not answer):
                answer = plain(await ask_user(_consent(offer)))
                # No answer counts as a no until the process ends.
                self._answers["provider", offer.label, offer.host] = bool(answer)
                if answer is not None:
                    await self._keep("provider", offer.label, offer.host, granted=answer)
            return bool(answer)

    def may_show_key(self, place: str) -> bool:
        """Return whether the user agreed to send a key to the origin ``place`` unencrypted."""
        return self._answer("key", place, place) is True

    async def _agree_to_show(self, preset: Preset, ask_user: AskUser, *, again: bool) -> None:
        """Ask whether the key of ``preset`` may be sent unencrypted; raise Denied if it may not."""
        server = origin(preset.endpoint)
        async with self._asking:
            answer = self._answer("key", server, server)
            if answer is None or (again and not answer):
                answer = plain(await ask_user(_exposure(preset, server)))
                if answer is not None:
                    await self._keep("key", server, server, granted=answer)
        if not answer:
            raise Denied(
                f"The key of {preset.name} was not sent to {server}: it would go there unencrypted."
                f" Write https:// in models.{preset.name}.endpoint, or agree to it in a terminal:"
                f" `aish-lsp ask --model {preset.name}` asks you again."
            )

    def _answer(self, what: Consent, name: str, place: str) -> bool | None:
        """Return the user's earlier answer, or None if there is none."""
        stored = self._trust.answer(what, name, place)
        return self._answers.get((what, name, place)) if stored is None else stored

    async def _keep(self, what: Consent, name: str, place: str, *, granted: bool) -> None:
        self._answers[what, name, place] = granted
        try:
            await asyncio.to_thread(self._trust.keep_answer, what, name, place, granted=granted)
        except AishError as error:
            self._warnings.append(
                f"Your answer about {name} is kept only until the editor is closed: {error.message}"
            )


@dataclass(slots=True)
class _Known:
    """What is known of a model from its server; what expires does so at monotonic seconds.

    ``window`` is in tokens, and ``price`` is that of the server's list. ``answered`` is whether the
    server answered at all, ``refuses_key`` whether only that it wants another key.
    """

    window: int | None = None
    window_until: float = 0.0
    answered: bool = False
    refuses_key: bool = False
    price: Price | None = None
    price_until: float = 0.0
    takes_tools: bool = True


_OFFLINE_NOTICE = (
    "The built-in offline model answers, because no model server was found and no provider's key"
    " is in use. `:model add` connects one."
)


def configured(config: Config) -> Chosen | None:
    """Return the default model, or else the first configured one; None if there is none."""
    preset = config.models.get(config.default_model)
    if preset is not None:
        return Chosen(preset, "the default model")
    if config.default_model == OFFLINE.name:
        return Chosen(OFFLINE, "the default model")
    first = next(iter(config.models.values()), None)
    return None if first is None else Chosen(first, "the first configured model")


def _consent(offer: KeyOffer) -> Question:
    return Question(
        f"A key for {offer.label} is in {offer.variable}. Send your questions, with the "
        f"file names and the command output that go with them, to {offer.host}?",
        yes=f"Use {offer.label}",
        no="No",
    )


def _exposure(preset: Preset, place: str) -> Question:
    key = f"The key in {preset.api_key_env}" if preset.api_key_env else "A key"
    return Question(
        f"models.{preset.name}.endpoint is {place}, which is not this machine. {key} would go there"
        " unencrypted, with your questions: anyone on the network path can read them. Send it?",
        yes="Send the key",
        no="Do not send it",
    )


def _row(preset: Preset, source: Source) -> ModelInfo:
    return ModelInfo(preset.name, preset.provider, preset.model, preset.endpoint.strip(), source)
