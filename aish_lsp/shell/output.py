"""What a command printed: how much of it is kept, and how it reads without a terminal."""

from __future__ import annotations

import re

#: Bytes (UTF-8) that are kept from the start of an output, and from its end.
HEAD_LIMIT = 32 * 1024
TAIL_LIMIT = 32 * 1024
#: Bytes given up at most so that a cut falls between two lines.
_CUT_REACH = 2 * 1024


class KeptOutput:
    """An output of any length in bounded memory: its head and its tail."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, text: str) -> None:
        """Append ``text``."""
        data = text.encode("utf-8")
        room = HEAD_LIMIT - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Not each time: cutting the front off moves all the rest.
        if len(self._tail) > 2 * TAIL_LIMIT:
            self._shorten_tail()

    def _shorten_tail(self) -> None:
        surplus = len(self._tail) - TAIL_LIMIT
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]

    def text(self) -> tuple[str, bool]:
        """Return the output, and whether some of it was left out.

        Where it was, a line in the middle says how many bytes; the cuts fall between lines, unless
        the lines are very long.
        """
        if self._left_out == 0 and len(self._tail) <= TAIL_LIMIT:
            return (self._head + self._tail).decode("utf-8"), False
        self._shorten_tail()
        head, tail = bytes(self._head), bytes(self._tail)
        end = head.rfind(b"\n", len(head) - _CUT_REACH) + 1 or len(head)
        start = tail.find(b"\n", 0, _CUT_REACH) + 1
        left_out = self._left_out + len(head) - end + start
        # A cut inside a character leaves pieces of it: they are dropped.
        before = head[:end].decode("utf-8", "ignore")
        after = tail[start:].decode("utf-8", "ignore")
        line_end = "" if before.endswith("\n") else "\n"
        return f"{before}{line_end}[aish: {left_out} bytes left out here]\n{after}", True


# Each alternative is linear: no two neighboring parts can match the same character.
_CONTROL_SEQUENCE = re.compile(
    r"""
      (?: \x1b\[ | \x9b ) [0-?]*+ [\ -/]*+ [@-~]                   # CSI: colors, moves, erasing
    | (?: \x1b\] | \x9d ) [^\x07\x1b\x9c\n]*+ (?: \x07 | \x1b\\ | \x9c )      # OSC: titles, links
    | (?: \x1b[PX^_] | [\x90\x98\x9e\x9f] ) [^\x1b\x9c\n]*+ (?: \x1b\\ | \x9c )  # DCS and its kin
    | \x1b [\ -/]*+ [0-~]                                         # two characters, or a charset
    """,
    re.VERBOSE,
)
_CONTROL_CHARACTER = re.compile(r"[\x00-\x07\x0b-\x1f\x7f-\x9f]")


def clean_output(text: str) -> str:
    r"""Return ``text`` as it reads when a terminal has shown it.

    Control sequences are gone, of a line that was written over and over (a progress bar) the last
    version is left, backspaces have taken back what they took back, and other control characters
    but ``\n`` and ``\t`` are dropped. A sequence without its end hides nothing: only its
    introducer goes.
    """
    if not _may_need_cleaning(text):
        return text
    text = _CONTROL_SEQUENCE.sub("", text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(map(_written_over, text.split("\n")))
    return _CONTROL_CHARACTER.sub("", text)


def _may_need_cleaning(text: str) -> bool:
    return "\b" in text or _CONTROL_CHARACTER.search(text) is not None


def _written_over(line: str) -> str:
    """Return what is left of a line with carriage returns and backspaces in it."""
    if "\r" in line:
        line = next((version for version in reversed(line.split("\r")) if version), "")
    if "\b" not in line:
        return line
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)
