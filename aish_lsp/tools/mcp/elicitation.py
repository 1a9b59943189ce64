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

_CANCEL: Final = "Cancel"


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
            fields = params.requested_schema.get("properties") or {}
            if not isinstance(fields, dict):
                return ElicitResult(action="decline")
            if not fields:
                agreed = await self._ask_user(Question(f"{message}Agree?", yes="Agree"))
                return ElicitResult(action=_action(agreed), content={} if agreed else None)
            required = params.requested_schema.get("required") or []
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
        """Return what the user gives for a field; None where they turn away."""
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
    """Return the values of an enumeration, each with its title; none that buttons cannot tell."""
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
        # Two would look alike, or like a way out.
        return []
    return list(zip(values, shown, strict=True))
