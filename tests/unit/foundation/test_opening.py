"""What is named in a folder is opened in it, whatever its path leads to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from swapping import swapped

from aish_lsp.foundation.opening import (
    NotRegular,
    Outside,
    existing,
    folder_of,
    is_same_file,
    opened,
    read_head,
    real_name,
    replace_file,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder whose own path has a link in it."""
    (tmp_path / "real" / "src").mkdir(parents=True)
    (tmp_path / "real" / "src" / "a.txt").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("outside")
    (tmp_path / "root").symlink_to("real")
    return tmp_path / "root"


@pytest.mark.parametrize(
    "named",
    [
        *(
            "src/a.txt",
            "./src//a.txt",
            "src/../src/a.txt",
            "../real/src/a.txt",
            "../root/src/a.txt",
        ),
        *("relative", "absolute", "chain", "by the other name", "folder/a.txt", "up/src/a.txt"),
        *("ROOT/src/a.txt", "REAL/src/a.txt"),
    ],
)
def test_what_ends_inside_is_opened(root: Path, named: str) -> None:
    real = root.resolve()
    (root / "relative").symlink_to("src/a.txt")
    (root / "absolute").symlink_to(real / "src" / "a.txt")
    (root / "chain").symlink_to("relative")
    (root / "by the other name").symlink_to(root / "src" / "a.txt")
    (root / "folder").symlink_to(real / "src")
    (root / "up").symlink_to("../real")
    named = named.replace("ROOT", str(root)).replace("REAL", str(real))
    with opened(root, named) as file:
        assert (file.name, file.read(100)) == ("src/a.txt", b"inside")
        assert file.read(1) == b""


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("../outside/a.txt", Outside),
        ("OUT/a.txt", Outside),
        ("leads out", Outside),
        ("folder out/a.txt", Outside),
        ("folder out/../outside/a.txt", Outside),
        ("/", Outside),
        ("src", IsADirectoryError),
        ("", IsADirectoryError),
        ("pipe", NotRegular),
        ("nothing", FileNotFoundError),
        ("dangling", FileNotFoundError),
        ("src/a.txt/b", NotADirectoryError),
        ("circle", OSError),
        ("x" * 5000, OSError),
        ("a\0b", ValueError),
        ("\ud800", ValueError),
    ],
)
def test_what_is_not_a_file_inside_is_not_opened(
    root: Path, named: str, error: type[Exception]
) -> None:
    outside = root.parent / "outside"
    (root / "leads out").symlink_to(outside / "a.txt")
    (root / "folder out").symlink_to("../outside")
    (root / "dangling").symlink_to("src/b.txt")
    (root / "circle").symlink_to("circle")
    os.mkfifo(root / "pipe")
    with pytest.raises(error), opened(root, named.replace("OUT", str(outside))):
        pass
    assert read_head(root, named, 10) is None


@pytest.mark.parametrize("name", ["../x", "a/../x", "/x", "a//x", "./x", "a/"])
def test_a_name_that_was_not_resolved_is_refused(root: Path, name: str) -> None:
    with pytest.raises(OSError, match="not the real path"), folder_of(root, name, make=0o777):
        pass
    with pytest.raises(OSError, match="not the real path"):
        replace_file(root, name, b"x", None)


def test_a_link_on_the_way_is_not_followed(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    for name in ("out/a.txt", "out/new.txt", "out/deep/new.txt"):
        with pytest.raises(NotADirectoryError):
            replace_file(root, name, b"x", None)
    assert existing(root, ["out/a.txt", "src/a.txt", "src/b.txt", "out"]) == {"src/a.txt", "out"}
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["a.txt"]


def test_two_names_of_one_file_are_the_same_file(root: Path) -> None:
    (root / "link").symlink_to("src/a.txt")
    (root / "second").hardlink_to(root / "src" / "a.txt")
    for name in ("src/a.txt", "link", "second", "src/../link"):
        assert is_same_file(root / name, root.resolve() / "src" / "a.txt")
    assert is_same_file(root, root.resolve())
    assert is_same_file(root / "new", root.resolve() / "new")
    assert not is_same_file(root / "new", root / "src" / "new")
    assert not is_same_file(root / "a\0", root / "src")
    assert real_name(root, str(root.resolve() / "new")) == "new"


def test_a_file_is_replaced_in_one_name_alone(root: Path) -> None:
    path = root / "src" / "a.txt"
    path.chmod(0o754)
    (root / "second").hardlink_to(path)
    replace_file(root, "src/a.txt", b"new", path.stat())
    assert (path.read_text(), (root / "second").read_text()) == ("new", "inside")
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    replace_file(root, "deep/er/b.txt", b"made", None)
    assert (root / "deep" / "er" / "b.txt").read_text() == "made"
    assert sorted(path.name for path in (root / "src").iterdir()) == ["a.txt"]


def test_what_is_not_as_it_was_is_not_replaced(root: Path) -> None:
    path = root / "src" / "a.txt"
    before = path.stat()
    path.write_text("mine!")
    (root / "link").symlink_to("src/a.txt")
    for name, status in (("src/a.txt", before), ("src/a.txt", None), ("link", path.stat())):
        with pytest.raises(FileExistsError):
            replace_file(root, name, b"theirs", status)
    with pytest.raises(FileExistsError):
        replace_file(root, "gone.txt", b"theirs", before)
    assert path.read_text() == "mine!"


@pytest.mark.slow
def test_a_folder_that_is_swapped_with_a_link_never_leads_out(root: Path) -> None:
    outside = root.parent / "outside"
    read: set[str | None] = set()
    made = 0
    with swapped(root / "src", outside):
        # So many, since a check of the path alone is deceived once in some hundred times.
        for _ in range(5000):
            head = read_head(root, "src/a.txt", 100)
            read.add(head and head[0])
        while made < 5:
            try:
                replace_file(root, "src/new.txt", b"x", None)
                made += 1
            except OSError:
                continue
            for name in ("src", "src.aside"):
                (root / name / "new.txt").unlink(missing_ok=True)
    assert read == {"inside", None}
    assert [path.name for path in outside.iterdir()] == ["a.txt"]
