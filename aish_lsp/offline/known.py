"""What the offline model knows, as a page: for ``:help offline`` and docs/offline.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.offline.table import table


def known() -> str:
    """Return all intents by family, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for family, title in table().titles.items():
        yield f"### {title}\n"
        for intent in table().intents:
            if intent.family == family:
                yield f"- *{spoken(intent.example)}*: {intent.does}"
        yield ""


def spoken(phrasing: str) -> str:
    """Return a phrasing of the table with its slots as words: "rename FILE to FILE"."""
    return re.sub(r"\{([a-z]+)\d?\}", lambda slot: slot[1].upper(), phrasing)
