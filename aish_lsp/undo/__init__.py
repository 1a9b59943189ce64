"""Undo: what the files held before a command is kept, from which they can be restored.

This module is the asynchronous undo of one workspace: its work is done in threads, within time
limits. It also finds the files that a command names and no snapshot covers.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import re
import shlex
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, Literal, TypeVar

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, Busy, NotFound, StoreUnavailable
from aish_lsp.foundation.files import expanded
from aish_lsp.foundation.job import run_uncancellable
from aish_lsp.foundation.ports import AskUser, EditOpen, EditOutcome, Question, not_open
from aish_lsp.foundation.text import escaped
from aish_lsp.undo.git import Git, NoUndo, Nowhere, TooSlow
from aish_lsp.undo.listing import SIZE_LIMIT, is_editors_own, left_out
from aish_lsp.undo.reverting import Reverted, make
from aish_lsp.undo.work import Ended, RunningCommand, Worker

R = TypeVar("R")

logger = logging.getLogger(__name__)

#: The most seconds that a command waits for its snapshot.
SNAPSHOT_SECONDS: Final = 20.0
#: Seconds that an undo may take.
UNDO_SECONDS: Final = 120.0
#: The most names in a message.
_MOST_NAMES: Final = 12
#: Characters of a command that are kept for people.
_LABEL: Final = 200

#: What to do with files that somebody else has changed since: ask, keep them, or put them back too.
Conflicts = Literal["ask", "keep", "overwrite"]


@dataclass(frozen=True, slots=True)
class Undone:
    """What an undo or redo has done. Names are relative to the workspace, ``/``-separated.

    Attributes:
        restored, removed: the files that were put back, and those that were removed again.
        conflicts: the files that were left, because they changed since or cannot be put back.
        undecided: nothing was done, since there are conflicts and nobody could be asked.
        earlier: nothing was done, since it is a command of an earlier session and nobody could be
            asked.
        message: what to tell the user, in one or more lines.
    """

    restored: list[str]
    removed: list[str]
    conflicts: list[str]
    undecided: bool
    message: str
    earlier: bool = False


@dataclass(slots=True)
class _Running:
    """The commands that run at the same time, which are undone together.

    ``saved`` are the files that the user has saved meanwhile; ``edited`` those that were changed in
    the editor, each with the text before and after.
    """

    count: int
    begun: RunningCommand
    named: list[bytes]
    saved: set[Path] = field(default_factory=set)
    edited: list[tuple[Path, str, str]] = field(default_factory=list)


class Undo:
    """Takes the snapshots of one workspace and restores files from them.

    ``without_secrets`` removes the secrets from a text that is stored; ``edit_open`` changes what
    an editor has open. Each command belongs to a session, which is named by its id.
    """

    def __init__(
        self,
        folder: Path,
        without_secrets: Callable[[str], str],
        edit_open: EditOpen = not_open,
    ) -> None:
        self._folder = folder
        self._without_secrets = without_secrets
        self._edit_open = edit_open
        self._lock = asyncio.Lock()
        self._running: _Running | None = None
        self._refusal = ""
        self._notices: list[str] = []

    async def prospect(self) -> str:
        """Return why the next command could not be undone; empty if it could."""
        try:
            await self._in_thread(lambda worker: worker.look(), SNAPSHOT_SECONDS)
        except (NoUndo, AishError, OSError) as error:
            return _reason(error)
        return self._refusal

    async def is_last(self, group: str) -> bool:
        """Return whether the last commands that can be undone are those of ``group``."""
        try:
            last = await self._in_thread(lambda worker: worker.last_group(), SNAPSHOT_SECONDS)
        except (NoUndo, AishError, OSError):
            return False
        return last == group

    async def before(self, group: str, text: str, cwd: Path, session: str, label: str = "") -> None:
        """Take a snapshot before a command of ``session``. The commands of a group are one undo.

        The user sees ``label`` when it is undone, by default the command itself, ``text``.

        Raises:
            Nowhere: there can be none here.
            NoUndo: it could not be taken; the message says why, as a clause.
        """
        async with self._lock:
            if self._running is not None:
                self._running.count += 1
                return
            if self._refusal:
                raise NoUndo(self._refusal)
            label = escaped(self._without_secrets(label or text))[:_LABEL]
            try:
                begun = await self._in_thread(
                    lambda worker: worker.begin(group, label, session, text), SNAPSHOT_SECONDS
                )
            except asyncio.CancelledError:
                # The snapshot may already have been written.
                await run_uncancellable(self._forget(group))
                raise
            except TooSlow as error:
                # Every further command would wait as long, for nothing.
                self._refusal = str(error)
                raise
            except NoUndo:
                raise
            except Exception as error:
                raise NoUndo(_reason(error)) from error
            names = named(text, cwd, begun.top, begun.before.uncovered)
            self._running = _Running(1, begun, names)

    def holds(self, group: str) -> bool:
        """Return whether the snapshot for the running commands was taken for ``group``.

        If not, it was taken for another command that was already running. Changes made since, which
        may be the user's, are then in no snapshot.
        """
        return self._running is not None and self._running.begun.record.group == group

    def saved(self, path: Path) -> None:
        """Note that the user saved a file, so that its change is not attributed to a command."""
        if self._running is not None:
            self._running.saved.add(path)

    def edited(self, path: Path, before: str, after: str) -> None:
        """Note that a text was changed in the editor from ``before`` to ``after``."""
        if self._running is not None:
            self._running.edited.append((path, before, after))

    async def after(self) -> list[str]:
        """Take a snapshot after a command that ``before`` began; return what to tell the user."""
        async with self._lock:
            running = self._running
            assert running is not None, "no command began"
            running.count -= 1
            if running.count:
                return []
            self._running = None
            try:
                ended = await self._in_thread(
                    lambda worker: worker.finish(running.begun, running.saved, running.edited),
                    UNDO_SECONDS,
                )
            except Exception as error:  # noqa: BLE001 - the command has run, whatever this is
                reason = _reason(error)
                unseen = f"What the command changed was not seen ({reason}): `:undo` asks first."
                return [unseen, *self._drained()]
            finally:
                running.begun.close()
            return [*_told(ended, running.named), *self._drained()]

    def _drained(self) -> list[str]:
        """Return what there is to tell about the records, once."""
        notices, self._notices = self._notices, []
        return notices

    async def _forget(self, group: str) -> None:
        try:
            await self._in_thread(lambda worker: worker.forget(group), SNAPSHOT_SECONDS)
        except Exception as error:  # noqa: BLE001 - nothing can be done; an undo will ask
            logger.info("a snapshot could not be forgotten: %s", type(error).__name__)

    async def undo(
        self,
        session: str,
        ask: AskUser,
        conflicts: Conflicts = "ask",
        *,
        earlier: bool = False,
        named: str = "",
    ) -> Undone:
        """Undo the last command of ``session`` that is not undone yet.

        If there is none left, this undoes the last one of an earlier session after asking the user;
        ``earlier``: they have already agreed. ``named`` is a group: only that is undone, and only
        if nothing came after it.

        Raises:
            NotFound: there is nothing to undo, or it is not what is named.
            Busy: a command is running.
            StoreUnavailable: it cannot be done; the message says why.
        """
        others = "*" if earlier else ""
        return await self._take_back("undo", session, ask, conflicts, earlier=others, named=named)

    async def redo(self, session: str, ask: AskUser, conflicts: Conflicts = "ask") -> Undone:
        """Revert the last undo of ``session``, unless a command ran since.

        Raises:
            NotFound, Busy, StoreUnavailable: as ``undo``.
        """
        return await self._take_back("redo", session, ask, conflicts)

    async def _take_back(
        self,
        kind: Literal["undo", "redo"],
        session: str,
        ask: AskUser,
        conflicts: Conflicts,
        *,
        earlier: str = "",
        named: str = "",
    ) -> Undone:
        overwrite = None if conflicts == "overwrite" else frozenset[bytes]()
        made: frozenset[bytes] | None = None
        decided = conflicts != "ask"

        async def revert() -> Reverted:
            return await self._revert(
                lambda worker: worker.revert(
                    overwrite,
                    decided=decided,
                    made=made,
                    kind=kind,
                    session=session,
                    earlier=earlier,
                    named=named,
                ),
                kind,
            )

        done = await revert()
        if done.earlier is not None:
            answer = await ask(_about_earlier(done.label, done.earlier))
            if not answer:
                return _not_undone(done.label, done.earlier, asked=answer is not None)
            earlier = done.group
            done = await revert()
            if done.earlier is not None:
                # Another command ran in between, about which the user was not asked.
                return _not_undone(done.label, done.earlier, asked=False)
        if done.asks:
            answer = await ask(self._question(done, kind))
            if answer is None and decided:
                answer = conflicts == "overwrite"  # nobody can be asked, and the user has said it
            if answer is not None:
                # The answer does not apply to files that changed while the user was being asked.
                if not decided:
                    overwrite = done.conflicts if answer else frozenset[bytes]()
                made = frozenset(done.made) if answer else frozenset[bytes]()
                decided = True
                done = await revert()
        return self._undone(done, kind, await make(done.edits, done.top, self._edit_open))

    async def _revert(
        self, work: Callable[[Worker], Reverted], kind: Literal["undo", "redo"]
    ) -> Reverted:
        async with self._lock:
            if self._running is not None:
                raise Busy(f"A command is running. {kind.capitalize()} when it has ended.")
            try:
                return await self._in_thread(work, UNDO_SECONDS)
            except NotFound as error:
                raise NotFound(" ".join((error.message, *self._drained()))) from error
            except Nowhere as error:
                raise NotFound(f"There is no {kind}: {error}.") from error
            except (NoUndo, OSError) as error:
                sentence = f"The {kind} was not done, or not all: {_reason(error)}."
                raise StoreUnavailable(sentence) from error

    async def _in_thread(self, work: Callable[[Worker], R], seconds: float) -> R:
        """Do ``work`` in a thread. If this is cancelled, the work soon stops."""
        stopped = threading.Event()
        worker = Worker(self._folder, lambda top: Git(top, seconds, stopped))
        try:
            return await asyncio.to_thread(work, worker)
        finally:
            stopped.set()

    def _question(self, done: Reverted, kind: str) -> Question:
        parts = [f"{kind.capitalize()}: {done.label}"]
        if done.conflicts:
            names = _name_list(self._display_names(done.top, done.conflicts))
            parts.append(
                "These files have changed since, or may not be as the command left them:"
                f"\n\n{names}"
            )
        if done.made:
            lines = [
                f"{_name_list(self._display_names(done.top, [name]))} {reason}"
                for name, reason in sorted(done.made.items())
            ]
            more = lines[_MOST_NAMES:] and [f"and {len(lines) - _MOST_NAMES} more"]
            parts.append(
                "\n".join(["These would be created again:\n", *lines[:_MOST_NAMES], *more])
            )
        parts.append(f"Put them back as well? {_back(kind)} brings back what they hold now.")
        return Question("\n\n".join(parts), yes="Put them back", no="Leave them")

    def _undone(self, done: Reverted, kind: str, edits: Mapping[bytes, EditOutcome]) -> Undone:
        """Return what was done; ``edits`` says whether texts in the editor could be changed."""
        unsaved = [name for name, edited in edits.items() if edited.state == "unsaved"]
        refused = {name for name, edited in edits.items() if edited.state == "refused"}
        restored = self._display_names(done.top, {*done.restored, *(edits.keys() - refused)})
        removed = self._display_names(done.top, done.removed)
        left = self._display_names(done.top, done.conflicts | done.failed.keys() | refused)
        not_made = self._display_names(done.top, done.made)
        links = self._display_names(done.top, done.links)
        if done.asks:
            lines = [f"Nothing was {kind}ne of: {done.label}"]
        elif restored or removed or left or not_made or links or done.aside:
            lines = [f"{kind.capitalize()}ne: {done.label}"]
        else:
            when = "before" if kind == "undo" else "after"
            lines = [f"The files are already as they were {when}: {done.label}"]
        rows = (
            ("Put back", restored),
            (
                "Of these changed in the editor, and not saved",
                self._display_names(done.top, unsaved),
            ),
            ("Removed", removed),
            ("Put aside", done.aside),
            ("Taken back in git's index", links),
            ("Changed since, left alone", left),
            ("Not created again", not_made),
        )
        lines += [f"{row}: {_name_list(names)}" for row, names in rows if names]
        lines += [
            f"{_name_list(self._display_names(done.top, [name]))}: {reason}"
            for name, reason in done.failed.items()
        ][:_MOST_NAMES]
        if done.moved is not None:
            was, head = done.moved
            lines.append(f"HEAD was at {was} before, and stays at {head}: only files are undone.")
        lines += self._drained()
        return Undone(restored, removed, [*left, *not_made], done.asks, "\n".join(lines))

    def _display_names(self, top: Path, names: Iterable[bytes]) -> list[str]:
        """Return names for display: relative to the workspace, with undecodable bytes escaped."""
        root = os.fsencode(os.path.realpath(self._folder))
        full = (os.path.join(os.fsencode(top), name) for name in names)  # noqa: PTH118 - bytes
        below = sorted(os.path.relpath(path, root) for path in full)
        return [name.decode("utf-8", "backslashreplace") for name in below]


def _back(kind: str) -> str:
    """Return the command that reverts an undo or redo."""
    return ":redo" if kind == "undo" else ":undo"


def _about_earlier(label: str, seconds: int) -> Question:
    return Question(
        "No command of this session is left to undo. Undo the last one of an earlier session, of"
        f" {_time(seconds)}?\n\n{label}",
        yes="Undo it",
        no="Do not undo it",
    )


def _not_undone(label: str, seconds: int, *, asked: bool) -> Undone:
    """Return that a command of an earlier session was not undone; ``asked``: the user said no."""
    message = "Nothing was undone."
    if not asked:
        message = (
            "Nothing was undone: no command of this session is left. The last one of an earlier"
            f" session, of {_time(seconds)}, was: {label}"
        )
    return Undone([], [], [], undecided=False, message=message, earlier=not asked)


def _time(seconds: int) -> str:
    """Return a time for display, in the local time zone."""
    return dt.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _reason(error: Exception) -> str:
    """Return the reason for an error, as a clause."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}"
    if isinstance(error, NoUndo | AishError):
        return str(error).rstrip(".")
    logger.error("undo failed", exc_info=error)
    return f"aish itself failed ({type(error).__name__}); its log says more"


def _name_list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(escaped, names[:_MOST_NAMES])) + more


def _told(ended: Ended, words: Sequence[bytes]) -> list[str]:
    """Return what to tell the user about what a command did to files that an undo may not reach."""
    texts = {
        "`:undo` cannot bring back {}: it leaves out files that git ignores, that belong to git or"
        f" an editor, that are over {SIZE_LIMIT >> 20} MiB or that cannot be read.": (
            *words,
            *ended.gone,
        ),
        "`:undo` cannot bring back {}: the command also removed git's copy of it.": ended.lost,
        "{} changed under all of its names (hard links), also those elsewhere; `:undo` restores"
        " them all.": ended.linked,
        "Git repositories inside this one have changed: {}. `:undo` reverts that.": ended.gits,
    }
    return [
        text.format(_name_list([one.decode("utf-8", "backslashreplace") for one in names]))
        for text, paths in texts.items()
        if (names := list(dict.fromkeys(paths)))
    ]


# Which of a command's words name something that no snapshot covers.

#: The most words of a command that are examined.
_WORDS = 1000


def named(text: str, cwd: Path, top: Path, uncovered: Collection[bytes]) -> list[bytes]:
    """Return the words of ``text`` that name uncovered files, relative to the work tree.

    This is a guess, for a message: variables are not expanded, and only the folder before a pattern
    counts.
    """
    paths = dict.fromkeys(_names(text, cwd, top))
    return [
        name
        for name in paths
        if left_out(name, uncovered) or b".git" in name.split(b"/") or is_editors_own(name)
    ]


def _names(text: str, cwd: Path, top: Path) -> Iterator[bytes]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    for word in words[:_WORDS]:
        for part in (word, word.rpartition("=")[2], word.lstrip("<>&12")):
            plain = re.split(r"[*?\[{$`;|&()]", part)[0].rstrip("/")
            if not plain or "\0" in plain:
                continue
            path = os.path.normpath(cwd / expanded(plain))
            below = os.path.relpath(path, top)
            if not below.startswith(".."):
                yield os.fsencode(below)
