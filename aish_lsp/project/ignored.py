"""Which paths of a folder are ignored, by all the ignore files that git heeds.

A deeper ``.gitignore`` goes before a higher one; behind them come the repository's ``info/exclude``
and the user's own file for all repositories. What is in an ignored folder is ignored, whatever the
rules say of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from aish_lsp.project.ignore import Rule, parse, verdict
from aish_lsp.project.safe_read import read_regular

#: Bytes of an ignore file that are read.
_FILE_LIMIT = 128 << 10

#: Folders whose rules are kept at hand.
_KEPT = 10_000

#: The rules that hold in a folder, the weakest first, each with the folders above its own file.
Chain: TypeAlias = tuple[tuple[int, tuple[Rule, ...]], ...]


class IgnoreFiles:
    """The ignore files of the folder ``root``, read once each, when they are first needed.

    Args:
        root: the folder.
        top: the top folder of the repository that it is in, or itself.
        exclude: the repository's ``info/exclude``.
        everywhere: the user's ``core.excludesFile``.
    """

    def __init__(
        self,
        root: Path,
        *,
        top: Path | None = None,
        exclude: Path | None = None,
        everywhere: Path | None = None,
    ) -> None:
        self.top = top or root
        #: The folders from the top to the root.
        self.prefix = root.relative_to(self.top).parts
        weakest = tuple((0, _linked(path)) for path in (everywhere, exclude) if path is not None)
        self._chains: dict[tuple[str, ...], Chain] = {(): self.with_own(weakest, ())}

    def ignores(self, name: str, *, folder: bool = False) -> bool:
        """Return whether ``name``, relative to the root, is ignored, or a folder that it is in."""
        path = (*self.prefix, *PurePosixPath(name).parts)
        if any(
            is_ignored(self.chain(path[: depth - 1]), path[:depth], folder=True)
            for depth in range(1, len(path))
        ):
            return True
        return is_ignored(self.chain(path[:-1]), path, folder=folder)

    def chain(self, folder: tuple[str, ...]) -> Chain:
        """Return the rules that hold in ``folder``, the path from the top."""
        found = self._chains.get(folder)
        if found is None:
            found = self.with_own(self.chain(folder[:-1]), folder)
            if len(self._chains) < _KEPT:
                self._chains[folder] = found
        return found

    def with_own(self, chain: Chain, folder: tuple[str, ...]) -> Chain:
        """Return ``chain``, that of the folder above, with the rules of ``folder`` itself."""
        rules = _rules(self.top.joinpath(*folder, ".gitignore"))
        return (*chain, (len(folder), rules)) if rules else chain


def is_ignored(chain: Chain, path: Sequence[str], *, folder: bool) -> bool:
    """Return whether ``path``, from the top, is ignored by the rules of the folder that it is in.

    The deepest ignore file that says anything decides.
    """
    if not chain:
        return False
    raw = [os.fsencode(part) for part in path]
    for above, rules in reversed(chain):
        ignored = verdict(rules, raw[above:], folder=folder)
        if ignored is not None:
            return ignored
    return False


def _rules(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a file; one that is no regular file has none, as with git."""
    content = read_regular(path, _FILE_LIMIT)
    return parse(content) if content else ()


def _linked(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a file that, as with git, may be a link."""
    return _rules(Path(os.path.realpath(path)))
