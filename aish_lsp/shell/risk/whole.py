"""The review of a whole command, in the language of the shell that will run it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from aish_lsp.shell.risk import programs
from aish_lsp.shell.risk.levels import SAFE, Findings
from aish_lsp.shell.risk.review import TOO_MUCH, Review
from aish_lsp.shell.risk.rules import OwnTables, Tables
from aish_lsp.shell.risk.syntax import LONGEST
from aish_lsp.shell.risk.walk import walk
from aish_lsp.shell.risk.words import TooDeep

if TYPE_CHECKING:
    from aish_lsp.config.schema import RiskRule

#: The shells whose grammar is known.
_KNOWN: Final = frozenset({"bash", "sh"})


def review(
    text: str,
    shell: str,
    rules: tuple[RiskRule, ...],
    folder: Path | None,
    path: str | None,
    *,
    confined: bool,
    kept: Path | None = None,
) -> Findings:
    """Return what was found in ``text``, which holds no hidden characters."""
    own = _own_rules(rules) if rules else None
    found = Review(own, folder, path, confined=confined, kept=kept)
    if shell not in _KNOWN:
        _other_shell(found, text, shell)
    found.plain_shell = not shell.endswith("bash")
    if len(text) > LONGEST:
        found.destructive(TOO_MUCH)
        return found.findings
    if not text.strip():
        found.caution("is empty")
        return found.findings
    try:
        walk(found, text, 0)
        while (waiting := found.next_text()) is not None:
            walk(found, *waiting)
    except (TooDeep, RecursionError):
        found.destructive(TOO_MUCH)
    if found.git_places and found.findings.level == SAFE:
        found.look_into_repositories()
    return found.findings


def _other_shell(found: Review, text: str, shell: str) -> None:
    """Take down that the shell is none whose grammar is known, unless it is one by its path."""
    name = PurePath(shell).name
    if name not in _KNOWN:
        found.caution(f"the grammar of {name or 'this shell'} is not known")
    if programs.is_windows_shell(shell):
        programs.look_through(found, text[:LONGEST])


@lru_cache(maxsize=8)
def _own_rules(rules: tuple[RiskRule, ...]) -> OwnTables:
    """Return the user's rules, and those that only make stricter, ready to be asked."""
    found = OwnTables(Tables(), Tables())
    for rule in rules:
        tables = found.stricter if rule.only_stricter else found.own
        row = {"match": rule.match, "risk": rule.risk, "reason": rule.reason}
        tables.add_rules([{**row, "confine": rule.confine}])
    return found
