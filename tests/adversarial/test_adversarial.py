"""No command that is called safe changes anything, however it was made to look harmless.

Commands are derived from the shell's grammar (``derive``), from the classifier's tables
(``options``), from what programs can be told (``programs``) and from settings of a repository
(``settings_traps``); others are written by hand (``tests/corpora``). Those called safe are run as
the server runs them, confined, in a ``sandbox`` that shows every change. A slice of them is run
with all tests, the same one every time; all of them with ``AISH_FULL=1``. ``python
tests/adversarial/search.py`` tells more of what it finds.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import derive
import options
import programs
import pytest
import sandbox
import search
import settings_traps
from derive import Case
from machine import without_landlock, without_namespaces, without_programs

FULL: Final = os.environ.get("TESTS_FULL") == "1"

#: Tools whose options the slice tries; all that is installed with ``AISH_FULL=1``.
EVERYDAY: Final = (
    *("sort", "uniq", "find", "sed -n", "awk", "date", "tar -t", "file", "diff", "sdiff"),
    *("git log", "git diff", "git grep", "git branch"),
)

runs = pytest.mark.usefixtures("room")
runs_confined = pytest.mark.usefixtures("confined")
pytestmark = pytest.mark.timeout(7200 if FULL else 120)


@pytest.fixture(scope="module")
def room() -> None:
    """Skip where there is no sandbox to be had."""
    if reason := without_programs("unshare", "bash", "git") or without_namespaces():
        pytest.skip(f"NOTHING THAT IS CALLED SAFE IS RUN, since there is no sandbox: {reason}")


@pytest.fixture(scope="module")
def confined(room: None) -> None:
    """Skip where the kernel cannot confine."""
    if reason := without_landlock():
        pytest.skip(f"NOTHING IS RUN CONFINED: {reason}")


def test_the_corpus_is_large_and_has_no_command_twice() -> None:
    cases = [case for case in search.from_corpora() if case.kind.startswith("adversarial: ")]
    derived = list(derive.from_grammar())
    commands = [case.command for case in cases]
    assert sorted(set(commands)) == sorted(commands)
    assert len(commands) >= 1900
    assert len({*commands, *(case.command for case in derived)}) >= 40_000


@runs_confined
def test_what_is_called_safe_of_the_adversarial_corpus_changes_nothing() -> None:
    cases = [case for case in search.from_corpora() if case.kind.startswith("adversarial: ")]
    _hold(cases, len(cases), run=200)


@runs
def test_what_is_derived_runs_what_it_hides() -> None:
    """A search that finds nothing might be blind: each kind of place leaves a mark when it runs."""
    by_kind: dict[str, list[Case]] = defaultdict(list)
    for case in derive.one_of_each_place():
        by_kind[case.kind].append(case)
    chosen = [case for cases in by_kind.values() for case in (cases if FULL else cases[:3])]
    marked = {failure.case.kind for failure in search.failures(chosen)}
    assert marked == set(by_kind)


@runs
def test_a_trap_of_each_sort_shuts() -> None:
    """What the scene holds is dangerous: it is the classifier that keeps it from running."""
    commands = (
        *("cd nested && git status", "python3 -c 'import json'", "sed -f program.sed keep.txt"),
        *("make -n", "bin/ls", "sqlite3 a.db < program.sql", "cd names; sort -*taken z.txt"),
    )
    cases = [Case(command, command) for command in commands]
    cases.append(Case("git status", "git status", "core.fsmonitor"))
    # What is installed everywhere has to shut; make and sqlite3 may not be there.
    shut = {failure.case.kind for failure in search.failures(cases)}
    assert {case.kind for case in cases} - shut <= {"sqlite3 a.db < program.sql", "make -n"}


@runs
def test_strace_tells_of_what_no_file_shows() -> None:
    if not _has_strace():
        pytest.skip("strace is not here")
    harmful = ["echo x > /dev/tcp/127.0.0.1/1", "echo x > /usr/x", "touch x && rm x"]
    harmless = ["ls > /dev/null", "sort keep.txt", "git status"]
    found = search.failures([Case(text, text) for text in harmful + harmless], traced=True)
    assert [failure.case.command for failure in found] == harmful


@runs_confined
def test_what_the_grammar_gives_and_is_called_safe_changes_nothing() -> None:
    _hold(derive.from_grammar(), 1900)


@runs_confined
def test_what_the_tables_give_and_is_called_safe_changes_nothing() -> None:
    bases = [base for base in options.bases() if FULL or " ".join(base) in EVERYDAY]
    _hold(options.from_options(bases), 1900)


def test_what_a_program_is_told_to_change_is_safe_in_no_spelling() -> None:
    cases = list(programs.from_programs())
    assert len(cases) > 7000
    assert [case.command for case in search.called_safe(cases)] == []


@runs
def test_what_a_program_is_told_to_change_is_changed() -> None:
    """The data of the test above is about what happens."""
    names = ("sed ", "sort ", "find ", "perl ")
    told = [
        case
        for case in programs.as_they_are()
        if case.command.startswith(names) and "mark" in case.command
    ]
    done = list(search.failures(told))
    assert len(done) > 0.8 * len(told) > 60


@runs
def test_a_script_of_sed_that_is_called_safe_changes_nothing_unconfined() -> None:
    safe = search.called_safe(programs.from_sed(20_000 if FULL else 1900))
    assert len(safe) > 100
    found = [failure.case.command for failure in search.failures(_slice(safe, 120))]
    assert found == []


@runs_confined
def test_what_a_repository_is_set_to_run_changes_nothing_and_tells_no_secret() -> None:
    _hold(settings_traps.from_settings(), 400)


@runs_confined
def test_what_is_called_safe_of_all_corpora_changes_nothing_and_tells_no_secret() -> None:
    _hold(search.from_corpora(), 4000)


def _hold(cases: Iterable[Case], judged: int, *, run: int = 80) -> None:
    """Assert that no case that is called safe changes anything or prints a secret.

    Of many only a slice is tried.
    """
    chosen = _slice(list(cases), judged)
    safe = _slice(search.called_safe(chosen), run)
    assert safe
    found = [
        f"{failure.case.kind}: {failure.case.command!r} {failure.case.setting}: {failure.did[:3]}"
        for failure in search.failures(safe, confined=True)
    ]
    assert found == [], f"{len(found)} of {len(safe)} that are called safe"


def _slice(cases: Sequence[Case], most: int) -> list[Case]:
    if FULL or len(cases) <= most:
        return list(cases)
    return random.Random(12).sample(cases, most)


def _has_strace() -> bool:
    return shutil.which("strace", path=sandbox.PATH) is not None
