"""docs/offline.md: what the offline model knows, and how well it does, from its table and corpus.

``./dev docs`` rewrites it; run ``measure.py`` first.
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
from aish_lsp.offline.table import listed, table

#: How the names of the families begin that were written without sight of the table, and then used
#: to improve it. Those of `unseen_*` never were.
DEVELOPED: Final = "blind_"
LEARNED: Final = Path(__file__).resolve().with_name("learned.md")
PAGE: Final = Path(__file__).resolve().parents[2] / "docs/offline.md"

_HEAD: Final = """\
<!-- Made by `./dev docs`. Do not edit. -->
# What the offline model knows

A reference: this page explains how it answers, and then lists every question that it was measured
with or knows.

The offline model needs no key, no weights and no network. It answers everyday shell questions from
a table: *unpack archive.tar.gz*, *what is on port 3000*, *undo my last commit but keep the
changes*. The command suits this machine (its system and installed tools) and this project. If a
question is beyond the table, the answer says so, and names the two closest things in it.

- **Names** are taken from quotes, backticks, `@` mentions, numbers in words, and what is in the
  workspace (*the tests folder*). A missing one becomes a placeholder, `<file>`: you edit the
  command before you run it. Every value is quoted for the shell, whatever it contains.
- **Two things at once** are answered in order: *unpack a.tar.gz and delete it*.
- **Follow-ups** continue from the last question: *only in src*, *the same for .md files*, *how many
  are there?*, *now delete them*.
- **Why did that fail?** recognises {errors} errors of shells, git, Python, Node, C, Rust, Go,
  Docker and permissions in a command's output, and suggests a fix.
- **Explain `tar -xzf a.tar.gz`** explains each part from the manual pages and the `--help` that are
  installed here, says which risk aish sees in the command and why ([risk](risk.md)), and adds the
  examples of your own tldr pages if you have any.
- The project's own tasks are answered too: [tasks](tasks.md).

`:help offline` in the chat shows what it knows. It only speaks English.

The first question after an installation takes a second longer: what is made of the table is then
kept next to Python's bytecode (in `__pycache__`, unless Python is told not to write there).

## How it understands

Words are compared by their stems, and synonyms count as the same word. Okapi BM25 (Robertson and
Zaragoza, 2009) proposes phrasings from the table. Each is compared with the question, and whatever
is left over on either side counts against it. These count against it too: a command that changes or
loses something although the question has no verb for that, one that leaves out a name in the
question, and one of a different program. A clause that only describes the situation (*my disk is
full, ...*) counts little, and so does a reason before the question (*bob left the company, lock his
account*). If nothing explains much of a question, or a value that it names has no place in the
command, there is no answer unless the rest is very certain.

A question that has all the words of a phrasing and no others is certain, with or without its
values: *delete a folder* is answered with a placeholder to fill in.

For all other questions the certainty is a probability: a multinomial logistic regression over the
candidates and *none of them*, so a second command that is just as likely makes the first less
certain. Its weights were learned (`tests/offline/learn.py`) from questions whose own phrasing was
not in the table. Below {threshold} it says that it does not know. The table below shows the results
for the third of these questions that it did not learn from: phrasings and whole intents that were
taken out of the table, the corpus written together with the table and the one written without it
(the table was improved with both), except what the table contains word for word.

{learned}

## How well it does

{asked} questions, with three phrasings each. Each is asked in a scratch world made for it; the
command in the answer is run there, and the result is checked ([how](../tests/offline/README.md)).
**Right**: it did exactly what was asked, or said that it does not know something beyond the table.
**Silent**: it said that it does not know something that it should know. **Wrong**: it did something
else.

What to expect for your own questions is in the row in bold italics: questions written without sight
of the table, which nobody looked at while improving it. Of 200 everyday questions that were
entirely new to it, strictly judged, 86.5% were answered right and 4.5% wrong; of 200 that give
reasons or ask in a roundabout way, 66% and 4.5% ([all
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
        "\n## The phrasings that fail\n\nThis leaves out those that are never looked at.\n",
    ]
    parts.append("\n".join(_failing()) or "None.")
    parts.append(f"\n## All that it knows\n\n{listed(table())}")
    return "\n".join(parts).rstrip() + "\n"


def _figures() -> Iterator[str]:
    yield "| | phrasings | right | silent | wrong |"
    yield "|---|---:|---:|---:|---:|"
    families = dict.fromkeys(entry.family for entry in entries())
    for family in families:
        yield _row(family, [entry for entry in entries() if entry.family == family])
    for name, asked in (
        ("*written with the table*", [e for e in entries() if not e.blind]),
        ("*written without it, and used to improve it*", [e for e in entries() if _developed(e)]),
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
    """Yield the phrasings that fail, except for those that nobody is to look at."""
    hidden = {entry.id for entry in entries() if _unseen(entry)}
    for name, asks in recorded().items():
        if name in hidden:
            continue
        for ask, outcome in asks.items():
            yield f"- {name}: *{ask}* ({outcome})"


if __name__ == "__main__":
    sys.stdout.write(page())
