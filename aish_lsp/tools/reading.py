"""The tools that only read: read a file or part of it, list files, and search them."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.context.attached import LARGEST
from aish_lsp.context.budget import head_and_tail
from aish_lsp.context.messages import Attached
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.opening import read_head
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import count_of, shown_path, with_line_feeds
from aish_lsp.project.known import FOLDED
from aish_lsp.tools import (
    OUTPUTS,
    Place,
    ToolResult,
    Workplace,
    bounded,
    locate,
    nearest_names,
    number_of,
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

    async def read_file(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return as many lines of a file as fit.

        Raises:
            AishError: there is no such file, or the model may not see it.
        """
        start, end = number_of(arguments, "start") or 1, number_of(arguments, "end")
        if end is not None and end < start:
            raise InvalidArgument("`end` is before `start`.", path="end")
        named = text_of(arguments, "path")
        place = await locate(self._workplace.root, named)
        text = self._workplace.open_text(place.path)
        if text is None or place.path.exists():
            await self.may_be_read(place, named)
        if text is None:
            text = await asyncio.to_thread(self._on_disk, place)
        if text is None:
            lines, goes_on = await asyncio.to_thread(_some_lines, place.path, start, end)
            if not lines:
                name = shown_path(place.name)
                raise InvalidArgument(f"{name} has fewer than {start} lines.", path="start")
            return ToolResult(_page(place.name, lines, start, around, goes_on=goes_on))
        await self.agreed(place, named, text, around)
        lines = text.removesuffix("\n").split("\n") if text else []
        if start <= 1 and (end is None or end >= len(lines)):
            self.showed(place.name, text)
        if start > max(1, len(lines)):
            raise InvalidArgument(
                f"{shown_path(place.name)} has {count_of(len(lines), 'line')}.", path="start"
            )
        page = _page(place.name, lines[start - 1 : end], start, around, count=len(lines))
        return ToolResult(page)

    async def may_be_read(self, place: Place, named: str) -> None:
        """Check that a file exists and belongs to the project.

        Raises:
            NotFound, Denied, InvalidArgument: it does not; the message says why.
        """
        if not place.path.exists():
            names = [
                name for name in await self._workplace.files.names() if not name.endswith(FOLDED)
            ]
            told = nearest_names(place.name, names)
            raise NotFound(f"There is no file {shown_path(named)}.{told}")
        if place.path.is_dir():
            raise InvalidArgument(f"{shown_path(named)} is a folder: list_files lists it.")
        if not stat.S_ISREG(place.path.stat().st_mode):
            raise Denied(f"{shown_path(named)} is not a regular file.")
        if not place.is_output and await self._workplace.files.left_out([place.name]):
            raise Denied(
                f"{shown_path(named)} is ignored (.gitignore) or belongs to another repository: it"
                " is not shown."
            )

    async def agreed(self, place: Place, named: str, text: str, around: Around) -> None:
        """Ask for the user's consent if a file usually holds keys.

        Raises:
            Denied: they did not consent.
        """
        if not (is_secret_file(place.name) or is_secret_file(named)):
            return
        part = Attached("file", place.name, text, "")
        _, refusals = await self._workplace.consents.sift(
            [part], {place.name}, self._workplace.ask_user
        )
        if refusals:
            for refusal in refusals:
                await around.warn(refusal)
            raise Denied(f"{shown_path(named)} usually holds keys or passwords: it is not shown.")

    def _on_disk(self, place: Place) -> str | None:
        """Return a file's text, or None for an output that is too long to read at once."""
        head = read_head(self._workplace.root, place.name, LARGEST, secret=True)
        if head is None:
            raise Denied(f"{shown_path(place.name)} is binary or cannot be read.")
        if head[1]:
            return with_line_feeds(head[0])
        if place.is_output:
            return None
        raise Denied(f"{shown_path(place.name)} is larger than {LARGEST >> 20} MiB.")

    async def list_files(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return the project's files below a folder, and the number of files in deeper folders.

        Raises:
            AishError: there is no such folder, or it is outside the workspace.
        """
        depth = number_of(arguments, "depth") or _DEPTH
        named = text_of(arguments, "path", ".")
        place = await locate(self._workplace.root, named)
        if not place.path.exists():
            raise NotFound(f"There is no folder {shown_path(named)}.")
        if not place.path.is_dir():
            raise InvalidArgument(f"{shown_path(named)} is a file: read_file reads it.")
        prefix = f"{place.name}/" if place.name else ""
        inside = [name for name in await self._workplace.files.names() if name.startswith(prefix)]
        rows = _rows([name[len(prefix) :] for name in inside], depth)
        if not rows:
            return ToolResult("No file of the project is in there.")
        text = "".join(f"{prefix}{row}\n" for row in rows)
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
        place = await locate(self._workplace.root, named)
        if not place.path.exists():
            raise NotFound(f"There is nothing called {shown_path(named)}.")
        answer = await self._by_ripgrep(pattern, place, is_regex=is_regex)
        if answer is None:
            if is_regex:
                raise NotFound(
                    "Regular expressions cannot be searched for here (there is no ripgrep, or it"
                    " cannot be confined). Search for a plain text."
                )
            names = await self._candidates(place)
            answer = await asyncio.to_thread(_matches, self._workplace.root, names, pattern), False
        found, is_cut = answer
        shown, more = await self._visible(found)
        rows = [f"{name}:{line}: {text[:_LINE]}" for name, line, text in shown]
        if more or is_cut:
            rows.append("[aish: there is more; search in a folder, or for something rarer]")
        if not rows:
            return ToolResult("Nothing was found.")
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
        kept = [one for one in found if one[0] not in left_out]
        counts: Counter[str] = Counter()
        shown = []
        for one in kept:
            counts[one[0]] += 1
            if counts[one[0]] <= _IN_FILE:
                shown.append(one)
        return shown[:_MATCHES], len(shown) > _MATCHES or len(shown) < len(kept)

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
            *("-e", pattern, "--", place.name or "."),
        ]
        result = await self._workplace.read(shlex.join(command))
        if result is None:
            return None
        if result.exit_code not in (0, 1):
            reason = result.output.strip()[-300:] or "ripgrep failed"
            raise InvalidArgument(f"It could not be searched: {reason}", path="pattern")
        found = []
        for row in result.output.split("\n"):
            name, parted, rest = row.partition("\0")
            line, _, text = rest.partition(":")
            if parted:
                found.append((name.removeprefix("./"), line, text))
        return found, result.truncated

    async def _candidates(self, place: Place) -> list[str]:
        """Return the names of the files to search without ripgrep."""
        if place.path.is_file():
            return [place.name]
        prefix = f"{place.name}/" if place.name else ""
        if prefix.startswith(OUTPUTS):
            return [f"{OUTPUTS}{path.name}" for path in place.path.glob("*.txt")]
        names = await self._workplace.files.names()
        return [
            name for name in names if name.startswith(prefix) and not name.endswith((FOLDED, "/"))
        ]


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _page(
    name: str,
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
    kept = [head_and_tail(line, around.limit // 2) for line in lines[:shown]]
    place = f"lines {start}-{last}{of}" if shown else "empty"
    return "\n".join([f"[{shown_path(name)}, {place}]", *kept]) + more


def _some_lines(path: Path, start: int, end: int | None) -> tuple[list[str], bool]:
    """Return lines of a long output, and whether more that were asked for follow them."""
    last = start + _LINES_AT_ONCE - 1
    with path.open("rb") as file:
        every = iter(lambda: file.readline(_LONGEST_LINE), b"")
        wanted = islice(every, start - 1, min(end or last, last))
        lines = [line.decode("utf-8", "replace").rstrip("\r\n") for line in wanted]
        return lines, (end is None or end > last) and bool(file.read(1))


def _rows(names: Sequence[str], depth: int) -> list[str]:
    """Return the names no deeper than ``depth``, and deeper folders with their number of files."""
    while True:
        rows: Counter[str] = Counter()
        for name in names:
            parts = name.split("/")
            if len(parts) <= depth and not name.endswith((FOLDED, "/")):
                rows[name] += 1
            else:
                rows["/".join(parts[: min(depth, len(parts) - 1)]) + "/"] += 1
        if len(rows) <= _LISTED or depth == 1:
            break
        depth -= 1
    listed = [
        f"{row} ({count_of(count, 'file')})" if row.endswith("/") else row
        for row, count in sorted(rows.items())
    ]
    more = len(listed) - _LISTED
    return listed if more <= 0 else [*listed[:_LISTED], f"... and {more} more"]


def _matches(root: Path, names: Sequence[str], text: str) -> list[tuple[str, str, str]]:
    """Return the lines that contain ``text``, each as file name, line number and line."""
    found: list[tuple[str, str, str]] = []
    for name in names:
        found += islice(_matches_in(root, name, text), _IN_FILE + 1)
        if len(found) > 2 * _MATCHES:
            break
    return found


def _matches_in(root: Path, name: str, text: str) -> Iterator[tuple[str, str, str]]:
    head = read_head(root, name, LARGEST)
    if head is None or text not in head[0]:
        return
    for number, line in enumerate(head[0].split("\n"), 1):
        if text in line:
            yield name, str(number), line
