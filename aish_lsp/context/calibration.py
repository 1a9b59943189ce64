"""What a model's input comes to against what was estimated: DATA/calibration.json (context.md).

The ratio is actual tokens by estimated ones, the estimate taken before any ratio. It is learned by
all sessions and processes together. Whatever is wrong with the file, the server goes on with what
it knows; one from a newer version is left alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import locked
from aish_lsp.foundation.jsonl import Document, now

#: No ratio is outside of these, and no single observation counts for more.
LOWEST: Final = 0.5
HIGHEST: Final = 3.0

#: Tokens. In a smaller request the template's own tokens weigh more than the text's.
SMALLEST_REQUEST: Final = 50

#: What the newest observation weighs at least: the mean of the first two, then an average that has
#: forgotten four fifths of what it knew after three calls. The history of a conversation is in each
#: of its requests, so the newest says most about the next; less than all, since it may be a lie.
LEAST_WEIGHT: Final = 0.4

#: Models in the file; those that were learned longest ago go.
MOST_MODELS: Final = 500

#: Observations that wait to be written; earlier ones hardly weigh in the average any more.
_MOST_WAITING: Final = 1000

#: Bytes. 500 models take less than a tenth of it.
_LARGEST_FILE: Final = 1 << 20
_MOST_CALLS: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class _Observation:
    """One call: its ratio, within the bounds, and when it was."""

    key: str
    ratio: float
    at: str


class Calibration:
    """The ratios of all models; another process's count as soon as it has written them.

    Observations of this process are mixed into what the file holds when they are written, after
    those that other processes wrote meanwhile: of several that learn the same model, none is lost.
    """

    def __init__(self, path: Path) -> None:
        self._file = Document(path, "models", dict, _LARGEST_FILE)
        #: The file's state when it was last read, None before; what it held when last it was good.
        self._seen: tuple[int, ...] | None = None
        self._document = self._file.empty()
        self._waiting: list[_Observation] = []
        #: The file's models with what waits mixed in.
        self._models: dict[str, Any] = {}
        self._writing = False
        self._troubles: list[str] = []
        self._told: set[str] = set()
        # The first is for the fields above, and held for moments; the second for the file.
        self._state = threading.Lock()
        self._turn = threading.Lock()

    def ratio(self, key: str) -> float:
        """Return actual by estimated tokens of a model: in [0.5, 3], 1.0 where nothing is known.

        Takes a ``stat``; only a file that changed is read.
        """
        with self._state:
            # While this process writes, what it wrote is not yet taken off what waits.
            if not self._writing:
                self._refresh()
            return _learned(self._models.get(key))[0]

    def learn(self, key: str, estimated: int, actual: int) -> None:
        """Take in a call whose input was ``estimated`` without a ratio and came to ``actual``.

        It counts at once, and in the file with the next ``save``. What makes no sense, and what is
        too small to tell anything, does not count.
        """
        if min(estimated, actual) < SMALLEST_REQUEST:
            return
        # A server may name any number; that of 400 digits has no float.
        bounded = max(LOWEST, min(actual, HIGHEST * estimated) / estimated)
        observation = _Observation(key, bounded, now())
        with self._state:
            self._waiting.append(observation)
            if len(self._waiting) > _MOST_WAITING and not self._writing:
                del self._waiting[0]
            self._models = _mixed(self._models, [observation])

    async def save(self) -> None:
        """Write what was learned, in a thread; a trouble is kept for ``drain_warnings``.

        What could not be written is written by the next call. A cancel does not spoil anything.
        """
        await asyncio.to_thread(self._save)

    def drain_warnings(self) -> list[str]:
        """Return, once each, what is wrong with the file; again where it was well meanwhile."""
        with self._state:
            troubles, self._troubles = self._troubles, []
        return troubles

    def _refresh(self) -> None:
        """Read the file where it changed. What it held before stays where it cannot be read."""
        try:
            seen = self._file.state()
            if seen == self._seen:
                return
            self._seen = seen
            self._document = self._file.read()
        except AishError as error:
            self._failed(error.message)
        except ValueError as error:
            self._failed(f"{self._file.path}: {error}. It will be put aside and started afresh.")
        else:
            self._models = _mixed(self._document["models"], self._waiting)

    def _save(self) -> None:
        """Write what waits. One thread at a time; a second one finds nothing left to do."""
        with self._turn:
            with self._state:
                batch, known = tuple(self._waiting), self._document
                if not batch:
                    return
                self._writing = True
            try:
                written = self._write(batch, known)
            except AishError as error:
                with self._state:
                    self._failed(error.message)
            else:
                with self._state:
                    self._document, self._seen = written
                    del self._waiting[: len(batch)]
                    self._models = _mixed(self._document["models"], self._waiting)
                    self._told.clear()
            finally:
                self._writing = False

    def _write(
        self, batch: Iterable[_Observation], known: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Mix ``batch`` into the file; return what it holds then, and its state.

        A damaged file is put aside, and what was ``known`` before takes its place.

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
        """Keep a trouble to be told, unless it was; to read and to write may fail alike."""
        if reason not in self._told:
            self._told.add(reason)
            self._troubles.append(
                f"What was learned about token counts is not being saved: {reason}"
            )


def _mixed(models: Mapping[str, Any], batch: Iterable[_Observation]) -> dict[str, Any]:
    """Return ``models`` with ``batch`` mixed in, and without the oldest beyond 500.

    Fields and entries that we do not know stay.
    """
    mixed, fresh = dict(models), set()
    for one in batch:
        entry = mixed.get(one.key)
        ratio, calls = _learned(entry)
        weight = max(1 / (calls + 1), LEAST_WEIGHT)
        ratio = round(ratio + weight * (one.ratio - ratio), 4)
        others = entry if isinstance(entry, dict) else {}
        mixed[one.key] = {**others, "ratio": ratio, "calls": calls + 1, "at": one.at}
        fresh.add(one.key)

    def age(key: str) -> tuple[bool, str]:
        """Sort from the oldest; what was just learned is new, whatever another's clock said."""
        entry = mixed[key]
        at = entry.get("at") if isinstance(entry, dict) else None
        return key in fresh, at if isinstance(at, str) else ""

    surplus = len(mixed) - MOST_MODELS
    if surplus > 0:
        for key in sorted(mixed, key=age)[:surplus]:
            del mixed[key]
    return mixed


def _learned(entry: object) -> tuple[float, int]:
    """Return an entry's ratio and how many calls it was learned from; (1, 0) for a bad one."""
    match entry:
        case {"ratio": int() | float() as ratio, "calls": int(calls)} if (
            not isinstance(ratio, bool)
            and not isinstance(calls, bool)
            and LOWEST <= ratio <= HIGHEST
            and 0 < calls < _MOST_CALLS
        ):
            return float(ratio), calls
    return 1.0, 0
