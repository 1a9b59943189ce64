"""The tools that replace a text in a file or write a whole file. The user confirms each change."""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.context.attached import LARGEST
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.files import config_file, data_dir, put_in_place, store_errors
from aish_lsp.foundation.job import run_uncancellable
from aish_lsp.foundation.masking import MASK
from aish_lsp.foundation.opening import read_regular
from aish_lsp.foundation.ports import Approval, Diff, Question
from aish_lsp.foundation.redaction import REDACTED
from aish_lsp.foundation.text import (
    count_of,
    escaped,
    hidden_characters,
    shown_path,
    with_line_feeds,
)
from aish_lsp.tools import Place, ToolResult, Workplace, locate, nearest_names, text_of

if TYPE_CHECKING:
    from aish_lsp.tools import Around
    from aish_lsp.tools.reading import Looking

#: Lines of a change that a question shows, and characters of each.
_SHOWN_LINES: Final = 40
_SHOWN: Final = 160

#: Lines around a change that are shown.
_AROUND: Final = 2

_BOM: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class _Now:
    """A file before a change: its text ``raw`` as on disk, and ``text`` with LF line ends.

    ``is_open``: an editor has it open, and the editor's text counts; ``exists``: it is on disk.
    """

    raw: str
    text: str
    exists: bool
    is_open: bool


class Changing:
    """Changes files of one workspace for a model, with the user's consent to each change.

    ``looking`` knows what the model has been shown.
    """

    def __init__(self, workplace: Workplace, looking: Looking) -> None:
        self._workplace = workplace
        self._looking = looking

    async def edit_file(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Replace a text that occurs once in a file or, if asked, wherever it occurs.

        Raises:
            AishError: it was not done; the message tells the model why.
        """
        named, old = text_of(arguments, "path"), text_of(arguments, "old")
        new = text_of(arguments, "new")
        every = arguments.get("all") in (True, "true")
        place = await self._place(named)
        now = await self._now(place, named)
        if not now.exists and not now.is_open:
            names = list(await self._workplace.files.names())
            raise NotFound(
                f"There is no file {shown_path(named)}: write_file makes one."
                f"{nearest_names(place.name, names)}"
            )
        # The answer to an edit reveals what is in the file.
        await self._looking.agreed(place, named, now.text, around)
        after = _replaced(now.raw, old, new, shown_path(place.name), every=every)
        return await self._changed("edit_file", place, now, after, around)

    async def write_file(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Write a new file, or all of a file that the model has read.

        Raises:
            AishError: it was not done; the message tells the model why.
        """
        named, content = text_of(arguments, "path"), text_of(arguments, "content")
        place = await self._place(named)
        now = await self._now(place, named)
        is_there = now.exists or now.is_open
        if is_there and now.text and not self._looking.has_shown(place.name, now.text):
            raise Denied(
                f"{shown_path(named)} is there already, and holds something else than you were"
                " last shown. Call read_file first, or edit_file to change a part."
            )
        if not is_there and await self._workplace.files.ignores(place.name):
            raise Denied(
                f"{shown_path(named)} would be ignored by git, and could not be undone. If it has"
                " to be there, make it by a command."
            )
        after = with_line_feeds(content)
        if _has_crlf(now.raw):
            after = after.replace("\n", "\r\n")
        if now.raw.startswith(_BOM) and not after.startswith(_BOM):
            after = _BOM + after
        return await self._changed("write_file", place, now, after, around)

    async def _place(self, named: str) -> Place:
        """Return the place of a file that may be changed or created.

        Raises:
            Denied: it is outside the workspace, protected, or not part of the project.
        """
        place = await locate(self._workplace.root, named)
        if reason := _protection_reason(self._workplace.root, place, named):
            raise Denied(f"{shown_path(named)} is not changed by a tool: it {reason}.")
        if not place.name or place.path.is_dir():
            raise InvalidArgument(f"{shown_path(named) or 'That'} is a folder.", path="path")
        return place

    async def _now(self, place: Place, named: str) -> _Now:
        """Return what a file holds now.

        Raises:
            AishError: it is not text, or the model may not see it.
        """
        exists = place.path.exists()
        if exists:
            await self._looking.may_be_read(place, named)
        raw = await asyncio.to_thread(_text_on_disk, place) if exists else ""
        text = self._workplace.open_text(place.path)
        if text is not None:
            return _Now(text, text, exists, is_open=True)
        return _Now(raw, with_line_feeds(raw.removeprefix(_BOM)), exists, is_open=False)

    async def _changed(
        self, tool: str, place: Place, now: _Now, after: str, around: Around
    ) -> ToolResult:
        """Ask the user, then make a change; ``after`` has the line ends of ``now.raw``."""
        name = shown_path(place.name)
        text = with_line_feeds(after.removeprefix(_BOM))
        if after == now.raw and (now.exists or now.is_open):
            raise InvalidArgument(f"Nothing would change in {name}.")
        if any(mark in text and mark not in now.text for mark in (REDACTED, MASK)):
            raise InvalidArgument(
                f"The text holds {REDACTED} or {MASK}, which stands for a secret that you were not"
                f" shown. Leave that part of {name} as it is: edit_file changes another."
            )
        answer = await self._workplace.ask_user(_question(place, now, text))
        if answer is None:
            return ToolResult(f"Not done: nobody could be asked about {name}.", "denied")
        if not answer:
            return ToolResult(f"The user refused this change of {name}.", "denied")
        async with self._workplace.covered(f"{tool} {shlex.quote(place.name)}", around):
            # Check again after the snapshot, which may take a while.
            again = await locate(self._workplace.root, place.name)
            if again != place or await self._now(place, place.name) != now:
                raise Denied(f"{name} has changed meanwhile. Nothing was written: read it again.")
            if now.is_open:
                return await self._in_editor(place, now, text)
            # A thread outlives a cancel of this task: the change must end before the block does.
            await run_uncancellable(asyncio.to_thread(write_keeping, place.path, after.encode()))
        self._looking.showed(place.name, text)
        return ToolResult(_summary(name, now, text))

    async def _in_editor(self, place: Place, now: _Now, text: str) -> ToolResult:
        """Let the editor change the file that it has open."""
        name = shown_path(place.name)
        if not await self._workplace.edit_open(place.path, now.text, text):
            raise Denied(f"The editor did not change {name}, which it has open. Read it again.")
        self._looking.showed(place.name, text)
        return ToolResult(
            f"{_summary(name, now, text)} It is open in the editor and not saved yet: a command"
            " sees the file as it is on the disk."
        )


def _protection_reason(root: Path, place: Place, named: str) -> str:
    """Return why a tool may not change what was ``named``; empty if it may."""
    # Imported late, so that the start does not wait for the grammar of commands.
    from aish_lsp.shell.risk.paths import why_protected  # noqa: PLC0415 - as above

    spelled = os.path.normpath(Path(root, named))
    for path in (str(place.path), spelled):
        if reason := why_protected(path):
            return reason
    own = map(os.path.realpath, (data_dir(), config_file()))
    return "is aish's own" if any(place.path.is_relative_to(one) for one in own) else ""


def _text_on_disk(place: Place) -> str:
    """Return what a file holds, byte for byte.

    Raises:
        Denied: it is binary, too large, or cannot be read.
    """
    content = read_regular(place.path, LARGEST + 1)
    name = shown_path(place.name)
    if content is None:
        raise Denied(f"{name} cannot be read.")
    if len(content) > LARGEST:
        raise Denied(f"{name} is larger than {LARGEST >> 20} MiB.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Denied(f"{name} is binary, or not UTF-8: it is not changed by a tool.")
    return text


#: The most pairs of lines that are compared, without the equal lines at both ends.
_MOST_COMPARED: Final = 250_000


def _has_crlf(text: str) -> bool:
    return 2 * text.count("\r\n") > text.count("\n")


def _replaced(text: str, old: str, new: str, name: str, *, every: bool) -> str:
    """Return ``text`` with ``new`` in place of ``old``; other line ends stay as they are.

    Raises:
        InvalidArgument, NotFound: ``old`` does not occur as it should.
    """
    if not old:
        raise InvalidArgument("`old` is empty. Name the text that is to be replaced.", path="old")
    old, new = with_line_feeds(old), with_line_feeds(new)
    if _has_crlf(text):
        new = new.replace("\n", "\r\n")
    for wanted in dict.fromkeys((old, old.replace("\n", "\r\n"))):
        times = text.count(wanted)
        if times > 1 and not every:
            at = [text.count("\n", 0, one) + 1 for one in _places(text, wanted)]
            lines = ", ".join(map(str, at[:8]))
            raise InvalidArgument(
                f"`old` occurs {times} times in {name}, in lines {lines}. Take more of the text"
                " around the one that you mean, or set `all`.",
                path="old",
            )
        if times:
            return text.replace(wanted, new)
    raise NotFound(
        f"`old` does not occur in {name} as it is now. It has to be the same, with each blank and"
        " line end: read the file again."
    )


def _places(text: str, wanted: str) -> list[int]:
    places, at = [], text.find(wanted)
    while at >= 0:
        places.append(at)
        at = text.find(wanted, at + len(wanted))
    return places


def _difference(before: str, after: str) -> list[str]:
    """Return the lines of a diff, without its heading."""
    old, new = before.split("\n"), after.split("\n")
    first, end = _same_ends(old, new)
    head, tail = old[max(0, first - _AROUND) : first], old[len(old) - end :][:_AROUND]
    old, new = old[first : len(old) - end], new[first : len(new) - end]
    if len(old) * len(new) > _MOST_COMPARED:
        # Comparing each line with each other would take minutes.
        gone, came = (f"-{line}" for line in old), (f"+{line}" for line in new)
        return [*(f" {line}" for line in head), *gone, *came, *(f" {line}" for line in tail)]
    old, new = [*head, *old, *tail], [*head, *new, *tail]
    rows = difflib.unified_diff(old, new, n=_AROUND, lineterm="")
    return ["..." if row.startswith("@@") else row for row in list(rows)[3:]]


def _same_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are the same at the beginning, and how many others at the end."""
    most, first, end = min(len(old), len(new)), 0, 0
    while first < most and old[first] == new[first]:
        first += 1
    while end < most - first and old[-1 - end] == new[-1 - end]:
        end += 1
    return first, end


def _question(place: Place, now: _Now, after: str) -> Question:
    """Return the question that shows what would change."""
    is_there = now.exists or now.is_open
    before = now.text
    rows = _difference(before, after)
    shown = [f"    {escaped(row[:_SHOWN])}" for row in rows[:_SHOWN_LINES]]
    is_cut = len(rows) > _SHOWN_LINES or any(len(row) > _SHOWN for row in rows[:_SHOWN_LINES])
    if len(rows) > _SHOWN_LINES:
        shown.append(f"    ... {len(rows) - _SHOWN_LINES} more lines")
    reasons = ["a tool of the model changes it" if is_there else "a tool of the model makes it"]
    if now.is_open:
        reasons.append("it is open in the editor, and is changed there, unsaved")
    added = "\n".join(row[1:] for row in rows if row.startswith("+"))
    if hidden := ", ".join(hidden_characters(added)[:5]):
        reasons.append(f"it holds characters that are not seen: {hidden}")
    name = shown_path(place.name)
    told = [f"{'Change' if is_there else 'Make'} {name} (caution)?", "", *shown, ""]
    told += [f"- {reason}" for reason in reasons]
    return Question(
        "\n".join(told),
        yes="Change it" if is_there else "Make it",
        whole="\n".join(map(escaped, rows)) if is_cut else "",
        approval=Approval(
            "edit",
            place.name,
            place.path.parent,
            "caution",
            tuple(reasons),
            Diff(place.path, before, after),
        ),
    )


def _summary(name: str, now: _Now, after: str) -> str:
    if not (now.exists or now.is_open):
        return f"Made {name} ({count_of(len(after.splitlines()), 'line')})."
    rows = _difference(now.text, after)
    more = sum(row.startswith("+") for row in rows)
    fewer = sum(row.startswith("-") for row in rows)
    return f"Changed {name}: {count_of(more, 'line')} added, {fewer} removed."


def write_keeping(path: Path, data: bytes) -> None:
    """Replace a file with ``data`` in one rename that keeps its mode, or create it. Blocks.

    Raises:
        StoreUnavailable: it cannot be written; the old file stays.
    """
    with store_errors(path, "write"):
        try:
            before: os.stat_result | None = path.lstat()
        except FileNotFoundError:
            before = None
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise Denied(f"{shown_path(path)} is not a regular file any more.")
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o666 if before is None else 0o600
        put_in_place(path, data, prefix=".aish-", mode=mode, before=before)
