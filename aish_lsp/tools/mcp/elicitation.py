"""What a tool server asks the user in the middle of a call, as far as buttons can answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.ports import Choice, Question
from aish_lsp.foundation.text import cut, escaped

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import AskUser, Choose

#: Characters of a server's question that are shown, and the choices that it may give.
_SHOWN: Final = 600
_MOST_CHOICES: Final = 12


async def answer(server: str, params: Any, ask_user: AskUser, choose: Choose) -> Any:
    """Return the user's answer to an elicitation: of a yes or no, or of one thing among several.

    What is asked for in words is declined: no editor shows a form for it.
    """
    from mcp_types import ElicitResult  # noqa: PLC0415 - brings pydantic

    message = f"The tool server {server} asks:\n\n    {cut(escaped(params.message), _SHOWN)}\n\n"
    if params.mode == "url":
        # An address of a stranger's, to be opened with the user's cookies.
        return ElicitResult(action="decline")
    fields: dict[str, Any] = params.requested_schema.get("properties") or {}
    content: dict[str, Any] = {}
    if not fields:
        agreed = await ask_user(Question(f"{message}Agree?", yes="Agree"))
        return ElicitResult(action=_action(agreed), content={} if agreed else None)
    for name, field in fields.items():
        asked = f"{message}{escaped(str(field.get('title') or name))[:80]}"
        options = _options(field)
        if field.get("type") == "boolean":
            agreed = await ask_user(Question(f"{asked}?", yes="Yes", no="No"))
            if agreed is None:
                return ElicitResult(action="cancel")
            content[name] = agreed
        elif options:
            titles = (*(title for _, title in options), "Cancel")
            chosen = await choose(Choice(f"{asked}:", titles))
            if chosen is None or chosen >= len(options):
                return ElicitResult(action="cancel")
            content[name] = options[chosen][0]
        elif name in (params.requested_schema.get("required") or []):
            return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=content)


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
