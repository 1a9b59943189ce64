"""Examples from the tldr pages that the user keeps on this machine; none are bundled or fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aish_lsp.offline.machine import Machine
from aish_lsp.project.safe_read import read_regular

#: Where the usual clients keep them, below the home folder.
_CACHES: Final = (
    ".cache/tldr",
    ".tldr/cache",
    ".tldr/tldr",
    ".tldrc/tldr",
    ".local/share/tldr",
    ".cache/tealdeer/tldr-pages",
    "Library/Caches/tealdeer/tldr-pages",
    "Library/Caches/tldr",
)
_PAGES: Final = ("pages.en", "pages", "tldr/pages", "")
_LIMIT: Final = 20_000
_EXAMPLES: Final = 5

_NAME: Final = re.compile(r"[\w.+-]{1,80}", re.ASCII)
_VALUE: Final = re.compile(r"\{\{(.+?)\}\}")
_EXAMPLE: Final = re.compile(r"^- (?P<what>.+?):?\n+`(?P<command>[^`\n]+)`", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples as lines, and where they are from."""

    source: str
    lines: tuple[str, ...]


def examples(words: Sequence[str], machine: Machine) -> Examples | None:
    """Return the examples for the program that ``words`` begin with, its subcommand's first."""
    names = [words[0]] if words else []
    if len(words) > 1:
        names.insert(0, f"{words[0]}-{words[1]}")
    for name in filter(_NAME.fullmatch, names):
        for place in _places(name, machine):
            content = read_regular(place, _LIMIT)
            if content is None:
                continue
            text = content.decode("utf-8", "replace").replace("\r\n", "\n")
            lines = tuple(
                ": ".join((match["what"], _VALUE.sub(r"<\1>", match["command"])))
                for match, _ in zip(_EXAMPLE.finditer(text), range(_EXAMPLES), strict=False)
            )
            if lines:
                shown = f"~/{place.relative_to(machine.home)}"
                return Examples(f"the tldr page {shown}", lines)
    return None


def _places(name: str, machine: Machine) -> Iterator[Path]:
    systems = ("osx" if machine.system == "darwin" else "linux", "common")
    for cache in _CACHES:
        for pages in _PAGES:
            for system in systems:
                yield machine.home / cache / pages / system / f"{name}.md"
