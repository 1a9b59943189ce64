"""The blocks of a reply in the terminal, and how a suggestion is shown there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import escaped

if TYPE_CHECKING:
    from aish_lsp.shell.suggestions import Suggestion

_RISKS: Final = {"safe": "green", "caution": "yellow", "destructive": "bold red"}


@dataclass(slots=True)
class CommandBlock:
    """Lines of a reply that may suggest a command.

    ``before`` is the blank line above them, if any; ``info`` the tag of the fence that they are in.
    """

    lines: list[str]
    before: str
    info: str = ""


#: What a finished block of a text is: what to write, or what may be a suggestion.
Block: TypeAlias = "str | CommandBlock"


def suggestion(one: Suggestion, styled: Callable[[str, str], str]) -> str:
    """Return a suggestion with its number and its risk, on lines of its own."""
    first, *more = map(escaped, one.info.text.split("\n"))
    gaps = "".join(f", fill in {escaped(gap)}" for gap in one.info.placeholders)
    number = styled(f"[{one.number}]", "bold")
    risk = styled(f"({one.info.risk}{gaps})", _RISKS[one.info.risk])
    below = "".join(f"      {line}\n" for line in more)
    return f"  {number} {first}  {risk}\n{below}"
