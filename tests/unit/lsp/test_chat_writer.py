"""The chat document holds what was written, whatever the editor does meanwhile."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types
from virtual_time import VirtualLoop

from aish_lsp.chat.file import ChatFile
from aish_lsp.chat.insertion import LOST, Edit
from aish_lsp.chat.markdown import AISH, YOU, Change, ClientPosition, first_text
from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.lsp import chat_edits, chat_writer
from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.lsp.open_documents import EditorCapabilities, OpenDocument, OpenDocuments

#: How an editor meets an edit: makes it; makes it and tells the change late, or leaves that to the
#: test; makes it but never answers; says no, without reason or because the user was faster; answers
#: with an error; not at all; says that it made it and did not.
Manner: TypeAlias = Literal[
    "make", "late", "untold", "mute", "deny", "refuse", "overtaken", "error", "silent", "lie"
]
GOOD: tuple[Manner, ...] = ("make", "late", "mute", "overtaken")
BAD: tuple[Manner, ...] = ("refuse", "error", "silent", "lie")

FULL = EditorCapabilities(apply_edit=True, document_changes=True, show_document=True)


def appended(root: Path, text: str) -> None:
    """Append to the chat's file, as another program does."""
    file = ChatFile(root)
    assert file.write(file.read(), text, appends=True)


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch.setattr)


def hurry(setattr_: Callable[[object, str, Any], None]) -> None:
    for module in (chat_edits, chat_writer):
        setattr_(module, "monotonic", lambda: asyncio.get_running_loop().time())
    setattr_(chat_edits, "EDIT_INTERVAL", 0.002)
    setattr_(chat_edits, "ANSWER_TIMEOUT", 0.25)
    setattr_(chat_edits, "ECHO_TIMEOUT", 0.5)
    setattr_(chat_edits, "UNVERSIONED_ECHO_TIMEOUT", 1.0)
    setattr_(chat_edits, "REOPEN_TIMEOUT", 0.01)
    setattr_(chat_writer, "OPEN_TIMEOUT", 0.1)


def position(text: str, offset: int) -> ClientPosition:
    """Return an offset as an editor counts that ends lines at LF and CRLF, in UTF-16."""
    before = text[:offset].replace("\r\n", "\n")
    line = before[before.rfind("\n") + 1 :]
    return ClientPosition(before.count("\n"), len(line.encode("utf-16-le")) // 2)


class FakeEditor:
    """An editor with one document: its buffer, and what of it the server was told.

    Positions are in UTF-16. ``final_line_end``: it ends the last line by itself, as Vim does.
    """

    def __init__(
        self,
        text: str | None = None,
        *,
        capabilities: EditorCapabilities = FULL,
        manners: list[Manner] | None = None,
        final_line_end: bool = False,
    ) -> None:
        self.capabilities = capabilities
        self.manners = list(manners or [])
        self.final_line_end = final_line_end
        self.buffer = text
        self.version = 1
        self.told: OpenDocument | None = None
        self.edits: list[types.WorkspaceEdit] = []
        self.shown: list[Path] = []
        self.shown_line = -1
        self.in_flight = 0
        self.on_edit: Callable[[], None] = lambda: None
        self.opens_after: float | None = None
        self.followers: list[Callable[[Sequence[Change]], None]] = []
        self.tell()

    def tell(self) -> None:
        """Tell the server what the buffer holds: didOpen, didChange or didClose."""
        before = self.told
        self.told = (
            None
            if self.buffer is None
            else OpenDocument("file:///c%3A/chat.md", self.buffer, self.version)
        )
        for follower in self.followers:
            if before is None or self.buffer is None:
                follower(())
            elif before.source != self.buffer:
                follower((self.change_from(before.source),))

    def change_from(self, before: str) -> Change:
        """Return what has changed since the buffer held ``before``, as one range."""
        assert self.buffer is not None
        edit = Edit(0, len(before), self.buffer).least(before)
        return Change(edit.new, position(before, edit.start), position(before, edit.end))

    def change(self, text: str | None) -> None:
        self.buffer = text
        self.version += 1
        self.tell()

    def document(self, path: Path) -> OpenDocument | None:
        assert path.name == "chat.md"
        return self.told

    def width(self, text: str) -> int:
        return len(text.encode("utf-16-le")) // 2

    def characters(self, line: str, units: int) -> int:
        return len(line.encode("utf-16-le")[: units * 2].decode("utf-16-le"))

    def show(self, path: Path, line: int) -> None:
        self.shown.append(path)
        self.shown_line = line
        if self.opens_after is not None:
            asyncio.get_running_loop().call_later(
                self.opens_after, lambda: self.change(path.read_text())
            )

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        assert self.in_flight == 0, "one edit in flight"
        self.in_flight += 1
        self.edits.append(edit)
        manner = self.manners.pop(0) if self.manners else "make"
        try:
            return await self._meet(edit, manner)
        finally:
            self.in_flight -= 1

    async def _meet(self, edit: types.WorkspaceEdit, manner: Manner) -> bool:
        await asyncio.sleep(0)
        self.on_edit()
        match manner:
            case "refuse":
                return False
            case "error":
                raise RuntimeError("internal error of the editor")
            case "silent":
                await asyncio.Event().wait()
            case "lie":
                return True
            case "overtaken":
                assert self.buffer is not None
                self.change(f"+{self.buffer}")
            case _:
                pass
        if not self._make(edit):
            return False
        if manner == "untold":
            return True
        if manner in ("late", "deny"):
            asyncio.get_running_loop().call_later(0.01, self.tell)
        else:
            self.tell()
        if manner == "mute":
            await asyncio.Event().wait()
        return manner != "deny"

    def _make(self, edit: types.WorkspaceEdit) -> bool:
        """Make ``edit`` in the buffer, unless it is of another version."""
        if self.buffer is None:
            return False
        if edit.document_changes:
            (change,) = edit.document_changes
            assert isinstance(change, types.TextDocumentEdit)
            if change.text_document.version != self.version:
                return False
            uri, edits = change.text_document.uri, change.edits
        else:
            assert edit.changes
            ((uri, edits),) = edit.changes.items()
        assert uri == "file:///c%3A/chat.md"
        (text_edit,) = edits
        assert isinstance(text_edit, types.TextEdit)
        assert text_edit.range.start == text_edit.range.end
        at = self._offset(text_edit.range.start)
        self.buffer = self.buffer[:at] + text_edit.new_text + self.buffer[at:]
        if self.final_line_end and not self.buffer.endswith("\n"):
            self.buffer += "\n"
        self.version += 1
        return True

    def _offset(self, position: types.Position) -> int:
        """Return the place in the buffer; a position that is none is an error."""
        assert self.buffer is not None
        lines = self.buffer.replace("\r\n", "\n").split("\n")
        line_end = 2 if "\r\n" in self.buffer else 1
        units = lines[position.line].encode("utf-16-le")
        assert position.character * 2 <= len(units)
        column = len(units[: position.character * 2].decode("utf-16-le"))
        return sum(len(line) + line_end for line in lines[: position.line]) + column


def chat_in(root: Path, editor: FakeEditor) -> ChatWriter:
    """Return the writer of the chat that ``editor`` shows."""
    writer = ChatWriter(root, cast("OpenDocuments", editor))
    editor.followers.append(writer.changed)
    return writer


#: What the user types while edits are on their way.
TYPED = "¶\n"


def document_of(editor: FakeEditor, writer: ChatWriter) -> str:
    """Return what the user ends up with, without TYPED: the buffer, or the file where ahead."""
    on_disk = writer.path.read_text() if writer.path.exists() else ""
    texts = [text.replace(TYPED, "").replace("+", "") for text in (editor.buffer or "", on_disk)]
    return max(texts, key=len)


OPEN = "## You\n\nhow?\n"


async def test_a_reply_grows_the_open_document(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\n")
    for delta in ("Like ", "this: 😀", " and é", ".\n"):
        writer.append(delta)
        await asyncio.sleep(0.005)
    writer.append(f"{YOU}\n\n", apart=True)
    await writer.flush()
    assert editor.buffer == ("## You\n\nhow?\n\n## aish\n\nLike this: 😀 and é.\n\n## You\n\n")
    assert not writer.path.exists()
    assert editor.shown == []


async def test_what_comes_together_is_one_edit(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    for number in range(1000):
        writer.append(f"{number}\n")
    await writer.flush()
    assert len(editor.edits) == 1


@pytest.mark.slow
async def test_ten_edits_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_edits, "EDIT_INTERVAL", 0.1)
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    begun = time.monotonic()
    for _ in range(30):
        writer.append("x")
        await asyncio.sleep(0.01)
    await writer.flush()
    assert editor.buffer == OPEN + "x" * 30
    # Counted, since a busy machine may bring two of them together.
    assert 1 < len(editor.edits) <= (time.monotonic() - begun) / 0.1 + 2


async def test_versioned_where_the_client_can(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    await writer.flush()
    (edit,) = editor.edits
    assert edit.document_changes
    assert edit.changes is None


async def test_plain_changes_where_it_can_not(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities(apply_edit=True))
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    await writer.flush()
    assert editor.edits[0].document_changes is None
    assert editor.buffer == OPEN + "x"


async def test_a_document_with_crlf_keeps_them(tmp_path: Path) -> None:
    editor = FakeEditor("## You\r\n\r\nhow?")
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\n")
    await writer.flush()
    writer.append("a\nb")
    await writer.flush()
    assert editor.buffer == "## You\r\n\r\nhow?\r\n\r\n## aish\r\n\r\na\r\nb"


@pytest.mark.parametrize("manner", GOOD)
@pytest.mark.slow
async def test_one_odd_edit_is_no_reason_to_give_up(tmp_path: Path, manner: Manner) -> None:
    editor = FakeEditor(OPEN, manners=["make", manner, "make", manner])
    writer = chat_in(tmp_path, editor)
    for delta in ("one ", "two ", "three ", "four"):
        writer.append(delta)
        await writer.flush()
    assert editor.buffer is not None
    assert editor.buffer.lstrip("+") == f"{OPEN}one two three four"
    assert not writer.path.exists()


async def test_an_editor_that_tells_of_an_edit_only_after_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_edits, "ECHO_TIMEOUT", 0.05)
    editor = FakeEditor(OPEN, manners=["make", "untold", "make"])
    writer = chat_in(tmp_path, editor)
    writer.append("one ")
    await writer.flush()
    writer.append("two ")
    while len(editor.edits) < 3:  # the second one is sent again, and refused
        await asyncio.sleep(0.01)
    writer.append("three")
    await asyncio.sleep(0.1)
    assert len(editor.edits) == 3
    editor.tell()
    await writer.flush()
    assert editor.buffer == f"{OPEN}one two three"
    assert not writer.path.exists()


@pytest.mark.parametrize("manner", ["late", "untold", "mute"])
@pytest.mark.slow
async def test_an_edit_without_a_version_is_not_made_twice(tmp_path: Path, manner: Manner) -> None:
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities(apply_edit=True), manners=[manner])
    writer = chat_in(tmp_path, editor)
    writer.append("one ")
    asyncio.get_running_loop().call_later(0.7, editor.tell)  # beyond ECHO_TIMEOUT
    await writer.flush()
    writer.append("two")
    await writer.flush()
    assert editor.buffer == f"{OPEN}one two"
    assert len(editor.edits) == 2
    assert not writer.path.exists()


UNVERSIONED = EditorCapabilities(apply_edit=True)


async def test_an_edit_without_a_version_is_never_sent_again_where_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_edits, "UNVERSIONED_ECHO_TIMEOUT", 0.05)
    editor = FakeEditor(OPEN, capabilities=UNVERSIONED, manners=["untold"])
    writer = chat_in(tmp_path, editor)
    writer.append("one ")
    await writer.flush()
    writer.append("two ")
    await writer.flush()
    assert len(editor.edits) == 1
    assert writer.path.read_text() == f"{OPEN}one two "
    # The user presses a key, and Vim tells what it has: it gets the rest.
    editor.tell()
    writer.append("three")
    await writer.flush()
    assert editor.buffer == f"{OPEN}one two three"


@pytest.mark.parametrize(
    ("above", "below", "end"),
    [
        ("typed\n", "", f"{AISH}\n\none two"),
        # It may be ours as well.
        ("", "typed", f"{AISH}\n\n{LOST}one two"),
    ],
)
async def test_what_is_told_as_one_with_an_edit_is_known_or_all_comes_anew(
    tmp_path: Path, above: str, below: str, end: str
) -> None:
    editor = FakeEditor(OPEN, capabilities=UNVERSIONED, manners=["make", "untold"])
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\n")
    await writer.flush()
    loop = asyncio.get_running_loop()

    def type_and_tell() -> None:
        editor.change(f"{above}{editor.buffer}{below}")

    def once_it_is_made() -> None:
        editor.on_edit = lambda: None
        loop.call_later(0.02, type_and_tell)

    editor.on_edit = once_it_is_made
    writer.append("one ")
    await writer.flush()
    writer.append("two")
    await writer.flush()
    assert editor.buffer is not None
    assert editor.buffer.startswith(f"{above}{OPEN}\n{AISH}\n\none ")
    assert editor.buffer.endswith(end)


async def test_nothing_is_taken_away_without_a_version(tmp_path: Path) -> None:
    chat = f"{YOU}\n\nmake test\n"
    editor = FakeEditor(chat, capabilities=UNVERSIONED)
    writer = chat_in(tmp_path, editor)
    writer.replace("make test", "make all")
    writer.remark("> Running\n")
    writer.withdraw("> Running\n")
    await writer.flush()
    assert editor.edits == []
    assert editor.buffer == chat
    assert not writer.path.exists()


@pytest.mark.parametrize(("manner", "tries"), [("deny", 2), ("refuse", 3)])
async def test_an_edit_without_a_version_that_is_said_not_to_be_made(
    tmp_path: Path, manner: Manner, tries: int
) -> None:
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities(apply_edit=True), manners=[manner])
    writer = chat_in(tmp_path, editor)
    writer.append("one ")
    # The user types meanwhile, which is not the edit.
    asyncio.get_running_loop().call_later(0.2, lambda: editor.change(f"{editor.buffer}{TYPED}"))
    await writer.flush()
    writer.append("two")
    await writer.flush()
    assert document_of(editor, writer) == f"{OPEN}one two"
    assert len(editor.edits) == tries
    assert not writer.path.exists()


@pytest.mark.parametrize("manner", BAD)
@pytest.mark.slow
async def test_one_resync_then_the_edit_is_taken(tmp_path: Path, manner: Manner) -> None:
    editor = FakeEditor(OPEN, manners=[manner])
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    await writer.flush()
    assert editor.buffer == f"{OPEN}x"
    assert len(editor.edits) == 2
    assert not writer.path.exists()


@pytest.mark.parametrize("manner", BAD)
@pytest.mark.slow
async def test_two_refusals_and_the_file_is_written_from_then_on(
    tmp_path: Path, manner: Manner
) -> None:
    editor = FakeEditor(OPEN, manners=[manner] * 9)
    writer = chat_in(tmp_path, editor)
    for delta in ("one ", "two ", "three"):
        writer.append(delta)
        await writer.flush()
    assert writer.path.read_text() == f"{OPEN}one two three"
    assert len(editor.edits) == 2


async def test_a_user_who_types_on_is_no_refusal(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN, manners=["overtaken"] * 20)
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    await writer.flush()
    assert editor.buffer == f"{'+' * 20}{OPEN}x"
    assert not writer.path.exists()


async def test_an_editor_that_always_moves_on_comes_to_an_end(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN, manners=["overtaken"] * 99)
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    await writer.flush()
    assert writer.path.read_text().lstrip("+") == f"{OPEN}x"


async def test_a_client_that_takes_no_edits_gets_the_file_with_what_it_had_not_saved(
    tmp_path: Path,
) -> None:
    chat = ChatFile(tmp_path)
    chat.ensure()
    editor = FakeEditor(f"{first_text()}how?\n", capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\n")
    await writer.flush()
    writer.append("So.")
    await writer.flush()
    assert chat.read() == f"{first_text()}how?\n\n## aish\n\nSo."
    # The editor loads the file, the user goes on typing and does not save.
    editor.change(f"{chat.read()}\n\n## You\n\nand?")
    writer.begin("## aish\n\nSo too.")
    await writer.flush()
    assert chat.read() == (
        f"{first_text()}how?\n\n## aish\n\nSo.\n\n## You\n\nand?\n\n## aish\n\nSo too."
    )
    assert editor.edits == []


async def test_a_line_end_that_an_editor_adds_on_loading_does_not_come_into_the_file(
    tmp_path: Path,
) -> None:
    ChatFile(tmp_path).ensure()
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\nTo")
    await writer.flush()
    editor.change(f"{writer.path.read_text()}\n")
    writer.append(" run.")
    writer.append(f"{YOU}\n\n", apart=True)
    await writer.flush()
    assert writer.path.read_text().endswith("\n\nTo run.\n\n## You\n\n")


async def test_what_an_editor_loaded_before_a_remark_went_is_not_taken_for_newer(
    tmp_path: Path,
) -> None:
    ChatFile(tmp_path).ensure()
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\nSo.\n")
    await writer.flush()
    writer.remark("> Running.\n")
    await writer.flush()
    editor.change(writer.path.read_text())
    writer.withdraw("> Running.\n")
    await writer.flush()
    # The editor has not loaded that yet: its text is ours with the remark.
    writer.append("Done.\n")
    await writer.flush()
    assert writer.path.read_text().endswith("\n## aish\n\nSo.\nDone.\n")
    assert writer.path.read_text().count(AISH) == 1


@pytest.mark.parametrize("typed", ["", "typed above\n"])
async def test_an_editor_that_loads_the_file_before_its_writing_has_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    ChatFile(tmp_path).ensure()
    editor = FakeEditor("", capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    editor.change(first_text())
    loop, write = asyncio.get_running_loop(), ChatFile.write

    def watched(file: ChatFile, expected: str, text: str, *, appends: bool) -> bool:
        done = write(file, expected, text, appends=appends)
        loaded = threading.Event()

        def load() -> None:
            editor.change(file.path.read_text())
            if typed:
                editor.change(f"{typed}{editor.buffer}")
            loaded.set()

        loop.call_soon_threadsafe(load)
        assert loaded.wait(10)
        return done

    monkeypatch.setattr(ChatFile, "write", watched)
    writer.begin(f"{AISH}\n\nSo.")
    await writer.flush()
    monkeypatch.undo()
    hurry(monkeypatch.setattr)
    # It has loaded the file, so what is typed there and not saved counts.
    editor.change(f"{editor.buffer}\n\n{YOU}\n\nand?\n")
    writer.begin(f"{AISH}\n\nSo too.")
    await writer.flush()
    assert writer.path.read_text() == (
        f"{typed}{first_text()}{AISH}\n\nSo.\n\n{YOU}\n\nand?\n\n{AISH}\n\nSo too."
    )


async def test_an_editor_that_did_not_reload_loses_nothing_of_ours(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    writer.append("one ")
    await writer.flush()
    editor.change(f"typed\n{OPEN}")
    writer.append("two")
    await writer.flush()
    assert writer.path.read_text() == f"{OPEN}one two"


async def test_a_file_that_is_empty_while_the_editor_saves_it_has_what_the_editor_has(
    tmp_path: Path,
) -> None:
    """An editor that saves in place empties the file before it writes."""
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\nreply\n\n{YOU}\n\n")
    await writer.flush()
    mine = f"{OPEN}\n{YOU}\n\nagain?\n"
    editor.change(mine)
    writer.path.write_text("")
    assert await writer.text_as_written() == mine
    writer.begin(f"{AISH}\n\n")
    await writer.flush()
    assert writer.path.read_text() == f"{mine}\n{AISH}\n\n"


async def test_a_remark_that_went_before_it_was_loaded_hides_nothing_that_is_typed(
    tmp_path: Path,
) -> None:
    editor = FakeEditor(OPEN, capabilities=EditorCapabilities())
    writer = chat_in(tmp_path, editor)
    appended(tmp_path, OPEN)
    writer.remark("> Waits.\n")
    writer.withdraw("> Waits.\n")
    await writer.flush()
    assert writer.path.read_text() == OPEN
    editor.change(f"typed\n{OPEN}")
    writer.append("one")
    await writer.flush()
    assert writer.path.read_text() == f"typed\n{OPEN}one"


async def test_a_closed_document_is_written_to_the_file_and_asked_for_once(tmp_path: Path) -> None:
    editor = FakeEditor(None)
    writer = chat_in(tmp_path, editor)
    await writer.make()
    writer.begin(f"{AISH}\n\n")
    for delta in ("a", "b"):
        writer.append(delta)
        await writer.flush()
    assert writer.path.read_text() == f"{first_text()}{AISH}\n\nab"
    assert editor.shown == [writer.path]
    assert editor.edits == []


async def test_an_editor_that_opens_the_document_gets_all_of_it_by_edits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_writer, "OPEN_TIMEOUT", 20.0)
    editor = FakeEditor(None)
    editor.opens_after = 0.05
    writer = chat_in(tmp_path, editor)
    await writer.make()
    await writer.show()
    writer.begin("how?\n")
    writer.begin(f"{AISH}\n\n")
    writer.append("So.")
    await writer.flush()
    assert editor.shown == [writer.path]
    assert first_text().splitlines()[editor.shown_line :] == [""]
    assert editor.buffer == f"{first_text()}how?\n\n{AISH}\n\nSo."
    # Newer than what the editor has read, the file would be in the way of its next save.
    assert writer.path.read_text() == first_text()


@pytest.mark.slow
async def test_an_editor_that_does_not_open_the_document_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_writer, "OPEN_TIMEOUT", 1.5)
    editor = FakeEditor(None)
    writer = chat_in(tmp_path, editor)
    times = []
    for text in ("one", "two", "three"):
        began = asyncio.get_running_loop().time()
        writer.begin(text)
        await writer.flush()
        times.append(asyncio.get_running_loop().time() - began)
    assert times[0] >= 1.5 > max(times[1:])
    assert writer.path.read_text() == "one\n\ntwo\n\nthree"


async def test_a_client_that_can_not_show_is_not_asked(tmp_path: Path) -> None:
    editor = FakeEditor(None, capabilities=EditorCapabilities(apply_edit=True))
    writer = chat_in(tmp_path, editor)
    await writer.show()
    writer.begin("x")
    await writer.flush()
    assert editor.shown == []


async def test_a_document_that_was_read_too_early_is_brought_up_to_date(tmp_path: Path) -> None:
    editor = FakeEditor(None)
    writer = chat_in(tmp_path, editor)
    await writer.make()
    early = writer.path.read_text()
    writer.begin(f"{AISH}\n\n")
    writer.append("one ")
    await writer.flush()
    editor.change(early)
    writer.append("two")
    await writer.flush()
    writer.append(" three")
    await writer.flush()
    assert editor.buffer == f"{first_text()}{AISH}\n\none two three"


async def test_a_reply_that_is_brought_up_to_date_while_the_user_types_is_still_known(
    tmp_path: Path,
) -> None:
    editor = FakeEditor(None)
    writer = chat_in(tmp_path, editor)
    await writer.make()
    writer.begin(f"{AISH}\n\n")
    writer.append("one ")
    await writer.flush()
    early = writer.path.read_text()
    writer.append("two ")
    await writer.flush()
    editor.manners = ["overtaken"]
    editor.change(early)
    writer.append("three ")
    await writer.flush()
    assert editor.buffer == f"+{first_text()}{AISH}\n\none two three "
    editor.change(first_text())
    writer.append("four")
    await writer.flush()
    assert editor.buffer == f"{first_text()}{AISH}\n\n{LOST}one two three four"


async def test_a_document_that_is_closed_in_the_middle(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    writer.append("one ")
    await writer.flush()
    assert editor.buffer is not None
    appended(tmp_path, editor.buffer)  # the user saves it
    editor.change(None)
    writer.append("two")
    await writer.flush()
    assert writer.path.read_text() == f"{OPEN}one two"
    assert editor.shown == []


async def test_what_the_user_typed_is_not_taken_for_the_same_text_of_a_reply(
    tmp_path: Path,
) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\n")
    await writer.flush()
    typed = f"{editor.buffer}Yes"
    editor.change(typed)

    def load_again() -> None:
        editor.on_edit = lambda: None
        editor.change(None)
        editor.change(typed)

    editor.on_edit = load_again
    writer.append("Yes")
    await writer.flush()
    assert editor.buffer == f"{typed}Yes"


async def test_an_edit_that_was_never_made_and_lost_in_a_reload_is_sent_again(
    tmp_path: Path,
) -> None:
    editor = FakeEditor(OPEN, manners=["lie", "refuse"])
    writer = chat_in(tmp_path, editor)

    def load_again() -> None:
        if len(editor.edits) == 2:
            editor.change(None)
            editor.change(OPEN)

    editor.on_edit = load_again
    writer.append("one")
    async with asyncio.timeout(30):
        await writer.flush()
    assert editor.buffer == f"{OPEN}one"


async def test_an_editor_that_ends_the_last_line_by_itself(tmp_path: Path) -> None:
    editor = FakeEditor("## You\n\nhow?\n", final_line_end=True)
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\n")
    for delta in ("Hel", "lo", " world\nand ", "more"):
        writer.append(delta)
        await writer.flush()
    writer.append(f"{YOU}\n\n", apart=True)
    await writer.flush()
    assert editor.buffer is not None
    assert editor.buffer.rstrip("\n") == (
        "## You\n\nhow?\n\n## aish\n\nHello world\nand more\n\n## You"
    )


async def test_what_the_user_types_below_a_reply_stays_below_it(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\none ")
    await writer.flush()
    assert editor.buffer is not None
    editor.change(f"above\n{editor.buffer}\n\nmy next question")
    writer.append("two")
    writer.append(f"{YOU}\n\n", apart=True)
    await writer.flush()
    assert editor.buffer == (f"above\n{OPEN}\n{AISH}\n\none two\n\n{YOU}\n\n\n\nmy next question")
    writer.begin(f"{AISH}\n\n")
    await writer.flush()
    assert editor.buffer.endswith(f"my next question\n\n{AISH}\n\n")


async def test_a_reply_that_the_user_deletes_comes_whole_at_the_end(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN)
    writer = chat_in(tmp_path, editor)
    writer.begin(f"{AISH}\n\none ")
    await writer.flush()
    editor.change("notes")
    writer.append("two ")
    await writer.flush()
    writer.append("three")
    await writer.flush()
    assert editor.buffer == f"notes\n\n{AISH}\n\n{LOST}one two three"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "x"),
        ("a", "a\n\nx"),
        ("a\n", "a\n\nx"),
        ("a\n\n", "a\n\nx"),
        ("a\n\n\n", "a\n\n\nx"),
        ("\n", "\n\nx"),
    ],
)
async def test_a_beginning_stands_apart(tmp_path: Path, before: str, after: str) -> None:
    editor = FakeEditor(before)
    writer = chat_in(tmp_path, editor)
    writer.begin("x")
    await writer.flush()
    assert editor.buffer == after


async def test_two_beginnings_in_one_go(tmp_path: Path) -> None:
    editor = FakeEditor("a")
    writer = chat_in(tmp_path, editor)
    writer.append("b")
    writer.begin("c")
    writer.append("d")
    writer.begin("e")
    await writer.flush()
    assert editor.buffer == "ab\n\ncd\n\ne"


@pytest.mark.parametrize("is_open", [True, False])
async def test_an_output_comes_above_what_the_user_writes(tmp_path: Path, is_open: bool) -> None:
    text = f"{AISH}\n\nreply\n\n{YOU}\n\nhalf a que"
    appended(tmp_path, text)
    editor = FakeEditor(text if is_open else None)
    writer = chat_in(tmp_path, editor)
    writer.insert("````console\n$ ls\n")
    await writer.flush()
    if is_open:
        assert editor.buffer is not None
        editor.change(f"{editor.buffer}stion")
    writer.append("a\n")
    await writer.flush()
    writer.append("````\n")
    await writer.flush()
    assert document_of(editor, writer) == (
        f"{AISH}\n\nreply\n\n````console\n$ ls\na\n````\n\n{YOU}\n\nhalf a que"
        + ("stion" if is_open else "")
    )
    writer.insert("one\n")
    writer.insert("two")
    await writer.flush()
    assert f"````\n\none\n\ntwo\n\n{YOU}\n\nhalf" in document_of(editor, writer)


async def test_while_a_reply_is_written_an_output_comes_at_the_end(tmp_path: Path) -> None:
    editor = FakeEditor(f"{YOU}\n\nhow?\n\n{AISH}\n\nSo")
    writer = chat_in(tmp_path, editor)
    writer.insert("x\n")
    await writer.flush()
    assert editor.buffer == f"{YOU}\n\nhow?\n\n{AISH}\n\nSo\n\nx\n"


@pytest.mark.parametrize("capabilities", [FULL, EditorCapabilities()])
async def test_nothing_to_write_is_no_edit(
    tmp_path: Path, capabilities: EditorCapabilities
) -> None:
    editor = FakeEditor(f"{OPEN}\n", capabilities=capabilities)
    writer = chat_in(tmp_path, editor)
    for _ in range(3):
        writer.append("")
        writer.append("", apart=True)
        writer.begin("")
        await writer.flush()
    assert editor.edits == []
    assert document_of(editor, writer) == f"{OPEN}\n"


async def test_halves_of_characters_do_not_stop_it(tmp_path: Path) -> None:
    writer = chat_in(tmp_path, FakeEditor(None))
    writer.append("a\ud83db")
    await writer.flush()
    assert writer.path.read_text() == "a\ufffdb"


async def test_what_can_not_be_written_is_told_once(tmp_path: Path) -> None:
    writer = ChatWriter(tmp_path / "gone", cast("OpenDocuments", FakeEditor(None)))
    with pytest.raises(StoreUnavailable):
        await writer.make()
    writer.append("x")
    with pytest.raises(StoreUnavailable, match="No such file"):
        await writer.flush()
    await writer.flush()
    (tmp_path / "gone").mkdir()
    writer.append("y")
    await writer.flush()
    assert writer.path.read_text() == "y"


async def test_a_link_that_appears_later_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    writer = chat_in(tmp_path, FakeEditor(None))
    await writer.make()
    writer.path.unlink()
    writer.path.symlink_to(target)
    writer.append("x")
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        await writer.flush()
    assert target.read_text() == "precious"


async def test_two_servers_write_to_one_file(tmp_path: Path) -> None:
    writers = [chat_in(tmp_path, FakeEditor(None)) for _ in range(2)]
    for writer in writers:
        await writer.make()
    for number in range(5):
        for writer in writers:
            writer.begin(f"{number}\n")
        await asyncio.gather(*(writer.flush() for writer in writers))
    text = writers[0].path.read_text()
    assert all(str(number) in text for number in range(5))


async def test_a_flush_that_is_given_up_does_not_stop_the_writing(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN, manners=["late"])
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.flush(), 0.001)
    await writer.flush()
    assert editor.buffer == f"{OPEN}x"


async def test_close_drops_what_waits(tmp_path: Path) -> None:
    editor = FakeEditor(OPEN, manners=["silent"])
    writer = chat_in(tmp_path, editor)
    writer.append("x")
    await asyncio.sleep(0.02)
    writer.append("y")
    await writer.close()
    assert editor.in_flight == 0
    assert editor.buffer == OPEN
    assert not writer.path.exists()
    await chat_in(tmp_path, editor).close()


deltas = st.lists(
    st.text(st.sampled_from("ab \né😀"), min_size=1, max_size=12), min_size=1, max_size=6
)


@settings(max_examples=40, deadline=None)
@given(
    deltas=deltas,
    manners=st.lists(st.sampled_from([*GOOD, "refuse", "error", "silent"]), max_size=6),
    typing=st.lists(st.sampled_from(["above", "below", ""]), max_size=12),
    capabilities=st.builds(EditorCapabilities, st.booleans(), st.just(True), st.booleans()),
    is_open=st.booleans(),
)
def test_a_hostile_editor_loses_and_doubles_nothing(
    deltas: list[str],
    manners: list[Manner],
    typing: list[str],
    capabilities: EditorCapabilities,
    is_open: bool,
) -> None:
    async def scenario(root: Path) -> str:
        editor = FakeEditor(
            OPEN if is_open else None, capabilities=capabilities, manners=list(manners)
        )
        writer = chat_in(root, editor)
        habits = iter(typing)

        def types_something() -> None:
            where = next(habits, "")
            if editor.buffer is not None and where:
                above, below = (TYPED, "") if where == "above" else ("", TYPED)
                editor.change(f"{above}{editor.buffer}{below}")

        editor.on_edit = types_something
        writer.begin("<")
        for delta in deltas:
            writer.append(delta)
            await writer.flush()
            types_something()
        await writer.flush()
        return document_of(editor, writer)

    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
    ):
        text = runner.run(scenario(Path(folder)))
    start = f"{OPEN}\n<" if is_open else "<"
    if LOST in text:
        # A line end of the user's may be one of the reply's, told as one: then all comes anew.
        assert f"<{''.join(deltas)}" in text.partition(LOST)[2]
        return
    assert text == start + "".join(deltas)
