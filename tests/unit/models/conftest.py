"""What the tests of the models share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aish_lsp.models.http import HttpClient


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    """A client that is closed at the end."""
    client = HttpClient()
    yield client
    await client.aclose()
