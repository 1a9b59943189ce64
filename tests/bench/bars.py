"""A plot of a table's rows: each figure as a share of its target, as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Final

from measuring import Row

_LINE: Final = 20
_TEXT: Final = 430
_WIDTH: Final = 900
#: Where the target is, and the least and the most that is drawn.
_LEAST, _MOST = 0.05, 20.0


def bars(rows: Sequence[Row]) -> str:
    """Return the plot."""
    height = _LINE * (len(rows) + 2)
    target = _at(1)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
    lines = [
        f'{head} font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for index, row in enumerate(rows):
        y = _LINE * (index + 1)
        share = _share(row)
        color = "#2f7d4f" if row.reached else "#b3402a"
        lines.append(
            f'<text x="{_TEXT - 8}" y="{y + 14}" text-anchor="end" fill="#222222">'
            f"{html.escape(row.what.replace('`', ''))}</text>"
            f'<rect x="{_TEXT}" y="{y + 4}" width="{_at(share) - _TEXT:.1f}" height="12"'
            f' fill="{color}"/>'
        )
    lines.append(
        f'<line x1="{target:.1f}" x2="{target:.1f}" y1="{_LINE}" y2="{height - _LINE}"'
        ' stroke="#222222" stroke-dasharray="4 3"/>'
        f'<text x="{target:.1f}" y="{_LINE - 5}" text-anchor="middle" fill="#222222">target</text>'
    )
    lines += (
        f'<text x="{_at(mark):.1f}" y="{height - 5}" text-anchor="middle" fill="#666666">'
        f"{mark:g} times</text>"
        for mark in (0.1, 0.3, 3, 10)
    )
    return "\n".join([*lines, "</svg>", ""])


def _share(row: Row) -> float:
    if not row.target:
        return _LEAST if row.reached else _MOST
    share = max(row.figure / row.target, 1e-9)
    return 1 / share if row.judged == "rate" else share


def _at(share: float) -> float:
    """Return where a share of the target is drawn."""
    within = min(max(share, _LEAST), _MOST)
    part = math.log(within / _LEAST) / math.log(_MOST / _LEAST)
    return _TEXT + part * (_WIDTH - _TEXT - 10)
