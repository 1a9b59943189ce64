"""When a command needs the user's word before it runs, and what they are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from aish_lsp.foundation.ports import Approval, Question
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    from aish_lsp.shell.risk import Verdict

#: Where a command's text comes from: a reply of ours, the user's own hand, or some document.
Origin = Literal["reply", "user", "document"]

#: Characters that a menu shows of a command. A longer one was not seen whole when it was clicked.
LINE_OF_SIGHT: Final = 80


def needs_approval(text: str, verdict: Verdict, origin: Origin, *, always: bool) -> bool:
    """Return whether the user is to be asked before ``text`` runs.

    A line of a stranger's document always asks, and so does what is destructive. What a reply
    suggests runs at the user's click if they could see all of it. ``always`` asks for everything.
    """
    if always or origin == "document" or verdict.risk == "destructive":
        return True
    return verdict.risk == "caution" and origin == "reply" and not _seen_whole(text)


def question_for(
    text: str, folder: Path, verdict: Verdict, origin: Origin, shell: str = ""
) -> Question:
    """Return the question that shows exactly what would run, where, and why it is asked.

    ``shell`` is what runs it, where that is not the user's own.
    """
    reasons = list(verdict.reasons)
    if origin == "document":
        reasons.append("it stands in a document, not in a reply")
    elif origin == "reply" and not _seen_whole(text):
        reasons.append("a menu does not show all of it")
    # No line of the command begins as ours do, or it could tell another folder or other reasons.
    lines = [f"    {escaped(line)}" for line in text.split("\n")]
    by = f", by {escaped(shell)}" if shell else ""
    where = ["", f"in {escaped(str(folder))}{by}", *(f"- {escaped(reason)}." for reason in reasons)]
    message = "\n".join([f"Run this command ({verdict.risk})?", "", *lines, *where])
    approval = Approval("command", text, folder, verdict.risk, tuple(reasons))
    return Question(message, "Run", approval=approval)


def _seen_whole(text: str) -> bool:
    return "\n" not in text and len(escaped(text)) <= LINE_OF_SIGHT
