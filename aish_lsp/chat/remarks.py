"""Lines of the chat that stand there only as long as what they tell of lasts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from aish_lsp.chat.markdown import quote

_REMARK: Final = re.compile(
    r"^> (?:Running \(([0-9a-f]{8})\)\. `aish\.cancel` stops it\."
    r"|Waits until what runs has ended \(([0-9a-f]{8})\): .*)$",
    re.MULTILINE,
)


def runs(job_id: str) -> str:
    """Return the line under a command that has not ended yet."""
    return quote(f"Running ({job_id}). `aish.cancel` stops it.")


def waits(job_id: str, question: str) -> str:
    """Return the line of a question that waits; ``question`` is one line."""
    return quote(f"Waits until what runs has ended ({job_id}): {question}")


def left_behind(text: str, is_there: Callable[[str], bool]) -> list[str]:
    """Return such lines of jobs that are not there any more: a server was killed meanwhile."""
    found = _REMARK.finditer(text)
    return [f"{line[0]}\n" for line in found if not is_there(line[1] or line[2])]
