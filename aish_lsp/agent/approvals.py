"""What the user has allowed without being asked again: for a goal, a session or a folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.jsonl import now
from aish_lsp.foundation.ports import Remember

if TYPE_CHECKING:
    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.agent.norris import Pursuit
    from aish_lsp.config.trust import TrustStore
    from aish_lsp.shell.risk.approved import Approvable

#: How an approval of all edits is listed.
_EDITS: Final = "all edits of files"
#: How the consent to goals in the folder is listed.
_GOALS: Final = "goals that the model pursues by itself"


@dataclass(frozen=True, slots=True)
class RememberedApproval:
    """A remembered approval: what it covers, how long it holds, and since when."""

    id: str
    what: str
    scope: Remember
    since: str


class Approvals:
    """The remembered approvals of one session, and those of its folder.

    Args:
        workspace: the context of the folder.
        pursuit: returns the goal that the session is pursuing, if any.

    Attributes:
        edits: since when all edits are allowed in the session; empty if the user is asked.
    """

    def __init__(self, workspace: FolderContext, pursuit: Callable[[], Pursuit | None]) -> None:
        self.edits = ""
        self._workspace = workspace
        self._pursuit = pursuit
        self._session: dict[Approvable, str] = {}

    @property
    def _trust(self) -> TrustStore:
        return self._workspace.services.trust

    async def commands(
        self, text: str, shell: str, cwd: Path, *, works: bool
    ) -> tuple[Approvable, ...]:
        """Return the commands of which each has to be approved for ``text`` to run unasked.

        There are none if it cannot be remembered. ``works``: whether it would run in the profile
        ``work``; elsewhere the files that it names have to be the same, too.
        """
        from aish_lsp.shell.risk.approved import approvable  # noqa: PLC0415 - it imports the tables

        workspace = self._workspace
        if workspace.root is None:
            return ()
        environ = workspace.command_environment()
        return await asyncio.to_thread(
            approvable, text, shell, cwd, workspace.root, environ, contents=not works
        )

    def cover(self, commands: Iterable[Approvable], *, works: bool) -> bool:
        """Return whether each of the commands is allowed.

        What is allowed in a folder runs in the profile ``work`` only.
        """
        pursuit, root = self._pursuit(), self._workspace.root
        of_goal = pursuit.allowed if pursuit is not None else ()
        return all(
            one in self._session
            or one in of_goal
            or (works and root and self._trust.granted(root, "command", one.name, one.seal))
            for one in commands
        )

    async def keep(self, commands: Iterable[Approvable], scope: Remember) -> None:
        """Remember that the commands are allowed.

        Raises:
            StoreUnavailable, Busy: a lasting approval cannot be stored.
        """
        root = self._workspace.root
        for one in commands:
            if scope == "session" or root is None:
                # In place of what was allowed by that name, as for a folder.
                self._forget(one.name)
                self._session[one] = now()
            else:
                grant = self._trust.grant
                await asyncio.to_thread(grant, root, "command", one.name, one.seal)

    def listed(self) -> list[RememberedApproval]:
        """Return all remembered approvals, those of the session first."""
        approvals = [_approval(_EDITS, "session", self.edits)] if self.edits else []
        approvals += [_approval(one.name, "session", since) for one, since in self._session.items()]
        if root := self._workspace.root:
            consents = self._trust.times(root, "norris").values()
            approvals += [_approval(_GOALS, "folder", since) for since in list(consents)[-1:]]
            grants = self._trust.times(root, "command")
            approvals += [_approval(name, "folder", since) for name, since in grants.items()]
        return approvals

    async def revoke(self, approval: RememberedApproval) -> None:
        """Ask again about what an approval covers.

        Raises:
            StoreUnavailable, Busy: the grants cannot be written.
        """
        root = self._workspace.root
        if approval.what == _GOALS and root is not None:
            for name in self._trust.times(root, "norris"):
                await asyncio.to_thread(self._trust.revoke, root, "norris", name)
        elif approval.scope == "folder" and root is not None:
            await asyncio.to_thread(self._trust.revoke, root, "command", approval.what)
        elif approval.what == _EDITS:
            self.edits = ""
        else:
            self._forget(approval.what)

    def _forget(self, name: str) -> None:
        """Forget what is allowed in the session by that name."""
        remaining = self._session.items()
        self._session = {one: since for one, since in remaining if one.name != name}


def _approval(what: str, scope: Remember, since: str) -> RememberedApproval:
    digest = hashlib.sha256(f"{scope} {what}".encode(errors="surrogateescape"))
    return RememberedApproval(digest.hexdigest()[:8], what, scope, since)
