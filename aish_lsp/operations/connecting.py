"""``model.find`` and ``model.connect``: what a client's own form for connecting a model asks for.

The client keeps the keys and starts the server with them in its environment. A choice is an
address, a GGUF file, or ``small`` with a number.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendRejected
from aish_lsp.models.address import host, is_loopback
from aish_lsp.models.providers import describe
from aish_lsp.operations.models import (
    ModelCandidate,
    at_address,
    candidates,
    configure,
    in_file,
    key_name,
    on_this_machine,
    providers,
    refused_key,
    try_out,
)
from aish_lsp.operations.operation import Answer, Caller, SessionTarget, operation
from aish_lsp.operations.small_models import fetch_small, small_choices

if TYPE_CHECKING:
    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.config.schema import Preset

#: The first word of a choice that is a small model.
_SMALL: Final = "small"


@dataclass(frozen=True, slots=True)
class ConnectableModel:
    """A model that can be connected.

    ``detail`` says where it is, or what to expect of it. ``models`` are those that its server
    lists; the first is used by default. ``key_variable`` is the variable that holds its key, empty
    if it needs none, and ``keys`` is where to get one. ``sends_to`` is the host that questions
    would go to, empty for this machine. ``configured`` is the name that it has in config.toml.
    """

    choice: str
    label: str
    detail: str
    models: list[str] = field(default_factory=list)
    key_variable: str = ""
    keys: str = ""
    sends_to: str = ""
    configured: str = ""


@dataclass(frozen=True, slots=True)
class Connectable:
    """The models that can be connected.

    ``small_problem`` is why there are no small ones, and ``small_command`` the command that
    installs what they need, empty if none does.
    """

    found: list[ConnectableModel]
    providers: list[ConnectableModel]
    small: list[ConnectableModel]
    small_problem: str
    small_command: str


@operation("model.find", SessionTarget, shows=True)
async def find(caller: Caller, _params: SessionTarget) -> Answer[Connectable]:
    """Find the models that can be connected.

    `found` are servers on this machine and providers whose keys are in the environment, `providers`
    those that need a key, `small` models that would be fetched. Each has a `choice` for
    `aish.model.connect`.
    """
    workspace = caller.session.workspace
    found = [_connectable(one) for one in await candidates(workspace)]
    known = {one.choice for one in found}
    lacking = [
        ConnectableModel(
            choice=offer.preset.endpoint,
            label=offer.label,
            detail=offer.preset.model,
            key_variable=offer.variable,
            keys=offer.keys,
            sends_to=offer.host,
        )
        for offer in providers(workspace)
        if offer.preset.endpoint not in known
    ]
    from aish_lsp.models.fetching import install_command, small_models  # noqa: PLC0415 - for this alone

    small, problem = await small_choices(workspace)
    command = install_command() if problem and small_models() else ""
    rows = [
        ConnectableModel(f"{_SMALL} {number}", one.name, f"{one.size:g} GB, {one.expect}")
        for number, one in enumerate(small, 1)
    ]
    return Answer(Connectable(found, lacking, rows, problem, command))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConnect(SessionTarget):
    """``choice`` is one of ``aish.model.find``, or what the user typed: an address, a GGUF file.

    ``model`` is one of the server's models; without it, a server that lists several is only looked
    at. ``api_key_env`` is the variable that holds the key for an address. With ``default``, new
    chats use it too, in place of the model that answers by default now.
    """

    choice: str
    model: str | None = None
    api_key_env: str | None = None
    default: bool = False


@dataclass(frozen=True, slots=True)
class Connected:
    """What came of it: the name of the model, and its reply to a test question.

    ``problem`` says why it does not answer. If the server wants a key, or another one,
    ``key_variable`` is the variable for it. ``models`` is not empty if the user has
    to choose one of them first.
    """

    name: str = ""
    reply: str = ""
    problem: str = ""
    key_variable: str = ""
    models: list[str] = field(default_factory=list)


@operation("model.connect", ModelConnect, needs_settings=True)
async def connect(caller: Caller, params: ModelConnect) -> Answer[Connected]:
    """Connect a model: add it to config.toml, use it from now on, and ask it one question.

    Nothing of the project is sent. If the server wants a key, or has several models to choose from,
    nothing is added: the result says so.

    Raises:
        InvalidArgument: the choice or the variable is not valid, or config.toml has to be edited by
            hand.
        BackendUnavailable: nothing at that address answers, or the small model was not fetched.
        StoreUnavailable: the file cannot be written.
    """
    chosen = await _chosen(caller, params)
    if isinstance(chosen, Connected):
        return Answer(chosen)
    name, _ = await configure(caller.session, chosen, default=params.default)
    try:
        reply = await try_out(caller.session, name)
    except AishError as error:
        from aish_lsp.models.faults import is_bad_key  # noqa: PLC0415 - not needed to start

        preset = caller.workspace.config.models[name]
        variable = (preset.api_key_env or "") if is_bad_key(error.data) else ""
        return Answer(Connected(name, problem=error.message, key_variable=variable))
    return Answer(Connected(name, reply))


async def _chosen(caller: Caller, params: ModelConnect) -> ModelCandidate | Connected:
    """Return the model that is meant, or what the user has to give first."""
    workspace, choice = caller.session.workspace, params.choice.strip()
    word, _, number = choice.partition(" ")
    if word == _SMALL:
        fetched = await fetch_small(caller, number)
        if isinstance(fetched, str):
            return Connected(problem=fetched)
        return on_this_machine(workspace, fetched)
    if choice.endswith(".gguf"):
        return await in_file(workspace, choice)
    try:
        chosen = await _at(workspace, choice, params.api_key_env or "")
    except BackendRejected as error:
        variables = (one.variable for one in providers(workspace) if one.preset.endpoint == choice)
        variable = params.api_key_env or next(variables, key_name(choice))
        return Connected(problem=error.message, key_variable=variable)
    if not params.model and len(chosen.models) > 1:
        return Connected(models=list(chosen.models))
    return chosen.serving(params.model or chosen.preset.model)


async def _at(workspace: FolderContext, choice: str, key_variable: str) -> ModelCandidate:
    """Return the candidate at an address, with the models that its server lists.

    Raises:
        BackendRejected: the server wants a key, or another one.
    """
    known = (one for one in await candidates(workspace) if one.preset.endpoint == choice)
    if (chosen := next(known, None)) is None:
        lacking = (one for one in providers(workspace) if one.preset.endpoint == choice)
        if (offer := next(lacking, None)) is None:
            return await at_address(workspace, choice, key_variable)
        chosen = ModelCandidate(offer.preset)
    preset = chosen.preset
    if preset.api_key_env and not workspace.services.keys.get(preset.api_key_env, "").strip():
        raise BackendRejected(refused_key(preset.endpoint, ""))
    if chosen.models:
        return chosen
    info = await describe(workspace.services.http, preset, workspace.services.keys)
    if info.refuses_key:
        raise BackendRejected(refused_key(preset.endpoint, preset.api_key_env or ""))
    others = [name for name in info.models if name != preset.model]
    return replace(chosen, models=(preset.model, *others))


def _connectable(one: ModelCandidate) -> ConnectableModel:
    preset = one.preset
    return ConnectableModel(
        choice=preset.endpoint,
        label=preset.model or preset.name,
        detail=one.place,
        models=list(one.models),
        key_variable=preset.api_key_env or "",
        sends_to="" if _is_here(preset) else host(preset.endpoint),
        configured=one.configured,
    )


def _is_here(preset: Preset) -> bool:
    return preset.file is not None or is_loopback(preset.endpoint)
