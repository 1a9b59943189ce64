"""Finds the commands that a reply suggests, while it streams in.

A suggestion is a line that begins in column 0 with exactly ``CMD: `` and has something other than
white space behind it, inside a fence or out.
"""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "CMD: "


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """A suggested command; ``line`` is its line in the reply's text, from 0.

    ``text`` is what stands behind ``CMD: ``, spaces at its end included, without the line end.
    """

    text: str
    line: int


class SuggestionScanner:
    r"""Scans a text that arrives in pieces; how it was split makes no difference.

    Only ``\n`` ends a line. One ``\r`` right before the line end, or at the end of the text,
    belongs to the line end. Any other ``\r`` stays in the command, where it is seen: a terminal
    would let what follows it overwrite what stands before.

    Of a line that is no suggestion nothing is kept.
    """

    def __init__(self) -> None:
        self._line = 0
        self._may_be_command = True
        self._pieces: list[str] = []
        self._kept = 0

    def feed(self, delta: str) -> list[FoundCommand]:
        """Take the next piece of the text; return the commands whose lines it completes."""
        found: list[FoundCommand] = []
        start = 0
        while (end := delta.find("\n", start)) >= 0:
            self._take(delta, start, end)
            found += self._end_of_line()
            self._line += 1
            start = end + 1
        self._take(delta, start, len(delta))
        return found

    def finish(self) -> list[FoundCommand]:
        """Return the command of a last line without a line end; the text is over."""
        return self._end_of_line()

    def _take(self, delta: str, start: int, end: int) -> None:
        """Add ``delta[start:end]`` to the line, unless the line is known to be no suggestion."""
        if not self._may_be_command or start == end:
            return
        missing = len(PREFIX) - self._kept
        if missing > 0:
            head = delta[start : min(end, start + missing)]
            if not PREFIX.startswith(head, self._kept):
                self._may_be_command = False
                self._pieces.clear()
                return
        self._pieces.append(delta[start:end])
        self._kept += end - start

    def _end_of_line(self) -> list[FoundCommand]:
        line = "".join(self._pieces)
        self._pieces.clear()
        self._kept = 0
        self._may_be_command = True
        text = line[len(PREFIX) :].removesuffix("\r")
        return [FoundCommand(text, self._line)] if text.strip() else []
