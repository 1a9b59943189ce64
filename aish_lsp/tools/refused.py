"""What a model's server says against the tools that it was offered: one of them, or how many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: A server that looks at all tools names one by its place or by its name.
_PLACE: Final = re.compile(
    r"\bfunction_?declarations\W{1,2}(\d{1,4})|\b(?:tools|functions)\W(\d{1,4})\b", re.IGNORECASE
)

#: What is said of a definition, and what of an earlier call, for which no tool is to blame.
_DEFINITION: Final = re.compile(
    r"schema|parameters|declaration|\bfunction\b|\btools?\b|properties|grammar|\bname",
    re.IGNORECASE,
)
_CALL: Final = re.compile(
    r"(?:tool|function)[_ ]calls?\b|signature|messages\W\d|contents\W\d|\binput\W\d",
    re.IGNORECASE,
)

_LIMIT: Final = re.compile(
    r"(?:\bmax(?:imum)?\b|\bat most\b|\bmore than\b|\blimit(?:ed)?\b|\bup to\b|\bexceed\w*)"
    r"[^\d.;]{0,60}?(\d{1,4})\b",
    re.IGNORECASE,
)
_OF_TOOLS: Final = re.compile(r"\btools\b|\bfunctions\b|function_?declarations", re.IGNORECASE)


def limit_in(said: str, sent: int) -> int | None:
    """Return how many tools a server says that it takes, if it was sent more; else None."""
    if not _OF_TOOLS.search(said):
        return None
    fewer = [number for found in _LIMIT.findall(said) if 0 < (number := int(found)) < sent]
    return max(fewer, default=None)


def named_in(said: str, names: Sequence[str]) -> str:
    """Return which of the tools that were sent a refusal is about; empty if it names none.

    ``names`` are in the order in which they were sent.
    """
    if _CALL.search(said) or not _DEFINITION.search(said):
        return ""
    for place in _PLACE.finditer(said):
        number = int(place[1] or place[2])
        # With both, tools[0] is the list, and the other one is the place in it.
        if number < len(names) and (place[1] or not re.search("declaration", said, re.IGNORECASE)):
            return names[number]
    for name in sorted(names, key=len, reverse=True):
        quoted = rf"""["'`\u2018\u201c]{re.escape(name)}["'`\u2019\u201d]"""
        called = rf"\b(?:function|tool)(?:\s+name)?[\s:=]+{re.escape(name)}(?![\w-])"
        if re.search(f"{quoted}|{called}", said):
            return name
    return ""
