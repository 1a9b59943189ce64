"""The time, as our files have it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the time now as ``ts`` has it: UTC, to the second."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
