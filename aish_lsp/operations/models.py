"""``model.*``: the models there are, the one that answers, and how another is set up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aish_lsp.agent.model_setup import (
    at_address,
    candidates,
    configured_as,
    needs_default,
    try_out,
    write,
)
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.paths import config_file
from aish_lsp.foundation.ports import Choice
from aish_lsp.foundation.text import escaped
from aish_lsp.models.address import host, is_loopback
from aish_lsp.models.catalog import ModelInfo
from aish_lsp.operations.markdown import fence_for
from aish_lsp.operations.operation import Answer, Line, Place, SessionTarget, operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.model_setup import Candidate
    from aish_lsp.agent.session import Session

_HOW: Final = "`:model NAME` chooses one, `:model add` sets another one up."


@dataclass(frozen=True, slots=True)
class Models:
    """The models there are, and the name of the one that answers."""

    active: str
    models: list[ModelInfo]


async def models_of(session: Session) -> Models:
    """Return the models that there are for a session."""
    workspace = session.workspace
    return Models(session.active_model, await workspace.services.catalog.list(workspace.config))


async def _reload(place: Place) -> None:
    """Take in a file that may have been written a moment ago, as by ``aish-lsp setup``."""
    for trouble in await place.workspace.reload():
        place.face.tell(trouble)


@operation(
    "model.list",
    SessionTarget,
    Line("model", help="list the models, use one from now on, or add one"),
    shows=True,
)
async def listed(place: Place, _params: SessionTarget) -> Answer[Models]:
    """The models there are."""
    await _reload(place)
    found = await models_of(place.session)
    rows = [
        f"- {f'**{row.name}**' if row.name == found.active else row.name}"
        f" ({row.source}): {row.model or 'its only model'}"
        f"{f' at {row.endpoint}' if row.endpoint else ''}"
        for row in found.models
    ]
    return Answer(found, "\n\n".join(["\n".join(rows), _HOW]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse(SessionTarget):
    """The preset that answers from now on."""

    name: str


def _read_use(_place: Place, argument: str) -> ModelUse:
    return ModelUse(name=argument)


@operation("model.use", ModelUse, Line("model", "NAME", "", _read_use))
async def use(place: Place, params: ModelUse) -> Answer[Models]:
    """Answer with this model from now on.

    Raises:
        NotFound: there is no such model; the message names the nearest.
        Denied: the user did not agree to it.
    """
    await _reload(place)
    name = await place.session.use_model(params.name)
    return Answer(await models_of(place.session), f"{name} answers from now on.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAdd(SessionTarget):
    """``choice`` is what follows ``:model add``: a number of its list or an address, a model."""

    choice: str | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """The name of the model that was added, null where none was; then as for *list*."""

    added: str | None
    active: str
    models: list[ModelInfo]


def _read_add(_place: Place, argument: str) -> ModelAdd:
    return ModelAdd(choice=argument or None)


@operation(
    "model.add",
    ModelAdd,
    Line("model add", "[N|ADDRESS]", "", _read_add),
    needs_settings=True,
)
async def add(place: Place, params: ModelAdd) -> Answer[Added]:
    """Set a model up.

    Of the servers on this machine and the keys in the environment the user chooses one, or it is
    the `choice`. It is added to config.toml, where no key is ever written, asked one question, and
    answers from now on. A client that cannot ask gets the list in the chat. `added` is null where
    none was added.

    Raises:
        InvalidArgument, NotFound: there is nothing of that number or address.
        StoreUnavailable: the file cannot be written.
    """
    done = await add_model(place.session, params.choice or "")
    found = await models_of(place.session)
    return Answer(Added(done.name or None, found.active, found.models), done.told, is_told=True)


# ``:model add``: a model is set up from the chat.

_CANCEL: Final = "Cancel"

_HOW_TO_ADD: Final = """\
`:model add 1` adds the first of them, `:model add 1 NAME` another model of the same server.
`:model add http://HOST:PORT` adds a server that is not listed. A key is never written down: the \
file names the environment variable that holds it."""

_NOTHING: Final = """\
No model server was found on this machine, and no key in the environment.

- Start a server (`llama-server -m MODEL.gguf`, `ollama serve`) and write `:model add` again.
- Or set a provider's key (`OPENAI_API_KEY`, `OPENROUTER_API_KEY`, ...) in the environment that \
your editor is started in.
- `:model add http://HOST:PORT` adds a server elsewhere."""


@dataclass(frozen=True, slots=True)
class Adding:
    """What became of it: the model's name, empty where none was added, and what to tell."""

    name: str
    told: str


async def add_model(session: Session, argument: str) -> Adding:
    """Set a model up: what ``argument`` names, or what the user chooses where they can be asked.

    Raises:
        InvalidArgument, NotFound: there is nothing of that number or address.
        AishError: it cannot be written.
    """
    workspace = session.workspace
    which, _, model = argument.partition(" ")
    if "://" in which:
        chosen = await at_address(workspace, which)
    else:
        listed = await candidates(workspace)
        if not listed:
            return Adding("", _NOTHING)
        if which:
            chosen = _numbered(listed, which)
        else:
            answer = await workspace.services.choose(_choice(listed))
            if answer is None:
                return Adding("", _list(listed))
            if answer == len(listed):
                return Adding("", "Nothing was added.")
            chosen = listed[answer]
    if model.strip():
        chosen = chosen.serving(model.strip())
    return await _added(session, chosen)


async def _added(session: Session, chosen: Candidate) -> Adding:
    """Write a model down, have it answer from now on, and ask it one question."""
    workspace = session.workspace
    name, said = configured_as(workspace.config, chosen.preset), "is configured already"
    if not name:
        name = chosen.preset.name
        default = needs_default(workspace.config, name)
        await write(workspace, chosen.preset, default=default)
        said = f"now stands in `{escaped(str(config_file()))}`"
    await session.use_model(name)
    told = f"**{escaped(name)}** {said}, and answers from now on."
    try:
        reply = await try_out(session, name)
    except AishError as error:
        return Adding(name, f"{told} It could not be tried, though: {error.message}")
    fence = fence_for(reply)
    return Adding(name, f"{told} Asked to say hello, it says:\n\n{fence}text\n{reply}\n{fence}")


def _numbered(listed: Sequence[Candidate], which: str) -> Candidate:
    if not (which.isascii() and which.isdigit()):
        raise InvalidArgument("Say which: `:model add 1`, or `:model add http://HOST:PORT`.")
    number = int(which[:4])
    if not 1 <= number <= len(listed):
        raise NotFound(f"There is no number {number}: `:model add` lists {len(listed)}.")
    return listed[number - 1]


def _choice(listed: Sequence[Candidate]) -> Choice:
    rows = (f"{number}. {_row(one)}" for number, one in enumerate(listed, 1))
    message = "\n".join(["Which model do you want to add?", *rows])
    titles = (f"{number}. {escaped(one.preset.model)}" for number, one in enumerate(listed, 1))
    return Choice(message, (*titles, _CANCEL))


def _list(listed: Sequence[Candidate]) -> str:
    rows = (f"{number}. {_row(one)}" for number, one in enumerate(listed, 1))
    return "\n".join([*rows, "", _HOW_TO_ADD])


def _row(one: Candidate) -> str:
    if is_loopback(one.preset.endpoint):
        return str(one)
    return f"{one}. Your questions would be sent to {host(one.preset.endpoint)}"
