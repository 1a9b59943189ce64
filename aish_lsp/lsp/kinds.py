"""The kinds of our code actions."""

from __future__ import annotations

from typing import Final

RUN_KIND: Final = "quickfix.aish.run"
REFACTOR_KIND: Final = "refactor.aish"
SOURCE_KIND: Final = "source.aish"
