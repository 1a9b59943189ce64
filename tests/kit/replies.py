"""What a model's reply, as events, comes to."""

from __future__ import annotations

from collections.abc import Iterable

from aish_lsp.foundation.events import Usage
from aish_lsp.models.request import ModelEvent, Text


def text_of(events: Iterable[ModelEvent]) -> str:
    """Return the whole text."""
    return "".join(event.delta for event in events if isinstance(event, Text))


def usage_of(events: Iterable[ModelEvent]) -> Usage:
    """Return the usage, which comes once."""
    [usage] = [event for event in events if isinstance(event, Usage)]
    return usage
