"""``undo`` and ``redo``: revert what commands did to files, and restore it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, cast

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.operations.operation import Answer, Caller, Line, SessionTarget, operation

if TYPE_CHECKING:
    from aish_lsp.undo import Undone

_REDO_WAYS: Final = ("keep", "overwrite")
_WAYS: Final = (*_REDO_WAYS, "earlier")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoParams(SessionTarget):
    """``conflicts``: what to do with files that were changed since."""

    conflicts: Literal["ask", "keep", "overwrite"] = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoParams(RedoParams):
    """``conflicts`` is as for *redo*; ``earlier`` also undoes an earlier session's, unasked.

    ``id`` is a ``turnId`` or a ``commandId``: only its changes are undone, if they are the last.
    """

    earlier: bool = False
    id: str | None = None


@dataclass(frozen=True, slots=True)
class PutBack:
    """The files that were put back, removed again, or left as they are."""

    restored: list[str]
    removed: list[str]
    conflicts: list[str]


def _read_undo(_caller: Caller, argument: str) -> UndoParams:
    words = argument.split()
    if not set(words) <= set(_WAYS) or {"keep", "overwrite"} <= set(words):
        raise InvalidArgument("Use `:undo`, `:undo keep`, `:undo overwrite` or `:undo earlier`.")
    way = cast("Literal['ask']", next((word for word in words if word != "earlier"), "ask"))
    return UndoParams(conflicts=way, earlier="earlier" in words)


@operation(
    "undo",
    UndoParams,
    Line(
        "undo",
        f"[{'|'.join(_WAYS)}]",
        "take back what the last command did to files; again, the one before it",
        _read_undo,
        choices=_WAYS,
    ),
)
async def undo(caller: Caller, params: UndoParams) -> Answer[PutBack]:
    """Undo what the last command of this session did to the files of the work tree.

    That is the last one that is not undone yet. If none is left, the user is asked about the last
    one of an earlier session. Names are relative to the workspace. The user is asked about files
    that were changed since; if nobody can be asked, nothing is done, and `conflicts` names them.

    Raises:
        Busy: a command is running.
        NotFound: no command has changed a file, or `id` did not change them last.
        StoreUnavailable: a file cannot be put back.
    """
    workspace, session = caller.workspace, caller.session
    asks = workspace.services.ask_user
    done = await workspace.undo.undo(
        session.id, asks, params.conflicts, earlier=params.earlier, named=params.id or ""
    )
    workspace.services.buffers.files_changed()
    if done.earlier:
        return _answer(done, f"{done.message}\n\n`:undo earlier` undoes that.")
    again = "`:undo` again undoes the one before it, `:redo` does this one again."
    return _answer(done, _report(done, ":undo earlier" if params.earlier else ":undo", again))


def _read_redo(_caller: Caller, argument: str) -> RedoParams:
    if argument and argument not in _REDO_WAYS:
        raise InvalidArgument("Use `:redo`, `:redo keep` or `:redo overwrite`.")
    return RedoParams(conflicts=cast("Literal['ask']", argument or "ask"))


@operation(
    "redo",
    RedoParams,
    Line(
        "redo",
        f"[{'|'.join(_REDO_WAYS)}]",
        "do again what was last undone",
        _read_redo,
        choices=_REDO_WAYS,
    ),
)
async def redo(caller: Caller, params: RedoParams) -> Answer[PutBack]:
    """Redo what was last undone in this session, unless a command has run since.

    It works as `aish.undo` does.

    Raises:
        Busy: a command is running.
        NotFound: there is nothing to redo.
        StoreUnavailable: a file cannot be put back.
    """
    workspace, session = caller.workspace, caller.session
    asks = workspace.services.ask_user
    done = await workspace.undo.redo(session.id, asks, params.conflicts)
    workspace.services.buffers.files_changed()
    return _answer(done, _report(done, ":redo", "`:undo` takes this back."))


def _answer(done: Undone, text: str) -> Answer[PutBack]:
    return Answer(PutBack(done.restored, done.removed, done.conflicts), text, is_told=True)


def _report(done: Undone, command: str, again: str) -> str:
    """Return what was done and the next step; that is ``again`` if something was done."""
    rows = done.message.split("\n")
    if done.undecided:
        rows.append(
            f"`{command} keep` does the rest and leaves those as they are; `{command} overwrite`"
            " puts them back as well."
        )
    elif done.restored or done.removed:
        rows.append(again)
    return "\n\n".join(rows)
