"""The text of the chat document: our headings, and escaping for all other text.

The user writes below the last ``## You`` that we wrote. Only what follows it is ever read as a
message, so that no earlier text of the document is taken for the user's. Lines end as in LSP (LF,
CRLF, CR), not as in ``str.splitlines``.

Replies, outputs and notices are untrusted. Nothing in them may be taken for one of our headings or
a ``:`` command, and their lines may begin only where the editor, the language server library and
this module agree that a line begins: at a line feed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.text import BIDI, ODD_LINE_ENDS, escaped
from aish_lsp.operations.markdown import BOX, FENCE, HeadAndTail

#: The heading under which the user writes, and the one under which a reply comes.
YOU: Final = "## You"
AISH: Final = "## aish"

#: How a message is sent in an editor whose keys are not known.
_ANY_WAY: Final = f"""\
Write below the last `{YOU}` and send it: with *Send* above the heading,
with the code action *Send*, or with the command `aish.chat.send`.
`:help` on a line of its own lists the commands."""

_BOX: Final = re.compile(BOX)

#: What a line begins with about a tool's call that has ended, by its status.
MARKS: Final = {"done": "✓", "failed": "✗", "denied": "⊘"}

#: The beginnings of our lines about what was done: a model cannot write such a line.
_REMARKS: Final = (
    *(f"> {mark} " for mark in MARKS.values()),
    "> Now (",
    "> Running (",
    "> Waiting for its turn (",
    "> Step ",
)

#: Characters of the longest box.
_LONGEST_BOX: Final = len("- [ ] 100. (context) ")

#: How many characters of a line's start are examined: no more of a blank line is held back.
_LONGEST_START: Final = 200

#: The line that opens the block of a command's output.
OUTPUT_OPENING: Final = f"{FENCE}console"

_SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")

#: In a reply, a blank replaces characters that only some programs treat as line ends.
_ODD_BREAKS: Final[Mapping[int, str]] = {
    **dict.fromkeys(map(ord, ODD_LINE_ENDS), " "),
    **_SURROGATES,
}

#: What replaces control characters, and characters that reorder the text around them. Other
#: invisible characters stay: an emoji's selectors and joiners do no harm in an output.
_VISIBLE: Final[Mapping[int, str]] = {
    **{ord(c): escaped(c) for c in (*map(chr, range(0x80, 0xA0)), *ODD_LINE_ENDS, *BIDI)},
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"},
    0x7F: "\u2421",
    **_SURROGATES,
}

#: A terminal's control sequence (color, cursor), and the beginning of one.
_SEQUENCE: Final = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
_PART_OF_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8})?\Z")

#: ``(start of a line, whether that is all of it) -> safe start``; None if more of it is needed.
_Rewrite: TypeAlias = Callable[[str, bool], str | None]


def first_text(keys: Mapping[str, str] = MappingProxyType({}), aside: str = "") -> str:
    """Return what a fresh chat document holds.

    Args:
        keys: the editor's keys, by what they do: ``send``, ``stop``, ``help``; any may be missing.
        aside: the name of the file with what was said before, if this chat follows another.
    """
    how = _ANY_WAY
    if "send" in keys:
        stop = f", `{keys['stop']}` stops the reply" if "stop" in keys else ""
        shown = f"`{keys['help']}` shows the keys, `:help`" if "help" in keys else "`:help`"
        how = (
            f"Write below the last `{YOU}`: `{keys['send']}` sends it{stop}.\n"
            f"{shown} on a line of its own lists the commands."
        )
    before = f"> What was said before is in `{aside}`.\n\n" if aside else ""
    return f"# aish\n\n{how}\n\n{before}{YOU}\n\n"


def escape_reply(text: str) -> str:
    """Return a whole reply or answer as ``ReplyEscaper`` would stream it."""
    escaper = ReplyEscaper()
    return escaper.feed(text) + escaper.finish()


class ReplyEscaper:
    """Streams a reply's text into the document, so that none of its lines is taken for ours.

    A line gets a backslash, which Markdown does not show, before its first visible character if it
    reads ``## You`` or ``## aish`` (in any case, with blanks around it), or if it begins with a
    ``:``, like a line of a checklist, or like one of our lines about a call.
    CRLF becomes LF; a lone CR, and any other character that some programs treat as a line break,
    becomes a blank: line numbers stay the same. Everything else stays as it is.
    """

    def __init__(self) -> None:
        self._breaks = _LineBreaks(lone_return=" ", table=_ODD_BREAKS)
        self._starts = _LineStarts(_escaped_start)

    def feed(self, delta: str) -> str:
        """Return what can be written now; a line start that may become one of ours is held back."""
        return self._starts.feed(self._breaks.feed(delta))

    def finish(self) -> str:
        """Return what was held back; the reply has ended."""
        return self._starts.feed(self._breaks.finish()) + self._starts.finish()


def quote(text: str) -> str:
    """Return ``text`` (a notice, reasoning) as a quote block that ends in a line feed.

    Controls are made visible. A blank line must follow, or the next line belongs to the quote, too.
    """
    breaks = _LineBreaks(lone_return="\n", table=_VISIBLE)
    lines = (breaks.feed(text) + breaks.finish()).rstrip("\n").split("\n")
    return "".join(f"> {line}".rstrip() + "\n" for line in lines)


class OutputBlock:
    """Streams a command's output into a fenced block that the output cannot close.

    Colors and cursor movements are dropped, other controls made visible; CR ends a line, as
    progress bars intend. A line that begins like a suggestion, one of our headings, a ``:`` command
    or a line of a checklist is indented by one space; one that begins with the fence gets a
    backslash before it.
    Only the head and the tail of a long output are shown.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._shortened = HeadAndTail()
        self._is_finished = False
        self._sequence = ""
        self._breaks = _LineBreaks(lone_return="\n", table=_VISIBLE)
        self._starts = _LineStarts(_indented_start)
        self._line_is_open = False

    def open(self) -> str:
        """Return the fence and the command, as the first line of the block."""
        command = self._escaped(f"$ {self._command}\n")
        return f"{OUTPUT_OPENING}\n{command}"

    def feed(self, delta: str) -> str:
        """Return as much of the output as can be written now."""
        return self._noted(self._shortened.feed(self._escaped(delta)))

    @property
    def left_out(self) -> str:
        """How much of the output is not shown: ``1,234 lines``; empty if all is or may yet be."""
        return self._shortened.left_out

    def _escaped(self, delta: str) -> str:
        """Return the escaped output, without an end that is not decided yet."""
        text = _SEQUENCE.sub("", self._sequence + delta)
        part = _PART_OF_SEQUENCE.search(text)
        end = part.start() if part else len(text)
        self._sequence = text[end:]
        return self._starts.feed(self._breaks.feed(text[:end]))

    def finish(self) -> str:
        """Return the rest of the output, which has ended; nothing if called again."""
        if self._is_finished:
            return ""
        self._is_finished = True
        rest = self._breaks.feed(self._sequence) + self._breaks.finish()
        text = self._starts.feed(rest) + self._starts.finish()
        return self._noted(self._shortened.feed(text) + self._shortened.finish())

    def close(self, status: str) -> str:
        """Return the rest, the closing fence, and ``status`` (how it ended) as a quote."""
        text = self.finish()
        line_end = "\n" if self._line_is_open else ""
        return f"{text}{line_end}{FENCE}\n\n{quote(status)}"

    def _noted(self, text: str) -> str:
        """Return ``text``, and note whether its last line is still open."""
        if text:
            self._line_is_open = not text.endswith("\n")
        return text


class _LineBreaks:
    """Makes LF the only line break of a text that comes in pieces, and maps characters."""

    def __init__(self, *, lone_return: str, table: Mapping[int, str]) -> None:
        self._lone_return = lone_return
        self._table = table
        self._held = ""

    def feed(self, delta: str) -> str:
        """Return ``delta`` mapped; a CR at its end waits for the LF that may follow."""
        text = self._held + delta
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n")
        return text.replace("\r", self._lone_return).translate(self._table)

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return self._lone_return if held else ""


class _LineStarts:
    """Rewrites the start of each line of a text that comes in pieces."""

    def __init__(self, rewrite: _Rewrite) -> None:
        self._rewrite = rewrite
        self._held = ""
        self._decided = False

    def feed(self, text: str) -> str:
        """Return ``text`` rewritten, without a last line whose start is not decided yet."""
        *lines, rest = text.split("\n")
        written: list[str] = []
        for line in lines:
            written += (self._piece(line, ends=True), "\n")
            self._decided = False
        written.append(self._piece(rest, ends=False))
        return "".join(written)

    def finish(self) -> str:
        """Return what was held back; the text has ended."""
        return self._piece("", ends=True)

    def _piece(self, text: str, *, ends: bool) -> str:
        """Return what can be written of a line, given its next piece."""
        if self._decided:
            return text
        self._held += text
        rewritten = self._rewrite(self._held, ends)
        if rewritten is None:
            return ""
        self._held, self._decided = "", True
        return rewritten


def _escaped_start(line: str, ends: bool) -> str | None:
    """Return the start of a reply's line, escaped if need be; None if more of it is needed."""
    if line.startswith(":") or _BOX.match(line):
        return f"\\{line}"
    quoted = line.lstrip(" ")
    if quoted.startswith(_REMARKS):
        return f"{line.removesuffix(quoted)}\\{quoted}"
    may_be_remark = quoted and any(remark.startswith(quoted) for remark in _REMARKS)
    if (may_be_remark or _may_be_box(line)) and not ends:
        return None
    return _escaped_heading(line, ends)


def _escaped_heading(line: str, ends: bool) -> str | None:
    """Return the start of a line, escaped if the line reads like one of our headings."""
    shape = " ".join(line[:_LONGEST_START].split()).casefold()
    ours = (YOU.casefold(), AISH.casefold())
    if not any(heading.startswith(shape) for heading in ours):
        return line
    if not ends and len(line) < _LONGEST_START:
        return None
    if shape not in ours:
        return line
    visible = line.lstrip()
    return line.removesuffix(visible) + f"\\{visible}"


def _indented_start(line: str, ends: bool) -> str | None:
    """Return the start of an output's line, indented or with a backslash if need be."""
    ours = ("CMD:", ":", YOU, AISH)
    if line.startswith(ours) or _BOX.match(line):
        return f" {line}"
    if _may_be_box(line) and not ends:
        return None
    visible = line[:_LONGEST_START].lstrip()
    if visible.startswith(FENCE):
        # Not indented further: for some highlighters a fence ends a block at any indentation.
        indent = len(line[:_LONGEST_START]) - len(visible)
        return f"{line[:indent]}\\{line[indent:]}"
    undecided = FENCE.startswith(visible) or any(start.startswith(line) for start in ours)
    if undecided and not ends and len(line) < _LONGEST_START:
        return None
    return line


def _may_be_box(line: str) -> bool:
    """Return whether a line with this beginning may become one of a checklist."""
    return len(line) < _LONGEST_BOX and "- [".startswith(line[:3])


_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")


class ClientPosition(NamedTuple):
    """A place between two characters: line and character, from 0, in the client's units."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the document as the client reports it: of a range, or of all (both ends None)."""

    text: str
    start: ClientPosition | None = None
    end: ClientPosition | None = None


def heading_after(heading: int, change: Change) -> int:
    """Return the line of the heading that the user writes under after ``change``.

    ``heading`` is its line before, from 0. If the change replaces the heading itself, the nearest
    heading in the new text counts, if there is one.
    """
    new = lines_of(change.text)
    if change.start is None or change.end is None:
        headings, otherwise = _headings(new), heading
    elif change.end <= ClientPosition(heading, 0):
        return heading - change.end.line + change.start.line + len(new) - 1
    elif change.start >= ClientPosition(heading, len(YOU)):
        return heading
    else:
        first, otherwise = change.start.line, change.start.line + len(new) - 1
        whole_lines = 0 if change.start.character == 0 else 1
        headings = [first + number for number in _headings(new) if number >= whole_lines]
    # The later of two that are equally near.
    return min(headings, key=lambda line: (abs(line - heading), -line), default=otherwise)


def last_heading(text: str) -> int | None:
    """Return the line of the last ``## You`` of a document, if it has one."""
    return max(_headings(lines_of(text)), default=None)


def open_heading(text: str) -> int | None:
    """Return the line of the last ``## You``; None if a reply follows, since it is answered."""
    heading = last_heading(text)
    if heading is None or AISH in (line.rstrip() for line in lines_of(text)[heading:]):
        return None
    return heading


def heading_of(text: str, heading: int | None) -> int | None:
    """Return the line of the heading that the user writes under, if there is one.

    If it is not at ``heading`` (it was edited, the editor has not loaded the file yet, or its line
    is unknown), the last heading of the document counts, unless a reply follows it: what was
    answered is not a new message.
    """
    if heading is not None and _is_heading(lines_of(text), heading):
        return heading
    return open_heading(text)


def prompt_after(text: str, heading: int | None) -> str:
    r"""Return what the user wrote: all that follows the heading, without blank lines around it.

    Args:
        text: the whole document.
        heading: its line, as ``heading_of`` takes it.

    Returns:
        The message, its lines joined by ``\n``; empty if nothing is written there.

    Raises:
        NotFound: there is no heading to write under.
    """
    heading = heading_of(text, heading)
    if heading is None:
        raise NotFound(
            f"The chat has no open `{YOU}` heading. Write `{YOU}` on a line of its own at its end,"
            " and your message below it. To start over, delete the file and run aish.chat.open."
        )
    return without_blank_lines("\n".join(lines_of(text)[heading + 1 :]))


def without_blank_lines(text: str) -> str:
    """Return ``text`` without blank lines around it, and without blanks at its end."""
    text = text.rstrip()
    blank = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, blank) + 1 :]


def lines_of(text: str) -> list[str]:
    """Return the lines of ``text`` as an LSP client counts them, without their breaks."""
    return _LINE_BREAK.split(text)


def _is_heading(lines: Sequence[str], number: int) -> bool:
    return number < len(lines) and lines[number].rstrip() == YOU


def _headings(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that are the user's heading."""
    return [number for number in range(len(lines)) if _is_heading(lines, number)]
