"""What a model may call: the built-in tools, and those of tool servers (MCP).

This module has what all of them share: a call, its result, and a provider of tools; also what the
built-in ones need: the workspace's files, its user, and a way to run a command.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from aish_lsp.context.attached import LARGEST
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, Denied, InvalidArgument
from aish_lsp.foundation.files import expanded
from aish_lsp.foundation.opening import FileText, NotRegular, Outside, read_text, real_name
from aish_lsp.foundation.text import count_of, quoted_path, shown_path, with_line_feeds
from aish_lsp.shell.output import WholeOutput
from aish_lsp.shell.suggestions import new_id

if TYPE_CHECKING:
    from aish_lsp.context.attached import Consents
    from aish_lsp.foundation.job import Emit
    from aish_lsp.foundation.ports import AskUser, EditOpen, LookUp, OpenText
    from aish_lsp.models.request import ToolSchema
    from aish_lsp.project.picture import FileNames
    from aish_lsp.shell.runner import RunResult

#: Characters that model providers do not accept in a tool's name, and the longest name.
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64


#: How a call ended.
ResultStatus: TypeAlias = Literal["done", "failed", "denied"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call, as the model sees it; only the user is shown ``diff``."""

    text: str
    status: ResultStatus = "done"
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """The context of a call.

    Attributes:
        emit: passes on what happens during the call.
        warn: tells the user something.
        group: the group of changes that an undo takes back together with those of the call.
        limit: how many characters the result may have.
    """

    emit: Emit
    warn: Callable[[str], Awaitable[None]]
    group: str
    limit: int


#: Carries out a call with these arguments, asking the user if necessary. It may be cancelled. If it
#: fails, it raises an AishError, whose message tells the model why.
CallTool: TypeAlias = "Callable[[Mapping[str, Any], Around], Awaitable[ToolResult]]"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool.

    Attributes:
        schema: the schema that a model is offered, with the name by which it calls the tool.
        reads: whether it changes nothing, so that several calls may be made at once.
        allows: returns whether it is called without asking the user each time.
        call: carries out a call.
    """

    schema: ToolSchema
    reads: bool
    allows: Callable[[], bool]
    call: CallTool


@dataclass(frozen=True, slots=True)
class Provider:
    """A source of tools as it is now: the built-in one, ``aish``, or a tool server.

    Attributes:
        name: the server's name.
        tools: the tools it has.
        state: ``off`` before it is needed, ``starting``, ``ready``, ``failed``.
        granted: whether it may start.
        error: why it failed, or which of its tools cannot be used; empty if all is well.
    """

    name: str
    tools: tuple[OfferedTool, ...]
    state: str = "ready"
    granted: bool = True
    error: str = ""


def offered_name(server: str, name: str) -> str:
    """Return ``SERVER__NAME``, with the characters and the length that model providers accept.

    It begins with a letter or ``_``, which no server's name does.
    """
    whole = _NOT_IN_NAMES.sub("_", f"{server}__{name}")
    if not whole[0].isalpha():
        whole = f"_{whole}"
    if len(whole) <= _LONGEST_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: _LONGEST_NAME - 9]}_{digest}"


def parts_of(offered: str) -> tuple[str, str]:
    """Return the server and the rest of an offered name; no server for a built-in tool."""
    server, parted, name = offered.lstrip("_").partition("__")
    return (server, name) if parted else ("", offered)


@cache
def own_tools() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of ``builtin.toml`` by the names of the built-in tools."""
    return tomllib.loads(Path(__file__).with_name("builtin.toml").read_text("utf-8"))


#: The digits of a number that is larger than any count.
_DIGITS: Final = 10

#: What a search says that has found nothing.
NOTHING_FOUND: Final = "Nothing was found."

#: Where full results are kept, relative to the workspace. Git ignores it; the model may read it.
OUTPUTS: Final = ".aish/output/"

#: Records a change while it is made, so that it can be undone.
Covered: TypeAlias = "Callable[[str, Around], AbstractAsyncContextManager[None]]"


class Run(Protocol):
    """Runs a command for a model."""

    async def __call__(
        self, command: str, cwd: str | None, seconds: float | None, around: Around
    ) -> ToolResult:
        """Return the result; the user is asked if necessary.

        Raises:
            AishError: it could not be run.
        """


@dataclass(frozen=True, slots=True)
class Workplace:
    """What the built-in tools need from a session and its workspace.

    Attributes:
        root: the workspace's folder.
        files: the files that belong to the project.
        open_text, edit_open: read and change files that an editor has open.
        look_up: asks the editor about the code.
        ask_user, consents: ask for the user's consent, to changes and to reading files with keys.
        without_secrets: removes the secrets from a text.
        run: runs a command.
        read: runs one of aish's own commands, confined; None if it cannot be confined.
        covered: records a change for an undo.
    """

    root: Path
    files: FileNames
    open_text: OpenText
    edit_open: EditOpen
    look_up: LookUp
    ask_user: AskUser
    consents: Consents
    without_secrets: Callable[[str], str]
    run: Run
    read: Callable[[str], Awaitable[RunResult | None]]
    covered: Covered


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder that a model named: its real path, and that path within the workspace."""

    path: Path
    name: str

    @property
    def is_output(self) -> bool:
        """Whether it is in the folder where full results are kept."""
        return self.name.startswith(OUTPUTS)


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it is now.

    Attributes:
        place: where it is.
        raw: its text with the line ends that it has on the disk or, if it is open, with LF; without
            the byte order mark.
        status: its status on the disk; None if it is not there.
        is_open: whether an editor has it open, whose text counts.
        is_utf8: whether all of it is UTF-8; what is not is U+FFFD in ``raw``.
        mark: the byte order mark, if it has one.
    """

    place: Place
    raw: str
    status: os.stat_result | None = field(default=None, compare=False)
    is_open: bool = False
    is_utf8: bool = True
    mark: str = ""

    @property
    def text(self) -> str:
        """Its text as a model is shown it: with LF for each line end."""
        return with_line_feeds(self.raw)

    @property
    def is_long(self) -> bool:
        """Whether it is an output that is too long to be read at once; ``raw`` is empty then."""
        is_long = self.status is not None and self.status.st_size > LARGEST
        return is_long and self.place.is_output and not self.is_open

    @property
    def is_there(self) -> bool:
        """Whether it exists, on the disk or in an editor."""
        return self.status is not None or self.is_open


def refusal(error: OSError, name: str) -> AishError:
    """Return what a model is told of a file that could not be opened."""
    match error:
        case IsADirectoryError():
            return InvalidArgument(f"{name or 'That'} is a folder: list_files lists it.")
        case NotRegular():
            return Denied(f"{name} is not a regular file.")
        case Outside():
            return Denied(f"{name} is outside of the workspace.")
    return Denied(f"{name} cannot be read: {error.strerror}.")


def read_for(root: Path, name: str) -> tuple[FileText, bool]:
    """Return what is in a file that a model names, and whether it is also in a secret place.

    Raises:
        OSError: as ``read_text``.
    """
    # Imported late, so that the start does not wait for its table.
    from aish_lsp.shell.confinement.places import is_linked_from_secret  # noqa: PLC0415 - as above

    file = read_text(root, name, LARGEST)
    return file, is_linked_from_secret(file.status, root)


async def locate(root: Path, named: str) -> Place:
    """Return the place that ``named`` means, whether or not anything exists there.

    Raises:
        Denied: it is outside the workspace, perhaps through a link.
        InvalidArgument: no file can have that name.
    """
    return await asyncio.to_thread(_locate, root, named)


def _locate(root: Path, named: str) -> Place:
    try:
        name = real_name(root, _meant(root, named))
        target = Place(Path(os.path.realpath(root), name), name)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            target.path.lstat()
    except Outside as error:
        raise Denied(f"{shown_path(named)} is outside of the workspace.") from error
    except (OSError, ValueError) as error:  # such as one that is too long
        raise InvalidArgument(f"No file can be called {named[:80]!r}.", path="path") from error
    return target


def _meant(root: Path, named: str) -> str:
    """Return the name that a model means: itself, one that ``quoted_path`` made, or one in a home.

    Of the first two, one that exists counts.
    """
    for written in (named, f'"{named}"'):
        if os.path.lexists(root / named):
            return named
        with suppress(ValueError):
            name = json.loads(written)
            if isinstance(name, str) and os.path.lexists(root / name):
                return name
    return str(expanded(named))


async def bounded(text: str, around: Around, place: Workplace, kept: str = "") -> str:
    """Return ``text`` or, if it is too long, its head and tail, and keep it in a file.

    ``kept`` is the file that already holds it, if any, relative to the workspace.
    """
    if len(text) <= around.limit:
        return text
    if not kept:
        whole = WholeOutput(place.root / ".aish", new_id(), place.without_secrets)
        try:
            await whole.add(text)
            file = await whole.close(always=True)
            kept = f"{OUTPUTS}{file.name}" if file is not None else ""
        except AishError:
            kept = ""
    head = text[: around.limit * 2 // 3]
    head = head[: head.rfind("\n") + 1] or head
    tail = text[len(text) - around.limit // 3 :]
    tail = tail[tail.find("\n") + 1 :] or tail
    left_out = len(text) - len(head) - len(tail)
    where = f"; read_file {kept} has all of it" if kept else ""
    line_end = "" if head.endswith("\n") else "\n"
    return f"{head}{line_end}[aish: {count_of(left_out, 'character')} left out here{where}]\n{tail}"


def nearest_names(name: str, names: list[str]) -> str:
    """Return a sentence with the files that may have been meant; empty if there are none."""
    last = name.rpartition("/")[2]
    same = [one for one in names if one.rpartition("/")[2] == last][:3]
    near = same or difflib.get_close_matches(name, names[:20_000], n=3)
    return f" Did you mean {', '.join(map(quoted_path, near))}?" if near else ""


def text_of(arguments: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """Return a text from a model's arguments.

    Raises:
        InvalidArgument: it is missing or not valid text; the message tells the model so.
    """
    value = arguments.get(key, default)
    if not isinstance(value, str):
        raise InvalidArgument(f"`{key}` has to be a text.", path=key)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidArgument(f"`{key}` holds half a character (a lone surrogate).", path=key)
    return value


def number_of(arguments: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number of at least 1 from a model's arguments; None if it is not given.

    The model may write it as text.

    Raises:
        InvalidArgument: it is something else, or larger than any count.
    """
    value = arguments.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**_DIGITS:
        raise InvalidArgument(f"`{key}` has to be a whole number from 1.", path=key)
    return value
