"""Which models there are, and which answers: configured, found, offered, or offline."""

from __future__ import annotations

import asyncio
import difflib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError, Denied, NotFound
from aish_lsp.foundation.ports import Question
from aish_lsp.models.address import origin, shows_key
from aish_lsp.models.prices import lists_prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Config, Price
    from aish_lsp.config.trust import Consent, TrustStore
    from aish_lsp.foundation.ports import AskUser
    from aish_lsp.models.endpoint import Discovered, KeyOffer
    from aish_lsp.models.http import HttpClient

#: The model that needs no server. It looks only at the last question, so its window is nominal.
OFFLINE = Preset(
    name="offline", provider="offline", model="offline", context_window=8192, token_budget=4096
)

#: Seconds for which what was or was not found on the loopback ports stays valid, as does that a
#: server does not say how large its window is.
_BELIEVED = 15.0

#: Seconds for which a window stays valid: the server may be restarted with another.
_WINDOW_BELIEVED = 300.0

#: Seconds for which a price stays valid.
_PRICE_BELIEVED = 3600.0


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
    """The model that answers a question, and why it was chosen."""

    preset: Preset
    why: str
    notice: str = ""


class Catalog:
    """The models for all workspaces of a process. None is looked for before the first question."""

    def __init__(self, http: HttpClient, trust: TrustStore, environ: Mapping[str, str]) -> None:
        self._http = http
        self._trust = trust
        self._environ = environ
        self._found: Discovered | None = None
        self._found_at = 0.0
        self._windows: dict[tuple[str, str], _Window] = {}
        self._prices: dict[tuple[str, str], _Price] = {}
        self._without_tools: set[tuple[str, str]] = set()
        self._asking = asyncio.Lock()
        self._answers: dict[tuple[Consent, str, str], bool] = {}
        self._troubles: list[str] = []

    async def choose(self, config: Config, name: str | None, ask_user: AskUser) -> Chosen:
        """Return the model for a question; ``name`` is the one the user named, if any.

        The user is asked before a key that was merely found is used, and before a key is sent
        unencrypted; the answers are kept.

        Raises:
            NotFound: no model of that name.
            Denied: the user named a model behind a found key, and did not agree to it; or the key
                of the model would go out unencrypted, and the user did not agree to that.
        """
        chosen = await self._choose(config, name, ask_user)
        if shows_key(chosen.preset, self._environ):
            await self._agree_to_show(chosen.preset, ask_user, again=bool(name))
        return chosen

    async def _choose(self, config: Config, name: str | None, ask_user: AskUser) -> Chosen:
        if name:
            return await self._named(config, name, ask_user)
        chosen = configured(config)
        if chosen is not None:
            return chosen
        found = await self.discover()
        if found.presets:
            return Chosen(found.presets[0], "a model server found on this machine")
        for offer in found.offers:
            if await self._agreed(offer, ask_user):
                return Chosen(offer.preset, f"the key in {offer.variable}, as you agreed")
        return Chosen(OFFLINE, "no model server was found", notice=_OFFLINE_NOTICE)

    async def _named(self, config: Config, name: str, ask_user: AskUser) -> Chosen:
        why = "named by you"
        if name in config.models:
            return Chosen(config.models[name], why)
        if name == OFFLINE.name:
            return Chosen(OFFLINE, why)
        found = await self.discover()
        for preset in found.presets:
            if preset.name == name:
                return Chosen(preset, why)
        for offer in found.offers:
            if offer.preset.name == name:
                if not await self._agreed(offer, ask_user, again=True):
                    msg = f"You did not agree to use {offer.label}; nothing was sent there."
                    raise Denied(msg)
                return Chosen(offer.preset, why)
        known = [info.name for info in await self.list(config)]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(known)}."
        raise NotFound(f"There is no model {name[:60]!r}. {hint}")

    async def list(self, config: Config) -> list[ModelInfo]:
        """Return all models: what is configured first, the offline one last."""
        found = await self.discover()
        rows = [_row(preset, "configured") for preset in config.models.values()]
        rows += [_row(preset, "found") for preset in found.presets]
        rows += [_row(offer.preset, "offered") for offer in found.offers]
        rows.append(_row(OFFLINE, "built-in"))
        first_of_name: dict[str, ModelInfo] = {}
        for row in rows:
            first_of_name.setdefault(row.name, row)
        return [*first_of_name.values()]

    async def window(self, preset: Preset) -> int | None:
        """Return the context window (tokens), asked of the server where it is not configured.

        None if the server does not say.
        """
        known = self._windows.get((preset.endpoint, preset.model))
        fresh = known is not None and time.monotonic() < known.until
        if preset.context_window is None and preset.provider != OFFLINE.provider and not fresh:
            await self._ask_window(preset)
        return self.known_window(preset)

    def known_window(self, preset: Preset) -> int | None:
        """Return the context window (tokens), or None if it is not known without asking."""
        known = self._windows.get((preset.endpoint, preset.model))
        told = known.tokens if known else None
        if preset.context_window is None or known is None or told is None:
            return preset.context_window or told
        # The server may have been restarted with the window that is configured.
        believed = time.monotonic() < known.until
        return min(preset.context_window, told) if believed else preset.context_window

    def asked_window(self, preset: Preset) -> bool:
        """Return whether the window is known, or the server was asked and answered without it."""
        known = self._windows.get((preset.endpoint, preset.model))
        return preset.context_window is not None or (known is not None and known.answered)

    def told_window(self, preset: Preset, tokens: int) -> None:
        """Remember the window that a server mentioned when a request was too long for it."""
        until = time.monotonic() + _WINDOW_BELIEVED
        self._windows[preset.endpoint, preset.model] = _Window(tokens, until)

    def takes_tools(self, preset: Preset) -> bool:
        """Return whether to offer tools to a model: its server has not refused them so far."""
        if preset.provider == OFFLINE.provider:
            return False
        return (preset.endpoint, preset.model) not in self._without_tools

    def refused_tools(self, preset: Preset) -> None:
        """Offer a model no more tools, as its server has refused them."""
        self._without_tools.add((preset.endpoint, preset.model))

    async def price(self, preset: Preset) -> Price | None:
        """Return the model's price in its server's own list, asking servers that list prices.

        None if the preset has a price itself, or the list has none.
        """
        if preset.price is not None or not lists_prices(preset.endpoint):
            return None
        known = self._prices.get((preset.endpoint, preset.model))
        if known is None or time.monotonic() >= known.until:
            await self._ask_window(preset)
        return self.known_price(preset)

    def known_price(self, preset: Preset) -> Price | None:
        """Return the model's price in its server's own list, or None if that was not asked for."""
        known = self._prices.get((preset.endpoint, preset.model))
        return known.price if known else None

    async def _ask_window(self, preset: Preset) -> None:
        """Ask the server for the window, and for the price if its list has prices."""
        from aish_lsp.models.endpoint import describe  # noqa: PLC0415 - brings httpx

        info = await describe(self._http, preset, self._environ)
        key, now = (preset.endpoint, preset.model), time.monotonic()
        if preset.context_window is None:
            told = info.context_window
            # A server that is briefly down must not shrink the budget, or turns would be evicted.
            tokens = told or self.known_window(preset)
            until = now + (_WINDOW_BELIEVED if told else _BELIEVED)
            self._windows[key] = _Window(tokens, until, answered=bool(tokens or info.models))
        if lists_prices(preset.endpoint):
            listed = bool(info.models)
            price = info.price if listed else self.known_price(preset)
            self._prices[key] = _Price(price, now + (_PRICE_BELIEVED if listed else _BELIEVED))

    def drain_warnings(self) -> tuple[str, ...]:
        """Return, once each, warnings about answers of the user that could not be kept."""
        troubles = tuple(self._troubles)
        self._troubles.clear()
        return troubles

    async def discover(self) -> Discovered:
        """Look at the loopback ports and at the environment, unless that was done just now."""
        if self._found is None or time.monotonic() - self._found_at > _BELIEVED:
            from aish_lsp.models.endpoint import discover  # noqa: PLC0415 - brings httpx

            self._found = await discover(self._http, self._environ)
            self._found_at = time.monotonic()
        return self._found

    async def _agreed(self, offer: KeyOffer, ask_user: AskUser, *, again: bool = False) -> bool:
        """Return whether the user lets the project be sent to ``offer``; keep a clear answer.

        ``again`` asks once more after a no, as the user has just named that model.
        """
        async with self._asking:
            answer = self._said("provider", offer.label, offer.host)
            if answer is None or (again and not answer):
                answer = await ask_user(_consent(offer))
                # No answer is a no for now.
                self._answers["provider", offer.label, offer.host] = bool(answer)
                if answer is not None:
                    await self._keep("provider", offer.label, offer.host, granted=answer)
            return bool(answer)

    def may_show_key(self, place: str) -> bool:
        """Return whether the user agreed to send a key to ``place``, an origin, unencrypted."""
        return self._said("key", place, place) is True

    async def _agree_to_show(self, preset: Preset, ask_user: AskUser, *, again: bool) -> None:
        """Ask whether the key of ``preset`` may be sent unencrypted; raise Denied if it may not."""
        place = origin(preset.endpoint)
        async with self._asking:
            answer = self._said("key", place, place)
            if answer is None or (again and not answer):
                answer = await ask_user(_exposure(preset, place))
                if answer is not None:
                    await self._keep("key", place, place, granted=answer)
        if not answer:
            raise Denied(
                f"The key of {preset.name} was not sent to {place}, where it would go unencrypted."
                f" Write https:// in models.{preset.name}.endpoint, or name the model to be asked"
                f" again: `:model {preset.name}`, or `aish-lsp ask --model {preset.name}` in a"
                " terminal."
            )

    def _said(self, what: Consent, name: str, place: str) -> bool | None:
        kept = self._trust.answer(what, name, place)
        return self._answers.get((what, name, place)) if kept is None else kept

    async def _keep(self, what: Consent, name: str, place: str, *, granted: bool) -> None:
        self._answers[what, name, place] = granted
        try:
            await asyncio.to_thread(self._trust.keep_answer, what, name, place, granted=granted)
        except AishError as error:
            self._troubles.append(
                f"Your answer about {name} holds until the editor is closed: {error.message}"
            )


@dataclass(frozen=True, slots=True)
class _Window:
    """What a server said about its window, in tokens, and until when on the clock that holds.

    ``answered`` is whether the server said anything about itself.
    """

    tokens: int | None
    until: float
    answered: bool = True


@dataclass(frozen=True, slots=True)
class _Price:
    """The price in a server's list, if any, and until when on the clock it holds."""

    price: Price | None
    until: float


_OFFLINE_NOTICE = (
    "No model server was found, and no key that you agreed to: the offline model answers. "
    "`:model add`, or `aish-lsp setup` in a terminal, connects a real one."
)


def configured(config: Config) -> Chosen | None:
    """Return the model that the configuration names, if it names any."""
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
        " unencrypted, with your questions: anyone on the way can read them. Send it?",
        yes="Send the key",
        no="Do not send it",
    )


def _row(preset: Preset, source: Source) -> ModelInfo:
    return ModelInfo(preset.name, preset.provider, preset.model, preset.endpoint, source)
