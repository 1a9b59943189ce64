"""How a model's actual input compares with the estimate: DATA/calibration.json (context.md).

The ratio is the actual tokens divided by the estimated ones, with no earlier ratio in the estimate.
All sessions and processes learn it together. If anything is wrong with the file, the server
continues with what it knows; a file from a newer version is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.jsonl import SharedFile, now
from aish_lsp.foundation.locks import locked

#: No ratio, and no single observation, is outside these.
LOWEST: Final = 0.5
HIGHEST: Final = 3.0

#: Tokens. In a smaller request the template's own tokens outweigh the text's.
SMALLEST_REQUEST: Final = 50

#: The least weight of the newest observation. The ratio is the mean of the first two, then an
#: average that forgets four fifths of what it knew within three calls. Each request contains the
#: conversation's history, so the newest says most about the next; but it may be wrong.
LEAST_WEIGHT: Final = 0.4

#: Models in the file; those last learned longest ago are dropped.
MOST_MODELS: Final = 500

#: Observations that wait to be written; earlier ones hardly affect the average.
_MOST_WAITING: Final = 1000

#: Bytes; 500 models take less than a tenth of that.
_LARGEST_FILE: Final = 1 << 20
_MOST_CALLS: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class _Observation:
    """One call: its ratio, within the bounds, and its time."""

    key: str
    ratio: float
    at: str


class Calibration:
    """The ratios of all models, including those that other processes have written.

    When this process writes its observations, it adds them to what the file then holds, so that
    none is lost if several processes learn the same model.
    """

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path, "models", dict, _LARGEST_FILE)
        #: The file's state when it was last read (None before), and its last good content.
        self._seen: tuple[int, ...] | None = None
        self._document = self._file.empty()
        #: What was observed and is not yet in the file, including what is just being written.
        self._waiting: list[_Observation] = []
        self._writing = asyncio.Lock()
        self._warnings: list[str] = []
        self._reported: set[str] = set()

    def ratio(self, key: str) -> float:
        """Return a model's actual tokens by estimated ones: in [0.5, 3], 1.0 if nothing is known.

        This costs a ``stat``; the file is read only if it has changed.
        """
        if not self._writing.locked():
            self._refresh()
        entry = self._document["models"].get(key)
        for one in self._waiting:
            if one.key == key:
                entry = _with(entry, one)
        return _learned(entry)[0]

    def learn(self, key: str, estimated: int, actual: int) -> None:
        """Learn from the ``estimated`` input of a call, without a ratio, and its ``actual`` input.

        This takes effect at once, and is written to the file by the next ``save``. A call that
        makes no sense, or is too small to be significant, does not count.
        """
        if min(estimated, actual) < SMALLEST_REQUEST:
            return
        # A server may name any number; one of 400 digits has no float.
        bounded = max(LOWEST, min(actual, HIGHEST * estimated) / estimated)
        self._waiting.append(_Observation(key, bounded, now()))
        if len(self._waiting) > _MOST_WAITING and not self._writing.locked():
            del self._waiting[0]

    async def save(self) -> None:
        """Write what was learned, in a thread; an error is kept for ``drain_warnings``.

        The next call writes what could not be written. Cancelling does no harm.
        """
        await asyncio.shield(self._save())

    async def _save(self) -> None:
        """Write what waits, one call at a time; a second one finds nothing left to do."""
        async with self._writing:
            batch = tuple(self._waiting)
            if not batch:
                return
            try:
                written = await asyncio.to_thread(self._write, batch, self._document)
            except AishError as error:
                self._failed(error.message)
                return
            self._document, self._seen = written
            del self._waiting[: len(batch)]
            self._reported.clear()

    def drain_warnings(self) -> list[str]:
        """Return what is wrong with the file, each once; again if it was sound in between."""
        troubles, self._warnings = self._warnings, []
        return troubles

    def _refresh(self) -> None:
        """Read the file if it changed. If it cannot be read, its previous content stays."""
        try:
            seen = self._file.state()
            if seen == self._seen:
                return
            self._seen = seen
            self._document = self._file.read()
        except AishError as error:
            self._failed(error.message)
        except ValueError as error:
            self._failed(f"{self._file.path}: {error}. It will be renamed, and a new one begun.")

    def _write(
        self, batch: Sequence[_Observation], known: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Add ``batch`` to the file; return what it then holds, and its state.

        A damaged file is put aside, and replaced with what was ``known`` before.

        Raises:
            StoreUnavailable: it is from a newer version, or cannot be read or written.
            Busy: another process holds it.
        """
        with locked(self._file.path):
            document = self._file.read_to_write(known)
            document = {**document, "models": _mixed(document["models"], batch)}
            self._file.write(document)
            return document, self._file.state()

    def _failed(self, reason: str) -> None:
        """Keep an error for the user, once: reading and writing may fail for the same reason."""
        if reason not in self._reported:
            self._reported.add(reason)
            self._warnings.append(
                f"What was learned about token counts is not being saved: {reason}"
            )


def _mixed(models: Mapping[str, Any], batch: Sequence[_Observation]) -> dict[str, Any]:
    """Return ``models`` with ``batch`` added: the last learned at the end, and at most 500.

    Unknown fields and entries stay.
    """
    mixed = dict(models)
    for one in batch:
        mixed[one.key] = _with(mixed.pop(one.key, None), one)
    return dict(list(mixed.items())[-MOST_MODELS:])


def _with(entry: object, one: _Observation) -> dict[str, Any]:
    """Return a model's entry, which may be bad or missing, with one more observation."""
    ratio, calls = _learned(entry)
    weight = max(1 / (calls + 1), LEAST_WEIGHT)
    ratio = round(ratio + weight * (one.ratio - ratio), 4)
    others = entry if isinstance(entry, dict) else {}
    return {**others, "ratio": ratio, "calls": calls + 1, "at": one.at}


def _learned(entry: object) -> tuple[float, int]:
    """Return an entry's ratio and the number of calls behind it; (1, 0) for a bad entry."""
    match entry:
        case {"ratio": int() | float() as ratio, "calls": int(calls)} if (
            not isinstance(ratio, bool)
            and not isinstance(calls, bool)
            and LOWEST <= ratio <= HIGHEST
            and 0 < calls < _MOST_CALLS
        ):
            return float(ratio), calls
    return 1.0, 0
