"""What is sent with a question that names it: files, and what the terminal ran (``@terminal``).

A file is sent as the editor has it, or else as it is on disk, if its real path is in the workspace
and no ignore rule excludes it. If something cannot be sent, the user is told and the question goes
without it. The user must agree before a file of keys or passwords is sent to a model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from aish_lsp.context.budget import shortened
from aish_lsp.context.mentions import Mention, Named, mentions
from aish_lsp.context.messages import Attached
from aish_lsp.context.selection import (
    EACH_END,
    Point,
    SourceText,
    language_of,
    selection,
)
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.opening import FileText, NotRegular, Outside, read_text, real_name
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import clipped, count_of, escaped, one_line
from aish_lsp.shell.output import clean_output
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import AskUser, OpenText, ReadTerminal
    from aish_lsp.project.picture import FileNames

#: A chat document: an ignored file, but users may ask about what is said there. The second editor
#: on a folder has a chat of its own, ``chat-2.md``.
CHAT: Final = re.compile(r"(?:^|/)\.aish/chat(?:-\d{1,2})?\.md$", re.IGNORECASE)

#: Files that one question may attach, and texts behind an ``@`` that are tried.
MOST: Final = 20
_MOST_TRIED: Final = 200

#: Bytes; a larger file is not source code and is not read.
LARGEST: Final = 2 << 20


@dataclass(slots=True)
class Attachments:
    """What is attached to a question, and what the user should know about it."""

    attached: list[Attached] = field(default_factory=list)
    #: Paths of files that usually hold secrets, by their name or by a link's name.
    secret: set[str] = field(default_factory=set)
    notices: list[str] = field(default_factory=list)


async def named_files(question: str, files: FileNames, open_text: OpenText) -> Attachments:
    """Return the contents of the files that ``question`` names."""
    attachments = Attachments()
    named = [mention for mention in mentions(question) if not mention.is_terminal]
    if not named:
        return attachments
    root = files.root
    if root is None:
        if any(mention.is_path and mention.is_clear for mention in named):
            attachments.notices.append("No folder is open, so files named with @ were not sent.")
        return attachments
    places = await _located(root, named, open_text, attachments)
    paths = [place.path for place in places if place.state == "file"]
    left_out = await files.left_out(paths) if paths else set()
    for location in places:
        attached, notices = await asyncio.to_thread(_sent, location, left_out)
        # Two names may lead to one file, and two lines may be in one definition.
        attachments.attached += (part for part in attached if part not in attachments.attached)
        if attached and (is_secret_file(location.path) or is_secret_file(location.named.name)):
            attachments.secret.add(location.path)
        attachments.notices += (notice for notice in notices if notice not in attachments.notices)
    return attachments


@dataclass(frozen=True, slots=True)
class _NamedFile:
    """What was found for a name.

    Attributes:
        named: the name, as it was understood.
        state: what is there.
        path: its real path in the workspace, ``/``-separated.
        file: its text as it was read, if it is a file on the disk.
        is_secret: whether that is also a file in a secret place.
        text: its text in an editor, if it is open.
        end: where the name ends in what is written.
        missing: what is written, if that goes on as the name of another file might.
    """

    named: Named
    state: Literal["file", "unsaved", "folder", "special", "outside", "unreadable", "missing"]
    path: str = ""
    file: FileText | None = None
    is_secret: bool = False
    text: str | None = None
    end: int = 0
    missing: str = ""


async def _located(
    root: Path, named: Sequence[Mention], open_text: OpenText, found: Attachments
) -> list[_NamedFile]:
    """Return what the mentions mean, each once; only so many names are looked up."""
    locations: dict[tuple[str, str | None], _NamedFile | None] = {}
    end = looked_up = 0
    for mention in await asyncio.to_thread(_with_blanks, root, named):
        if mention.start < end:
            continue  # It is part of the name before it.
        key = mention.written, mention.lines
        if key not in locations:
            if looked_up == MOST or len(locations) == _MOST_TRIED:
                most = MOST if looked_up == MOST else _MOST_TRIED
                found.notices.append(f"Only the first {most} names with @ were looked up.")
                break
            locations[key] = await _meant(root, mention, open_text)
            looked_up += mention.is_clear or locations[key] is not None
        if (location := locations[key]) is not None:
            end = mention.start + location.end
    return [place for place in locations.values() if place is not None]


def _with_blanks(root: Path, named: Sequence[Mention]) -> list[Mention]:
    """Return the mentions, those with their blanks that are names of files only with these."""

    def is_file(name: str) -> bool:
        try:
            return (root / name).is_file()
        except (OSError, ValueError):
            return False

    return [
        next((longer for longer, read in mention.longer() if is_file(read.name)), mention)
        for mention in named
    ]


async def _meant(root: Path, mention: Mention, open_text: OpenText) -> _NamedFile | None:
    """Return what a mention means; None if it may be no name of a file."""
    location, others = await asyncio.to_thread(_on_disk, root, mention)
    for end, named, path in others:
        if (text := await open_text(root / path)) is not None:
            return _NamedFile(named, "unsaved", path, text=text, end=end)
    if location is None:
        return await asyncio.to_thread(_not_a_file, root, mention) if mention.is_clear else None
    if location.file is None:
        return location
    return replace(location, text=await open_text(root / location.path))


def _on_disk(
    root: Path, mention: Mention
) -> tuple[_NamedFile | None, list[tuple[int, Named, str]]]:
    """Return the longest name of a mention that is a file, with its text; None if none is.

    Also return the longer ones, with their paths, that a new file in an editor could have.
    """
    others = []
    folders: dict[str, str | None] = {}
    for end, named in mention.readings():
        folder, _, own = named.name.rpartition("/")
        folder = folder or ("/" if named.name.startswith("/") else "")
        if folder not in folders:
            folders[folder] = _real_folder(root, folder)
        real = folders[folder]
        # Most beginnings of a name are no files, and many are in no folder.
        if real is None or not os.path.lexists(root / named.name):
            if real:
                others.append((end, named, f"{real}/{own}".removeprefix("./")))
        elif location := _opened(root, named):
            rest = mention.written[end:] if mention.lines is None else ""
            missing = mention.spoken[-1] if _GOES_ON.match(rest) else ""
            return replace(location, end=end, missing=missing), others
    return None, others


def _real_folder(root: Path, name: str) -> str | None:
    """Return the real name of a folder, empty if it is outside; None if it is no folder."""
    try:
        return (real_name(root, name) or ".") if (root / name).is_dir() else None
    except Outside:
        return ""
    except (OSError, ValueError):
        return None


#: What is behind a file's name as if that went on. (``app.py.`` is the end of a sentence.)
_GOES_ON: Final = re.compile(r"[./\\]\w")


def _opened(root: Path, named: Named) -> _NamedFile | None:
    """Return what is there under a name; None if it is a folder, or nothing."""
    # Imported late, so that the start does not wait for its table.
    from aish_lsp.shell.confinement.places import is_linked_from_secret  # noqa: PLC0415 - as above

    try:
        file = read_text(root, named.name, LARGEST)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return None
    except Outside:
        return None if (root / named.name).is_dir() else _NamedFile(named, "outside")
    except NotRegular:
        return _NamedFile(named, "special")
    except OSError:
        return _NamedFile(named, "unreadable")
    return _NamedFile(named, "file", file.name, file, is_linked_from_secret(file.status, root))


def _not_a_file(root: Path, mention: Mention) -> _NamedFile | None:
    """Return what is told of a name that is no file; None if it may be no name, either."""
    for name in mention.spoken:
        try:
            if (root / name).is_dir():
                real_name(root, name)
                return _NamedFile(Named(name), "folder", end=len(mention.written))
        except Outside:
            return _NamedFile(Named(name), "outside", end=len(mention.written))
        except (OSError, ValueError):
            break
    return _NamedFile(Named(mention.spoken[-1]), "missing") if mention.is_path else None


def _sent(place: _NamedFile, left_out: Collection[str]) -> tuple[list[Attached], list[str]]:
    """Return what is attached for a name, and messages if not all of it is sent."""
    name = escaped(place.named.name)
    sentences = {
        "missing": f"There is no file {name} in the workspace; the name was sent as you wrote it.",
        "folder": f"{name} is a folder. Name a file in it.",
        "special": f"{name} is not a regular file and was not sent.",
        "outside": f"{name} is outside the workspace and was not sent.",
        "unreadable": f"{name} cannot be read, so it was not sent.",
    }
    if place.state in sentences:
        return [], [sentences[place.state]]
    if place.path in left_out and not CHAT.search(place.path):
        reason = "is ignored (.gitignore) or belongs to another repository: it was not sent."
        return [], [f"{name} {reason}"]
    if place.is_secret:
        return [], [f"{name} is also a file in a secret place, and was not sent."]
    notices = []
    if place.missing:
        notices.append(f"There is no file {escaped(place.missing)}: {name} was sent.")
    text = place.text
    if text is None:
        assert place.file is not None
        if place.file.problem:
            return [], [f"{name} {place.file.problem}, and was not sent."]
        if not place.file.is_utf8:
            notices.append(f"{name} is not UTF-8: \ufffd was sent for what could not be read.")
        text = place.file.text
    document = SourceText(place.path, text, language_of(place.path))
    attached, notice = _attached(document, place.named)
    return attached, [*notices, notice] if notice else notices


def _attached(document: SourceText, named: Named) -> tuple[list[Attached], str]:
    if not named.first:
        whole = Attached("file", document.path, document.text, document.language)
        if not document.text.strip():
            return [whole], f"{escaped(document.path)} is empty."
        return [shortened(whole, EACH_END)], ""
    count = len(document.text.removesuffix("\n").split("\n"))
    if named.first > count:
        length = f"{escaped(document.path)} has {count_of(count, 'line')}"
        return [], f"{length}: line {named.first} was not sent."
    attached = selection(document, Point(named.first - 1, 0), Point(named.last, 0))
    if not attached:
        return [], f"The lines of {escaped(document.path)} that are named are blank."
    return attached, ""


#: Characters at the end of an output that are examined, and of a command that are shown.
_MOST_OUTPUT: Final = 1 << 20
_COMMAND: Final = 200


async def named_terminal(question: str, read: ReadTerminal) -> tuple[list[Attached], str]:
    """Return what the terminal ran, if ``question`` names it, or else why that is not sent."""
    if not any(mention.is_terminal for mention in mentions(question)):
        return [], ""
    shown = await read()
    if shown is None:
        return [], "The editor did not say what its terminal last ran: @terminal was not sent."
    command = clipped(escaped(one_line(shown.command)), _COMMAND) or "its last lines"
    ended = "" if shown.exit_code is None else f"exit {shown.exit_code}"
    where = f"in {escaped(one_line(shown.cwd))}" if shown.cwd else ""
    head = ", ".join(filter(None, (ended, where)))
    output = clean_output(shown.output[-_MOST_OUTPUT:]).strip("\n")
    ran = f"$ {shown.command}\n" if shown.command else ""
    text = f"{ran}{output}\n" + (f"({head})\n" if head else "")
    return [shortened(Attached("terminal", command, text, "console"), EACH_END)], ""


#: The bytes of UTF-8 that no character begins with.
_WITHIN_CHARACTER: Final = bytes(range(0x80, 0xC0))


def piped(head: bytes, tail: bytes, left_out: int) -> Attached | None:
    """Return what was piped into a command, of which ``left_out`` bytes in the middle are missing.

    None if it is blank. What is not UTF-8 is replaced.
    """
    # What is left out may begin or end within a character.
    pieces = [head, tail.lstrip(_WITHIN_CHARACTER)] if left_out else [head + tail]
    parts = [piece.decode("utf-8", "replace") for piece in pieces]
    gap = f"\n[... {count_of(left_out, 'byte')} left out ...]\n" if left_out else ""
    text = clean_output(gap.join(parts))
    if not text.strip():
        return None
    whole = Attached("piped", "what was piped in", f"{text.rstrip()}\n", "console")
    return replace(shortened(whole, EACH_END), cut=bool(left_out) or len(text) > 2 * EACH_END)


# The user's consent before a file of keys or passwords goes to a model, and what was then sent.


@dataclass(slots=True)
class Consents:
    """The texts of files that may hold secrets, which the user lets this session send."""

    _agreed: set[str] = field(default_factory=set)
    _waiting: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def sift(
        self, attached: Iterable[Attached], secret: Collection[str], ask_user: AskUser
    ) -> tuple[list[Attached], list[str]]:
        """Return which of ``attached`` may be sent, and why the others must not.

        The user is asked about the paths that are ``secret``, once for each file.
        """
        files: dict[str, list[Attached]] = {}
        for part in attached:
            files.setdefault(part.path, []).append(part)
        allowed: list[Attached] = []
        refusals: list[str] = []
        for path, parts in files.items():
            refusal = await self._refusal(parts, ask_user) if path in secret else ""
            if refusal:
                refusals.append(refusal)
            else:
                allowed += parts
        return allowed, refusals

    async def _refusal(self, parts: Sequence[Attached], ask_user: AskUser) -> str:
        """Return why ``parts``, all of one file, must not be sent; empty if they may be."""
        digest = _digest(parts)
        if digest in self._agreed:
            return ""
        places = "; ".join(map(str, sent_along(parts)))
        answer = await ask_user(_question(places))
        if answer:
            self._agreed.add(digest)
            return ""
        refused = f"{places}: not sent, as files with that name usually hold keys or passwords."
        if answer is None:
            consent_id = new_id()
            self._waiting[consent_id] = digest, places
            refused += f" `:approve {consent_id}` in the chat lets it go; then ask again."
        return refused

    def approve(self, consent_id: str) -> str | None:
        """Allow what nobody could be asked about; return its files, or None for an unknown id."""
        waiting = self._waiting.pop(consent_id, None)
        if waiting is None:
            return None
        digest, places = waiting
        self._agreed.add(digest)
        return places

    def clear(self) -> None:
        """Forget everything, since another session begins."""
        self._agreed.clear()
        self._waiting.clear()


def secret_selection(attached: Iterable[Attached], at: Path | None, folder: Path) -> set[str]:
    """Return the paths in ``attached`` that belong to files which usually hold secrets.

    ``at`` is the file in which the user selected. Outside the workspace's folder its whole path
    counts, since ``attached`` has only the name of such a file.
    """
    names = {part.path for part in attached}
    if at is not None:
        at = at.relative_to(folder) if at.is_relative_to(folder) else at
        if is_secret_file(at.as_posix()):
            return names
    return {name for name in names if is_secret_file(name)}


def _question(places: str) -> Question:
    return Question(
        f"Send {places} to the model? Files with that name usually hold keys or passwords. Only"
        " those that aish knows from its environment would be masked.",
        yes="Send it",
        no="Do not send it",
    )


def _digest(parts: Sequence[Attached]) -> str:
    text = json.dumps([[part.kind, part.path, part.text] for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()


# What was sent with a question, for display.

_IN_WORDS = {
    "selection": "{}",
    "definition": "the definition around it ({})",
    "problems": "the problems reported there",
    "file": "{}",
    "terminal": "the terminal's last command ({})",
    "piped": "{}",
}


@dataclass(frozen=True, slots=True)
class SentAlong:
    """An attached text: its kind, its path, its lines (from 1; 0: all), whether it was cut."""

    kind: str
    path: str
    first: int
    last: int
    cut: bool

    def __str__(self) -> str:
        """Return a description in words."""
        name = Attached("file", escaped(self.path), "", "", self.first, self.last).place
        words = _IN_WORDS[self.kind].format(name)
        if not self.cut:
            return words
        # Only the first line of a long definition is sent.
        return f"{words}, cut {'short' if self.kind == 'definition' else 'to its head and tail'}"


def sent_along(attached: Iterable[Attached]) -> tuple[SentAlong, ...]:
    """Return a description of each text that is attached to a question."""
    return tuple(
        SentAlong(part.kind, part.path, part.first, part.last, part.cut) for part in attached
    )
