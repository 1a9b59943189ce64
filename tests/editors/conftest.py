"""What holds for the tests of editors: each waits for much, on a machine that may be busy."""

from __future__ import annotations

import pytest

#: Seconds of a test; each thing that it waits for has its own, which say what was missing.
TIMEOUT = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a test take longer than those that drive no editor."""
    for item in items:
        if item.get_closest_marker("editor") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT))
