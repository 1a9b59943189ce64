"""The tools that replace a text in a file or write a whole file. The user confirms each change."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shlex
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.diff import MOST_COMPARED, changed_lines, same_ends
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.files import config_file, data_dir, store_errors
from aish_lsp.foundation.job import run_uncancellable
from aish_lsp.foundation.masking import MASK
from aish_lsp.foundation.opening import BOM, replace_file
from aish_lsp.foundation.ports import Approval, Diff, EditOutcome, Question
from aish_lsp.foundation.redaction import REDACTED
from aish_lsp.foundation.text import (
    count_of,
    cut,
    escaped,
    hidden_characters,
    quoted_path,
    shown_path,
    with_line_feeds,
)
from aish_lsp.tools import Place, Seen, ToolResult, Workplace, locate, nearest_names, text_of

if TYPE_CHECKING:
    from aish_lsp.tools import Around
    from aish_lsp.tools.reading import Looking

#: Lines of a change that a question shows, and characters of each.
_SHOWN_LINES: Final = 40
_SHOWN: Final = 160

#: Lines of a change that is reported once it is made, and characters of each.
_DIFF_LINES: Final = 400
_DIFF_WIDTH: Final = 400

#: Characters that a model writes for each other: blanks, quotes and dashes.
_ALIKE: Final = (
    " \u00a0\u2007\u2009\u202f",
    "'\u2018\u2019",
    '"\u201c\u201d',
    "-\u2010\u2011\u2012\u2013\u2014\u2212",
)


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
        now = await self._now(named)
        if not now.is_there:
            names = list(await self._workplace.files.names())
            raise NotFound(
                f"There is no file {shown_path(named)}: write_file makes one."
                f"{nearest_names(now.place.name, names)}"
            )
        # The answer to an edit reveals what is in the file.
        await self._looking.agreed(now, named, around)
        after = _replaced(now.text, old, new, shown_path(now.place.name), every=every)
        return await self._changed("edit_file", now, after, around)

    async def write_file(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Write a new file, or all of a file that the model has read.

        Raises:
            AishError: it was not done; the message tells the model why.
        """
        named, content = text_of(arguments, "path"), text_of(arguments, "content")
        now = await self._now(named)
        if now.text and not self._looking.has_shown(now.place.name, now.text):
            raise Denied(
                f"{shown_path(named)} is there already, and holds something else than you were"
                " last shown. Call read_file first, or edit_file to change a part."
            )
        if not now.is_there and await self._workplace.files.ignores(now.place.name):
            raise Denied(
                f"{shown_path(named)} would be ignored by git, so that it could not be undone. If"
                " it is needed all the same, create it with run_command."
            )
        after = with_line_feeds(content).removeprefix(BOM)
        return await self._changed("write_file", now, after, around)

    async def _now(self, named: str) -> Seen:
        """Return a file that may be changed or created, as it is now.

        Raises:
            AishError: it is outside the workspace, protected, read-only, not text, or not part of
                the project; or the model may not see it.
        """
        target = await locate(self._workplace.root, named)
        root = self._workplace.root
        if reason := await asyncio.to_thread(_protection_reason, root, target, named):
            raise Denied(f"{shown_path(named)} is not changed by a tool: it {reason}.")
        if not target.name or target.path.is_dir():
            raise InvalidArgument(f"{shown_path(named) or 'That'} is a folder.", path="path")
        try:
            now = await self._looking.look(named)
        except NotFound:
            return Seen(target, "")
        name = shown_path(named)
        if now.place != target:
            raise Denied(f"{name} is being moved right now: tools do not change it.")
        if not now.is_utf8:
            raise Denied(f"{name} is not UTF-8: tools do not change it.")
        if now.status is not None and not now.is_open and _is_read_only(now):
            mode = stat.S_IMODE(now.status.st_mode)
            raise Denied(
                f"{name} is read-only (mode {mode:04o}): it is not changed by a tool. If it has to"
                " change, make it writable with a command (`chmod u+w`), which asks."
            )
        return now

    async def _changed(self, tool: str, now: Seen, after: str, around: Around) -> ToolResult:
        """Ask the user, then make a change; ``after`` is the whole text, with LF line ends."""
        target, name = now.place, shown_path(now.place.name)
        if after == now.text and now.is_there:
            raise InvalidArgument(f"Nothing would change in {name}.")
        if any(mark in after and mark not in now.text for mark in (REDACTED, MASK)):
            raise InvalidArgument(
                f"The text holds {REDACTED} or {MASK}, which stands for a secret that you were not"
                f" shown. Leave that part of {name} as it is: edit_file changes another."
            )
        answer = await self._workplace.ask_user(_question(now, after))
        if answer is None:
            return ToolResult(f"Not done: nobody could be asked about {name}.", "denied")
        if not answer:
            return ToolResult(f"The user refused this change of {name}.", "denied")
        async with self._workplace.covered(f"{tool} {shlex.quote(target.name)}", around):
            # Check again after the snapshot, which may take a while.
            again = await self._now(target.name)
            if again != now:
                raise Denied(
                    f"{name} has changed in the meantime. Nothing was written: read it again."
                )
            if now.is_open:
                edited = await self._workplace.edit_open(target.path, now.text, after)
                if edited.state != "on disk":
                    return self._edited(now, after, edited)
                again = now = await self._looking.look(target.name, on_disk=True)
                if _is_read_only(now):
                    raise Denied(f"{name} is read-only, and it is open in the editor as saved.")
            data = (now.mark + with_line_ends_of(now.raw, after)).encode()
            # A thread outlives a cancel of this task: the change must end before the block does.
            await run_uncancellable(
                asyncio.to_thread(write_keeping, self._workplace.root, again, data)
            )
        self._looking.showed(target.name, after)
        return _done(now, after, _broken_link(now))

    def _edited(self, now: Seen, text: str, edited: EditOutcome) -> ToolResult:
        """Return the result of a change that the editor made in a file that it has open."""
        name = shown_path(now.place.name)
        if edited.state == "refused":
            raise Denied(
                f"The editor did not change {name}, which it has open: {edited.reason}. Read it"
                " again."
            )
        self._looking.showed(now.place.name, text)
        if edited.state == "saved":
            return _done(now, text)
        return _done(
            now,
            text,
            " It is open in the editor and not saved yet: a command sees the file as it is on the"
            " disk.",
        )


def _is_read_only(now: Seen) -> bool:
    """Return whether nobody may write a file, or we may not: a rename would do it all the same."""
    assert now.status is not None
    return not now.status.st_mode & 0o222 or not os.access(now.place.path, os.W_OK)


def _broken_link(now: Seen) -> str:
    """Return what to tell about the other names of a file that was replaced."""
    others = now.status.st_nlink - 1 if now.status is not None else 0
    if not others:
        return ""
    had = f"had {count_of(others, 'other name')} (hard link{'s' if others > 1 else ''})"
    return f" It {had}, which still hold{'' if others > 1 else 's'} the old text."


def _protection_reason(root: Path, place: Place, named: str) -> str:
    """Return why a tool may not change what was ``named``; empty if it may. Blocks."""
    # Imported late, so that the start does not wait for the grammar of commands.
    from aish_lsp.shell.risk.paths import why_protected  # noqa: PLC0415 - as above

    spelled = os.path.normpath(Path(root, named))
    for path in dict.fromkeys((str(place.path), spelled)):
        if reason := why_protected(path, root):
            return reason
    own = map(os.path.realpath, (data_dir(), config_file()))
    return "is aish's own" if any(place.path.is_relative_to(one) for one in own) else ""


_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def with_line_ends_of(raw: str, text: str) -> str:
    """Return ``text``, which has LF line ends, with those of ``raw``, a former state of it.

    Lines that are still there keep theirs. A new line takes that of the line that it replaces, or
    else of the one before it.
    """
    ends = _LINE_END.findall(raw)
    if not ends or set(ends) == {"\n"}:
        return text
    old, new = with_line_feeds(raw).split("\n"), text.split("\n")
    lines = [
        min(first + at, max(last - 1, 0))
        for _, first, last, start, stop in _opcodes(old, new)
        for at in range(stop - start)
    ]
    line_ends = [ends[min(line, len(ends) - 1)] for line in lines[:-1]]
    for number, line in enumerate(new[1:-1], 1):
        if not line and line_ends[number - 1 : number + 1] == ["\r", "\n"]:
            line_ends[number] = "\r"  # Together they would be one line end.
    return "".join(f"{line}{end}" for line, end in zip(new, [*line_ends, ""], strict=True))


def _opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield how lines differ, as ``difflib`` does, in bounded time."""
    first, end = same_ends(old, new)
    last, stop = len(old) - end, len(new) - end
    yield "equal", 0, first, 0, first
    if (last - first) * (stop - first) > MOST_COMPARED:
        # Comparing each line with each other would take minutes.
        yield "replace", first, last, first, stop
    else:
        matcher = difflib.SequenceMatcher(None, old[first:last], new[first:stop], autojunk=False)
        for kind, *at in matcher.get_opcodes():
            yield kind, at[0] + first, at[1] + first, at[2] + first, at[3] + first
    yield "equal", last, len(old), stop, len(new)


def _replaced(text: str, old: str, new: str, name: str, *, every: bool) -> str:
    """Return ``text`` with ``new`` in place of ``old``; all of them have LF line ends.

    Raises:
        InvalidArgument, NotFound: ``old`` does not occur as it should.
    """
    if not old:
        raise InvalidArgument("`old` is empty. Name the text that is to be replaced.", path="old")
    old, new = with_line_feeds(old), with_line_feeds(new)
    matches = [*re.finditer(re.escape(old), text)] or [*re.finditer(_alike(old), text)]
    if not matches:
        raise NotFound(
            f"`old` does not occur in {name} as it is now. It has to be the same, with each blank"
            " and line end: read the file again."
        )
    if len(matches) > 1 and not every:
        at = [text.count("\n", 0, one.start()) + 1 for one in matches[:8]]
        raise InvalidArgument(
            f"`old` occurs {len(matches)} times in {name}, in lines {', '.join(map(str, at))}. Take"
            " more of the text around the one that you mean, or set `all`.",
            path="old",
        )
    ends = [0, *(one.end() for one in matches)]
    starts = [*(one.start() for one in matches), len(text)]
    return new.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _alike(old: str) -> str:
    """Return a pattern for what reads like ``old``: models do not keep such characters apart."""
    parts = []
    for character in unicodedata.normalize("NFC", old):
        same = next((group for group in _ALIKE if character in group), character)
        # With an accent it may be one character or two.
        forms = {*same, unicodedata.normalize("NFD", character)}
        parts.append(f"(?:{'|'.join(map(re.escape, sorted(forms)))})")
    return "".join(parts)


def _question(now: Seen, after: str) -> Question:
    """Return the question that shows what would change."""
    target, is_there, before = now.place, now.is_there, now.text
    rows = changed_lines(before, after)
    shown = [f"    {escaped(row[:_SHOWN])}" for row in rows[:_SHOWN_LINES]]
    is_cut = len(rows) > _SHOWN_LINES or any(len(row) > _SHOWN for row in rows[:_SHOWN_LINES])
    if len(rows) > _SHOWN_LINES:
        shown.append(f"    ... {len(rows) - _SHOWN_LINES} more lines")
    reasons = ["the model asks for this change" if is_there else "the model asks for this file"]
    if now.is_open:
        reasons.append("it is open in the editor, and is changed there, unsaved")
    elif _broken_link(now):
        reasons.append("it has other names (hard links), which keep the old text")
    added = "\n".join(row[1:] for row in rows if row.startswith("+"))
    if hidden := ", ".join(hidden_characters(added)[:5]):
        reasons.append(f"it holds characters that are not seen: {hidden}")
    name = shown_path(target.name)
    lines = [f"{'Change' if is_there else 'Make'} {name} (caution)?", "", *shown, ""]
    lines += [f"- {reason}" for reason in reasons]
    return Question(
        "\n".join(lines),
        yes="Change it" if is_there else "Make it",
        whole="\n".join(map(escaped, rows)) if is_cut else "",
        approval=Approval(
            "edit",
            target.name,
            target.path.parent,
            "caution",
            tuple(reasons),
            Diff(target.path, before, after),
        ),
    )


def _done(now: Seen, after: str, more: str = "") -> ToolResult:
    """Return the result of a change that was made; ``more`` is what else the model is told."""
    name, rows = quoted_path(now.place.name), changed_lines(now.text, after)
    if now.is_there:
        added = sum(row.startswith("+") for row in rows)
        removed = sum(row.startswith("-") for row in rows)
        sentence = f"Changed {name}: {count_of(added, 'line')} added, {removed} removed."
    else:
        sentence = f"Made {name} ({count_of(len(after.splitlines()), 'line')})."
    if len(rows) > _DIFF_LINES:
        rows[_DIFF_LINES:] = [f"... {count_of(len(rows) - _DIFF_LINES, 'more line')}"]
    # The text ends after its last line end: that is no line.
    diff = "\n".join(cut(row, _DIFF_WIDTH) for row in rows).removesuffix("\n ")
    return ToolResult(f"{sentence}{more}", diff=diff)


def write_keeping(root: Path, now: Seen, data: bytes) -> None:
    """Replace a file with ``data`` in one rename that keeps its mode, or create it. Blocks.

    Raises:
        Denied: it is not as it was, or a folder on its way is a link.
        StoreUnavailable: it cannot be written; the old file stays.
    """
    with store_errors(now.place.path, "write"):
        try:
            replace_file(root, now.place.name, data, now.status)
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            name = shown_path(now.place.name)
            raise Denied(f"{name} has changed in the meantime. Nothing was written.") from error
