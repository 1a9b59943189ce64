"""Which calls of tool servers' tools go on without a question: the user's word on each tool.

It holds for one definition of a tool: what a server says of it, to the last character.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from aish_lsp.foundation.ports import Choice, Question
from aish_lsp.foundation.text import cut, escaped

if TYPE_CHECKING:
    from aish_lsp.config.trust import TrustStore
    from aish_lsp.foundation.ports import AskUser, Choose
    from aish_lsp.tools.mcp.results import ServerTool

#: How long a yes holds: for the next call, in this session, or in this workspace for good.
Scope = Literal["once", "session", "always"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_CHOICES: Final = ("Once", "In this session", "Always in this workspace", "Cancel")

#: Characters of a call, and lines of a change, that a question shows.
_SHOWN: Final = 600
_MOST_LINES: Final = 30

#: Characters of a definition that are kept, to show what changed.
_KEPT: Final = 1 << 14


class Permissions:
    """The user's word on the tools of servers, in one session of a workspace."""

    def __init__(self, trust: TrustStore, root: Path, ask_user: AskUser, choose: Choose) -> None:
        self._trust = trust
        self._root = root
        self._ask_user = ask_user
        self._choose = choose
        self._here: dict[tuple[str, str], tuple[str, Scope]] = {}
        self._asking = asyncio.Lock()

    def scope(self, server: str, tool: ServerTool) -> Scope | None:
        """Return how long the tool, as it is now, may be called; None where it has to be asked."""
        pin, scope = self._here.get((server, tool.name), ("", None))
        if pin == tool.pin:
            return scope
        always = self._trust.granted(self._root, "tool", f"{server}/{tool.name}", tool.pin)
        return "always" if always else None

    async def allow(self, server: str, tool: ServerTool, scope: Scope) -> None:
        """Let the tool, as it is now, be called.

        Raises:
            StoreUnavailable, Busy: what is for good cannot be kept.
        """
        if scope == "always":
            await asyncio.to_thread(
                self._trust.grant,
                self._root,
                "tool",
                f"{server}/{tool.name}",
                tool.pin,
                definition=tool.definition[:_KEPT],
            )
        else:
            self._here[server, tool.name] = tool.pin, scope

    async def revoke(self, server: str, tool: str) -> None:
        """Have the user asked about a tool again, or about all of the server where it is empty.

        Raises:
            StoreUnavailable, Busy: the grants cannot be written.
        """
        for known in [one for one in self._here if one[0] == server and tool in ("", one[1])]:
            del self._here[known]
        names = [f"{server}/{tool}"] if tool else self._trust.names(self._root, "tool")
        for name in names:
            if name.startswith(f"{server}/"):
                await asyncio.to_thread(self._trust.revoke, self._root, "tool", name)

    async def may_call(self, server: str, tool: ServerTool, arguments: Mapping[str, Any]) -> bool:
        """Return whether the tool may be called now; the user is asked where that is due.

        A tool that only reads, of a server that is trusted, is not asked about, unless it is
        another than when it was called first.

        Raises:
            StoreUnavailable, Busy: what the user said cannot be kept.
        """
        async with self._asking:
            scope = self.scope(server, tool)
            if scope == "once":
                del self._here[server, tool.name]
            if scope is not None:
                return True
            before = self._before(server, tool)
            if tool.reads and before is None:
                await self.allow(server, tool, "always")
                return True
            scope = await self._asked(server, tool, _arguments(arguments), before)
            if scope in ("session", "always"):
                await self.allow(server, tool, scope)
            return scope is not None

    def _before(self, server: str, tool: ServerTool) -> str | None:
        """Return what the tool was when it was allowed for good; None where it never was."""
        return self._trust.definition(self._root, "tool", f"{server}/{tool.name}")

    async def _asked(
        self, server: str, tool: ServerTool, arguments: str, before: str | None
    ) -> Scope | None:
        said = "it says that it only reads" if tool.reads else "it may change something"
        parts = [
            f"The model calls a tool of the server {server} ({said}):",
            f"    {escaped(tool.name)} {cut(arguments, _SHOWN)}",
        ]
        if before is not None:
            changed = list(_difference(before, tool.definition[:_KEPT]))
            shown = changed[:_MOST_LINES]
            if len(changed) > len(shown):
                shown.append(f"... and {len(changed) - len(shown)} more")
            parts.append("The server says something else of it than when you allowed it:")
            parts.append("\n".join(f"    {cut(line, 200)}" for line in shown))
        message = "\n\n".join(parts)
        whole = f"{tool.name} {arguments}" if len(arguments) > _SHOWN else ""
        chosen = await self._choose(Choice(f"{message}\n\nCall it?", _CHOICES))
        if chosen is not None:
            return SCOPES[chosen] if chosen < len(SCOPES) else None
        agreed = await self._ask_user(
            Question(f"{message}\n\nCall it?", yes="Call it", whole=whole)
        )
        return "once" if agreed else None


def _arguments(arguments: Mapping[str, Any]) -> str:
    return escaped(json.dumps(arguments, ensure_ascii=False))


def _difference(before: str, after: str) -> list[str]:
    """Return the lines that went, and those that came, characters that are not seen escaped."""
    rows = difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
    return [escaped(row) for row in rows if not row.startswith(("---", "+++", "@@"))]
