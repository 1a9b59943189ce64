"""Files that decide what runs later: editors, git, shells and others read them by themselves.

The table is ``protected.toml``. The classifier, the tools that write, the profile ``work`` and undo
all ask it.
"""

# Strings, since each command of the profile waits for some hundred paths.
# ruff: noqa: PTH110, PTH114, PTH118, PTH208

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.git import run_git, top_above
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


def _table_of(root: Path) -> Table:
    """Return the table of a work tree, which has what the settings of git name there."""
    plain, patterns, dependencies, everywhere, manifests = _table()
    if names := names_in_tree(root):
        plain = plain.copy()
        for name in sorted(names):
            *above, last = map(folded, name.split("/"))
            plain[last] = [*plain.get(last, ()), (tuple(above), everywhere[1])]
    return plain, patterns, dependencies, everywhere, manifests


def protected_by(name: str) -> Row | None:
    """Return the row that protects a file or folder, or a folder that it is in; None if none does.

    ``name`` is its path, relative to the work tree. An absolute one, or one that begins with ``~``,
    counts as outside the folders of dependencies. As some file systems do, it ignores case,
    characters that are not seen, and dots at the end.
    """
    parts = [part for part in name.split("/") if part]
    return _row_of(_table(), parts, may_depend=name[:1] not in {"/", "~"})


def protected_in(path: Path, root: Path) -> Row | None:
    """Return the row that protects a file or folder of the work tree ``root``, None if none does.

    What the settings of git name there counts, too, and so does what leads by a link to the path,
    or to a folder that it is in, where the link is directly in the work tree or within what is
    protected there. Blocks.
    """
    table = _table_of(root)
    real_root, real = Path(os.path.realpath(root)), Path(os.path.realpath(path))
    for candidate, top in ((path, root), (real, real_root)):
        if candidate.is_relative_to(top):
            # Its first part is the root of the tree.
            parts = ["", *candidate.relative_to(top).parts]
            if row := _row_of(table, parts, may_depend=False):
                return row
    by_place = {
        real_root / name: row_of(table, folded(name), ("",)) for name in os.listdir(real_root)
    }
    by_place = {place: row for place, row in by_place.items() if row >= 0}
    for top, candidate in _linked(by_place, real_root):
        by_place.setdefault(candidate, by_place[top])
    return next((rows()[by_place[at]] for at in (real, *real.parents) if at in by_place), None)


def _row_of(table: Table, parts: Iterable[str], *, may_depend: bool) -> Row | None:
    """Return the row that protects what has these parts, or something above it.

    If it ``may_depend``, the folders of dependencies are looked for among them.
    """
    _, _, dependencies, everywhere, _ = table
    above: list[str] = []
    inside = False
    for part in map(folded, parts):
        row = row_of(table, part, above)
        if row >= 0 and (not inside or row in everywhere):
            return rows()[row]
        inside = inside or (may_depend and part in dependencies)
        above.append(part)
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
    table = _table_of(root)
    entries, projects = find(os.fspath(root), table)
    projects.sort(key=lambda name: name.count("/") if name else -1)
    protected = dict.fromkeys(os.path.join(root, name) for name, _, _ in entries)
    # What we run from may be installed in the tree.
    own = [Path(os.path.realpath(at)) for at in (Path(__file__).parents[1], sys.prefix)]
    elsewhere = [at for at in own if at.is_relative_to(root)]
    for by, end in _linked([root / name for name, _, _ in entries], root):
        if not os.path.lexists(end):
            msg = f"a symbolic link at {by} leads to {end}, where there is nothing"
            raise ValueError(f"{msg} that could be protected")
        # Where its link is decides where a relative one leads.
        elsewhere += [by, end]
    protected |= dict.fromkeys(map(os.fspath, elsewhere))
    missing: dict[str, None] = {}
    left: dict[str, None] = {}
    # Whoever could move the folder of such a place could put another in it.
    held = dict.fromkeys(
        os.fspath(at) for one in elsewhere for at in reversed(one.parents) if root in at.parents
    )
    tops = dict.fromkeys(os.path.join(root, name) for name in ["", *projects[:_MOST_PROJECTS]])
    for above, path in _places_in(tops):
        held |= dict.fromkeys(above)
        if not os.path.lexists(path):
            missing |= dict.fromkeys(one for one in above if not os.path.exists(one))
            missing[path] = protected[path] = None
        elif _is_placeholder(path):
            missing[path] = left[path] = None
    git = [root / name for name, row, _ in entries if row == table[3][0]]
    plan = {
        "root": os.fsencode(root),
        "aside": os.fsencode(aside),
        "table": table,
        "known": [identity for _, _, identity in entries],
        "protected": list(map(os.fsencode, protected)),
        "missing": list(map(os.fsencode, missing)),
        "left": list(map(os.fsencode, left)),
        "held": list(map(os.fsencode, held)),
    }
    return plan, [folder for folder in git if folder.is_dir() and not folder.is_symlink()]


@cache
def _placeholders() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return what is protected even where it is missing: the folders that it is in, and its name.

    Both are relative to the folder that is protected, the uppermost of the folders first.
    """
    names = [name for row in rows() if row.placeholder for name in row.names if "*" not in name]
    return tuple(
        (tuple(name[: match.start()] for match in re.finditer("/", name)), name) for name in names
    )


def _places_in(tops: Iterable[str]) -> Iterator[tuple[list[str], str]]:
    """Yield what is protected in folders even where it is missing, each after what it is in.

    Raises:
        ValueError: one of the folders that it is in is a link.
    """
    for top in tops:
        for below, last in _placeholders():
            above = [os.path.join(top, name) for name in below]
            if link := next((folder for folder in above if os.path.islink(folder)), None):
                msg = f"{link} is a symbolic link, so that what is in it cannot be protected"
                raise ValueError(msg)
            yield above, os.path.join(top, last)


def _is_placeholder(place: str) -> bool:
    """Return whether it is as a placeholder is: an empty folder for its owner alone."""
    try:
        return os.lstat(place).st_mode == stat.S_IFDIR | 0o700 and not os.listdir(place)
    except OSError:
        return False


def _linked(protected: Iterable[Path], root: Path) -> list[tuple[Path, Path]]:
    """Return where in the tree the links lead that are protected places, or in one, and by which.

    Each place comes after the protected place with its link; other links on the way are such, too.
    """
    places = dict.fromkeys(protected)
    waiting, links = list(places), []
    for top in waiting:  # It grows: what a link leads to may hold others.
        for link in _links_in(top):
            for path in _way_of(link):
                if root not in path.parents or not places.keys().isdisjoint(path.parents):
                    continue
                links.append((top, path))
                if path not in places:
                    places[path] = None
                    waiting.append(path)
    return links


def _links_in(place: Path) -> Iterator[Path]:
    """Yield a place if it is a link, or the links in it, except among git's objects and refs."""
    if place.is_symlink():
        yield place
        return
    for folder, names, files in os.walk(place):
        for name in (*names, *files):
            if os.path.islink(path := f"{folder}/{name}"):
                yield Path(path)
        names[:] = [name for name in names if name not in {"objects", "refs", "logs"}]


def _way_of(link: Path) -> Iterator[Path]:
    """Yield all links on the way of a link, and the place to which they lead."""
    folder, waiting = link.parent, [link.name]
    for _ in range(_MOST_LINKS):
        while waiting:
            part = waiting.pop()
            folder = folder.parent if part == ".." else folder / part
            if folder.is_symlink():
                break
        yield folder
        if not folder.is_symlink():
            return
        waiting += reversed(folder.readlink().parts)
        folder = folder.parent


def put_aside_in(folder: Path, table: Table) -> list[tuple[str, str]]:
    """Return what was put aside in ``folder`` by the table of its work tree: each name, and why."""
    entries, _ = find(os.fspath(folder), table)
    return [(name, rows()[row].reason) for name, row, _ in entries]


# Which files of a work tree the user's own settings of git have git run or read settings from:
# whoever can write them decides what the user's next ``git status`` runs.

#: The keys whose value is one path: of more settings, of hooks, or of what new repositories get.
_PATHS: Final = re.compile(r"include(if\..*)?\.path|core\.hookspath|init\.templatedir", re.DOTALL)
#: The keys whose value git runs, or hands to a shell. An alias does so if it begins with ``!``.
_COMMANDS: Final = re.compile(
    r"""
    core\.(fsmonitor|pager|askpass|gitproxy)
    | alias\..* | pager\..* | interactive\.difffilter | web\.browser | submodule\..*\.update
    | remote\..*\.(uploadpack|receivepack) | sendemail\.smtpserver | imap\.tunnel | instaweb\.httpd
    | .*\.(\w*(cmd|command|hook)|external|clean|smudge|process|driver|textconv|program|helper|path)
    | .*\.editor
    """,
    re.DOTALL | re.VERBOSE,
)
_SECONDS: Final = 5.0


def names_in_tree(root: Path) -> set[str]:
    """Return the files and folders that git's settings name in the work tree ``root``. Blocks.

    These are the settings that a ``git`` of the user's would read there. Each name begins with
    ``/`` for the root of the tree. A relative one of several parts, or of a file, is given as it
    stands, too, since it counts in each repository of the tree; there, of a folder such as
    ``hooks``, only the names that git's hooks have count.
    """
    top = top_above(root) or root
    real_root = os.path.realpath(root)
    names: set[str] = set()
    for origin, key, value in _settings(top):
        above = (top / origin.removeprefix("file:")).parent if origin.startswith("file:") else top
        if _PATHS.fullmatch(key):
            bases = (above, top) if key.startswith("include") else (top,)
            spelled = {_expanded(value)} if value else set()
        elif _COMMANDS.fullmatch(key) and (value[:1] == "!" or not key.startswith("alias.")):
            bases = (top,)
            spelled = set(_files(value.removeprefix("!"), top))
        else:
            continue
        for name in spelled:
            places = [os.path.normpath(base / name) for base in bases]
            for place in (*places, *map(os.path.realpath, places)):
                below = os.path.relpath(place, real_root)
                if below != "." and not below.startswith(".."):
                    names.add(f"/{below}")
            relative = os.path.normpath(name)
            counts_anywhere = "/" in relative or key != "core.hookspath"
            if counts_anywhere and not relative.startswith(("/", "..")):
                names.add(relative)
    return names


def _files(command: str, top: Path) -> Iterator[str]:
    """Yield the words of a command that name a file, not a program of PATH or a folder."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    for number, word in enumerate(words):
        name = _expanded(word.rpartition("=")[2])
        path = top / name
        is_file_name = "/" in name or (number and (path.is_file() or "." in name))
        if is_file_name and name[:1] != "-" and not path.is_dir():
            yield name


def _expanded(name: str) -> str:
    """Return a name with the variables and the ``~`` that git's shell replaces."""
    return os.path.expanduser(os.path.expandvars(name))  # noqa: PTH111 - a string


def _settings(folder: Path) -> list[tuple[str, str, str]]:
    """Return the origin of each setting of git, its key and its value; none if git fails."""
    done = run_git(folder, "config", "--list", "--show-origin", "-z", seconds=_SECONDS)
    if done is None:
        return []
    parts = os.fsdecode(done.stdout).split("\0")
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return [(origin, *_key_and_value(setting)) for origin, setting in pairs]


def _key_and_value(setting: str) -> tuple[str, str]:
    # Without a value it is a flag.
    key, _, value = setting.partition("\n")
    return key, value
