"""Search for commands that are called safe and change something when they run.

    python tests/adversarial/search.py                       what fails, by kind
    python tests/adversarial/search.py --list-safe           what is called safe, by kind
    python tests/adversarial/search.py --failures FILE       the failures, a line of JSON each

``--from grammar|options|programs|settings|corpora`` searches a part, ``--only WORD`` kinds with
that word, ``--sample N`` so many at random. They run confined, as the server runs them;
``--unconfined`` shows what the classifier alone keeps from harm, and ``--traced`` has strace look
on as well.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import json
import random
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import derive
import options
import programs
import scene
import settings_traps
from derive import Case
from judging import safe_ones
from sandbox import Outcome, run_all

CORPORA: Final = Path(__file__).parents[1] / "corpora"


@dataclass(frozen=True, slots=True)
class Failure:
    """A command that was called safe, and what it did."""

    case: Case
    did: tuple[str, ...]


def from_corpora() -> Iterator[Case]:
    """Yield the labelled commands of all corpora; a kind is the reason for the label."""
    for path in sorted(CORPORA.glob("*.toml")):
        for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
            for command in group["commands"]:
                yield Case(f"{path.stem}: {group.get('kind', group['why'])}", command)


def called_safe(cases: Iterable[Case]) -> list[Case]:
    """Return the cases whose command is called safe."""
    cases = list(cases)
    found: list[Case] = []
    by_setting: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_setting[case.setting].append(case)
    for setting, group in by_setting.items():
        files = settings_traps.files(setting)
        safe = safe_ones([case.command for case in group], files=files)
        found += [case for case in group if case.command in safe]
    return found


def failures(
    cases: Sequence[Case], *, traced: bool = False, confined: bool = False
) -> Iterator[Failure]:
    """Run each of ``cases`` and yield those that do more than to read.

    That is to change a file; under strace also to reach out; confined also to print a secret.
    """
    asked = [(case.command, settings_traps.files(case.setting)) for case in cases]
    for case, outcome in zip(cases, run_all(asked, traced=traced, confined=confined), strict=True):
        told = _told(outcome)
        if confined and scene.SECRET in outcome.output:
            told = (*told, "prints a secret")
        if told:
            yield Failure(case, told)


def _told(outcome: Outcome) -> tuple[str, ...]:
    """Return what a command did, without the folders that only hold what has changed."""
    files = [change.partition(" ")[2] for change in outcome.changes]
    leaves = [
        change
        for change, path in zip(outcome.changes, files, strict=True)
        if not any(other.startswith(f"{path}/") for other in files)
    ]
    return (*leaves, *outcome.calls)


def by_kind(cases: Iterable[Case]) -> dict[str, list[str]]:
    """Return commands by the first part of their kind."""
    found: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        found[case.kind.partition(": ")[0]].append(case.command)
    return dict(sorted(found.items()))


SOURCES: Final[dict[str, Callable[[], Iterable[Case]]]] = {
    "grammar": derive.from_grammar,
    "options": options.from_options,
    "programs": programs.from_programs,
    "settings": settings_traps.from_settings,
    "corpora": from_corpora,
}


def main() -> int:
    """Search as the command line says; return whether something failed."""
    arguments = _arguments()
    cases = [
        case
        for source in arguments.source or SOURCES
        for case in SOURCES[source]()
        if arguments.only in case.kind
    ]
    if arguments.sample:
        cases = random.Random(arguments.seed).sample(cases, min(arguments.sample, len(cases)))
    safe = called_safe(cases)
    print(f"{len(cases)} commands, {len(safe)} of them called safe", file=sys.stderr)
    if arguments.list_safe:
        for kind, commands in by_kind(safe).items():
            print(f"# {kind} ({len(commands)})")
            print(*map(repr, commands), sep="\n")
        return 0
    found: list[Case] = []
    with arguments.failures.open("w") if arguments.failures else nullcontext() as file:
        for failure in failures(
            safe, traced=arguments.traced, confined=not (arguments.unconfined or arguments.traced)
        ):
            found.append(failure.case)
            if file is not None:
                print(_line(failure), file=file, flush=True)
    for kind, commands in by_kind(found).items():
        print(f"{len(commands):6} {kind}: {min(commands, key=len)!r}")
    print(f"{len(found)} failures", file=sys.stderr)
    return int(bool(found))


def _line(failure: Failure) -> str:
    told = {"command": failure.case.command, "kind": failure.case.kind}
    if failure.case.setting:
        told["setting"] = failure.case.setting
    return json.dumps({**told, "did": failure.did})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from", dest="source", action="append", choices=SOURCES)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list-safe", action="store_true")
    parser.add_argument("--traced", action="store_true")
    parser.add_argument("--unconfined", action="store_true")
    parser.add_argument("--failures", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
