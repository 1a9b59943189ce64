"""``:model add``: a model is set up from the chat."""

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
from aish_lsp.operations.markdown import fence_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.agent.model_setup import Candidate
    from aish_lsp.agent.session import Session

#: What says that a model is to be added: no model of that name can be chosen.
ADD: Final = "add"

_CANCEL: Final = "Cancel"

_HOW: Final = """\
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
    return "\n".join([*rows, "", _HOW])


def _row(one: Candidate) -> str:
    if is_loopback(one.preset.endpoint):
        return str(one)
    return f"{one}. Your questions would be sent to {host(one.preset.endpoint)}"
