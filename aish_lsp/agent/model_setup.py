"""Setting a model up: what was found, written into ``config.toml``, and asked one question.

``aish-lsp setup`` asks in a terminal, ``:model add`` in the chat. A key is never written: the file
names the variable of the environment that holds it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.model_call import complete_once
from aish_lsp.config.schema import Preset
from aish_lsp.config.writing import add_model
from aish_lsp.foundation.errors import BackendUnavailable, InvalidArgument, NotFound
from aish_lsp.foundation.paths import config_file
from aish_lsp.foundation.text import escaped
from aish_lsp.models.address import host, is_loopback
from aish_lsp.models.request import RequestMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.agent.model_call import Told
    from aish_lsp.agent.session import Session
    from aish_lsp.config.schema import Config
    from aish_lsp.context.summary import Fits

#: The one question that a model is asked: nothing of the project goes along.
QUESTION: Final = "Say hello in one short sentence."
_SYSTEM: Final = "You are tried out. Answer in one short sentence."

#: What a found model is called where nothing better is known.
_LOCAL: Final = "local"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that could be set up.

    Attributes:
        preset: what would be written; its name is one that is free.
        models: what its server serves, as far as it tells; the preset's own first.
        configured: the name under which it is set up already, or empty.
    """

    preset: Preset
    models: tuple[str, ...] = ()
    configured: str = ""

    @property
    def place(self) -> str:
        """Who answers, in words."""
        preset = self.preset
        if is_loopback(preset.endpoint):
            return escaped(f"a server on this machine, {preset.endpoint}")
        key = f", with the key in {preset.api_key_env}" if preset.api_key_env else ""
        return escaped(f"{host(preset.endpoint)}{key}")

    def __str__(self) -> str:
        more = f" and {len(self.models) - 1} more" if len(self.models) > 1 else ""
        there = f" (it is configured as {self.configured})" if self.configured else ""
        return f"{escaped(self.preset.model) or 'its only model'}{more}: {self.place}{there}"

    def serving(self, model: str) -> Candidate:
        """Return the candidate with another of its models."""
        if model == self.preset.model:
            return self
        # A window that was asked is that of the model it was asked for.
        return replace(self, preset=replace(self.preset, model=model, context_window=None))


async def candidates(workspace: FolderContext) -> list[Candidate]:
    """Return what was found: servers on this machine, then keys in the environment."""
    from aish_lsp.models.endpoint import describe  # noqa: PLC0415 - brings httpx

    services, config = workspace.services, workspace.config
    found = await services.catalog.discover()
    told = await asyncio.gather(*(describe(services.http, preset, {}) for preset in found.presets))
    names = [*config.models, "offline"]
    listed: list[Candidate] = []
    for preset, info in zip(found.presets, told, strict=True):
        others = (name for name in info.models if name != preset.model)
        # The window is asked at each start: it is that of a server that may be started anew.
        plain = replace(preset, context_window=None)
        listed.append(_candidate(plain, _LOCAL, (preset.model, *others), config, names))
    for offer in found.offers:
        name = offer.preset.name
        listed.append(_candidate(offer.preset, name, (offer.preset.model,), config, names))
    return listed


async def at_address(workspace: FolderContext, address: str, key_variable: str = "") -> Candidate:
    """Return the model server at an address, which is asked for its models.

    Raises:
        InvalidArgument: it is not an address, or there is no such variable.
        BackendUnavailable: nothing there lists models.
    """
    from aish_lsp.models.endpoint import describe  # noqa: PLC0415 - brings httpx

    services, config = workspace.services, workspace.config
    if key_variable and not services.environ.get(key_variable, "").strip():
        # Not quoted: it may be the key itself.
        msg = (
            "There is no such variable in this environment. Give the name of the variable that"
            " holds the key, not the key."
        )
        raise InvalidArgument(msg, path="api_key_env")
    endpoint = address if "://" in address else f"http://{address}"
    preset = Preset(name=_LOCAL, endpoint=endpoint, api_key_env=key_variable or None)
    info = await describe(services.http, preset, services.environ)
    if not info.models:
        key = " Does it want a key?" if not key_variable and not is_loopback(endpoint) else ""
        msg = f"Nothing at {escaped(endpoint)} lists models. Is the server running?{key}"
        raise BackendUnavailable(msg)
    name = _LOCAL if is_loopback(endpoint) else host(endpoint).split(":")[0]
    preset = replace(preset, model=info.models[0])
    return _candidate(preset, name, info.models, config, [*config.models, "offline"])


def _candidate(
    preset: Preset, name: str, models: Sequence[str], config: Config, names: list[str]
) -> Candidate:
    """Return a candidate under a name that is none of ``names``, to which it is added."""
    free = name
    number = 2
    while free in names:
        free, number = f"{name}-{number}", number + 1
    names.append(free)
    known = configured_as(config, preset)
    return Candidate(replace(preset, name=free), tuple(models), known)


def configured_as(config: Config, preset: Preset) -> str:
    """Return the name under which that model of that server is configured, or nothing."""
    same = (
        other.name
        for other in config.models.values()
        if (other.endpoint, other.model) == (preset.endpoint, preset.model)
    )
    return next(same, "")


def needs_default(config: Config, name: str) -> bool:
    """Return whether a new model answers by default only if the file says so."""
    return not config.models and config.default_model != name


async def write(workspace: FolderContext, preset: Preset, *, default: bool) -> None:
    """Add a model to the user's file and take it in.

    Raises:
        AishError: as ``add_model``; or the file does not say what counts.
    """
    await asyncio.to_thread(add_model, config_file(), preset, default=default)
    await workspace.reload()
    if preset.name not in workspace.config.models:
        msg = f"{preset.name} was added, but is not in effect. `aish-lsp config check` tells why."
        raise NotFound(msg)


async def try_out(session: Session, name: str, told: Told | None = None) -> str:
    """Ask a configured model the one question; return its answer.

    Raises:
        AishError: it did not answer.
    """

    def compose(fits: Fits) -> tuple[RequestMessage, ...] | None:
        messages = RequestMessage("system", _SYSTEM), RequestMessage("user", QUESTION)
        return messages if fits(messages) else None

    preset = session.workspace.config.models[name]
    reply = await complete_once(session, preset, "main", compose, told)
    text = reply.text.strip() if reply else ""
    if not text:
        raise BackendUnavailable(f"{name} answered with nothing. Ask it again in the chat.")
    return text
