"""Files that decide what runs later: editors, git, shells and others read them by themselves.

The table is ``protected.toml``. The classifier, the tools that write, the profile ``work`` and undo
all ask it.
"""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.shell.confinement.tree import find, folded, row_of

if TYPE_CHECKING:
    from aish_lsp.shell.confinement.tree import Table

#: How many folders with a manifest have placeholders for what is missing in them: each takes time.
_MOST_PROJECTS: Final = 10
#: How many links may follow each other.
_MOST_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        reader: the programs that read such a file.
        when: at what time they read it.
        names: the files and folders, each a path whose last part may be a pattern.
        in_dependencies: whether it holds inside the folders of dependencies, too.
        placeholder: whether something takes the place of a missing one while a command runs.
    """

    reader: str
    when: str
    names: tuple[str, ...]
    in_dependencies: bool = False
    placeholder: bool = True

    @property
    def reason(self) -> str:
        """Why nobody but the user may write such a file, for the user: *it* ..."""
        return f"decides what runs, as {self.reader} can read it {self.when}"


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("protected.toml").read_text("utf-8"))


@cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    return tuple(Row(**row | {"names": tuple(row["names"])}) for row in _data()["rows"])


@cache
def _table() -> Table:
    plain: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    patterns = []
    for number, row in enumerate(rows()):
        for name in row.names:
            *above, last = map(folded, name.split("/"))
            begin, star, end = last.partition("*")
            if star:
                patterns.append((begin, end, tuple(above), number))
            else:
                plain.setdefault(last, []).append((tuple(above), number))
    everywhere = tuple(number for number, row in enumerate(rows()) if row.in_dependencies)
    dependencies = tuple(map(folded, _data()["dependencies"]))
    return plain, patterns, dependencies, everywhere, tuple(_data()["manifests"])


def protected_by(name: str) -> Row | None:
    """Return the row that protects a file or folder, or a folder that it is in; None if none does.

    ``name`` is its path, relative to the work tree. An absolute one, or one that begins with ``~``,
    counts as outside the folders of dependencies. As some file systems do, it ignores case,
    characters that are not seen, and dots at the end.
    """
    table = _table()
    _, _, dependencies, everywhere, _ = table
    parts = [part for part in map(folded, name.split("/")) if part]
    inside = False
    for at, part in enumerate(parts):
        row = row_of(table, part, parts[:at])
        if row >= 0 and (not inside or row in everywhere):
            return rows()[row]
        inside = inside or (name[:1] not in {"/", "~"} and part in dependencies)
    return None


def protection(root: Path, aside: Path) -> tuple[dict[str, Any], list[Path]]:
    """Return how the work tree ``root``, a real path, is protected from a command. Blocks.

    Also returned are the git folders in it. The rest is in the form that the supervisor takes, each
    path as bytes:

    - ``root``, ``table``, and ``aside``, the folder for what the command makes although it may not;
    - ``known``: the identities of what is protected already;
    - ``protected``: the places that the command cannot change;
    - ``missing``: those of them that do not exist, each after the folder that it is in, and
      ``left``, which an earlier command that was killed with its supervisor has left there;
    - ``held``: those folders, which can be neither moved nor removed.

    Raises:
        ValueError: a link takes one of these places, and somebody could decide where it leads.
    """
    table = _table()
    found, projects = find(os.fspath(root), table)
    projects.sort(key=lambda name: name.count("/") if name else -1)
    protected = dict.fromkeys(root / name for name, _, _ in found)
    # What we run from may be installed in the tree.
    own = [Path(os.path.realpath(at)) for at in (Path(__file__).parents[1], sys.prefix)]
    elsewhere = dict.fromkeys(at for at in own if at.is_relative_to(root))
    elsewhere |= dict.fromkeys(_linked(list(protected), root))
    protected |= elsewhere
    missing: dict[Path, None] = {}
    left: dict[Path, None] = {}
    # Whoever could move the folder of such a place could put another in it.
    held = dict.fromkeys(
        at for place in elsewhere for at in reversed(place.parents) if root in at.parents
    )
    for folder in dict.fromkeys([root, *(root / name for name in projects[:_MOST_PROJECTS])]):
        for place in _places_in(folder):
            above = [at for at in place.parents if at.is_relative_to(folder) and at != folder]
            if link := next((at for at in above if at.is_symlink()), None):
                msg = f"{link} is a symbolic link, so that what is in it cannot be protected"
                raise ValueError(msg)
            held |= dict.fromkeys(reversed(above))
            if not os.path.lexists(place):
                missing |= dict.fromkeys(at for at in reversed(above) if not at.exists())
                missing[place] = protected[place] = None
            elif _is_placeholder(place):
                missing[place] = left[place] = None
    git = [root / name for name, row, _ in found if row == table[3][0]]
    plan = {
        "root": os.fsencode(root),
        "aside": os.fsencode(aside),
        "table": table,
        "known": [identity for _, _, identity in found],
        "protected": list(map(os.fsencode, protected)),
        "missing": list(map(os.fsencode, missing)),
        "left": list(map(os.fsencode, left)),
        "held": list(map(os.fsencode, held)),
    }
    return plan, [folder for folder in git if folder.is_dir() and not folder.is_symlink()]


def _places_in(folder: Path) -> Iterator[Path]:
    """Yield the places in a folder that are protected even if there is nothing."""
    for row in rows():
        if row.placeholder:
            yield from (folder / name for name in row.names if "*" not in name)


def _is_placeholder(place: Path) -> bool:
    """Return whether it is as a placeholder is: an empty folder for its owner alone."""
    try:
        return place.lstat().st_mode == stat.S_IFDIR | 0o700 and not any(place.iterdir())
    except OSError:
        return False


def _linked(protected: Collection[Path], root: Path) -> Iterator[Path]:
    """Yield the links among the protected places and in them, and where in the tree these lead.

    Raises:
        ValueError: one leads to a place in the work tree where there is nothing yet.
    """
    for top in protected:
        for link in _links_in(top):
            for place in _way_of(link):
                if root in place.parents and not any(at in protected for at in place.parents):
                    if not os.path.lexists(place):
                        msg = f"the symbolic link {link} leads to {place}, where there is nothing"
                        raise ValueError(f"{msg} that could be protected")
                    # Where its link is decides where a relative one leads.
                    yield from (top, place)


def _links_in(place: Path) -> Iterator[Path]:
    """Yield a place if it is a link, or the links in it, except among git's objects and refs."""
    if place.is_symlink():
        yield place
    for folder, names, files in os.walk(place):
        for name in (*names, *files):
            if os.path.islink(path := f"{folder}/{name}"):  # noqa: PTH114 - much faster
                yield Path(path)
        names[:] = [name for name in names if name not in {"objects", "refs", "logs"}]


def _way_of(link: Path) -> Iterator[Path]:
    """Yield all links on the way of a link, and the place to which they lead."""
    place, waiting = link.parent, [link.name]
    for _ in range(_MOST_LINKS):
        while waiting:
            part = waiting.pop()
            place = place.parent if part == ".." else place / part
            if place.is_symlink():
                break
        yield place
        if not place.is_symlink():
            return
        waiting += reversed(place.readlink().parts)
        place = place.parent


def put_aside_in(folder: Path) -> list[tuple[str, str]]:
    """Return what lies in a folder for what was put aside: each name, and why it is there."""
    found, _ = find(os.fspath(folder), _table())
    return [(name, rows()[row].reason) for name, row, _ in found]
