"""What a tool server asks the user in the middle of a call, as far as buttons can answer it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.ports import Choice, Question
from aish_lsp.foundation.text import cut, escaped

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import AskUser, Choose

#: Characters of a server's question and of a field's title that are shown, the fields that it may
#: ask for, and the choices of one.
_SHOWN: Final = 600
_LONGEST_TITLE: Final = 80
_MOST_FIELDS: Final = 5
_MOST_CHOICES: Final = 12


class Elicitation:
    """Answers what a server asks while a tool of it is called, one question after the other.

    Attributes:
        calls: those that it carries out now; without any, it has nothing to ask.
    """

    def __init__(self, server: str, ask_user: AskUser, choose: Choose) -> None:
        self._server = server
        self._ask_user = ask_user
        self._choose = choose
        self._asking = asyncio.Lock()
        self.calls = 0

    async def answer(self, context: Any, params: Any) -> Any:
        """Return the user's answer: a yes or no, or one thing among several.

        What is asked for in words is declined: no editor shows a form for it. So is an address,
        which would be opened with the user's cookies.
        """
        from mcp_types import ElicitResult  # noqa: PLC0415 - brings pydantic

        del context
        async with self._asking:
            if not self.calls or params.mode == "url":
                return ElicitResult(action="decline")
            said = cut(escaped(params.message), _SHOWN)
            message = f"The tool server {self._server} asks:\n\n    {said}\n\n"
            fields: dict[str, Any] = params.requested_schema.get("properties") or {}
            if not fields:
                agreed = await self._ask_user(Question(f"{message}Agree?", yes="Agree"))
                return ElicitResult(action=_action(agreed), content={} if agreed else None)
            required = params.requested_schema.get("required") or []
            answerable = {name: field for name, field in fields.items() if _is_answerable(field)}
            if len(answerable) > _MOST_FIELDS or not answerable.keys() >= set(required):
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
        """Return what the user gives for a field; None where they turn away."""
        options = _options(field)
        if not options:
            return await self._ask_user(Question(f"{asked}?", yes="Yes", no="No"))
        titles = (*(title for _, title in options), "Cancel")
        chosen = await self._choose(Choice(f"{asked}:", titles))
        return None if chosen is None or chosen >= len(options) else options[chosen][0]


def _is_answerable(field: dict[str, Any]) -> bool:
    return field.get("type") == "boolean" or bool(_options(field))


def _action(agreed: bool | None) -> Any:
    return {True: "accept", False: "decline", None: "cancel"}[agreed]


def _options(field: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the values of an enumeration, each with its title; none where there are too many."""
    values = field.get("enum") or [one.get("const") for one in field.get("oneOf") or []]
    titles = field.get("enumNames") or [one.get("title") for one in field.get("oneOf") or []]
    if not all(isinstance(value, str) for value in values) or len(values) > _MOST_CHOICES:
        return []
    titles = [*titles, *[None] * len(values)]
    return [(value, escaped(str(titles[at] or value))[:60]) for at, value in enumerate(values)]
