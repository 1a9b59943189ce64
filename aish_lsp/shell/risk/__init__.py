"""How much harm a command can do, judged before it runs.

The command is parsed as bash would parse it, and its worst part decides, wherever it is.
It is ``safe`` only if each of its simple commands is known to do nothing but read, and the kernel
holds it to that (``shell/confinement``). It is ``destructive`` if a row of the tables, a target or
a program in it can lose data, work, access or secrets, or if it runs something that cannot be seen
beforehand. Anything else is ``caution``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.events import Risk
from aish_lsp.foundation.text import hidden_characters

#: Why a command that only reads is not safe where nothing holds it to that.
UNHELD: Final = "only reads, but cannot be held to that here"

if TYPE_CHECKING:
    from aish_lsp.config.schema import RiskRule
    from aish_lsp.shell.risk.review import Findings


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a command.

    Attributes:
        risk: how much harm it can do.
        reasons: short phrases for the user; none if it is safe.
        confine: whether it runs confined if it is safe; one of the user's rules may say no.
    """

    risk: Risk
    reasons: tuple[str, ...] = ()
    confine: bool = True

    @property
    def only_reads(self) -> bool:
        """Whether it is safe, or would be if it were held to reading."""
        return self.risk == "safe" or self.reasons == (UNHELD,)


@cache
def _review() -> Callable[..., Findings]:
    """Return the function that reviews a command; the first call imports the tables."""
    from aish_lsp.shell.risk.plain import findings_in  # noqa: PLC0415

    return findings_in


def classify(
    text: str,
    shell: str,
    *,
    confined: bool,
    rules: Sequence[RiskRule] = (),
    folder: Path | None = None,
    path: str | None = None,
    kept: Path | None = None,
) -> Verdict:
    """Return the risk of running ``text`` with ``shell``, a name or a path.

    ``rules`` are the user's own (``safety.rules``). ``folder`` is where it will run, if known: what
    it would overwrite there counts. ``confined`` says that it will run confined if it is safe:
    elsewhere nothing is, but for commands that one of the user's own rules lets run unconfined.
    ``path`` is the PATH that it will run with (our own by default). ``kept`` is the folder whose
    files an undo can restore, whatever they then hold: overwriting one is not destructive.
    """
    hidden = hidden_characters(text)
    if hidden:
        return Verdict("destructive", (f"holds hidden characters: {', '.join(hidden[:5])}",))
    findings = _review()(text, shell, tuple(rules), folder, path, kept=kept)
    if findings.level:
        return Verdict(findings.risk, findings.reasons)
    if findings.is_free and not {"$", "`"} & set(text):
        return Verdict("safe", confine=False)
    return Verdict("safe") if confined and not findings.free else Verdict("caution", (UNHELD,))


def runs_only_git(text: str) -> bool:
    """Return whether all commands of a line are git's, but for changes of the folder."""
    from aish_lsp.shell.risk.words import command_names  # noqa: PLC0415 - it imports the grammar

    names = command_names(text)
    return "git" in names and names <= {"git", "cd"}
