"""What a server says about its tools, whether the user allows them, and what a server asks.

Permission for a tool holds for one definition of it: every character that the server says about it.
A question from a server during a call is answered if buttons can answer it.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from aish_lsp.foundation.ports import (
    Approval,
    Choice,
    Question,
    Remember,
    UserAnswer,
    plain,
)
from aish_lsp.foundation.text import count_of, cut, escaped

if TYPE_CHECKING:
    from aish_lsp.config.trust import TrustStore
    from aish_lsp.foundation.ports import AskUser, Choose
    from aish_lsp.tools.listing import ServerTool

#: How long a permission holds: for the next call, for this session, or for good in this workspace.
Scope = Literal["once", "session", "always"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_ONCE: Final = "Once"
_REMEMBERED: Final[Mapping[Remember, str]] = {
    "session": "In this session",
    "folder": "Always in this workspace",
}
_SCOPE_OF: Final[Mapping[UserAnswer, Scope]] = {
    True: "once",
    "session": "session",
    "folder": "always",
}

#: Characters of a tool's name and of a call, lines of a change and their characters, in a question.
_LONGEST_NAME: Final = 100
_SHOWN: Final = 600
_MOST_LINES: Final = 30
_LONGEST_LINE: Final = 200

#: Replaces a tool's hash if the tool is known, but not allowed.
_NOT_ALLOWED: Final = ""

#: Characters of a definition that are kept, to show what changed.
_KEPT: Final = 1 << 17


class Permissions:
    """Which tools of servers the user allows, in one session of a workspace."""

    def __init__(self, trust: TrustStore, root: Path, ask_user: AskUser) -> None:
        self._trust = trust
        self._root = root
        self._ask_user = ask_user
        self._session_grants: dict[tuple[str, str], tuple[str, Scope]] = {}
        self._asking = asyncio.Lock()

    def scope(self, server: str, tool: ServerTool) -> Scope | None:
        """Return how long the tool, as it is now, may be called; None to ask the user."""
        pin, scope = self._session_grants.get((server, tool.name), ("", None))
        if pin == tool.pin:
            return scope
        always = self._trust.granted(self._root, "tool", f"{server}/{tool.name}", tool.pin)
        return "always" if always else None

    def allows(self, server: str, tool: ServerTool) -> bool:
        """Return whether the tool, as it is now, may be called without a question.

        A reading tool of a trusted server may be, unless the user was asked about it before: then
        it has changed, or the user wants to be asked.
        """
        if self.scope(server, tool) is not None:
            return True
        return tool.reads and self._last_definition(server, tool.name) is None

    async def allow(self, server: str, tool: ServerTool, scope: Scope) -> None:
        """Permit calls of the tool as it is now.

        Raises:
            StoreUnavailable, Busy: a lasting permission cannot be stored.
        """
        if scope == "always":
            await self._keep(server, tool.name, tool.pin, tool.definition)
        else:
            self._session_grants[server, tool.name] = tool.pin, scope

    async def revoke(self, server: str, tool: str, there: Iterable[ServerTool]) -> None:
        """Ask the user about a tool again, or about all tools of the server if it is empty.

        ``there`` are the tools that the server has now; even those that only read are asked about.

        Raises:
            StoreUnavailable, Busy: the grants cannot be written.
        """
        for grant in [
            one for one in self._session_grants if one[0] == server and tool in ("", one[1])
        ]:
            del self._session_grants[grant]
        definitions = {one.name: one.definition for one in there}
        for granted in self._trust.times(self._root, "tool"):
            if granted.startswith(f"{server}/"):
                name = granted.removeprefix(f"{server}/")
                definitions[name] = self._last_definition(server, name) or ""
        for name, definition in definitions.items():
            if tool in ("", name):
                await self._keep(server, name, _NOT_ALLOWED, definition)

    async def may_call(self, server: str, tool: ServerTool, arguments: Mapping[str, Any]) -> bool:
        """Return whether the tool may be called now, asking the user if necessary.

        Raises:
            StoreUnavailable, Busy: the user's answer cannot be stored.
        """
        async with self._asking:
            if self.allows(server, tool):
                if (scope := self.scope(server, tool)) is None:
                    await self.allow(server, tool, "always")
                elif scope == "once":
                    del self._session_grants[server, tool.name]
                return True
            before = self._last_definition(server, tool.name)
            scope = await self._asked(server, tool, _arguments(arguments), before)
            if scope in ("session", "always"):
                await self.allow(server, tool, scope)
            is_known = before == tool.definition[:_KEPT]
            if scope != "always" and not is_known and (scope is not None or before is None):
                # So that it counts as changed if the server later says that it only reads.
                await self._keep(server, tool.name, _NOT_ALLOWED, tool.definition)
            return scope is not None

    def _last_definition(self, server: str, name: str) -> str | None:
        """Return a tool's definition from when the user was last asked about it; None if never."""
        return self._trust.definition(self._root, "tool", f"{server}/{name}")

    async def _keep(self, server: str, name: str, pin: str, definition: str) -> None:
        await asyncio.to_thread(
            self._trust.grant,
            self._root,
            "tool",
            f"{server}/{name}",
            pin,
            definition=definition[:_KEPT],
        )

    async def _asked(
        self, server: str, tool: ServerTool, arguments: str, before: str | None
    ) -> Scope | None:
        claim = "it says that it only reads" if tool.reads else "it may change something"
        reasons = [f"a tool of the server {server}: {claim}"]
        parts = [
            f"The model calls a tool of the server {server} ({claim}):",
            f"    {cut(escaped(tool.name), _LONGEST_NAME)} {cut(arguments, _SHOWN)}",
        ]
        changed: list[str] = []
        shown: list[str] = []
        if before is not None and before != tool.definition[:_KEPT]:
            changed = _difference(before, tool.definition[:_KEPT])
            shown = [cut(line, _LONGEST_LINE) for line in changed[:_MOST_LINES]]
            if len(changed) > len(shown):
                shown.append(f"... and {count_of(len(changed) - len(shown), 'more line')}")
            differs = "the server describes it differently than when you were last asked about it:"
            parts.append(differs.capitalize())
            parts.append("\n".join(f"    {line}" for line in shown))
            reasons.append("\n".join([differs, *shown]))
        message = "\n\n".join(parts)
        is_cut = len(arguments) > _SHOWN or len(tool.name) > _LONGEST_NAME or shown != changed
        call = f"{escaped(tool.name)} {arguments}"
        question = Question(
            f"{message}\n\nCall it?",
            yes=_ONCE,
            whole="\n".join([call, *changed]) if is_cut else "",
            approval=Approval(
                "tool",
                call,
                self._root,
                "caution",
                tuple(reasons),
                covers=f"each call of {escaped(tool.name)}, as {server} describes it now",
            ),
            remember=_REMEMBERED,
        )
        return _SCOPE_OF.get(await self._ask_user(question))


def _arguments(arguments: Mapping[str, Any]) -> str:
    return escaped(json.dumps(arguments, ensure_ascii=False))


def _difference(before: str, after: str) -> list[str]:
    """Return the removed and added lines, with invisible characters escaped.

    Long lines, such as a description, are compared sentence by sentence.
    """
    rows = difflib.unified_diff(_parts(before), _parts(after), n=0, lineterm="")
    return [escaped(row) for row in rows if not row.startswith(("---", "+++", "@@"))]


def _parts(definition: str) -> list[str]:
    """Return the lines of a definition, with long lines split into sentences."""
    lines = definition.split("\n")
    return [
        part
        for line in lines
        for part in (re.split(r"(?<=[.;:!?])(?= )|(?<=\\n)", line) if len(line) > 160 else [line])
    ]


#: Characters of a server's question and of a field's title that are shown, how many fields it may
#: ask for, and how many choices a field may have.
_QUESTION_SHOWN: Final = 600
_LONGEST_TITLE: Final = 80
_MOST_FIELDS: Final = 5
_MOST_CHOICES: Final = 12

_CANCEL: Final = "Cancel"


class Elicitation:
    """Answers what a server asks while one of its tools is called, one question at a time.

    Attributes:
        calls: how many calls the server is carrying out; without any, it may not ask.
    """

    def __init__(self, server: str, ask_user: AskUser, choose: Choose) -> None:
        self._server = server
        self._ask_user = ask_user
        self._choose = choose
        self._asking = asyncio.Lock()
        self.calls = 0

    async def answer(self, context: Any, params: Any) -> Any:
        """Return the user's answer: yes, no, or one of several choices.

        A question that wants text is declined, since no editor shows a form for it. A question with
        an address to open is declined too: it would be opened with the user's cookies.
        """
        from mcp_types import ElicitResult  # noqa: PLC0415 - brings pydantic

        del context
        async with self._asking:
            if not self.calls or params.mode == "url":
                return ElicitResult(action="decline")
            question = cut(escaped(params.message), _QUESTION_SHOWN)
            message = f"The tool server {self._server} asks:\n\n    {question}\n\n"
            fields = params.requested_schema.get("properties") or {}
            required = params.requested_schema.get("required") or []
            if not isinstance(fields, dict) or not isinstance(required, list):
                return ElicitResult(action="decline")
            if not fields:
                agreed = await self._ask_user(Question(f"{message}Agree?", yes="Agree"))
                return ElicitResult(action=_action(plain(agreed)), content={} if agreed else None)
            answerable = {name: field for name, field in fields.items() if _is_answerable(field)}
            is_form = not answerable or not answerable.keys() >= set(map(str, required))
            if is_form or len(answerable) > _MOST_FIELDS:
                return ElicitResult(action="decline")
            content: dict[str, Any] = {}
            for name, field in answerable.items():
                title = cut(escaped(str(field.get("title") or name)), _LONGEST_TITLE)
                value = await self._value(f"{message}{title}", field)
                if value is None:
                    return ElicitResult(action="cancel")
                content[name] = value
            return ElicitResult(action="accept", content=content)

    async def _value(self, asked: str, field: dict[str, Any]) -> bool | str | None:
        """Return the user's value for a field, or None if they cancel."""
        options = _options(field)
        if not options:
            return await self._ask_user(Question(f"{asked}?", yes="Yes", no="No"))
        titles = (*(title for _, title in options), _CANCEL)
        chosen = await self._choose(Choice(f"{asked}:", titles))
        return None if chosen is None or chosen >= len(options) else options[chosen][0]


def _is_answerable(field: Any) -> bool:
    return isinstance(field, dict) and (field.get("type") == "boolean" or bool(_options(field)))


def _action(agreed: bool | None) -> Any:
    return {True: "accept", False: "decline", None: "cancel"}[agreed]


def _options(field: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the values of an enumeration with their titles; none if buttons cannot show them."""
    values, titles = field.get("enum"), field.get("enumNames")
    if values is None:
        listed = field.get("oneOf")
        one_of = (
            [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        )
        values, titles = [one.get("const") for one in one_of], [one.get("title") for one in one_of]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return []
    named = titles if isinstance(titles, list) and len(titles) == len(values) else values
    shown = [escaped(str(title or value))[:60] for title, value in zip(named, values, strict=True)]
    if len(values) > _MOST_CHOICES or len({*shown, _CANCEL}) <= len(shown):
        # There are too many, or two would look the same, or one like Cancel.
        return []
    return list(zip(values, shown, strict=True))
