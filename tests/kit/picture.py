"""A screen, as cells of text, drawn as an SVG; and the texts of such a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

#: Pixels of a cell, and of the font in it.
WIDTH, HEIGHT, FONT = 8.4, 18, 14

#: What a theme of the terminal's would say.
BACK, TEXT = 0x1E1E2E, 0xCDD6F4

#: A cell's text and its attributes.
Cell: TypeAlias = tuple[str, Mapping[str, Any]]


def picture(frames: Sequence[tuple[float, list[list[Cell]]]]) -> str:
    """Return screens, each with the seconds for which it is shown, as an SVG that repeats."""
    width, height = len(frames[0][1][0]) * WIDTH, len(frames[0][1]) * HEIGHT
    box = f'viewBox="0 0 {width + 24:.0f} {height + 24:.0f}"'
    fonts = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="{fonts}" font-size="{FONT}">',
        *styles([seconds for seconds, _ in frames]),
        f'<rect width="100%" height="100%" rx="8" fill="{color(BACK)}"/>',
    ]
    for at, (_, rows) in enumerate(frames):
        shown = (part for number, row in enumerate(rows) for part in drawn(number, row))
        parts += [f'<g id="f{at}">', *shown, "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def styles(lengths: Sequence[float]) -> Iterator[str]:
    """Yield the CSS that shows one frame after the other; only the last, if motion is unwelcome."""
    if len(lengths) == 1:
        return
    yield "<style>"
    whole, begin = sum(lengths), 0.0
    for at, length in enumerate(lengths):
        first, last = 100 * begin / whole, 100 * (begin + length) / whole
        begin += length
        hidden = "visibility: hidden"
        before = f"0% {{{hidden}}} " if at else ""
        after = f" {last:.2f}% {{{hidden}}}" if at < len(lengths) - 1 else ""
        yield f"@keyframes k{at} {{{before}{first:.2f}% {{visibility: visible}}{after}}}"
        yield f"#f{at} {{{hidden}; animation: k{at} {whole:g}s step-end infinite}}"
    final = len(lengths) - 1
    yield "@media (prefers-reduced-motion) {g {animation: none !important}"
    yield f"#f{final} {{visibility: visible}}}}"
    yield "</style>"


def drawn(number: int, row: list[Cell]) -> Iterator[str]:
    """Yield the runs of a row that look alike."""
    column = 0
    top = 12 + number * HEIGHT
    for look, run in groupby(row, key=lambda cell: looks(cell[1])):
        cells = list(run)
        text = "".join(cell[0] for cell in cells)
        left = 12 + column * WIDTH
        column += len(cells)
        front, back, weight = look
        if back != BACK:
            size = f'width="{len(cells) * WIDTH:.1f}" height="{HEIGHT}"'
            yield f'<rect x="{left:.1f}" y="{top}" {size} fill="{color(back)}"/>'
        if text.strip():
            # As wide as its cells, whatever the font of the reader.
            lead = len(text) - len(text.lstrip())
            shown = text.strip()
            at = f'x="{left + lead * WIDTH:.1f}" y="{top + FONT}"'
            length = f'textLength="{len(shown) * WIDTH:.1f}" xml:space="preserve"'
            yield f'<text {at} {length} fill="{color(front)}"{weight}>{escape(shown)}</text>'


def looks(attributes: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the colors of a cell, and what is bold of it."""
    front = attributes.get("foreground", TEXT)
    back = attributes.get("background", BACK)
    if attributes.get("reverse"):
        front, back = back, front
    return front, back, ' font-weight="bold"' if attributes.get("bold") else ""


def color(number: int) -> str:
    """Return a color in the words of SVG."""
    return f"#{number:06x}"


def texts(picture: str) -> list[str]:
    """Return the texts of a picture, less what differs each time.

    These are times, the ids of commits, and the share of the window, which moves a moment after the
    output of a command is there.
    """
    found = ("".join(text.itertext()) for text in ET.fromstring(picture).iter("{*}text"))
    moving = {r"\d+\.\d s": "0.0 s", r"\b[0-9a-f]{7}\b": "1a2b3c4", r"\b\d+%": "0%"}
    shown = "\n".join(filter(None, found))
    for pattern, fixed in moving.items():
        shown = re.sub(pattern, fixed, shown)
    return shown.split("\n")
