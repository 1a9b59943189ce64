"""``model.*``: the models there are, and the one that answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aish_lsp.models.catalog import ModelInfo
from aish_lsp.operations.model_adding import add_model
from aish_lsp.operations.operation import Answer, Line, Place, SessionTarget, operation

if TYPE_CHECKING:
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
