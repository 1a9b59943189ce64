"""``model.*``: the models there are, the one that answers, and setting up another.

``aish-lsp setup`` sets a model up in a terminal, ``:model add`` in the chat: a model that was found
is written into ``config.toml`` and asked one question. A key is never written: the file names the
environment variable that holds it.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.side_call import SideCall, unchanged
from aish_lsp.config.schema import Preset
from aish_lsp.config.writing import add_model
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import (
    AishError,
    BackendRejected,
    BackendUnavailable,
    InvalidArgument,
    NotFound,
)
from aish_lsp.foundation.files import config_file, expanded
from aish_lsp.foundation.ports import Choice
from aish_lsp.foundation.text import escaped, nearest, shown, shown_path
from aish_lsp.models.address import api_url, host, is_loopback
from aish_lsp.models.catalog import ModelInfo
from aish_lsp.models.providers import describe
from aish_lsp.models.request import RequestMessage
from aish_lsp.operations.markdown import quoted
from aish_lsp.operations.operation import Answer, Caller, Line, SessionTarget, operation, whole
from aish_lsp.operations.small_models import small_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.agent.session import Session
    from aish_lsp.agent.side_call import Told
    from aish_lsp.config.schema import Config
    from aish_lsp.models.endpoint import KeyOffer

#: The one question that a model is asked: nothing of the project is sent along.
QUESTION: Final = "Say hello in one short sentence."
_SYSTEM: Final = "You are tried out. Answer in one short sentence."

#: The name of a model that was found, if no better one is known.
_LOCAL: Final = "local"

_HOW: Final = "`:model NAME` chooses one, `:model add` sets another one up."


@dataclass(frozen=True, slots=True)
class Models:
    """The models there are, and the name of the one that answers."""

    active: str
    models: list[ModelInfo]


async def models_of(session: Session) -> Models:
    """Return the models that there are for a session."""
    workspace = session.workspace
    return Models(session.preset.name, await workspace.services.catalog.list(workspace.config))


@operation(
    "model.list",
    SessionTarget,
    Line("model", help="list the models, use one from now on, or add one"),
    shows=True,
)
async def listed(caller: Caller, _params: SessionTarget) -> Answer[Models]:
    """The models there are."""
    # The file may have been written a moment ago, as by ``aish-lsp setup``.
    caller.tell(await caller.workspace.reload())
    current = await models_of(caller.session)
    rows = [
        f"- {f'**{row.name}**' if row.name == current.active else row.name}"
        f" ({row.source}): {row.model or 'its only model'}"
        f"{f' at {row.endpoint}' if row.endpoint else ''}"
        for row in current.models
    ]
    return Answer(current, "\n\n".join(["\n".join(rows), _HOW]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse(SessionTarget):
    """The preset that answers from now on."""

    name: str


@operation("model.use", ModelUse, Line("model", "NAME", "", whole(ModelUse, "name")))
async def use(caller: Caller, params: ModelUse) -> Answer[Models]:
    """Answer with this model from now on.

    Raises:
        NotFound: there is no such model; the message names the nearest.
        Denied: the user did not agree to using it.
    """
    caller.tell(await caller.workspace.reload())
    name = await caller.session.use_model(params.name)
    return Answer(await models_of(caller.session), f"{name} answers from now on.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAdd(SessionTarget):
    """``choice`` is what follows ``:model add``: a number, an address or a file; a model."""

    choice: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """The name of the model that was added, null if none was; the rest is as for *list*."""

    added: str | None
    active: str
    models: list[ModelInfo]


@operation(
    "model.add",
    ModelAdd,
    Line("model add", "[N|ADDRESS|FILE|small]", "", whole(ModelAdd, "choice")),
    needs_settings=True,
)
async def add(caller: Caller, params: ModelAdd) -> Answer[Added]:
    """Set a model up.

    `choice` names it; otherwise the user chooses among the servers on this machine and the
    providers whose keys are in the environment. The model is added to config.toml (keys are never
    written there), asked one question, and answers from now on. If the client cannot ask, the list
    is shown in the chat. `added` is null if none was added.

    Raises:
        InvalidArgument, NotFound: there is nothing with that number or at that address, or the
            server does not list that model and the user cannot be asked.
        StoreUnavailable: the file cannot be written.
    """
    if params.choice is None and await caller.face.continue_in_chat(":model add"):
        models = await models_of(caller.session)
        return Answer(Added(None, models.active, models.models))
    chosen = await _chosen(caller, params.choice or "")
    name: str | None = None
    if isinstance(chosen, ModelCandidate):
        name, text = await _added(caller.session, chosen)
    else:
        text = chosen
    current = await models_of(caller.session)
    return Answer(Added(name, current.active, current.models), text, is_told=True)


# ``:model add``: a model is set up from the chat.

_CANCEL: Final = "Cancel"

#: What is no number in the list, but the address of a server.
_ADDRESS: Final = re.compile(r"\S*[.:/]|localhost\b")

_HOW_TO_ADD: Final = """\
`:model add 1` adds the first of them, `:model add 1 NAME` another model of the same server.
`:model add HOST:PORT` adds a server that is not listed, `:model add PATH.gguf` a model in a file. \
A key is never written down: config.toml names the environment variable that holds it."""

_NOTHING: Final = """\
No model server was found on this machine, and no key in the environment.

- Start a server (`llama-server -m MODEL.gguf`, `ollama serve`) and write `:model add` again.
- `:model add HOST:PORT` adds a server elsewhere, `:model add PATH.gguf` a model in a file.
- `:model add small` gets a small model for this machine.
- Or use a provider: get a key, and paste it into `aish-lsp setup`, or set its variable in the
  environment that this is started in."""


async def _chosen(caller: Caller, argument: str) -> ModelCandidate | str:
    """Return the model that ``argument`` names or the user chooses, or why none is added.

    Raises:
        InvalidArgument, NotFound: there is nothing with that number or at that address.
    """
    workspace = caller.session.workspace
    which, _, model = argument.partition(" ")
    if which == "small":
        found = await small_model(caller, model.strip())
        return found if isinstance(found, str) else on_this_machine(workspace, found)
    if argument.endswith(".gguf"):
        return await in_file(workspace, argument)
    if _ADDRESS.match(which):
        chosen = await at_address(workspace, which)
    else:
        listed = await candidates(workspace)
        if not listed:
            keys = (f"  - {one.label}: {one.keys}, `{one.variable}`" for one in lacking(workspace))
            return "\n".join([_NOTHING, *keys])
        if which:
            chosen = _numbered(listed, which)
        else:
            answer = await workspace.services.choose(_choice(listed))
            if answer is None:
                return "\n".join([*_rows(listed), "", _HOW_TO_ADD])
            if answer == len(listed):
                return "Nothing was added."
            chosen = listed[answer]
    return await _serving(caller, chosen, model.strip()) if model.strip() else chosen


async def _serving(caller: Caller, chosen: ModelCandidate, model: str) -> ModelCandidate | str:
    """Return the candidate with that model; ask first if the server does not list it.

    Raises:
        NotFound: it does not, and the user cannot be asked; the message names the nearest.
    """
    if problem := chosen.unlisted(model):
        # Some servers accept names that they do not list.
        message = f"{problem}\nUse {shown(model)} all the same?"
        options = ("Use it", _CANCEL)
        answer = await caller.session.workspace.services.choose(Choice(message, options))
        if answer is None:
            raise NotFound(problem)
        if options[answer] == _CANCEL:
            return "Nothing was added."
    return chosen.serving(model)


async def configure(
    session: Session, chosen: ModelCandidate, *, default: bool = False
) -> tuple[str, bool]:
    """Add a model unless it is configured, use it; return its name, and whether it was added.

    Raises:
        AishError: as for ``write``.
    """
    workspace = session.workspace
    name = configured_as(workspace.config, chosen.preset)
    is_new = not name
    if is_new:
        name = chosen.preset.name
        default = default or needs_default(workspace.config, name)
        await write(workspace, chosen.preset, default=default)
    await session.use_model(name)
    return name, is_new


async def _added(session: Session, chosen: ModelCandidate) -> tuple[str, str]:
    """Configure a model, use it, ask it a question; return its name and what to tell the user."""
    name, is_new = await configure(session, chosen)
    file = escaped(str(config_file()))
    state = f"was added to `{file}`" if is_new else "is configured already"
    sentence = f"**{escaped(name)}** {state}, and answers from now on."
    try:
        reply = await try_out(session, name)
    except AishError as error:
        return name, f"{sentence} It could not be tried, though: {error.message}"
    return name, f"{sentence} Asked to say hello, it says:\n\n{quoted(reply)}"


def _numbered(listed: Sequence[ModelCandidate], which: str) -> ModelCandidate:
    if not (which.isascii() and which.isdigit()):
        raise InvalidArgument("Say which: `:model add 1`, or `:model add HOST:PORT`.")
    number = int(which[:4])
    if not 1 <= number <= len(listed):
        raise NotFound(f"There is no number {number}: `:model add` lists {len(listed)}.")
    return listed[number - 1]


def _choice(listed: Sequence[ModelCandidate]) -> Choice:
    message = "\n".join(["Which model do you want to add?", *_rows(listed)])
    titles = (f"{number}. {escaped(one.preset.model)}" for number, one in enumerate(listed, 1))
    return Choice(message, (*titles, _CANCEL))


def _rows(listed: Sequence[ModelCandidate]) -> list[str]:
    return [f"{number}. {_row(one)}" for number, one in enumerate(listed, 1)]


def _row(one: ModelCandidate) -> str:
    if is_loopback(one.preset.endpoint):
        return str(one)
    return f"{one}. Your questions would be sent to {host(one.preset.endpoint)}"


# Finding models, and setting one up


@dataclass(frozen=True, slots=True)
class ModelCandidate:
    """A model that could be set up.

    Attributes:
        preset: what would be written to the file; its name is not used there yet.
        models: the models that its server lists, with the preset's first; empty if not asked.
        configured: the name under which it is already configured, or empty.
    """

    preset: Preset
    models: tuple[str, ...] = ()
    configured: str = ""

    @property
    def place(self) -> str:
        """Where the model answers, in words."""
        preset = self.preset
        if preset.file is not None:
            return f"a file on this machine, {shown_path(preset.path)}"
        if is_loopback(preset.endpoint):
            return escaped(f"a server on this machine, {preset.endpoint}")
        key = f", with the key in {preset.api_key_env}" if preset.api_key_env else ""
        return escaped(f"{host(preset.endpoint)}{key}")

    def __str__(self) -> str:
        more = f" and {len(self.models) - 1} more" if len(self.models) > 1 else ""
        there = f" (it is configured as {self.configured})" if self.configured else ""
        return f"{escaped(self.preset.model) or 'its only model'}{more}: {self.place}{there}"

    def unlisted(self, model: str) -> str:
        """Return what to say of a model that the server does not list; empty if it may have it."""
        if not self.models or model in {self.preset.model, *self.models}:
            return ""
        hint = escaped(nearest(model, list(self.models)))
        return f"The server does not list {shown(model)}; {hint}"

    def serving(self, model: str) -> ModelCandidate:
        """Return the candidate with another model of its server."""
        if model == self.preset.model:
            return self
        # The known window is the other model's.
        return replace(self, preset=replace(self.preset, model=model, context_window=None))


async def candidates(workspace: FolderContext) -> list[ModelCandidate]:
    """Return the models found: servers on this machine, then keys in the environment."""
    services, config = workspace.services, workspace.config
    discovery = await services.catalog.discover()
    infos = await asyncio.gather(
        *(describe(services.http, preset, {}) for preset in discovery.presets)
    )
    names = [*config.models, "offline"]
    listed: list[ModelCandidate] = []
    for preset, info in zip(discovery.presets, infos, strict=True):
        others = (name for name in info.models if name != preset.model)
        # Not written to the file: the server may be restarted with another window.
        plain = replace(preset, context_window=None)
        listed.append(_candidate(plain, _LOCAL, (preset.model, *others), config, names))
    for offer in discovery.offers:
        name = offer.preset.name
        listed.append(_candidate(offer.preset, name, (), config, names))
    return listed


def providers(workspace: FolderContext) -> tuple[KeyOffer, ...]:
    """Return the providers that are known."""
    from aish_lsp.models.endpoint import all_offers  # noqa: PLC0415 - not needed at the start

    return all_offers(workspace.services.keys)


def lacking(workspace: FolderContext) -> list[KeyOffer]:
    """Return the providers whose key is neither in the environment nor stored in ``keys.env``."""
    keys = workspace.services.keys
    return [one for one in providers(workspace) if not keys.get(one.variable, "").strip()]


def key_name(address: str) -> str:
    """Return the name under which the key of a server is kept."""
    where = host(address if "://" in address else f"http://{address}")
    return f"KEY_OF_{re.sub('[^A-Za-z0-9]+', '_', where).strip('_').upper()}"


async def at_address(
    workspace: FolderContext, address: str, key_variable: str = ""
) -> ModelCandidate:
    """Ask the model server at an address for its models; return it as a candidate.

    Raises:
        InvalidArgument: the address is not valid, or there is no such variable.
        BackendUnavailable: nothing there lists models.
        BackendRejected: the server there wants a key, or another one.
    """
    services, config = workspace.services, workspace.config
    if key_variable and not services.keys.get(key_variable, "").strip():
        # Not quoted: it may be the key itself.
        msg = (
            "There is no such variable in this environment. Give the name of the variable that"
            " holds the key, not the key."
        )
        raise InvalidArgument(msg, path="api_key_env")
    endpoint = address if "://" in address else f"http://{address}"
    if "://" not in address and ":" not in address and not is_loopback(endpoint):
        # A server on the internet, whose port is the usual one.
        endpoint = f"https://{address}"
    api_url(endpoint, "models")  # raises InvalidArgument if it is not an address
    preset = Preset(name=_LOCAL, endpoint=endpoint, api_key_env=key_variable or None)
    info = await describe(services.http, preset, services.keys)
    if info.refuses_key:
        raise BackendRejected(refused_key(endpoint, key_variable))
    if not info.models:
        key = " Does it want a key?" if not key_variable and not is_loopback(endpoint) else ""
        msg = f"Nothing at {escaped(endpoint)} lists models. Is the server running?{key}"
        raise BackendUnavailable(msg)
    # An IPv6 address may begin with a colon.
    name = _LOCAL if is_loopback(endpoint) else host(endpoint).split(":")[0] or _LOCAL
    preset = replace(preset, model=info.models[0])
    return _candidate(preset, name, info.models, config, [*config.models, "offline"])


async def in_file(workspace: FolderContext, path: str) -> ModelCandidate:
    """Return the model in a GGUF file as a candidate.

    Raises:
        BackendUnavailable: there is none at that path, or nothing to serve it.
    """
    from aish_lsp.models.local_server import model_file  # noqa: PLC0415 - as above

    # An absolute path: this one is as in a shell.
    preset = Preset(name=_LOCAL, file=os.fspath(expanded(path).absolute()))
    await asyncio.to_thread(model_file, preset)
    return on_this_machine(workspace, preset)


def on_this_machine(workspace: FolderContext, preset: Preset) -> ModelCandidate:
    """Return a model that needs no key as a candidate, with a name that is free."""
    config = workspace.config
    return _candidate(preset, _LOCAL, (), config, [*config.models, "offline"])


def refused_key(endpoint: str, variable: str) -> str:
    """Return the message that a server wants a key, or another one."""
    if variable:
        return f"The server at {escaped(endpoint)} refuses the key in {escaped(variable)}."
    return (
        f"The server at {escaped(endpoint)} wants a key. `aish-lsp setup` in a terminal asks for"
        " it."
    )


def _candidate(
    preset: Preset, name: str, models: Sequence[str], config: Config, names: list[str]
) -> ModelCandidate:
    """Return a candidate with a name that is not in ``names`` yet, and add it there."""
    free = name
    number = 2
    while free in names:
        free, number = f"{name}-{number}", number + 1
    names.append(free)
    configured = configured_as(config, preset)
    return ModelCandidate(replace(preset, name=free), tuple(models), configured)


def configured_as(config: Config, preset: Preset) -> str:
    """Return the name under which that model of that server is configured, or an empty text."""
    same = (
        other.name
        for other in config.models.values()
        if (other.endpoint, other.model) == (preset.endpoint, preset.model)
    )
    return next(same, "")


def needs_default(config: Config, name: str) -> bool:
    """Return whether the file has to say that a new model answers by default."""
    return not config.models and config.default_model != name


async def write(workspace: FolderContext, preset: Preset, *, default: bool) -> None:
    """Add a model to the user's file, and reload the configuration.

    Raises:
        AishError: as for ``add_model``; or the model is not in effect after that.
    """
    await asyncio.to_thread(add_model, config_file(), preset, default=default)
    await workspace.reload()
    if preset.name not in workspace.config.models:
        msg = f"{preset.name} was added, but is not in effect. `aish-lsp config check` says why."
        raise NotFound(msg)


async def try_out(session: Session, name: str, told: Told | None = None) -> str:
    """Ask a configured model ``QUESTION``; return its answer.

    Raises:
        AishError: the model did not answer.
    """
    preset = session.workspace.config.models[name]
    asked = RequestMessage("system", _SYSTEM), RequestMessage("user", QUESTION)
    call = SideCall(session, preset, "main", unchanged(asked))
    text = call.text.strip() if await call.complete(told) else ""
    if not text:
        raise BackendUnavailable(f"{name} answered with nothing. Ask it again in the chat.")
    return text
