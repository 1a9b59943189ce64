"""Commands for what a sentence names, against an oracle in Python, with generated names."""

from __future__ import annotations

import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aish_lsp.offline.compose import compose
from aish_lsp.offline.compose.grammar import clauses
from aish_lsp.offline.words import data
from aish_lsp.offline.workspace import WorkspaceFacts

#: Anything that a file can be called and that one word of the shell without patterns can be. Two
#: names of which one opens braces and the other closes them may have been one word: "{a and b}".
names = st.text(st.sampled_from("abcXYZ019 -_.,=+&;|<>(){}!#%^~"), min_size=1, max_size=8).filter(
    lambda name: (
        name.strip(". -") == name
        and not name.startswith("~")
        and name.count("{") == name.count("}")
    )
)

Act = Callable[[Path, Path], object]


def _mode(mode: int) -> Act:
    return lambda one, _: one.chmod(mode)


#: A sentence of two names, what there is of them before ("f" a file, "d" a folder), and the oracle.
ACTS: tuple[tuple[str, str, Act], ...] = (
    ('make a directory "{0}"', "", lambda one, _: one.mkdir()),
    ('Create the folders "{0}" and "{1}" as needed', "d", lambda one, two: two.mkdir()),
    ('create an empty file named "{0}"', "", lambda one, _: one.touch()),
    ('Rename "{0}" to "{1}"', "f", lambda one, two: one.rename(two)),
    ('move the folder "{0}" to "{1}"', "d", lambda one, two: one.rename(two)),
    ('copy the file "{0}" to "{1}"', "f", shutil.copy),
    ('Recursively copies "{0}" to "{1}"', "d", shutil.copytree),
    ('Removes the file "{0}"', "f", lambda one, _: one.unlink()),
    ('remove the "{0}" folder and everything in it', "d", lambda one, _: shutil.rmtree(one)),
    ('create a symbolic link named "{1}" to "{0}"', "f", lambda one, two: two.symlink_to(one.name)),
    ('make a symlink to "{0}" called "{1}"', "f", lambda one, two: two.symlink_to(one.name)),
    ('change the permissions of "{0}" to 600', "f", _mode(0o600)),
    ('add executable permission to the file "{0}"', "f", _mode(0o755)),
    (
        'concatenate "{0}" and "{0}" into the file "{1}"',
        "f",
        lambda one, two: two.write_text(one.read_text() * 2),
    ),
)


def made(world: Path, name: str, kind: str) -> None:
    if kind == "f":
        (world / name).write_text("one\n")
        (world / name).chmod(0o644)
    elif kind == "d":
        (world / name).mkdir()
        (world / name / "in it").write_text("two\n")


def seen(world: Path) -> dict[str, tuple[str, int]]:
    found = {}
    for path in sorted(world.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode) if path.is_file() else 0
        text = str(path.readlink()) if path.is_symlink() else path.read_text() if mode else ""
        found[str(path.relative_to(world))] = (text, mode)
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ACTS), names, names)
def test_what_is_named_is_changed_as_the_sentence_says(
    act: tuple[str, str, Act], one: str, two: str
) -> None:
    sentence, kind, oracle = act
    if one == two:
        return
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        for world in (Path(here), Path(there)):
            made(world, one, kind)
        composed = compose(sentence.format(one, two), WorkspaceFacts(Path(here)))
        assert composed is not None, sentence.format(one, two)
        done = subprocess.run(
            ["bash", "-c", composed.command], cwd=here, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (composed.command, done.stderr)
        oracle(Path(there, one), Path(there, two))
        assert seen(Path(here)) == seen(Path(there)), composed.command


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        ('Change the owner of "a b" to ann, recursively', "chown -R ann 'a b'"),
        ("Recursively change the owner and group of 'x1' to 'www'", "chown -R www:www x1"),
        ("change the owner to 'ann' and group to 'staff' of '-x'", "chown ann:staff ./-x"),
        ("Verbosely create directories mnt and point", "mkdir -v -p mnt point"),
        ('Make directories to "a{1..3}/b{x,y}" as needed', "mkdir -p a{1..3}/b{x,y}"),
        ('Create the directory "a{b}"', "mkdir -p 'a{b}'"),
        ("print the common lines in 'a' and 'b'", "comm -12 <(sort a) <(sort b)"),
        ("gunzip 'a.gz' and search for '-x'", "zcat a.gz | grep -e -x"),
        ("list the contents of archive 'a.tar.gz'", "tar -tf a.tar.gz"),
        ("compress the file 'a.txt' keeping the original file", "gzip -k a.txt"),
        ("show the first 10 bytes of 'a.bin'", "head -c 10 a.bin"),
    ],
)
def test_a_manner_becomes_the_option_of_the_program(
    tmp_path: Path, sentence: str, command: str
) -> None:
    composed = compose(sentence, WorkspaceFacts(tmp_path))
    assert composed is not None
    assert composed.command == command


@pytest.mark.parametrize(
    "sentence",
    [
        "rename 'a' to 'b' unless it exists",
        "rename 'a' to 'b' recursively",
        "change the owner of 'a' to '--reference=b'",
        "change the permissions of 'a' to 'rw'",
        "remove the folder '*'",
        "remove the file '$HOME'",
        "create directories mnt and point but not there",
        "list the files in archive 'a.txt'",
        "copy the .txt files to 'b'",
        "create the folders {src,tests}/data",
    ],
)
def test_a_manner_or_value_that_does_not_fit_composes_nothing_of_what_is_named(
    tmp_path: Path, sentence: str
) -> None:
    composed = compose(sentence, WorkspaceFacts(tmp_path))
    assert composed is None or composed.command.startswith("find ")


def test_each_manner_is_of_a_program_that_is_named() -> None:
    programs = {command.split()[0] for command in clauses("named")}
    for manner in data("named")["manners"].values():
        assert manner.keys() - {"ways"} <= programs


@pytest.mark.parametrize(
    ("sentence", "there"),
    [
        ("copy src to new except the .pyc files", {"new/a.py", "new/x/b.py"}),
        ("copy the src folder to old but without x", {"old/src/a.py", "old/src/a.pyc"}),
        ("copy everything in src to old except 'a.py'", {"old/a.pyc", "old/x/b.py"}),
    ],
)
def test_a_copy_without_some_of_it_keeps_the_tree(
    tmp_path: Path, sentence: str, there: set[str]
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "src/x").mkdir(parents=True)
    for name in ("a.py", "a.pyc", "x/b.py"):
        (tmp_path / "src" / name).touch()
    composed = compose(sentence, WorkspaceFacts(tmp_path))
    assert composed is not None
    subprocess.run(["bash", "-c", composed.command], cwd=tmp_path, check=True)
    copied = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {name for name in copied if not name.startswith("src/")} == there


def test_a_copy_of_all_but_some_that_would_take_it_along_is_not_composed(tmp_path: Path) -> None:
    assert compose("copy everything to backup except x.txt", WorkspaceFacts(tmp_path)) is None
