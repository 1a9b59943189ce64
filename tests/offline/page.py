"""docs/offline.md: what the offline model knows, and how well it does, from its table and corpus.

``python tests/offline/page.py > docs/offline.md`` writes it anew; ``measure.py`` measures first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from corpus import Entry, entries
from outcomes import recorded

from aish_lsp.offline.matching import THRESHOLD
from aish_lsp.offline.results import known_errors
from aish_lsp.offline.table import known

#: How the families are named that were written without sight of the table, and that it was then
#: mended by; by those of `unseen_*` it never was.
DEVELOPED: Final = "blind_"
LEARNED: Final = Path(__file__).resolve().with_name("learned.md")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/offline.md"

_HEAD: Final = """\
<!-- Made by `python tests/offline/page.py > docs/offline.md`. Do not edit. -->
# What the offline model knows

With no key, no weights and no network, everyday shell questions are answered from a table: *unpack
archive.tar.gz*, *what is on port 3000*, *undo my last commit but keep the changes*. The command is
for this machine (its system, the tools that are installed) and this project. What is beyond the
table is said to be, with the two things in it that come nearest.

- **Names** are taken from quotes, backticks, `@` mentions, numbers in words, and what there is in
  the workspace (*the tests folder*). What is missing is a placeholder, `<file>`: the command is to
  be edited before it is run. Each value is quoted for the shell, whatever it holds.
- **Two things at once** are answered in order: *unpack a.tar.gz and delete it*.
- **Follow-ups** go on from what was asked: *only in src*, *the same for .md files*, *how many are
  there?*, *now delete them*.
- **Why did that fail?** knows {errors} errors of shells, git, Python, Node, C, Rust, Go, Docker and
  permissions by what a command printed, and suggests what mends them.
- **Explain `tar -xzf a.tar.gz`** tells each part from the manual pages and the `--help` that are
  installed here, what aish takes the command for and why ([risk](risk.md)), and the examples of
  your own tldr pages where you have some.
- The project's own tasks are answered too: [tasks](tasks.md).

`:help offline` shows in the chat what is known. It speaks English alone.

## How it understands

Words are compared stemmed, a synonym for each of its group. Okapi BM25 (Robertson and Zaragoza,
2009) proposes phrasings of the table; each is laid over the question, and what is left over on
either side counts against it. So does a command that changes or loses something which the question
has no verb for, that leaves out a name that it was asked with, or that is of another program. A
clause that only tells how things are (*my disk is full, ...*) counts little, and so does a reason
before the question (*bob left the company, lock his account*). Where much of a question is
explained by nothing, or a value that it names has no place, nothing is answered unless the rest
is very sure.

A question that has all the words of a phrasing and no more is sure, with its values or without
them: *delete a folder* is answered with a placeholder to fill in.

How sure the rest makes is a probability: a multinomial logistic regression over what comes into
question and *none of them*, so that a second command that is as likely makes the first less sure.
Its weights were learned (`tests/offline/learn.py`) from questions that the table has no such
phrasing of. Below {threshold} it says that it does not know. On a third of these questions, which
it did not learn from: phrasings of the table and whole intents that were taken out of it, the
corpus that was written with it and the one that was not (by both of which the table was mended),
less what it has word for word.

{learned}

## How well it does

{asked} questions, three phrasings each. Each is asked in a scratch world made for it; the command
of the answer is run there, and what came of it is checked ([how](../tests/offline/README.md)).
**Right**: it did just what was asked, or said that it does not know what is beyond it. **Silent**:
it said that it does not know, and should. **Wrong**: it did something else.

What it will do with questions of your own is told by those that were written without sight of its
table and that nobody looked at while it was mended: the row in bold italics. Of 200 everyday
questions that were new to all of it, read strictly, 86.5% were answered right and 4.5% wrong; of
200 that give reasons or ask in a roundabout way, 66% and 4.5% ([all
rounds](../tests/offline/rounds/README.md)).

"""


def page() -> str:
    """Return the page."""
    head = _HEAD.format(
        errors=len(known_errors()),
        threshold=THRESHOLD,
        asked=len(entries()),
        learned=LEARNED.read_text().strip(),
    )
    parts = [
        head,
        "\n".join(_figures()),
        "\n## The phrasings that fail\n\nThose that are never looked at are left out.\n",
    ]
    parts.append("\n".join(_failing()) or "None.")
    parts.append(f"\n## All that it knows\n\n{known()}")
    return "\n".join(parts).rstrip() + "\n"


def _figures() -> Iterator[str]:
    yield "| | phrasings | right | silent | wrong |"
    yield "|---|---:|---:|---:|---:|"
    families = dict.fromkeys(entry.family for entry in entries())
    for family in families:
        yield _row(family, [entry for entry in entries() if entry.family == family])
    for name, asked in (
        ("*written with the table*", [e for e in entries() if not e.blind]),
        ("*written without it, which it was mended by*", [e for e in entries() if _developed(e)]),
        ("***written without it, and never looked at***", [e for e in entries() if _unseen(e)]),
    ):
        yield _row(name, asked)
    yield _row("**all**", entries())


def _developed(entry: Entry) -> bool:
    return entry.family.startswith(DEVELOPED)


def _unseen(entry: Entry) -> bool:
    return entry.blind and not _developed(entry)


def _row(name: str, asked: Iterable[Entry]) -> str:
    failing = recorded()
    counts: Counter[str] = Counter()
    for entry in asked:
        counts.update(failing.get(entry.id, {}).get(ask, "right") for ask in entry.ask)
    cells = (f"{counts[outcome] / counts.total():.1%}" for outcome in ("right", "silent", "wrong"))
    return f"| {name} | {counts.total()} | {' | '.join(cells)} |"


def _failing() -> Iterator[str]:
    """Yield the phrasings that fail, but for those that are not to be looked at."""
    hidden = {entry.id for entry in entries() if _unseen(entry)}
    for name, asks in recorded().items():
        if name in hidden:
            continue
        for ask, outcome in asks.items():
            yield f"- {name}: *{ask}* ({outcome})"


if __name__ == "__main__":
    sys.stdout.write(page())
