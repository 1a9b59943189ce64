"""The output of a command: how much of it is kept, where, and how it reads without a terminal."""

from __future__ import annotations

import asyncio
import errno
import gettext
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from aish_lsp.foundation.files import store_errors
from aish_lsp.foundation.opening import folder_of, ignored_folder

#: Bytes (UTF-8) that are kept from the start of an output, and from its end.
HEAD_LIMIT = 32 * 1024
TAIL_LIMIT = 32 * 1024
#: At most this many more bytes are cut, so that the cut falls between two lines.
_CUT_REACH = 2 * 1024


class KeptOutput:
    """An output of any length in bounded memory: its head and its tail, of so many bytes each."""

    def __init__(self, head: int = HEAD_LIMIT, tail: int = TAIL_LIMIT) -> None:
        self._most_head = head
        self._most_tail = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, text: str) -> None:
        """Append ``text``."""
        data = text.encode("utf-8")
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Not each time: cutting the front off moves all the rest.
        if len(self._tail) > 2 * self._most_tail:
            self._shorten_tail()

    def _shorten_tail(self) -> None:
        surplus = len(self._tail) - self._most_tail
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]

    def text(self) -> tuple[str, bool]:
        """Return the output, and whether some of it was left out.

        If so, a line in the middle says how many bytes; the cuts fall between lines, unless the
        lines are very long.
        """
        if self._left_out == 0 and len(self._tail) <= self._most_tail:
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


# Linear: no two neighboring parts can match the same character, and what introduces a sequence
# ends the one before it.
_CONTROL_SEQUENCE = re.compile(
    r"""
      (?: \x1b\[ | \x9b ) [0-?]*+ [\ -/]*+ [@-~]                   # CSI: colors, moves, erasing
    | (?: \x1b\] | \x9d ) [^\x07\x1b\x9c\x9d\n]*+ (?: \x07 | \x1b\\ | \x9c )  # OSC: titles, links
    | (?: \x1b[PX^_] | [\x90\x98\x9e\x9f] ) [^\x1b\x90\x98\x9c\x9e\x9f\n]*+
      (?: \x1b\\ | \x9c )                                         # DCS and similar
    | \x1b [\ -/]*+ [0-~]                                         # two characters, or a charset
    """,
    re.VERBOSE,
)
_CONTROL_CHARACTER = re.compile(r"[\x00-\x07\x0b-\x1f\x7f-\x9f]")


def clean_output(text: str) -> str:
    r"""Return ``text`` as it reads after a terminal has shown it.

    Control sequences are removed. Of a line that was overwritten (a progress bar), the last version
    is kept. Backspaces are applied, and other control characters except ``\n`` and ``\t`` are
    dropped. A sequence without an end hides nothing: only its introducer is removed.
    """
    if "\b" not in text and _CONTROL_CHARACTER.search(text) is None:
        return text
    text = _CONTROL_SEQUENCE.sub("", text).replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(map(_written_over, text.split("\n")))
    return _CONTROL_CHARACTER.sub("", text)


def _written_over(line: str) -> str:
    """Return what remains of a line with carriage returns and backspaces in it."""
    if "\r" in line:
        line = next((version for version in reversed(line.split("\r")) if version), "")
    if "\b" not in line:
        return line
    lines: list[str] = []
    for character in line:
        if character != "\b":
            lines.append(character)
        elif lines:
            lines.pop()
    return "".join(lines)


# Recognizes, by its output, a command that wants a terminal although there is none.

#: Characters at the end of an output that are searched: why a command gave up comes last.
_LAST_WORDS: Final = 4096

#: What an editor says before it waits for keys, which never come.
_WAITS: Final = re.compile(
    r"^Vim: Warning: (?:Output is not to|Input is not from) a terminal", re.MULTILINE
)

#: What a command says when it gives up: an editor, or one that asks or needs a full screen.
_GAVE_UP: Final = re.compile(
    r"""
      a[ ]terminal[ ]is[ ]required | no[ ]tty[ ]present | a[ ]password[ ]is[ ]required
    | (?:is[ ]not|not|must[ ]be|connected[ ]to|run[ ]from)[ ]an?[ ](?:tty|terminal)\b
    | failed[ ]tty[ ]get | Error[ ]opening[ ]terminal | open[ ]terminal[ ]failed
    | Terminal[ ]is[ ]dumb | terminal[ ]prompts[ ]disabled
    | /dev/tty\b.{0,40}No[ ]such[ ]device
    | (?:agent|stdin|standard[ ]input).{0,20}Inappropriate[ ]ioctl[ ]for[ ]device
    | ^EOFError\b | \(EOF[ ]or[ ]read[ ]error | asking[ ]for[ ]approval:[ ]EOF
    | Host[ ]key[ ]verification[ ]failed
    | Permission[ ]denied[ ]\([^)\n]{0,80}(?:password|keyboard-interactive)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


#: A choice that is offered at the end of a question: ``[Y/n]``, ``(yes/no)``, ``[y,n,q,?]``.
_CHOICE: Final = r"[\[(](?:y|yes|n|no)[/|,](?:y|yes|n|no)\b[^\])\n]{0,40}[\])][?:]?"
#: What a question with a menu shows below it, of which one line is marked.
_MENU: Final = r"(?= [^\u276f\u203a\u25cf\u25c9]{0,400} [\u276f\u203a\u25cf\u25c9]) [^?]{1,1000} \Z"
#: A question that was printed last: on a line that does not end, or with a choice, perhaps with
#: the word of a program that took silence for a no (``[Y/n] Abort.``).
_UNANSWERED: Final = re.compile(
    rf"""
      (?: [?:] | [?:][ ]?[\[(][^\[\]()\n]{{0,80}}[\])][?:]? ) [ \u00a0]* \Z
    | {_CHOICE} (?: [ ]* \w{{1,12}}\.? | \s* Abort(?:ed|ing)? [.!]* )? \s* \Z
    | \b press[ ](?:any[ ]key|enter|return)\b [^\n]{{0,40}} \s* \Z
    | ^[?\u25c6][ ]{{1,2}}\S [^\n]{{0,200}} (?: [\u203a\u00bb] [ ]* \Z | \n {_MENU} )
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


def ends_in_question(output: str) -> bool:
    """Return whether a command's output ends in a question, which nobody could answer."""
    return _UNANSWERED.search(clean_output(output[-_LAST_WORDS:])) is not None


def waits_for_terminal(printed: str) -> bool:
    """Return whether a command that ``printed`` this to stderr probably waits for keys forever."""
    return _WAITS.search(printed) is not None


def gave_up_for_terminal(output: str) -> bool:
    """Return whether a command that failed with this output did so because it had no terminal."""
    return _GAVE_UP.search(output[-_LAST_WORDS:]) is not None


def line_for_terminal(text: str, folder: Path) -> str:
    """Return what the user can paste into a terminal of their own to run ``text`` in ``folder``."""
    return f"cd {shlex.quote(str(folder))} && {text}"


# How the output of a confined command shows that something was refused.

#: The errors of a refused file, system call or socket.
_REFUSALS: Final = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EAFNOSUPPORT,
    errno.ENETUNREACH,
    errno.ENETDOWN,
)
#: What libraries print instead, untranslated.
_OTHER_WORDS: Final = (
    "no new privileges",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "EAI_AGAIN",
    "EACCES",
    "EPERM",
    "EROFS",
)
#: Where Linux has the catalogs of translated texts; the second is Ubuntu's.
_CATALOGS: Final = ("/usr/share/locale", "/usr/share/locale-langpack")


def refusal_pattern(environ: Mapping[str, str]) -> re.Pattern[str]:
    """Return a pattern for the words of a refusal, in English and in the locale of ``environ``."""
    names = (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return _pattern_in(f"{environ.get('LANGUAGE', '')}:{next(filter(None, names), 'C')}")


@lru_cache(maxsize=8)
def _pattern_in(languages: str) -> re.Pattern[str]:
    """Return the pattern for the first installed one of ``languages``, separated by colons."""
    texts = map(os.strerror, _REFUSALS)
    words = {*texts, *_translated(languages.split(":")), *_OTHER_WORDS}
    # Go programs write all of them in lower case.
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE)


def _translated(languages: Sequence[str]) -> Iterator[str]:
    """Yield the C library's messages in a language, if its catalogs are installed."""
    for folder in _CATALOGS:
        # Nothing depends on a catalog that is broken or cannot be read.
        with suppress(Exception):
            catalog = gettext.translation("libc", folder, languages, fallback=True)
            yield from [catalog.gettext(os.strerror(number)) for number in _REFUSALS]


# Whole outputs of commands: ``.aish/output/ID.txt`` in the workspace, without secrets.

#: Lines and characters of an output that a chat shows; a longer one is cut to head and tail.
SHOWN_LINES: Final = 60
SHOWN_CHARACTERS: Final = 32_000

#: Bytes that the outputs of a workspace may take together, and so the limit of each.
LIMIT: Final = 100 * 1024 * 1024

#: Characters that wait to be written, and how many of them stay: a secret may continue after them.
_WAITING: Final = 1024 * 1024
_OVERLAP: Final = 64 * 1024


class WholeOutput:
    """The file of one output, created when it becomes longer than a chat shows.

    Args:
        folder: ``.aish`` of the workspace, created if it is missing.
        name: the command's id.
        mask: removes the secrets from a text.
    """

    def __init__(self, folder: Path, name: str, mask: Callable[[str], str]) -> None:
        self.path = folder / "output" / f"{name}.txt"
        self._mask = mask
        self._text: list[str] = []
        self._waiting = 0
        self._due = _WAITING
        self._lines = 0
        self._characters = 0
        self._written = 0

    @property
    def is_long(self) -> bool:
        """Whether it is longer than a chat shows."""
        return self._lines > SHOWN_LINES or self._characters > SHOWN_CHARACTERS

    async def add(self, text: str) -> None:
        """Take the next piece of the output.

        Raises:
            StoreUnavailable: the file cannot be written.
        """
        self._text.append(text)
        self._waiting += len(text)
        self._lines += text.count("\n")
        self._characters += len(text)
        if self._waiting > self._due:
            await asyncio.to_thread(self._write, at_end=False)

    async def close(self, *, always: bool = False) -> Path | None:
        """Write the rest; return the file, or None if the output is not long.

        With ``always`` the file is written however short the output is.

        Raises:
            StoreUnavailable: as ``add``.
        """
        if not self.is_long and not always:
            return None
        await asyncio.to_thread(self._write, at_end=True)
        return self.path

    def _write(self, *, at_end: bool) -> None:
        text = "".join(self._text)
        end = len(text) if at_end else self._cut(text)
        self._text, self._waiting = [text[end:]], len(text) - end
        # What could not be cut is looked at again when it is twice as long.
        self._due = max(_WAITING, 2 * self._waiting)
        data = self._clean(text[:end]).encode(errors="replace")[: LIMIT - self._written]
        if not data:
            return
        with store_errors(self.path, "write"):
            ignored_folder(self.path.parent.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            flags |= os.O_APPEND if self._written else os.O_TRUNC
            with (
                _folder_of(self.path) as (folder, own),
                os.fdopen(os.open(own, flags, 0o600, dir_fd=folder), "wb") as file,
            ):
                file.write(data)
            self._written += len(data)
            make_room(LIMIT, keep=self.path)

    def _clean(self, text: str) -> str:
        return self._mask(clean_output(text))

    def _cut(self, text: str) -> int:
        """Return where ``text`` can be cut: at a line's end, and in no secret."""
        for part in (1, 2, 4, 8):
            end = text.rfind("\n", 0, len(text) - _OVERLAP // part) + 1
            # No secret, and nothing that a terminal hides, is longer than what is looked at.
            before, after = text[max(0, end - _OVERLAP) : end], text[end : end + _OVERLAP]
            if end and self._clean(before) + self._clean(after) == self._clean(before + after):
                return end
        # A very long line: all of it is written, cleaned as a whole.
        return len(text) if len(text) > 8 * _WAITING else 0


def _folder_of(path: Path) -> AbstractContextManager[tuple[int, str]]:
    """Open the folder of an output, or make it; neither it nor ``.aish`` may be a link."""
    return folder_of(path.parents[2], "/".join(path.parts[-3:]), make=0o700)


def make_room(limit: int, *, keep: Path) -> None:
    """Delete the oldest outputs beside ``keep`` beyond ``limit`` bytes, but never ``keep``.

    Raises:
        OSError: their folder cannot be read.
    """
    files = []
    total = 0
    with _folder_of(keep) as (above, own):
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
        try:
            for name in os.listdir(folder):  # noqa: PTH208 - by its descriptor
                with suppress(FileNotFoundError):  # Another command may make room just now.
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and name.endswith(".txt"):
                        total += status.st_size
                        if name != own:
                            files.append((status.st_mtime_ns, status.st_size, name))
            for _, size, name in sorted(files):
                if total <= limit:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                total -= size
        finally:
            os.close(folder)
