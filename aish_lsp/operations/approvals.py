"""``approvals.*``: what the user has allowed without being asked again, and asking again."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from aish_lsp.agent.approvals import RememberedApproval
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.operations.operation import Answer, Caller, Line, SessionTarget, operation

_NONE: Final = "No approval is remembered: you are asked each time."


@dataclass(frozen=True, slots=True)
class ApprovalList:
    """The remembered approvals, those of the session first."""

    approvals: list[RememberedApproval]


@operation(
    "approvals.list",
    SessionTarget,
    Line("approvals", help="what you have allowed without being asked again"),
    shows=True,
)
async def listed(caller: Caller, _params: SessionTarget) -> Answer[ApprovalList]:
    """What the user has allowed without being asked again, in this session or in this folder.

    `what` is a command, or all edits of files. A command runs without a question if it is the same
    word by word; `FILE…` stands for files of the workspace.
    """
    approvals = caller.session.approvals.listed()
    rows = [
        f"{number}. `{escaped(one.what).replace('`', chr(39))}` in this {one.scope},"
        f" since {one.since[:16].replace('T', ' ')}"
        for number, one in enumerate(approvals, 1)
    ]
    text = "\n".join([*rows, "", "`:approvals revoke N` asks again about one."]) if rows else _NONE
    return Answer(ApprovalList(approvals), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalParams(SessionTarget):
    """``id`` is an approval's id, or its number in the list; without it, all are meant."""

    id: str | None = field(
        default=None, metadata={"word": "N", "help": "its number in the list, or `all`"}
    )


def _read_revoke(_caller: Caller, argument: str) -> ApprovalParams:
    if not argument:
        raise InvalidArgument("Say which: `:approvals revoke N`, or `:approvals revoke all`.")
    return ApprovalParams(id=argument)


@operation(
    "approvals.revoke",
    ApprovalParams,
    Line("approvals revoke", "N", "", _read_revoke),
)
async def revoke(caller: Caller, params: ApprovalParams) -> Answer[ApprovalList]:
    """Ask again about what an approval covers, or about everything; the rest is listed.

    Raises:
        NotFound: no such approval is remembered.
        StoreUnavailable, Busy: the grants cannot be written.
    """
    approvals = caller.session.approvals
    numbered = enumerate(approvals.listed(), 1)
    is_all = params.id in (None, "all")
    revoked = [one for number, one in numbered if is_all or params.id in (one.id, str(number))]
    if not revoked and not is_all:
        raise NotFound(
            f"No approval {escaped(str(params.id)[:40])!r} is remembered. `:approvals` lists them."
        )
    for one in revoked:
        await approvals.revoke(one)
    text = f"Revoked {count_of(len(revoked), 'approval')}: you are asked again."
    return Answer(ApprovalList(approvals.listed()), text if revoked else _NONE)
