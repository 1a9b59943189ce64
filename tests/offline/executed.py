"""Asks the questions of rounds/executed, and runs each answer beside a command that is right.

``python tests/offline/executed.py [--quiet] [--empty] ROUND ...`` prints what fails, and the
figures. A line is ``KIND: ASK => COMMAND || COMMAND``: both are run in the same scratch world, and
have to show and leave the same. After ``==>``, the order of the lines counts, too. ``~REGEX`` is
compared with the command; nothing means that no command does it. ``--empty`` asks in an empty
folder: then a name is known only by how it is written.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent))

from grading import commands_of
from world import World

from aish_lsp.offline import is_unknown
from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import Machine

FOLDER: Final = Path(__file__).resolve().with_name("rounds") / "executed"
_WORLD: Final = (FOLDER / "world.sh").read_text()
_LEFT: Final = (
    r"find . -printf '%p %y %m %l\n' | sort; "
    "find . -type f -size -100k ! -name '*.tar*' ! -name '*.zip' ! -name '*.gz'"
    " -exec md5sum {} + | sort; "
    "for f in $(find . -name '*.gz' ! -name '*.tar*'); do zcat $f | md5sum; done; "
    "for f in *.tar*; do tar -tf $f | sort; done 2> /dev/null; "
    "for f in *.zip; do unzip -Z1 $f | sort; done 2> /dev/null"
)
_PLACEHOLDER: Final = re.compile(r"<[a-z][a-z0-9 -]*>")


@cache
def ran(command: str) -> tuple[int, tuple[str, ...], str]:
    """Return the status of a command, what it printed and what it left, in a world of its own."""
    with World(_WORLD) as world:
        done = world.run(command, 30)
        lines = re.sub(r"(?m)(^|\s)\./", r"\1", done.output).splitlines()
        printed = tuple(" ".join(line.split()) for line in lines if line.strip())
        return done.status, printed, world.run(_LEFT).output


def does(command: str, reference: str, *, in_order: bool) -> bool:
    """Return whether a command shows and leaves what ``reference`` does; details may be added."""
    if reference.startswith("~"):
        return re.search(reference[1:], command) is not None
    status, shown, left = ran(command)
    wanted_status, wanted, wanted_left = ran(reference)
    if left != wanted_left or (status and not wanted_status) or len(shown) != len(wanted):
        # A total is no mistake: of du -c, wc and ls -l.
        shown = tuple(line for line in shown if not re.search(r"^total \d+|\d+ total$", line))
    if left != wanted_left or (status and not wanted_status) or len(shown) != len(wanted):
        return False
    shown, wanted = (one if in_order else tuple(sorted(one)) for one in (shown, wanted))
    pairs = list(zip(shown, wanted, strict=True))
    if in_order or all(line == other for line, other in pairs):
        return all(_has(line, other) for line, other in pairs)
    return all(sum(_has(line, other) for line in shown) >= wanted.count(other) for other in wanted)


def _has(line: str, wanted: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(wanted)}(?![\w.-])", line) is not None


def outcome(told: str, line: str) -> tuple[str, list[str]]:
    """Return what came of a question, and the commands of the answer."""
    _, arrow, fits = line.partition("==>" if "==>" in line else "=>")
    references = [one.strip() for one in re.split(r" \|\| ", fits) if one.strip()]
    commands = commands_of(told)
    perhaps = told.startswith("Perhaps")
    commands = commands[: 2 if perhaps else 1]
    silent = is_unknown(told) or (not commands and not references)
    if silent or not references:
        return ("right" if not references else "silent") if silent else "wrong", commands
    if references == ["~^$"]:
        says_so = not commands or "There is no " in told
        return "right" if says_so else "wrong", commands
    if commands and any(map(_PLACEHOLDER.search, commands)):
        return "poor", commands
    in_order = arrow == "==>"
    if any(does(one, other, in_order=in_order) for one in commands for other in references):
        return "right", commands
    return "wrong", commands


def main(rounds: list[str], *, quiet: bool, empty: bool) -> None:
    """Ask and print."""
    counts: Counter[tuple[str, str]] = Counter()
    with World(_WORLD) as world, tempfile.TemporaryDirectory() as nothing:
        root = Path(nothing) if empty else world.root
        machine = Machine("linux", world.path, world.folder / "home")
        for name in rounds:
            for line in (FOLDER / f"{name}.txt").read_text().splitlines():
                if line.startswith("#") or not line.strip():
                    continue
                kind, _, rest = line.partition(": ")
                asked = re.split(r" =?=>", rest)[0]
                *earlier, last = (one.strip() for one in asked.split(" >> "))
                question = TypedQuestion(last, earlier=tuple(earlier))
                told = reply(question, root, machine)
                came, commands = outcome(told, rest)
                counts[kind, came] += 1
                counts["together", came] += 1
                if came != "right" and not quiet:
                    said = "".join(f"      {one}\n" for one in commands or [told.split("\n")[0]])
                    sys.stdout.write(f"{came}: {line}\n{said}")
                    sys.stdout.flush()
    for kind in dict.fromkeys(kind for kind, _ in counts):
        total = sum(count for (other, _), count in counts.items() if other == kind)
        shares = (f"{o} {counts[kind, o]}" for o in ("right", "poor", "wrong", "silent"))
        sys.stdout.write(f"{kind}, {total}: {', '.join(shares)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quiet", action="store_true", help="print the figures alone")
    parser.add_argument("--empty", action="store_true", help="ask in an empty folder")
    parser.add_argument("round", nargs="+")
    given = parser.parse_args()
    main(given.round, quiet=given.quiet, empty=given.empty)
