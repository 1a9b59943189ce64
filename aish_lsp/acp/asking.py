"""Asking the user: every question of ours is a permission request of the protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from acp import helpers, schema

from aish_lsp.acp.updates import shown_title
from aish_lsp.foundation.ports import CALL, Question
from aish_lsp.foundation.text import clipped, well_formed
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from aish_lsp.acp.updates import Updates
    from aish_lsp.foundation.ports import Approval, Choice, UserAnswer

#: Characters of a question that the client is sent.
_LONGEST: Final = 60_000

#: The protocol's word for each kind of approval, and what the text of one is called.
_KINDS: Final[Mapping[str, tuple[schema.ToolKind, str]]] = {
    "command": ("execute", "command"),
    "edit": ("edit", "file"),
    "tool": ("other", "tool"),
}


class Asks(Protocol):
    """A session whose user can be asked."""

    updates: Updates

    async def request(
        self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Return the id of the option that the user chose; None without an answer."""
        ...


#: The session whose user is asked by what runs in this context.
ASKING: ContextVar[Asks | None] = ContextVar("asking", default=None)


async def ask_user(question: Question) -> UserAnswer:
    """Implement ``ports.AskUser``."""
    answers = question.answers
    chosen = await _asked(question, tuple(answers), question.approval)
    return None if chosen is None else [*answers.values()][chosen]


async def choose(choice: Choice) -> int | None:
    """Implement ``ports.Choose``."""
    return await _asked(choice, choice.options, None)


async def _asked(
    asked: Question | Choice, names: Sequence[str], approval: Approval | None
) -> int | None:
    """Return the index of the option that the user chose; the last one does nothing.

    The question is about the tool call of this context, or is shown as a call of its own.
    """
    session = ASKING.get()
    if session is None:
        return None
    call_id = CALL.get() or new_id()
    title = shown_title(approval.text if approval else asked.message.partition("\n")[0])
    kind = _KINDS[approval.kind][0] if approval else "other"
    await session.updates.begin_call(call_id, title, kind)
    call = schema.ToolCallUpdate(
        tool_call_id=session.updates.shown_id(call_id),
        title=title,
        kind=kind,
        status="pending",
        content=_content(asked, approval),
        locations=_locations(approval),
        raw_input=_parts(approval) if approval else None,
    )
    options = [
        schema.PermissionOption(
            option_id=str(at),
            name=name,
            kind=_kind(asked, name) if at < len(names) - 1 else "reject_once",
        )
        for at, name in enumerate(names)
    ]
    chosen: int | None = None
    try:
        answer = await session.request(call, options)
        offered = [option.option_id for option in options]
        chosen = offered.index(answer) if answer in offered else None
    finally:
        if not CALL.get():
            agreed = chosen is not None and chosen < len(names) - 1
            await session.updates.end_call(call_id, "completed" if agreed else "failed")
    return chosen


def _kind(asked: Question | Choice, name: str) -> schema.PermissionOptionKind:
    """Return what choosing a button does, for the client; all that is remembered is ``always``."""
    remember = asked.remember.values() if isinstance(asked, Question) else ()
    return "allow_always" if name in remember else "allow_once"


def _content(asked: Question | Choice, approval: Approval | None) -> list[Any]:
    """Return a question as the content of its tool call, below the change that it is about.

    CodeCompanion looks for a change in the first place alone.
    """
    text = "\n\n".join(filter(None, (asked.message, asked.whole)))
    content: list[Any] = [
        helpers.tool_content(helpers.text_block(well_formed(clipped(text, _LONGEST))))
    ]
    if approval is not None and (diff := approval.diff):
        before = well_formed(diff.before) or None
        change = helpers.tool_diff_content(os.fspath(diff.path), well_formed(diff.after), before)
        content.insert(0, change)
    return content


def _locations(approval: Approval | None) -> list[schema.ToolCallLocation] | None:
    diff = approval.diff if approval else None
    return [schema.ToolCallLocation(path=os.fspath(diff.path))] if diff else None


def _parts(approval: Approval) -> dict[str, object]:
    """Return what is to be approved in parts, for a client that displays them itself."""
    return {
        _KINDS[approval.kind][1]: well_formed(approval.text),
        "cwd": os.fspath(approval.cwd),
        "risk": approval.risk,
        "reasons": list(approval.reasons),
    }
