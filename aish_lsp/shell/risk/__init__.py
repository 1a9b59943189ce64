"""How much a command can harm, judged before it runs.

The command is parsed as bash would parse it, and its worst part decides, wherever that stands.
``safe`` takes a proof: each simple command in it is known to only read. ``destructive`` takes a row
of the tables, a target, or a program that can lose data, work, access or secrets, and all that
cannot be seen before it runs. All else is ``caution``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.foundation.events import Risk
from aish_lsp.foundation.text import hidden_characters

if TYPE_CHECKING:
    from aish_lsp.config.schema import RiskRule
    from aish_lsp.shell.risk.review import Findings


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a command.

    Attributes:
        risk: how much it can harm.
        reasons: short phrases for the user, none when safe.
        confine: whether it runs confined where it is safe; a rule of the user's may say no.
    """

    risk: Risk
    reasons: tuple[str, ...] = ()
    confine: bool = True


@cache
def _review() -> Callable[..., Findings]:
    """Return what reviews a command: the parser and the tables come with the first, not earlier."""
    from aish_lsp.shell.risk.walk import findings_in  # noqa: PLC0415

    return findings_in


def classify(
    text: str,
    shell: str,
    *,
    rules: Sequence[RiskRule] = (),
    folder: Path | None = None,
    confined: bool = False,
    path: str | None = None,
    kept: Path | None = None,
) -> Verdict:
    """Return the risk of running ``text`` with ``shell``, a name or a path.

    ``rules`` are the user's own (``safety.rules``); ``folder`` is where it will run, if that is
    known: what it would overwrite there counts. ``confined`` says that it will run confined if it
    is safe, and ``path`` is the run's PATH (by default our own). ``kept`` is the folder whose files
    can be had back by an undo, whatever they hold by then: to overwrite one is not destructive.
    """
    hidden = hidden_characters(text)
    if hidden:
        return Verdict("destructive", (f"holds hidden characters: {', '.join(hidden[:5])}",))
    findings_in, own = _review(), tuple(rules)
    findings = findings_in(text, shell, own, folder, path, confined=confined, kept=kept)
    confine = True
    if findings.unconfined and findings.risk == "safe":
        # The whole line would run unconfined: all else in it must be safe even so.
        free = findings_in(text, shell, own, folder, path, confined=False) if confined else findings
        confine = free.risk != "safe"
    return Verdict(findings.risk, findings.reasons, confine)
