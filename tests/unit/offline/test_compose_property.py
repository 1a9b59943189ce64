"""Composed commands against an oracle in Python, in worlds and by sentences that are generated."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aish_lsp.offline.compose import compose
from aish_lsp.offline.compose.files import effects
from aish_lsp.offline.compose.grammar import clauses as clauses_of
from aish_lsp.offline.compose.lines import effects as line_effects
from aish_lsp.offline.compose.predicates import predicates
from aish_lsp.offline.words import data
from aish_lsp.offline.workspace import WorkspaceFacts
from aish_lsp.shell.risk import classify

DAY = 86400


@dataclass(frozen=True)
class File:
    """A file of a world: its path, its size and its age in days."""

    path: str
    size: int
    days: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


Clause = tuple[str, Callable[[File], bool]]

NAMES = (
    "a.txt",
    "Make1",
    "b.txt",
    "note.md",
    "a b.txt",
    "report.log",
    "-x.log",
    "it's.md",
    ".hidden.txt",
)
FOLDERS = ("", "src/", "src/deep/", "old stuff/", "node_modules/")

files = st.lists(
    st.builds(
        File,
        st.builds("".join, st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES))),
        st.sampled_from((0, 100, 1024, 5000, 40_000)),
        st.sampled_from((0, 3, 20, 50)),
    ),
    max_size=10,
    unique_by=lambda file: file.path,
)

#: What may be said of the files, and whether it is so.
CLAUSES: tuple[Clause, ...] = (
    ("whose names end with '.txt'", lambda file: file.name.endswith(".txt")),
    ("named note.md", lambda file: file.name == "note.md"),
    ("that start with 'a'", lambda file: file.name.startswith("a")),
    ("larger than 2 KB", lambda file: file.size > 2048),
    ("smaller than 10 kilobytes", lambda file: file.size < 10_240),
    ("between 50 bytes and 6000 bytes", lambda file: 50 < file.size < 6000),
    ("at least 1k in size", lambda file: file.size >= 1024),
    ("modified in the last 7 days", lambda file: file.days < 7),
    ("older than two weeks", lambda file: file.days > 14),
    ("not modified within the last 30 days", lambda file: file.days > 30),
    ("that are empty", lambda file: file.size == 0),
    ("which are not empty", lambda file: file.size > 0),
    ("between 50 and 6000 bytes", lambda file: 50 < file.size < 6000),
    ("greater than 1 KB (1024 bytes)", lambda file: file.size > 1024),
    ("last modified between 2 and 30 days ago", lambda file: 2 < file.days < 30),
    ("changed more than 10 but less than 40 days ago", lambda file: 10 < file.days < 40),
    ("modified at least 3 days ago", lambda file: file.days >= 3),
    ("modified in the last 4*24 hours", lambda file: file.days < 4),
    ("with a space in their names", lambda file: " " in file.name),
    ("whose names contain a capital letter", lambda file: file.name != file.name.lower()),
    ("that are not txt", lambda file: not file.name.endswith(".txt")),
    ("excluding the md files", lambda file: not file.name.endswith(".md")),
    ("which end with a digit", lambda file: file.name[-1].isdigit()),
    ("whose names match regular expression '.*[.]md'", lambda file: file.name.endswith(".md")),
    ("skipping the paths that contain 'deep'", lambda file: "deep" not in file.path),
    ("readable by others", lambda _: True),
    ("that are readable", lambda _: True),
    ("which are not writable by me", lambda _: False),
    ("not writable by the group", lambda _: True),
    ("not descending into directories named 'deep'", lambda file: "/deep/" not in file.path),
    ("excluding node_modules", lambda file: not file.path.startswith("node_modules/")),
    ("except 'a b.txt'", lambda file: file.name != "a b.txt"),
    ("but not in the 'old stuff' folder", lambda file: not file.path.startswith("old stuff/")),
    ("without hidden files", lambda file: not file.name.startswith(".")),
)
PLACES: tuple[Clause, ...] = (
    ("in the current directory tree", lambda _: True),
    ("in the src directory and its subdirectories", lambda file: file.path.startswith("src/")),
    ("under './src'", lambda file: file.path.startswith("src/")),
    ("here, not recursively", lambda file: "/" not in file.path),
    ("at most 2 levels deep", lambda file: file.path.count("/") < 2),
)
#: Two that contradict each other are rightly left without an answer.
_CONTRADICTING = {"whose names end with '.txt'", "that are not txt"}
clauses = st.lists(st.sampled_from(CLAUSES), max_size=3, unique_by=lambda clause: clause[0]).filter(
    lambda said: not _CONTRADICTING.issubset(text for text, _ in said)
)


def built(world: Path, made: list[File]) -> None:
    now = time.time()
    for folder in FOLDERS:
        (world / folder).mkdir(parents=True, exist_ok=True)
    for file in made:
        (world / file.path).write_bytes(b"x" * file.size)
        (world / file.path).chmod(0o644)
        old = now - file.days * DAY - 3600
        os.utime(world / file.path, (old, old))


def ran(command: str, world: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=world, check=True, capture_output=True, text=True
    )
    assert not done.stderr
    return done.stdout


def listed(output: str) -> set[str]:
    return {os.path.normpath(line) for line in output.splitlines()}


def left(world: Path) -> set[str]:
    return {str(path.relative_to(world)) for path in world.rglob("*") if path.is_file()}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(files, st.sampled_from(PLACES), clauses, st.sampled_from(("list", "count", "delete")))
def test_a_composed_command_does_what_every_clause_says(
    made: list[File], place: Clause, said: list[Clause], wanted: str
) -> None:
    sentence = f"{wanted} all files {place[0]} {' and '.join(text for text, _ in said)}"
    meant = {file.path for file in made if place[1](file) and all(is_so(file) for _, is_so in said)}
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        built(world, made)
        composed = compose(sentence, WorkspaceFacts(world))
        spares = any(text in ("except 'a b.txt'", "excluding node_modules") for text, _ in said)
        if wanted == "delete" and spares:
            # Nothing is deleted where what is to be spared is not there.
            assume(composed is not None)
        assert composed is not None, sentence
        output = ran(composed.command, world)
        risk = classify(composed.command, "bash", confined=True).risk
        if wanted == "delete":
            assert left(world) == {file.path for file in made} - meant, composed.command
            assert risk == "destructive"
        else:
            assert left(world) == {file.path for file in made}
            assert risk != "destructive", composed.command
            shown = listed(output) if wanted == "list" else int(output)
            assert shown == (meant if wanted == "list" else len(meant)), composed.command


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(PLACES),
    clauses,
    st.sampled_from(
        (
            "unless they are in use",
            "but only on Tuesdays",
            "except the important ones",
            "without telling bob",
            "that need root",
            "ignoring whatever git ignores",
            "if it rains",
        )
    ),
    st.integers(0, 3),
)
def test_a_clause_that_is_not_understood_leaves_no_answer(
    place: Clause, said: list[Clause], strange: str, at: int
) -> None:
    parts = [place[0], *(text for text, _ in said)]
    parts.insert(at, strange)
    assert compose(f"delete all files {', '.join(parts)}", WorkspaceFacts(Path("/"))) is None


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters='"\0'), min_size=1, max_size=12))
def test_a_quoted_name_stays_one_argument(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        built(world, [File("a.txt", 1, 0)])
        composed = compose(f'delete all files named "{name}"', WorkspaceFacts(world))
        if composed is not None and not set(name) & set("a.*?[]"):
            ran(composed.command, world)
            assert left(world) == {"a.txt"}


@pytest.mark.parametrize(
    "question",
    [
        "delete all files and keep them",
        "copy all txt files and move them to /tmp/x",
        "count and delete all txt files",
        "delete all files in '$(touch x)'",
        "make a poem of all files",
        "copy all files",
        'rename all "thumbs" directories to "thumb"',
        "find all .sh scripts and perl files",
        "find all SGID files",
        "find all files named x except x",
        "delete all files in src, not descending into the src directory",
        "list all files larger than 1 KB (2000 bytes)",
        "modified files between 5 and 5 days ago",
        "delete all files, and show the first 3 lines of the output",
        "find all files in a.tar.gz",
        "find all files whose names do not rhyme",
        "delete all empty directories under root",
        "copy all txt files into the current directory",
        "delete all .svn files/directories",
        "change the owner of all files to --reference=a",
    ],
)
def test_what_contradicts_itself_or_says_too_little_leaves_no_answer(
    tmp_path: Path, question: str
) -> None:
    assert compose(question, WorkspaceFacts(tmp_path)) is None


@pytest.mark.parametrize(
    ("question", "before", "after"),
    [
        ("rename all .txt files to .md", {"a.txt": ""}, {"a.md": ""}),
        ("add the prefix 'old_' to all .txt files", {"s/a b.txt": ""}, {"s/old_a b.txt": ""}),
        ("replace 'a/b' with 'c&d' in all txt files", {"a.txt": "xa/b\n"}, {"a.txt": "xc&d\n"}),
        ("move all log files to 'new place'", {"b.log": "1"}, {"new place/b.log": "1"}),
        ("delete the files containing 'TODO'", {"a": "TODO", "b": "-"}, {"b": "-"}),
        ("delete all .svn directories", {".svn/a": "", "x.svn/b": ""}, {"x.svn/b": ""}),
        ("remove all empty directories", {"a/b": ""}, {"a/b": ""}),
    ],
)
def test_an_action_changes_just_what_is_asked(
    tmp_path: Path, question: str, before: dict[str, str], after: dict[str, str]
) -> None:
    for name, text in before.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "new place").mkdir()
    composed = compose(question, WorkspaceFacts(tmp_path))
    assert composed is not None
    ran(composed.command, tmp_path)
    assert {name: (tmp_path / name).read_text() for name in left(tmp_path)} == after


def test_each_clause_of_the_tables_has_an_effect() -> None:
    wanted = {name for name in clauses_of("files") if name not in effects()}
    assert wanted <= data("effects")["wants"].keys()
    assert clauses_of("lines").keys() == line_effects().keys()
    assert clauses_of("predicates").keys() == predicates().keys() | {"holds"}


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("list all txt files sorted by size", ["40 ./b.txt", "3 ./a.txt"]),
        ("show the largest file", ["./b.txt"]),
        ("list all txt files sorted by modification time, newest first", ["./a.txt", "./b.txt"]),
        ("count the files per extension", ["2 txt"]),
        ("calculate the total size of all files", ["43"]),
        ("list the paths and sizes of all files sorted by name", ["./a.txt 3", "./b.txt 40"]),
        ("print the size and the name of files larger than 10 bytes", ["40 b.txt"]),
        ("list all txt files sorted by size in ascending order", ["3 ./a.txt", "40 ./b.txt"]),
        ("list all txt files sorted by name, show the first 1 lines of the output", ["./a.txt"]),
        ("list the unique parent directories of all txt files", ["."]),
        (
            "search for 'xxxx' in all txt files and print the names of the matched files",
            ["./b.txt"],
        ),
        ("count the number of lines containing 'x' in all txt files", ["2"]),
        ("find 'xxxx' in all b.txt files", ["./b.txt:" + "x" * 40]),
        ("find the txt files in the curent directoy, sorted by name", ["./a.txt", "./b.txt"]),
        ("delete the b.txt file and print its name", ["./b.txt"]),
    ],
)
def test_what_is_wanted_of_the_files_is_shown(
    tmp_path: Path, question: str, shown: list[str]
) -> None:
    built(tmp_path, [File("a.txt", 3, 0), File("b.txt", 40, 3)])
    composed = compose(question, WorkspaceFacts(tmp_path))
    assert composed is not None
    assert [line.strip() for line in ran(composed.command, tmp_path).splitlines()] == shown
