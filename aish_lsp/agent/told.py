"""What the user was told about models and their servers: each fact once a day, in all editors.

Such a fact is true of a setup, not of one question. ``aish-lsp doctor`` says it at any time.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import locked
from aish_lsp.foundation.jsonl import SharedFile

#: The days for which the doctor says what was noticed.
_KEPT: Final = 14

#: Seconds to wait for another process: if in doubt, the user is told twice.
_PATIENCE: Final = 0.5

_LARGEST: Final = 1 << 20

#: What changes from one time to the next in what is otherwise the same message.
_NUMBERS: Final = re.compile(r"(?<=[ =])\d[\d,]*(?!\w|\.\d)")


class ToldFacts:
    """The file ``path``, with the day on which each fact was last told. All methods block."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path, "told", dict, _LARGEST)
        self._today: dict[str, date] = {}

    def is_news(self, fact: str, *, lasts: bool = True) -> bool:
        """Return whether ``fact`` was not told today, and remember that it is now.

        With ``lasts``, it is among the ``recent`` ones: nobody can find it out at any time.

        Its numbers make no difference. If the file cannot be written, this holds for the
        process alone.
        """
        key, today = _NUMBERS.sub("N", fact), _today()
        if self._today.get(key) == today:
            return False
        self._today[key] = today
        with suppress(AishError), locked(self._file.path, _PATIENCE):
            document = self._file.read_to_write(self._file.empty())
            told = _recent(document["told"])
            known = told.get(key)
            if known is not None and known["at"] == today.isoformat():
                return False
            told[key] = {"at": today.isoformat(), "fact": fact if lasts else ""}
            self._file.write({**document, "told": told})
        return True

    def recent(self) -> list[tuple[str, str]]:
        """Return what was told in the last days, each with its day, the oldest first."""
        with suppress(AishError, ValueError):
            told = _recent(self._file.read()["told"]).values()
            return sorted((known["at"], known["fact"]) for known in told if known["fact"])
        return []


def _today() -> date:
    return datetime.now().astimezone().date()


def _recent(told: dict[object, object]) -> dict[str, dict[str, str]]:
    """Return the sound entries that are not too old."""
    oldest = (_today() - timedelta(_KEPT)).isoformat()
    return {
        str(key): {"at": at, "fact": fact}
        for key, known in told.items()
        if isinstance(known, dict)
        and isinstance(at := known.get("at"), str)
        and isinstance(fact := known.get("fact"), str)
        and at >= oldest
    }
