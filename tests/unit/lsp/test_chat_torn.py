"""A buffer that goes in the middle of a reply, in a chat where every reply looks like the others.

A simulated editor discards, reverts, undoes, closes and edits between any two pieces of a reply.
It knows of each character who wrote it: nothing but the reply's own place may ever change.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lsprotocol import types

from aish_lsp.chat.anchor import Edit
from aish_lsp.chat.markdown import AISH, YOU
from aish_lsp.chat.place import Change, Position
from aish_lsp.lsp import chat_writer
from aish_lsp.lsp.chat_writer import ChatWriter, EditorCapabilities, OpenDocument

#: Exchanges that the chat has already.
OLDER: Final = 200
EXCHANGE: Final = f"{YOU}\n\nhow do I run it?\n\n{AISH}\n\nYes, run it so. Yes, run it so.\n\n"
ASKED: Final = f"{EXCHANGE * OLDER}{YOU}\n\nhow do I run it?\n\n"
#: What replies are made of, so that each begins like many.
DELTAS: Final = ("Yes", ", run it", " so.", " ", "\n", "Yes, run it so.", f"\n\n{YOU}\n\n")

#: Characters with whose they are ("o" of others, "r" the reply's, "s" the reply's at a wrong place)
#: and a number of their own.
Owned: TypeAlias = tuple[tuple[str, str, int], ...]

_number = itertools.count()


def owned(text: str, owner: str = "o") -> Owned:
    return tuple((character, owner, next(_number)) for character in text)


def text_of(content: Owned) -> str:
    return "".join(character for character, _, _ in content)


@dataclass(frozen=True)
class Kind:
    """What an editor does.

    Attributes:
        versioned: it makes no edit that is for an older version.
        prompt: it tells each change at once, else a while later.
        answers: what it says of an edit: what is so, always "made", or always an error.
        recounts: its versions begin anew where it loads the file, as Neovim's do.
    """

    versioned: bool
    prompt: bool
    answers: Literal["as it is", "made", "failed"] = "as it is"
    recounts: bool = False

    @property
    def never_harms(self) -> bool:
        """Whether no edit may ever be made in a wrong place, were it for a moment."""
        return self.versioned and not self.recounts

    @property
    def ends_well(self) -> bool:
        """Whether in the end nothing may stand in a wrong place, and the reply must be whole.

        What neither heeds versions nor tells its changes at once makes edits blindly that are meant
        for a text which it has not any more: what comes of that is taken back where it can be
        known, and that is not always.
        """
        return self.versioned or self.prompt


KINDS: Final = st.builds(
    Kind,
    versioned=st.just(True),
    prompt=st.booleans(),
    answers=st.sampled_from(["as it is", "made", "failed"]),
    recounts=st.booleans(),
) | st.builds(Kind, versioned=st.just(False), prompt=st.booleans())


class Simulated:
    """An editor of a kind, whose buffer knows its authors."""

    def __init__(self, content: Owned, path: Path, kind: Kind) -> None:
        self.kind = kind
        self.capabilities = EditorCapabilities(apply_edit=True, document_changes=kind.versioned)
        self.buffer: Owned | None = content
        self.version = 1
        self.told = OpenDocument(path.as_uri(), text_of(content), 1)
        self.is_open = True
        self.untold: list[tuple[Owned, Owned] | None] = []
        self.undoes: list[Owned] = []
        self.writer: ChatWriter | None = None
        self.harm = ""

    # What the writer uses

    def document(self, _path: Path) -> OpenDocument | None:
        return self.told if self.is_open else None

    def width(self, text: str) -> int:
        return len(text)

    def characters(self, line: str, units: int) -> int:
        return min(units, len(line))

    def show(self, _path: Path, _line: int) -> None: ...

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        await asyncio.sleep(0)
        made = self.make(edit)
        if self.kind.answers == "failed":
            raise RuntimeError("it failed at something else")
        return made or self.kind.answers == "made"

    def make(self, edit: types.WorkspaceEdit) -> bool:
        if self.buffer is None:
            return False
        if edit.document_changes:
            (change,) = edit.document_changes
            assert isinstance(change, types.TextDocumentEdit)
            if change.text_document.version != self.version:
                return False
            (text_edit,) = change.edits
        else:
            assert edit.changes
            (text_edit,) = next(iter(edit.changes.values()))
        assert isinstance(text_edit, types.TextEdit)
        start, end = (
            offset_of(text_of(self.buffer), at)
            for at in (text_edit.range.start, text_edit.range.end)
        )
        if any(owner == "o" for _, owner, _ in self.buffer[start:end]):
            self.harm = "text was removed"
        new = owned(text_edit.new_text, "r" if is_right(self.buffer, start) else "s")
        if new and new[0][1] == "s" and self.kind.never_harms:
            self.harm = f"at {start}: {text_edit.new_text!r}"
        self.change(self.buffer[:start] + new + self.buffer[end:])
        return True

    # What the user and the world do

    def change(self, content: Owned, *, undoes: bool = False) -> None:
        assert self.buffer is not None
        before = self.buffer
        if text_of(before) == text_of(content):
            self.buffer = content
            return
        if not undoes:
            self.undoes.append(self.buffer)
        self.buffer = content
        self.version += 1
        self.untold.append((before, content))
        if self.kind.prompt:
            self.tell()

    def load(self, content: Owned) -> None:
        """Discard the buffer and show this; what was not told is not told any more."""
        self.buffer = content
        self.undoes = []
        self.version = 0 if self.kind.recounts else self.version + 1
        self.untold = [None]
        self.tell()

    def close(self) -> None:
        self.buffer = None
        self.untold = []
        self.is_open = False
        self.follow(())

    def tell(self) -> None:
        changes = []
        for untold in self.untold:
            if untold is None:
                assert self.buffer is not None
                self.is_open = True
                self.told = OpenDocument(self.told.uri, text_of(self.buffer), self.version)
                self.follow(())
            else:
                # What takes no versions tells where a change was; others may tell any change that
                # comes to the same.
                is_exact = not self.capabilities.document_changes
                changes.append(change_of(*untold, is_exact=is_exact))
        self.untold = []
        if changes and self.buffer is not None:
            self.told = OpenDocument(self.told.uri, text_of(self.buffer), self.version)
            self.follow(changes)

    def follow(self, changes: Sequence[Change]) -> None:
        if self.writer is not None:
            self.writer.changed(changes)


def is_right(content: Owned, at: int) -> bool:
    """Return whether the reply may go on there: behind its own text, or at the very end."""
    before = content[at - 1][1] if at else ""
    return before == "r" or not text_of(content[at:]).strip("\n")


def change_of(before: Owned, after: Owned, *, is_exact: bool) -> Change:
    old, new = text_of(before), text_of(after)
    edit = Edit(0, len(old), new).least(old)
    if is_exact:
        start = shared(before, after)
        end = shared(before[start:][::-1], after[start:][::-1])
        edit = Edit(start, len(before) - end, new[start : len(new) - end])
    return Change(edit.new, position(old, edit.start), position(old, edit.end))


def shared(one: Owned, other: Owned) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))  # noqa: B905


def position(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n"), offset - before.rfind("\n") - 1)


def offset_of(text: str, at: types.Position) -> int:
    lines = text.split("\n")
    if at.line >= len(lines):
        return len(text)
    return sum(len(line) + 1 for line in lines[: at.line]) + min(at.character, len(lines[at.line]))


class TornChat(RuleBasedStateMachine):
    """One reply, and all that can happen to the buffer meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.written = ""
        # The user has changed the reply itself: then it is theirs.
        self.tampered = False

    @initialize(kind=KINDS, saved=st.booleans())
    def asks(self, kind: Kind, saved: bool) -> None:
        root = Path(self.folder.name)
        self.path = root / ".aish" / "chat.md"
        self.path.parent.mkdir()
        self.disk = owned(ASKED if saved else EXCHANGE * OLDER)
        self.path.write_text(text_of(self.disk))
        self.editor = Simulated(owned(ASKED), self.path, kind)
        self.writer = ChatWriter(root, self.editor)
        self.editor.writer = self.writer
        self.run(self.write(lambda: self.writer.begin(f"{AISH}\n\n")))

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        async def with_the_editor() -> None:
            task = asyncio.create_task(work)
            while not task.done():
                await asyncio.sleep(0.002)
                self.editor.tell()
            await task

        self.loop.run_until_complete(with_the_editor())
        self.look_at_the_file()

    async def write(self, write: Callable[[], None], *, waits: bool = True) -> None:
        write()
        if waits:
            await self.writer.flush()

    def look_at_the_file(self) -> None:
        """Take over what was written to the file; it is one insertion at a right place."""
        text, before = self.path.read_text(), text_of(self.disk)
        if text == before:
            return
        more = len(text) - len(before)
        assert more > 0, "text of the file was removed"
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, before)))  # noqa: B905
        places = (at for at in range(shared, -1, -1) if text[at + more :] == before[at:])
        at = next((at for at in places if is_right(self.disk, at)), None)
        assert at is not None, f"the file was written to at {shared}: {text[shared:][:80]!r}"
        self.disk = self.disk[:at] + owned(text[at : at + more], "r") + self.disk[at:]

    @property
    def buffer(self) -> Owned:
        assert self.editor.buffer is not None
        return self.editor.buffer

    def is_shown(self) -> bool:
        return self.editor.buffer is not None

    @rule(delta=st.sampled_from(DELTAS[:-1]), waits=st.booleans())
    def replies(self, delta: str, waits: bool) -> None:
        self.written += delta
        self.run(self.write(lambda: self.writer.append(delta), waits=waits))

    @rule()
    def passes(self) -> None:
        self.run(asyncio.sleep(0.005))

    @precondition(is_shown)
    @rule(where=st.floats(0, 1), typed=st.sampled_from(["\n", "Yes", "x", f"\n\n{YOU}\n\n"]))
    def types_something(self, where: float, typed: str) -> None:
        at = int(where * len(self.buffer))
        inside = {owner for _, owner, _ in self.buffer[max(0, at - 1) : at + 1]} <= {"r", "s"}
        self.tampered |= inside and 0 < at < len(self.buffer)
        self.editor.change(self.buffer[:at] + owned(typed) + self.buffer[at:])

    @precondition(is_shown)
    @rule(where=st.floats(0, 1), length=st.sampled_from([1, 5, len(EXCHANGE)]))
    def deletes_something(self, where: float, length: int) -> None:
        at = int(where * len(self.buffer))
        self.tampered |= any(owner != "o" for _, owner, _ in self.buffer[at : at + length])
        self.editor.change(self.buffer[:at] + self.buffer[at + length :])

    @precondition(is_shown)
    @rule()
    def saves(self) -> None:
        self.disk = self.buffer
        self.path.write_text(text_of(self.disk))

    @precondition(is_shown)
    @rule(count=st.integers(1, 3))
    def undoes(self, count: int) -> None:
        for _ in range(min(count, len(self.editor.undoes))):
            earlier = self.editor.undoes.pop()
            self.editor.change(earlier, undoes=True)

    @precondition(is_shown)
    @rule()
    def discards(self) -> None:
        self.editor.load(self.disk)

    @precondition(is_shown)
    @rule()
    def reverts_as_one_change(self) -> None:
        self.editor.change(self.disk)

    @precondition(is_shown)
    @rule()
    def closes(self) -> None:
        self.editor.close()

    @precondition(lambda self: self.editor.buffer is None)
    @rule()
    def opens(self) -> None:
        self.editor.load(self.disk)

    @rule(older=st.booleans())
    def another_editor_writes(self, older: bool) -> None:
        text = owned(f"# Notes\n\n{EXCHANGE}") if older else owned("\n\nnotes of another\n")
        self.disk = text + self.disk if older else self.disk + text
        self.path.write_text(text_of(self.disk))

    @invariant()
    def nothing_else_is_touched(self) -> None:
        if hasattr(self, "editor"):
            assert not self.editor.harm, self.editor.harm

    def teardown(self) -> None:
        try:
            if hasattr(self, "writer"):
                self.run(self.write(lambda: self.writer.append(DELTAS[-1])))
                self.at_the_end()
        finally:
            self.loop.run_until_complete(self.writer.close())
            self.loop.close()
            self.folder.cleanup()

    def at_the_end(self) -> None:
        self.nothing_else_is_touched()
        if not self.editor.kind.ends_well:
            return
        content = self.disk if self.editor.buffer is None else self.buffer
        strays = [character for character, owner, _ in content if owner == "s"]
        assert not strays, "".join(strays)
        if not self.tampered:
            reply = "".join(character for character, owner, _ in content if owner == "r")
            assert f"{self.written}{DELTAS[-1]}" in text_of(content), reply


def test_nothing_but_the_place_of_the_reply_is_ever_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chat_writer, "EDIT_INTERVAL", 0.0)
    monkeypatch.setattr(chat_writer, "ECHO_TIMEOUT", 0.2)
    monkeypatch.setattr(chat_writer, "REOPEN_TIMEOUT", 0.01)
    monkeypatch.setattr(chat_writer, "UNVERSIONED_ECHO_TIMEOUT", 0.2)
    run_state_machine_as_test(
        TornChat,
        settings=settings(max_examples=60, stateful_step_count=15, deadline=None, derandomize=True),
    )
