"""Lines of the chat that stand there only as long as what they tell of lasts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aish_lsp.chat.markdown import quote
from aish_lsp.chat.transcript import call_named
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    from aish_lsp.agent.events import Tool
    from aish_lsp.agent.workspace import Workspace

_REMARK: Final = re.compile(
    r"^> (?:Running \(([0-9a-f]{8})\)\. The code action \*Stop\* ends it\."
    r"|Waiting for its turn \(([0-9a-f]{8})\): .*"
    r"|Calling \(([0-9a-f]{8})\): `.*`"
    r"|The last session was \*.*\*\. `:resume` goes on with it\."
    r"|The session \*.*\* goes on\. `:session new` begins another\.)$",
    re.MULTILINE,
)


def runs(job_id: str) -> str:
    """Return the line under a command that has not ended yet."""
    return quote(f"Running ({job_id}). The code action *Stop* ends it.")


def waits(job_id: str, question: str) -> str:
    """Return the line of a question that waits; ``question`` is one line."""
    return quote(f"Waiting for its turn ({job_id}): {question}")


def calls(job_id: str, call: Tool) -> str:
    """Return the line of a tool's call that has not ended yet."""
    return quote(f"Calling ({job_id}): {call_named(call)}")


def last_was(title: str | None) -> str:
    """Return the line that a new session begins with, where there was one before."""
    return quote(f"The last session was *{_shown(title)}*. `:resume` goes on with it.")


def goes_on(title: str | None) -> str:
    """Return the line that a session begins with which goes on."""
    return quote(f"The session *{_shown(title)}* goes on. `:session new` begins another.")


def _shown(title: str | None) -> str:
    return escaped(title or "no title")


def left_behind(text: str, is_there: Callable[[str], bool]) -> list[str]:
    """Return such lines of an earlier server: on its session, and on jobs that are not there."""
    found = _REMARK.finditer(text)
    return [f"{line[0]}\n" for line in found if not is_there(line[1] or line[2] or line[3] or "")]


async def first_line(workspace: Workspace) -> str:
    """Return what the chat says first: which session goes on, or could; empty for nothing."""
    session = await workspace.sessions.named(None)
    resumed = workspace.sessions.begun_with
    if resumed is not None and resumed.session is session:
        return goes_on(session.recorder.title)
    if workspace.config.sessions.resume != "ask":
        return ""
    try:
        last = await workspace.sessions.last()
    except StoreUnavailable:
        return ""
    return last_was(last.title) if last else ""


def running(text: str) -> list[tuple[int, str]]:
    """Return the lines of a chat that tell what runs, counted from 0, each with its job's id."""
    found = _REMARK.finditer(text)
    return [(text.count("\n", 0, line.start()), line[1]) for line in found if line[1]]
