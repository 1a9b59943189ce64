"""The file tree as the model sees it: as much as fits, with the number of files in closed folders.

    ./
      README.md
      src/
        app.py
      tests/ … 214 files

In each folder, the entries that say most come first (``FileRank``). The folders that say most are
opened first: those with recent changes, then sources, then the rest. Every entry is indented, so
that no file name can pass for a heading of the prompt.

Only what is shown is looked at: in sorted names, a folder is a range.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import quoted_path
from aish_lsp.project.files import behind

#: A folder below the root that has more entries stays closed: its count says more than its names.
LONGEST = 60

#: Entries of the root that are looked at.
_ROOT_LIMIT = 5000

#: After so many folders in a row that do not fit, no more are tried.
_MISSES = 40

_TOP = "./"


@dataclass(frozen=True, slots=True)
class ProjectBlock:
    """The tree's text, the number of files it was made from, and whether it leaves any out."""

    block: str
    files: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class _File:
    """A file or a nested repository, by its name in its folder."""

    name: str
    rank: FileRank
    total: int = 1


class _Folder:
    """A folder: the names from ``low`` up to ``high``, which begin with ``prefix``."""

    def __init__(self, names: Sequence[str], prefix: str, low: int, high: int) -> None:
        self.prefix = prefix
        self.level = prefix.count("/")
        self.name = prefix.rstrip("/").rpartition("/")[2]
        self.total = high - low
        self._names = names
        self._low = low
        self._high = high

    @cached_property
    def rank(self) -> FileRank:
        """Its place among the entries of the folder it is in."""
        return folder_rank(self.name, self._names, self._low, self._high)

    @cached_property
    def entries(self) -> list[_Folder | _File]:
        """Its files and folders, the most important first; only some if there are very many."""
        return _in_order(islice(self._entries(), _ROOT_LIMIT))

    def _entries(self) -> Iterator[_Folder | _File]:
        names, start = self._names, len(self.prefix)
        at = self._low
        while at < self._high:
            name = names[at]
            slash = name.find("/", start)
            if 0 <= slash < len(name) - 1:
                end = bisect_left(names, behind(name[:slash]), at, self._high)
                yield _Folder(names, name[: slash + 1], at, end)
                at = end
            else:
                rank = file_rank(name[start:]) if slash < 0 else FileRank.SIDE_FOLDER
                yield _File(name[start:], rank)
                at += 1

    @cached_property
    def lines(self) -> list[str]:
        """A line for each entry, with all folders closed."""
        indent = "  " * (self.level + 1)
        return [indent + _line(entry) for entry in self.entries]

    @property
    def named(self) -> int:
        """The number of files that its entries stand for."""
        return sum(entry.total for entry in self.entries)

    def shorten(self, room: int) -> str:
        """Keep as many of the root's first entries as fit into ``room`` together with a last line.

        Return that line, which counts the other files; empty if not even that fits.
        """
        length = _length([_TOP, *self.lines])
        named = self.named
        for count in range(len(self.entries), -1, -1):
            last = f"  … {_count(self.total - named, 'more ')}"
            if length + 1 + len(last) <= room:
                self.entries, self.lines = self.entries[:count], self.lines[:count]
                return last
            if count:
                named -= self.entries[count - 1].total
                length -= len(self.lines[count - 1]) + 1
        return ""

    def cost(self, room: int) -> int | None:
        """Return the number of characters that opening it adds; None if it stays closed.

        It does if they are more than ``room``, if it has many entries, and if its contents say
        nothing.
        """
        if self.rank is FileRank.STRANGERS:
            return None
        cost = len(_opened(self)) - len(_line(self))
        indent = 2 * (self.level + 1)
        folders: list[_Folder | _File] = []
        for entry in self._entries():
            folders.append(entry)
            cost += indent + len(_line(entry)) + 1
            if cost > room or len(folders) > LONGEST:
                return None
        # It will be opened: do not search for them again.
        self.entries = _in_order(folders)
        return cost


class Tree(NamedTuple):
    """A tree's text, whether all files are in it, and the prefixes of the folders it opens."""

    text: str
    whole: bool
    opened: Collection[str]


def tree(names: Sequence[str], *, depth: int, max_chars: int, recent: Collection[str] = ()) -> Tree:
    """Return the tree of these files, whose names are sorted, at most ``depth`` folders deep.

    ``recent`` are the names of recently changed files. The text has at most ``max_chars``
    characters, and is the same for the same files.
    """
    if not names or depth < 1:
        return Tree("", not names, () if names else ("",))
    top = _Folder(names, "", 0, len(names))
    rest = ""
    if top.named < top.total or _length([_TOP, *top.lines]) > max_chars:
        # Half of the room is left for the contents of its folders.
        has_folders = any(isinstance(entry, _Folder) for entry in top.entries)
        rest = top.shorten(max_chars // 2 if has_folders else max_chars) or top.shorten(max_chars)
        if not rest:
            return Tree("", False, ("",))
    room = max_chars - _length([_TOP, *top.lines]) - (len(rest) + 1 if rest else 0)
    opened, whole = _open(top, depth, room, _folders_of(recent))
    lines = [*_rendered(top, opened), *([rest] if rest else [])]
    return Tree("\n".join(lines), whole and not rest, {"", *opened})


def _folders_of(names: Collection[str]) -> set[str]:
    """Return the prefixes of all folders that contain one of ``names``."""
    folders = set()
    for name in names:
        at = name.find("/")
        while at >= 0:
            folders.add(name[: at + 1])
            at = name.find("/", at + 1)
    return folders


def _open(top: _Folder, depth: int, room: int, recent: set[str]) -> tuple[set[str], bool]:
    """Return the prefixes of the folders to open within ``room``, and whether these are all."""

    def priority(folder: _Folder) -> tuple[bool, FileRank, int, int, str, _Folder]:
        key = (folder.level, folder.total, folder.prefix)
        return folder.prefix not in recent, folder.rank, *key, folder

    opened: set[str] = set()
    whole = True
    misses = 0
    waiting = [priority(entry) for entry in top.entries if isinstance(entry, _Folder)]
    heapq.heapify(waiting)
    while waiting:
        *_, folder = heapq.heappop(waiting)
        cost = folder.cost(room) if folder.level < depth else None
        if cost is None:
            whole = False
            misses += 1
            if misses == _MISSES:
                break
            continue
        misses = 0
        room -= cost
        opened.add(folder.prefix)
        for inner in folder.entries:
            if isinstance(inner, _Folder):
                heapq.heappush(waiting, priority(inner))
    return opened, whole


def _rendered(top: _Folder, opened: set[str]) -> Iterator[str]:
    """Yield the lines of the tree with the folders in ``opened`` open."""
    yield _TOP
    waiting = [iter(zip(top.entries, top.lines, strict=True))]
    while waiting:
        entry, line = next(waiting[-1], (None, ""))
        if entry is None:
            waiting.pop()
        elif isinstance(entry, _Folder) and entry.prefix in opened:
            yield "  " * entry.level + _opened(entry)
            waiting.append(iter(zip(entry.entries, entry.lines, strict=True)))
        else:
            yield line


def _in_order(entries: Iterable[_Folder | _File]) -> list[_Folder | _File]:
    return sorted(entries, key=lambda entry: (entry.rank, entry.name))


def _line(entry: _Folder | _File) -> str:
    """Return an entry's line; that of a folder counts its files instead of listing them."""
    if isinstance(entry, _Folder):
        return f"{_opened(entry)} … {_count(entry.total)}"
    return (
        f"{quoted_path(entry.name[:-1])}/" if entry.name.endswith("/") else quoted_path(entry.name)
    )


def _opened(folder: _Folder) -> str:
    """Return the line of a folder whose entries follow."""
    return f"{quoted_path(folder.name)}/"


def _length(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines) - 1


def _count(files: int, more: str = "") -> str:
    return f"{files} {more}file{'' if files == 1 else 's'}"


# What says most about a project: manifests, then sources, then the rest.
#
# Names alone decide: nothing is read, so that the same names always come in the same order.


class FileRank(IntEnum):
    """The place of an entry in its folder, the lowest rank first."""

    MANIFEST = 0
    """A file that says what the project is, or how it is built."""
    SOURCE_FOLDER = 1
    SIDE_FOLDER = 2
    """Tests, documentation, data: what supports the sources. Its one line says a lot."""
    SOURCE = 3
    OTHER = 4
    STRANGERS = 5
    """A folder whose contents say nothing about the project, though no ignore rule excludes it."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: The files that tell assistants how to work here, the most general first. Only the first that has
#: any text is read.
INSTRUCTIONS = (
    "AGENTS.md",
    "AGENT.md",
    "CLAUDE.md",
    ".github/copilot-instructions.md",
    "GEMINI.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".rules",
    ".junie/guidelines.md",
    "CONVENTIONS.md",
)

_MANIFESTS = _words(
    """
    pyproject.toml setup.py setup.cfg requirements.txt pipfile tox.ini noxfile.py environment.yml
    package.json deno.json deno.jsonc tsconfig.json pnpm-workspace.yaml
    cargo.toml go.mod go.work build.gradle build.gradle.kts settings.gradle settings.gradle.kts
    pom.xml build.sbt project.clj deps.edn mix.exs gemfile rakefile composer.json pubspec.yaml
    package.swift build.zig dune-project stack.yaml cabal.project rebar.config shard.yml
    cmakelists.txt meson.build configure.ac build.bazel module.bazel workspace.bazel
    makefile gnumakefile justfile taskfile.yml taskfile.yaml earthfile
    dockerfile containerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml
    flake.nix default.nix shell.nix procfile .aish.toml
    """
) | {name.lower() for name in INSTRUCTIONS if "/" not in name}

_MANIFEST_SUFFIXES = frozenset({"csproj", "fsproj", "sln", "gemspec", "cabal", "nimble"})

_SOURCE_SUFFIXES = _words(
    """
    py pyi pyx rs go c h cc cpp cxx hh hpp hxx cu m mm java kt kts scala clj cljs cljc groovy
    js jsx mjs cjs ts tsx mts cts vue svelte astro rb php pl pm lua sh bash zsh fish ps1 el
    lisp scm rkt ex exs erl hrl hs lhs ml mli fs fsi fsx cs vb swift dart zig nim cr d jl r sql
    proto graphql tf hcl nix vim v sv vhd asm s f90 f pas adb ads tcl sol wat cmake
    """
)

_SIDE_FOLDERS = _words(
    """
    test tests testing testdata spec specs __tests__ e2e fixtures snapshots mocks
    doc docs documentation man example examples samples demo demos tutorials
    bench benches benchmark benchmarks assets data static media images img icons fonts
    locale locales i18n l10n translations contrib changelogs licenses
    """
)

_STRANGERS = _words(
    """
    .venv venv node_modules bower_components __pycache__ vendor third_party thirdparty .tox .nox
    .git .hg .svn site-packages pods
    """
)

#: Names in a folder that are looked at to tell what it holds.
_SAMPLE = 8


def file_rank(name: str) -> FileRank:
    """Return the rank of a file with this name."""
    lower = name.lower()
    suffix = _suffix(lower)
    if lower in _MANIFESTS or suffix in _MANIFEST_SUFFIXES or lower.startswith("readme"):
        return FileRank.MANIFEST
    return FileRank.SOURCE if suffix in _SOURCE_SUFFIXES else FileRank.OTHER


def folder_rank(name: str, names: Sequence[str], low: int, high: int) -> FileRank:
    """Return the rank of the folder ``name``, which contains ``names[low:high]``."""
    lower = name.lower()
    if lower in _STRANGERS:
        return FileRank.STRANGERS
    if lower in _SIDE_FOLDERS or lower.startswith("."):
        return FileRank.SIDE_FOLDER
    step = max(1, (high - low) // _SAMPLE)
    for at in range(low, high, step):
        if _suffix(names[at]).lower() in _SOURCE_SUFFIXES:
            return FileRank.SOURCE_FOLDER
    return FileRank.SIDE_FOLDER


def _suffix(name: str) -> str:
    """Return what follows the last dot of a name, or nothing."""
    _, dot, suffix = name.rpartition(".")
    return suffix if dot else ""
