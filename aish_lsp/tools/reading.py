"""The tools that only read: read a file or part of it, list files, and search them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.context.budget import head_and_tail
from aish_lsp.context.messages import Attached
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.opening import (
    existing,
    opened,
)
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import count_of, one_line, quoted_path, shown_path, with_line_feeds
from aish_lsp.tools import (
    NOTHING_FOUND,
    OUTPUTS,
    Place,
    Seen,
    ToolResult,
    Workplace,
    bounded,
    locate,
    nearest_names,
    number_of,
    read_for,
    refusal,
    text_of,
)

if TYPE_CHECKING:
    from aish_lsp.tools import Around

#: How many folders deep a list goes unless the model says otherwise.
_DEPTH: Final = 3

#: The most names in a list; if there are more, folders are listed with their counts.
_LISTED: Final = 1000

#: The most matches that a search shows in all and in each file, and characters of a line.
_MATCHES: Final = 200
_IN_FILE: Final = 20
_LINE: Final = 240

_RIPGREP: Final = "rg"

#: Of an output that is too long to be read at once: how many lines are read, and how many bytes of
#: a line; the rest of a longer one counts as the next line.
_LINES_AT_ONCE: Final = 4_000
_LONGEST_LINE: Final = 1 << 20


class Looking:
    """Reads the files of one workspace for a model, and remembers what the model was shown.

    It reads only what a question could name with ``@``: the project's own files, by their real
    path. Ignored files are not read, and files that usually hold keys only with the user's consent.
    """

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self._shown: dict[str, str] = {}

    def has_shown(self, name: str, text: str) -> bool:
        """Return whether ``text`` is what the model was last shown of the file ``name``."""
        return self._shown.get(name) == _digest(text)

    def showed(self, name: str, text: str) -> None:
        """Remember that the model was shown ``text`` as the file ``name``."""
        self._shown[name] = _digest(text)

    async def look(self, named: str, *, on_disk: bool = False) -> Seen:
        """Return a file as it is now: as the editor has it, or else as it is on the disk.

        With ``on_disk`` the editor's text does not count. Of an output that is too long to be read
        at once, ``raw`` is empty.

        Raises:
            NotFound, Denied, InvalidArgument: there is none, or the model may not see it.
        """
        root, target = self._workplace.root, await locate(self._workplace.root, named)
        try:
            file, is_secret = await asyncio.to_thread(read_for, root, target.name)
        except FileNotFoundError as error:
            text = await self._workplace.open_text(target.path)
            if text is not None:
                return Seen(target, text, is_open=True)
            nearest = nearest_names(target.name, list(await self._workplace.files.names()))
            raise NotFound(f"There is no file {shown_path(named)}.{nearest}") from error
        except OSError as error:
            raise refusal(error, shown_path(named)) from error
        # What was opened counts: a link may have been put on the way to it.
        target = Place(target.path.parents[target.name.count("/")] / file.name, file.name)
        if not target.is_output and await self._workplace.files.left_out([target.name]):
            raise Denied(
                f"{shown_path(named)} is ignored (.gitignore) or belongs to another repository: it"
                " is not shown."
            )
        if is_secret:
            raise Denied(f"{shown_path(named)} is also a file in a secret place: it is not shown.")
        text = None if on_disk else await self._workplace.open_text(target.path)
        if text is not None:
            return Seen(target, text, file.status, is_open=True)
        seen = Seen(target, file.raw, file.status, is_utf8=file.is_utf8, mark=file.mark)
        if file.problem and not seen.is_long:
            raise Denied(f"{shown_path(named)} {file.problem}: it is not shown.")
        return seen

    async def read_file(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return as many lines of a file as fit.

        Raises:
            AishError: there is no such file, or the model may not see it.
        """
        start, end = number_of(arguments, "start") or 1, number_of(arguments, "end")
        if end is not None and end < start:
            raise InvalidArgument("`end` is before `start`.", path="end")
        named = text_of(arguments, "path")
        seen = await self.look(named)
        name, text = seen.place.name, seen.text
        if seen.is_long:
            lines, goes_on = await asyncio.to_thread(
                _some_lines, self._workplace.root, name, start, end
            )
            if not lines:
                raise InvalidArgument(
                    f"{shown_path(name)} has fewer than {start} lines.", path="start"
                )
            return ToolResult(_page(seen, lines, start, around, goes_on=goes_on))
        await self.agreed(seen, named, around)
        lines = text.removesuffix("\n").split("\n") if text else []
        if start <= 1 and (end is None or end >= len(lines)):
            self.showed(name, text)
        if start > max(1, len(lines)):
            raise InvalidArgument(
                f"{shown_path(name)} has {count_of(len(lines), 'line')}.", path="start"
            )
        page = _page(seen, lines[start - 1 : end], start, around, count=len(lines))
        return ToolResult(page)

    async def agreed(self, seen: Seen, named: str, around: Around) -> None:
        """Ask for the user's consent if a file usually holds keys.

        Raises:
            Denied: they did not consent.
        """
        name = seen.place.name
        if not (is_secret_file(name) or is_secret_file(named)):
            return
        part = Attached("file", name, seen.text, "")
        _, refusals = await self._workplace.consents.sift([part], {name}, self._workplace.ask_user)
        if refusals:
            for refusal in refusals:
                await around.warn(refusal)
            raise Denied(f"{shown_path(named)} usually holds keys or passwords: it is not shown.")

    async def list_files(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return the project's files below a folder, and the number of files in deeper folders.

        Raises:
            AishError: there is no such folder, or it is outside the workspace.
        """
        depth = number_of(arguments, "depth") or _DEPTH
        named = text_of(arguments, "path", ".")
        target = await locate(self._workplace.root, named)
        if not target.path.exists():
            raise NotFound(f"There is no folder {shown_path(named)}.")
        if not target.path.is_dir():
            raise InvalidArgument(f"{shown_path(named)} is a file: read_file reads it.")
        prefix = f"{target.name}/" if target.name else ""
        inside = [name for name in await self._workplace.files.names() if name.startswith(prefix)]
        rows = _rows([name[len(prefix) :] for name in inside], depth)
        paths = [f"{prefix}{row.removesuffix('/')}" for row, _ in rows]
        there = await asyncio.to_thread(existing, self._workplace.root, paths)
        shown = [
            f"{quoted_path(prefix + row)} ({count_of(count, 'file')})"
            if row.endswith("/")
            else quoted_path(prefix + row)
            for (row, count), path in zip(rows, paths, strict=True)
            if path in there
        ]
        if not shown:
            return ToolResult("No file of the project is in there.")
        if len(shown) > _LISTED:
            shown[_LISTED:] = [f"... and {len(shown) - _LISTED} more"]
        text = "\n".join(shown) + "\n"
        return ToolResult(await bounded(text, around, self._workplace))

    async def search(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return the lines of the project's files that contain a text or match an expression.

        Raises:
            AishError: there is no such place, or the expression is not valid.
        """
        pattern = text_of(arguments, "pattern")
        if not pattern or "\0" in pattern or "\n" in pattern:
            raise InvalidArgument("`pattern` has to be a text on one line.", path="pattern")
        is_regex = arguments.get("regex") in (True, "true")
        named = text_of(arguments, "path", ".")
        target = await locate(self._workplace.root, named)
        if not target.path.exists():
            raise NotFound(f"There is nothing called {shown_path(named)}.")
        answer = await self._by_ripgrep(pattern, target, is_regex=is_regex)
        if answer is None:
            if is_regex:
                raise NotFound(
                    "Regular expressions cannot be searched for here (there is no ripgrep, or it"
                    " cannot be confined). Search for a plain text."
                )
            names = await self._candidates(target)
            answer = await asyncio.to_thread(_matches, self._workplace.root, names, pattern), False
        matches, is_cut = answer
        shown, more = await self._visible(matches)
        rows = [
            f"{quoted_path(name)}:{line}: {one_line(text[:_LINE])}" for name, line, text in shown
        ]
        if more or is_cut:
            rows.append("[aish: there is more; search in a folder, or for something rarer]")
        if not rows:
            return ToolResult(NOTHING_FOUND)
        return ToolResult(await bounded("\n".join(rows) + "\n", around, self._workplace))

    async def _visible(
        self, found: Sequence[tuple[str, str, str]]
    ) -> tuple[list[tuple[str, str, str]], bool]:
        """Return the matches in files that the model may see, and whether there are more."""
        names = {name for name, _, _ in found}
        own = {name for name in names if name.startswith(OUTPUTS)}
        secret = set(filter(is_secret_file, names))
        rest = names - own - secret
        left_out = secret | (await self._workplace.files.left_out(rest) if rest else set())
        visible = [one for one in found if one[0] not in left_out]
        counts: Counter[str] = Counter()
        shown = []
        for one in visible:
            counts[one[0]] += 1
            if counts[one[0]] <= _IN_FILE:
                shown.append(one)
        return shown[:_MATCHES], len(shown) > _MATCHES or len(shown) < len(visible)

    async def _by_ripgrep(
        self, pattern: str, place: Place, *, is_regex: bool
    ) -> tuple[list[tuple[str, str, str]], bool] | None:
        """Return ripgrep's matches, and whether some are missing from their middle.

        None if it is not installed or cannot be confined.
        """
        if shutil.which(_RIPGREP) is None:
            return None
        command = [
            *(_RIPGREP, "--no-config", "--no-messages", "--hidden", "--no-require-git"),
            *("--glob", "!.git", "--color=never", "--no-heading", "--line-number", "--null"),
            *("--with-filename", "--sort=path", "--max-filesize=2M", "--max-columns=400"),
            *("--max-columns-preview", f"--max-count={_IN_FILE + 1}"),
            *(() if is_regex else ("--fixed-strings",)),
            *("-e", pattern, "--", f"./{place.name}"),
        ]
        result = await self._workplace.read(shlex.join(command))
        if result is None:
            return None
        if result.exit_code not in (0, 1):
            reason = result.output.strip()[-300:] or "ripgrep failed"
            raise InvalidArgument(f"It could not be searched: {reason}", path="pattern")
        name, *rows = result.output.split("\0")
        matches = []
        for row in rows:
            # A name may hold a line end, a line of text does not.
            path, _, following = row.partition("\n")
            line, _, text = path.partition(":")
            # A note that some output was left out may stand before a name.
            matches.append((name.rpartition("\n./")[2].removeprefix("./"), line, text))
            name = following
        matches = await asyncio.to_thread(_lines_now, self._workplace.root, matches)
        return matches, result.truncated

    async def _candidates(self, place: Place) -> list[str]:
        """Return the names of the files to search without ripgrep."""
        if place.path.is_file():
            return [place.name]
        prefix = f"{place.name}/" if place.name else ""
        if prefix.startswith(OUTPUTS):
            return [f"{prefix}{path.name}" for path in place.path.glob("*.txt")]
        names = await self._workplace.files.names()
        return [name for name in names if name.startswith(prefix) and not name.endswith("/")]


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _page(
    seen: Seen,
    lines: Sequence[str],
    start: int,
    around: Around,
    *,
    count: int = 0,
    goes_on: bool = False,
) -> str:
    """Return as many lines as fit, under a heading.

    ``count`` is the number of lines in the whole file, 0 if unknown; ``goes_on`` says whether more
    lines follow that were asked for.
    """
    room, shown = around.limit, 0
    for line in lines:
        if room < len(line) and shown:
            break
        room -= len(line) + 1
        shown += 1
    last = start + shown - 1
    of = f" of {count}" if count else ""
    more = ""
    if shown < len(lines) or goes_on:
        more = f"\n[aish: not all; read_file with start={last + 1} goes on]"
    shortened = [head_and_tail(line, around.limit // 2) for line in lines[:shown]]
    position = f"lines {start}-{last}{of}" if shown else "empty"
    if not seen.is_utf8:
        position += ", not UTF-8: \ufffd stands for what could not be read"
    return "\n".join([f"[{quoted_path(seen.place.name)}, {position}]", *shortened]) + more


def _some_lines(root: Path, name: str, start: int, end: int | None) -> tuple[list[str], bool]:
    """Return lines of a long output, and whether more that were asked for follow them."""
    last = start + _LINES_AT_ONCE - 1
    with opened(root, name) as output, os.fdopen(os.dup(output.fd), "rb") as file:
        every = iter(lambda: file.readline(_LONGEST_LINE), b"")
        wanted = islice(every, start - 1, min(end or last, last))
        lines = [line.decode("utf-8", "replace").rstrip("\r\n") for line in wanted]
        return lines, (end is None or end > last) and bool(file.read(1))


def _rows(names: Sequence[str], depth: int) -> list[tuple[str, int]]:
    """Return the names no deeper than ``depth``, and deeper folders with their number of files."""
    while True:
        rows: Counter[str] = Counter()
        for name in names:
            parts = name.split("/")
            if len(parts) <= depth and not name.endswith("/"):
                rows[name] += 1
            else:
                rows["/".join(parts[: min(depth, len(parts) - 1)]) + "/"] += 1
        if len(rows) <= _LISTED or depth == 1:
            break
        depth -= 1
    return sorted(rows.items())


def _matches(root: Path, names: Sequence[str], text: str) -> list[tuple[str, str, str]]:
    """Return the lines that contain ``text``, each as file name, line number and line."""
    matches: list[tuple[str, str, str]] = []
    for name in names:
        matches += islice(_matches_in(root, name, text), _IN_FILE + 1)
        if len(matches) > 2 * _MATCHES:
            break
    return matches


def _matches_in(root: Path, name: str, text: str) -> Iterator[tuple[str, str, str]]:
    lines = with_line_feeds("\n".join(_searched(root, name))).split("\n")
    for number, line in enumerate(lines, 1):
        if text in line:
            yield name, str(number), line


def _searched(root: Path, name: str) -> list[str]:
    """Return the lines of a file that a search may show, split at LF; none if it may not.

    A link is not followed: whether the file that it leads to may be shown was not asked.
    """
    try:
        file, is_secret = read_for(root, name)
    except (OSError, ValueError):
        return []
    is_shown = not (is_secret or file.problem) and file.name == name
    return file.raw.replace("\r\n", "\n").split("\n") if is_shown else []


def _lines_now(root: Path, found: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return ripgrep's matches with the lines as they are in the files of the workspace.

    What it read may have been elsewhere, if a folder was swapped with a link meanwhile.
    """
    lines = {name: _searched(root, name) for name in {name for name, _, _ in found}}
    # For `read_file` a CR ends a line, too.
    numbers = {
        name: [*accumulate((1 + line.count("\r") for line in text), initial=1)]
        for name, text in lines.items()
    }
    return [
        (name, str(numbers[name][int(line) - 1]), lines[name][int(line) - 1])
        for name, line, _ in found
        if line.isdecimal() and 0 < int(line) <= len(lines[name])
    ]
