"""The time, as our files have it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

#: The form of a ``ts``: UTC, to the second.
TIMESTAMP: Final = "%Y-%m-%dT%H:%M:%SZ"


def now() -> str:
    """Return the time now, in the form of TIMESTAMP."""
    return datetime.now(UTC).strftime(TIMESTAMP)
