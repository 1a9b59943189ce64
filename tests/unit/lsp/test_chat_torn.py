"""A buffer that goes in the middle of a reply, in a chat where every reply looks like the others.

A simulated editor discards, reverts, undoes, closes and edits between any two pieces of a reply.
It knows of each character who wrote it: nothing but the reply's own place may ever change.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

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
from virtual_time import VirtualLoop

from aish_lsp.chat.insertion import LOST, Edit
from aish_lsp.chat.markdown import AISH, YOU, Change, ClientPosition
from aish_lsp.lsp import chat_edits, chat_writer
from aish_lsp.lsp.chat_writer import ChatWriter
from aish_lsp.lsp.open_documents import EditorCapabilities, OpenDocument, OpenDocuments

#: Seconds after which an editor tells its changes that does not at once, as Neovim does.
TELLS_AFTER: Final = 0.15
#: Seconds that a message is on its way between the editor and the server.
DELAY: Final = 0.01
#: Exchanges that the chat has already.
OLDER: Final = 8
EXCHANGE: Final = f"{YOU}\n\nhow do I run it?\n\n{AISH}\n\nYes, run it so. Yes, run it so.\n\n"
ASKED: Final = f"{EXCHANGE * OLDER}{YOU}\n\nhow do I run it?\n\n"
#: What replies are made of, so that each begins like many.
DELTAS: Final = ("Yes", ", run it", " so.", " ", "\n", "Yes, run it so.", f"\n\n{YOU}\n\n")

#: Characters, each with a number of its own.
Owned: TypeAlias = tuple[tuple[str, int], ...]
#: Whose the character of a number is: of others, the reply's, or the reply's at a wrong place.
Owner: TypeAlias = Literal["others", "reply", "stray"]
OWNERS: dict[int, Owner] = {}


def owned(text: str, owner: Owner = "others") -> Owned:
    first = len(OWNERS)
    OWNERS.update((number, owner) for number in range(first, first + len(text)))
    return tuple(zip(text, range(first, first + len(text)), strict=True))


def text_of(content: Owned) -> str:
    return "".join(character for character, _ in content)


def owners(content: Owned) -> set[Owner]:
    return {OWNERS[number] for _, number in content}


def owned_by(content: Owned, *owners: Owner) -> str:
    return "".join(character for character, number in content if OWNERS[number] in owners)


@dataclass(frozen=True)
class Kind:
    """What an editor does.

    Attributes:
        heeds: it makes no edit that is for another version; for a lower one than its own, unless
            that is 0, as bare Neovim; or any edit.
        prompt: it tells each change at once, else a while later.
        answers: what it says of an edit: what is so, always "made", or always an error.
        recounts: its versions begin anew where it loads the file, as Neovim's do.
        merges: it tells all that has changed as one change, as vim-lsp does.
    """

    heeds: Literal["versions", "newer", "none"]
    prompt: bool
    answers: Literal["as it is", "made", "failed"] = "as it is"
    recounts: bool = False
    merges: bool = False

    @property
    def never_harms(self) -> bool:
        """Whether no edit may ever be made in a wrong place, were it for a moment."""
        return self.heeds == "versions" and not self.recounts

    @property
    def ends_well(self) -> bool:
        """Whether in the end nothing may stand in a wrong place.

        Without versions nothing can be taken back for certain: what takes text away would itself be
        made in whatever the editor holds by then.
        """
        return self.heeds != "none"

    @property
    def is_exact(self) -> bool:
        """Whether it tells where a change was; others tell any that comes to the same."""
        return self.heeds == "none" and not self.merges


KINDS: Final = (
    st.builds(
        Kind,
        heeds=st.just("versions"),
        prompt=st.booleans(),
        answers=st.sampled_from(["as it is", "made", "failed"]),
        recounts=st.booleans(),
    )
    | st.just(Kind("newer", prompt=False, answers="made", recounts=True))
    | st.builds(Kind, heeds=st.just("none"), prompt=st.booleans())
    | st.just(Kind("none", prompt=False, merges=True))
)


class Simulated:
    """An editor of a kind, whose buffer knows its authors.

    What it and the server say to each other takes its time: what the server knows is never all.
    """

    def __init__(
        self,
        content: Owned,
        path: Path,
        kind: Kind,
        loop: VirtualLoop,
        is_reply: Callable[[str], bool],
    ) -> None:
        self.kind = kind
        self.is_reply = is_reply
        self.loop = loop
        self.capabilities = EditorCapabilities(
            apply_edit=True,
            document_changes=kind.heeds != "none",
            takes_0_for_none=kind.heeds == "newer",
        )
        self.buffer: Owned | None = content
        self.version = 1
        self.untold: list[tuple[Owned, Owned]] = []
        self.undoes: list[Owned] = []
        self.writer: ChatWriter | None = None
        self.harm = ""
        self.on_its_way: deque[Callable[[], None]] = deque()
        # The edit that the server has sent last, and what it has come to.
        self.sent: types.TextEdit | None = None
        self.came_to: Owned | None = None
        # What the user has written that was one and the same as that edit, with the character of
        # the reply before it. So is what is told of them: where no version of its own keeps each
        # text apart, nobody can tell which of them it was.
        self.doubles: list[Owned] = []
        # What the server was told, and the text that it was told last.
        self.known = text_of(content)
        self.uri = path.as_uri()
        self.told: OpenDocument | None = OpenDocument(self.uri, text_of(content), 1)

    # What the writer uses

    def document(self, _path: Path) -> OpenDocument | None:
        return self.told

    def width(self, text: str) -> int:
        return len(text)

    def characters(self, line: str, units: int) -> int:
        return min(units, len(line))

    def show(self, _path: Path, _line: int) -> None: ...

    async def apply_edit(self, edit: types.WorkspaceEdit) -> bool:
        version, self.sent = parts(edit)
        self.came_to = None
        await asyncio.sleep(DELAY)
        made = self.buffer is not None and not self.refuses(version)
        if made:
            self.make(self.sent)
        answered = asyncio.Event()
        self.send(answered.set)
        await answered.wait()
        if self.kind.answers == "failed":
            raise RuntimeError("it failed at something else")
        return made or self.kind.answers == "made"

    def refuses(self, version: int | None) -> bool:
        if self.kind.heeds == "none":
            assert version is None
            return False
        assert version is not None
        if self.kind.heeds == "newer":
            return 0 < version < self.version
        return version != self.version

    def make(self, edit: types.TextEdit) -> None:
        assert self.buffer is not None
        start, end = places(self.buffer, edit)
        if "others" in owners(self.buffer[start:end]):
            self.harm = "text was removed"
        is_right = not edit.new_text or (
            may_go_on(self.buffer, start)
            and self.is_reply(text_of(self.buffer[:start]) + edit.new_text)
        )
        if not is_right and self.kind.never_harms:
            self.harm = f"at {start}: {edit.new_text!r}"
        new = owned(edit.new_text, "reply" if is_right else "stray")
        self.came_to = self.buffer[:start] + new + self.buffer[end:]
        self.become(self.came_to)

    # What the user and the world do

    def change(self, content: Owned, *, undoes: bool = False) -> None:
        """Have the buffer hold ``content``, by one change."""
        assert self.buffer is not None
        if text_of(self.buffer) == text_of(content):
            return
        if not undoes:
            self.undoes.append(self.buffer)
        self.own(set(content) - set(self.buffer))
        content = content if self.kind.is_exact else as_told(self.buffer, content)
        # What the user has changed of a stray is theirs: so is what is left of it, though it were
        # the user's own text, and alike.
        strays = tuple(one for one in self.buffer if OWNERS[one[1]] == "stray")
        if self.kind.ends_well and holds(self.buffer, strays) and not holds(content, strays):
            self.own(set(strays))
        self.become(content)

    def become(self, content: Owned) -> None:
        assert self.buffer is not None
        self.untold.append((self.buffer, content))
        self.buffer = content
        self.version += 1
        if self.kind.prompt:
            self.tell()
        elif len(self.untold) == 1:
            self.loop.call_later(TELLS_AFTER, self.tell)

    def load(self, content: Owned) -> None:
        """Discard the buffer and show this; what was not told is not told any more."""
        self.close()
        if text_of(content) != self.known:
            self.own(set(content))
        self.buffer = content
        self.version = 0 if self.kind.recounts else self.version + 1
        self.send(partial(self.hear, self.document_now()))

    def own(self, content: set[tuple[str, int]]) -> None:
        """Have what stands in a wrong place be the user's, who has brought it back from elsewhere.

        From the disk, in a text that the server was never told, or by undoing that it was removed:
        the user could have written it just so, and what may be the user's must stay.
        """
        OWNERS.update((number, "others") for _, number in content if OWNERS[number] == "stray")

    def close(self) -> None:
        self.buffer = None
        self.undoes = []
        self.untold = []
        self.send(partial(self.hear, None))

    # What it tells

    def tell(self) -> None:
        """Tell the changes that are not told yet."""
        if self.untold:
            merged = [(self.untold[0][0], self.untold[-1][1])]
            changes = merged if self.kind.merges else self.untold
            self.send(partial(self.hear, self.document_now(), changes))
        self.untold = []

    def document_now(self) -> OpenDocument:
        assert self.buffer is not None
        return OpenDocument(self.uri, text_of(self.buffer), self.version)

    def send(self, message: Callable[[], None]) -> None:
        self.on_its_way.append(message)
        self.loop.call_later(DELAY, self.arrive)

    def arrive(self) -> None:
        self.on_its_way.popleft()()

    def hear(
        self, document: OpenDocument | None, changes: Sequence[tuple[Owned, Owned]] = ()
    ) -> None:
        """Have the server hear of what has become of the document."""
        self.told = document
        self.known = self.known if document is None else document.text
        for before, after in changes:
            self.look_for_a_double(before, after)
        if self.writer is not None:
            exact = self.kind.is_exact
            self.writer.changed([change_of(*change, is_exact=exact) for change in changes])

    def look_for_a_double(self, before: Owned, after: Owned) -> None:
        """Take a change for the edit that was sent, if nobody who is told could tell the two apart.

        The user has written, at the very place and at that moment, the very text.
        """
        if self.sent is None or after is self.came_to:
            return
        start, end = places(before, self.sent)
        new = self.sent.new_text
        if text_of(after) == text_of(before[:start]) + new + text_of(before[end:]):
            OWNERS.update((number, "reply") for _, number in after[start : start + len(new)])
            goes_on = start > 0 and OWNERS[after[start - 1][1]] == "reply"
            self.doubles.append(after[start - goes_on : start + len(new)])


def parts(edit: types.WorkspaceEdit) -> tuple[int | None, types.TextEdit]:
    """Return the version that an edit is for, if it says so, and its one change."""
    version = None
    if edit.document_changes:
        (change,) = edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        version = change.text_document.version
        (text_edit,) = change.edits
    else:
        assert edit.changes
        (text_edit,) = next(iter(edit.changes.values()))
    assert isinstance(text_edit, types.TextEdit)
    return version, text_edit


def places(content: Owned, edit: types.TextEdit) -> tuple[int, int]:
    text = text_of(content)
    return offset_of(text, edit.range.start), offset_of(text, edit.range.end)


def may_go_on(content: Owned, at: int) -> bool:
    """Return whether the reply may go on there: behind its own text, or at the very end."""
    is_behind = at > 0 and OWNERS[content[at - 1][1]] == "reply"
    return is_behind or not text_of(content[at:]).strip("\n")


def holds(content: Owned, part: Owned) -> bool:
    """Return whether these very characters stand in ``content`` in one stretch."""
    at = content.index(part[0]) if part and part[0] in content else 0
    return content[at : at + len(part)] == part


def as_told(before: Owned, after: Owned) -> Owned:
    """Return ``after`` as if what came to it was just what is told.

    Of repeated text nobody can tell which of it is new, or gone: it is what the editor says.
    """
    least = Edit(0, len(before), text_of(after)).least(text_of(before))
    kept = (*before[: least.start], *before[least.end :])
    numbers = {number for _, number in kept}
    new = after[least.start : least.start + len(least.new)]
    fresh = (one if one[1] not in numbers else owned(one[0])[0] for one in new)
    return (*before[: least.start], *fresh, *before[least.end :])


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


def position(text: str, offset: int) -> ClientPosition:
    before = text[:offset]
    return ClientPosition(before.count("\n"), offset - before.rfind("\n") - 1)


def offset_of(text: str, at: types.Position) -> int:
    lines = text.split("\n")
    if at.line >= len(lines):
        return len(text)
    return sum(len(line) + 1 for line in lines[: at.line]) + min(at.character, len(lines[at.line]))


#: Where the user changes something: in the whole text, or about the end of the reply.
PLACES: Final = st.floats(0, 1) | st.integers(-12, 3)


class TornChat(RuleBasedStateMachine):
    """One reply, and all that can happen to the buffer meanwhile."""

    loop: ClassVar[VirtualLoop]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.written = ""
        # The user has changed the reply itself: then it is theirs.
        self.tampered = False
        # The file was written when the editor had read it and not told so yet: then the file has
        # all of the reply, and the buffer has it once the user loads that.
        self.was_read_early = False

    @initialize(kind=KINDS, saved=st.booleans(), alike=st.booleans())
    def asks(self, kind: Kind, saved: bool, alike: bool = True) -> None:
        OWNERS.clear()
        asked = ASKED if alike else f"{EXCHANGE * OLDER}{YOU}\n\nwhat else?\n\n"
        root = Path(self.folder.name)
        self.path = root / ".aish" / "chat.md"
        self.path.parent.mkdir()
        self.disk = owned(asked if saved else EXCHANGE * OLDER)
        self.path.write_text(text_of(self.disk))
        self.editor = Simulated(owned(asked), self.path, kind, self.loop, self.is_reply)
        self.writer = ChatWriter(root, cast("OpenDocuments", self.editor))
        self.editor.writer = self.writer
        write = self.writer._file.write

        def write_and_look(*args: Any, **named: Any) -> bool:
            written = write(*args, **named)
            self.look_at_the_file()
            self.was_read_early |= self.editor.buffer is not None and self.editor.told is None
            return written

        self.writer._file.write = write_and_look  # type: ignore[method-assign]
        self.run(self.begin())

    async def begin(self) -> None:
        self.writer.begin(f"{AISH}\n\n")
        await self.writer.flush()

    def is_reply(self, text: str) -> bool:
        """Return whether ``text`` ends with the reply from its start on, with no piece twice."""
        part = text.rpartition(f"{AISH}\n\n")[2].removeprefix(LOST)
        is_blind = not self.editor.kind.ends_well
        return is_blind or self.tampered or f"{self.written}{DELTAS[-1]}".startswith(part)

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(work)

    def look_at_the_file(self) -> None:
        """Take over what was written to the file; it is one insertion at a right place."""
        text, before = self.path.read_text(), text_of(self.disk)
        if text == before:
            return
        more = len(text) - len(before)
        assert more > 0, "text of the file was removed"
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, before)))  # noqa: B905
        places = (at for at in range(shared, -1, -1) if text[at + more :] == before[at:])
        places = (at for at in places if may_go_on(self.disk, at))
        at = next((at for at in places if self.is_reply(text[: at + more])), None)
        assert at is not None, f"the file was written to at {shared}: {text[shared:][:80]!r}"
        self.disk = self.disk[:at] + owned(text[at : at + more], "reply") + self.disk[at:]

    @property
    def buffer(self) -> Owned:
        assert self.editor.buffer is not None
        return self.editor.buffer

    def is_shown(self) -> bool:
        return self.editor.buffer is not None

    @rule(delta=st.sampled_from(DELTAS[:-1]))
    def replies(self, delta: str) -> None:
        self.written += delta
        self.run(self.append(delta))

    async def append(self, delta: str) -> None:
        self.writer.append(delta)

    @rule(seconds=st.sampled_from([0.5 * DELAY, DELAY, 5 * DELAY, 0.1, 0.5, 3.0, 20.0]))
    def passes(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule()
    def all_is_written(self) -> None:
        self.run(self.writer.flush())

    @precondition(is_shown)
    @rule(where=PLACES, typed=st.sampled_from(["\n", "Yes", "x", f"\n\n{YOU}\n\n"]))
    def types_something(self, where: float, typed: str) -> None:
        at = self.place(where)
        inside = "others" not in owners(self.buffer[max(0, at - 1) : at + 1])
        self.tampered |= inside and 0 < at < len(self.buffer)
        self.editor.change(self.buffer[:at] + owned(typed) + self.buffer[at:])

    @precondition(is_shown)
    @rule(where=PLACES, length=st.sampled_from([1, 5, len(EXCHANGE)]))
    def deletes_something(self, where: float, length: int) -> None:
        at = self.place(where)
        self.tampered |= bool(owners(self.buffer[at : at + length]) - {"others"})
        self.editor.change(self.buffer[:at] + self.buffer[at + length :])

    def place(self, where: float) -> int:
        """Return a part of the buffer's length, or the place so many characters from the reply."""
        if isinstance(where, float):
            return int(where * len(self.buffer))
        ends = (at for at in range(len(self.buffer), 0, -1) if may_go_on(self.buffer, at))
        return min(max(0, next(ends, 0) + where), len(self.buffer))

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
        self.discards()

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
                self.run(self.append(DELTAS[-1]))
                self.run(self.writer.flush())
                self.run(asyncio.sleep(1.0))
                self.at_the_end()
        finally:
            try:
                if hasattr(self, "writer"):
                    self.loop.run_until_complete(self.writer.close())
            finally:
                self.folder.cleanup()

    def at_the_end(self) -> None:
        self.nothing_else_is_touched()
        kind = self.editor.kind
        content = self.disk if self.editor.buffer is None else self.buffer
        if self.editor.buffer is None:
            # Saved before it was told, and closed: nothing tells the server that it is there.
            self.editor.own(set(content))
        has_doubled = bool(self.editor.doubles) and not kind.never_harms
        # Changed before it was told, what is taken for the reply was theirs, too.
        self.tampered |= not all(holds(content, double) for double in self.editor.doubles)
        if kind.never_harms or (kind.ends_well and not has_doubled):
            strays = owned_by(content, "stray")
            assert not strays, strays
        if not self.tampered and not has_doubled:
            contents = (content, self.disk) if self.was_read_early else (content,)
            # What came blindly, told as one with the user's change, counts wherever it came: the
            # server is told one text in place of another, and no part of that is an edit.
            ours: tuple[Owner, ...] = ("reply", "stray") if kind.merges else ("reply",)
            faults = [self.fault_of(one, *ours) for one in contents]
            assert "" in faults, faults

    def fault_of(self, content: Owned, *ours: Owner) -> str:
        """Return what is wrong with the reply in ``content``, if anything is.

        It stands there whole, in one stretch, and last.
        """
        whole = f"{self.written}{DELTAS[-1]}"
        if not self.editor.kind.ends_well:
            # What came blindly where it must not stays there, even right behind the reply.
            stretches = "".join(one if OWNERS[number] in ours else "\0" for one, number in content)
            return "" if whole in stretches else f"it is not whole: {stretches.strip(chr(0))!r}"
        text = text_of(content)
        places = [at for at, (_, number) in enumerate(content) if OWNERS[number] in ours]
        if "".join(text[at] for at in places[-len(whole) :]) != whole:
            return f"it is not whole: {''.join(text[at] for at in places)!r}"
        if places[-1] - places[-len(whole)] != len(whole) - 1:
            return f"it is in parts: {text[places[-len(whole)] :]!r}"
        return ""


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with closing(VirtualLoop()) as loop:
        TornChat.loop = loop
        for module in (chat_edits, chat_writer):
            monkeypatch.setattr(module, "monotonic", loop.time)
        yield


@pytest.mark.slow
def test_nothing_but_the_place_of_the_reply_is_ever_touched() -> None:
    run_state_machine_as_test(
        TornChat,
        settings=settings(
            max_examples=150, stateful_step_count=20, deadline=None, derandomize=True
        ),
    )


VERSIONED: Final = Kind("versions", prompt=True)
BARE_NEOVIM: Final = Kind("newer", prompt=False, answers="made", recounts=True)
A_HEADING: Final = f"\n\n{YOU}\n\n"


@pytest.mark.parametrize(
    ("kind", "happens"),
    [
        # A heading is typed within the reply, and told as if it were behind its last blank line.
        (
            VERSIONED,
            [
                lambda chat: chat.types_something(where=-1, typed=A_HEADING),
                lambda chat: chat.replies(delta="Yes"),
                lambda chat: chat.types_something(where=0.0, typed="\n"),
            ],
        ),
        # The same, by an editor that tells where it really was.
        (
            Kind("none", prompt=True),
            [lambda chat: chat.types_something(where=-1, typed=A_HEADING)],
        ),
        # What the user types below is the very text that goes on in the reply.
        (
            VERSIONED,
            [
                lambda chat: chat.replies(delta="Yes"),
                lambda chat: chat.types_something(where=0, typed="Yes"),
                lambda chat: chat.passes(seconds=1.0),
            ],
        ),
        # The same, and the user takes a part of it away before any of it is told.
        (
            Kind("versions", prompt=False),
            [
                lambda chat: chat.types_something(where=0, typed=A_HEADING),
                lambda chat: chat.deletes_something(where=-1, length=1),
            ],
        ),
        # The same, and the user takes back all of it.
        (
            Kind("versions", prompt=False),
            [
                lambda chat: chat.types_something(where=0, typed=A_HEADING),
                lambda chat: chat.undoes(count=1),
            ],
        ),
        # The same, and the user types something between that and the reply.
        (
            Kind("versions", prompt=False),
            [
                lambda chat: chat.replies(delta="Yes"),
                lambda chat: chat.all_is_written(),
                lambda chat: chat.types_something(where=0, typed=A_HEADING),
                lambda chat: chat.types_something(where=-len(A_HEADING), typed="x"),
            ],
        ),
        # An edit is made, and its buffer discarded before that is told.
        (
            Kind("versions", prompt=False, recounts=True),
            [
                lambda chat: chat.discards(),
                lambda chat: chat.passes(seconds=0.01),
                lambda chat: chat.replies(delta="Yes"),
                lambda chat: chat.passes(seconds=0.01),
                lambda chat: chat.discards(),
            ],
        ),
        # A line feed is taken back, and another one is told to be gone.
        (
            BARE_NEOVIM,
            [
                lambda chat: chat.replies(delta=", run it"),
                lambda chat: chat.all_is_written(),
                lambda chat: chat.another_editor_writes(older=True),
                lambda chat: chat.discards(),
                lambda chat: chat.replies(delta="\n"),
                lambda chat: chat.all_is_written(),
            ],
        ),
        # A document that was just loaded is changed: the edit that is for it was refused.
        (
            Kind("versions", prompt=True, answers="made", recounts=True),
            [
                lambda chat: chat.closes(),
                lambda chat: chat.opens(),
                lambda chat: chat.passes(seconds=0.1),
                lambda chat: chat.deletes_something(where=0.0, length=1),
            ],
        ),
        # An edit is refused, and its version comes again before that is known.
        (
            Kind("versions", prompt=True, recounts=True),
            [
                lambda chat: chat.another_editor_writes(older=False),
                lambda chat: chat.closes(),
                lambda chat: chat.passes(seconds=0.1),
                lambda chat: chat.opens(),
                lambda chat: chat.passes(seconds=0.005),
                lambda chat: chat.another_editor_writes(older=False),
                lambda chat: chat.reverts_as_one_change(),
                lambda chat: chat.closes(),
                lambda chat: chat.opens(),
            ],
        ),
        # What came into a wrong place is taken back by the user, and begins as what is below it.
        (
            BARE_NEOVIM,
            [
                lambda chat: chat.discards(),
                lambda chat: chat.another_editor_writes(older=True),
                lambda chat: chat.another_editor_writes(older=True),
                lambda chat: chat.passes(seconds=0.01),
                lambda chat: chat.discards(),
                lambda chat: chat.replies(delta="Yes"),
                lambda chat: chat.passes(seconds=0.01),
                lambda chat: chat.reverts_as_one_change(),
            ],
        ),
        # The same, and the user takes back a part of it.
        (
            BARE_NEOVIM,
            [
                lambda chat: chat.discards(),
                lambda chat: chat.another_editor_writes(older=True),
                lambda chat: chat.another_editor_writes(older=True),
                lambda chat: chat.passes(seconds=0.01),
                lambda chat: chat.discards(),
                lambda chat: chat.replies(delta="Yes"),
                lambda chat: chat.passes(seconds=0.01),
                lambda chat: chat.deletes_something(where=0.7, length=5),
            ],
        ),
    ],
)
@pytest.mark.parametrize("alike", [False, True])
def test_what_was_found_once(
    alike: bool, kind: Kind, happens: list[Callable[[TornChat], None]]
) -> None:
    chat = TornChat()
    try:
        chat.asks(kind=kind, saved=False, alike=alike)
        for step in happens:
            step(chat)
            chat.nothing_else_is_touched()
    finally:
        chat.teardown()


@pytest.mark.parametrize("closed_for", [0.0, 0.05, 0.6])
@pytest.mark.parametrize("kind", [VERSIONED, Kind("versions", prompt=False), BARE_NEOVIM])
def test_an_edit_that_was_saved_untold_below_notes_is_not_made_twice(
    kind: Kind, closed_for: float
) -> None:
    chat = TornChat()
    try:
        chat.asks(kind=kind, saved=True, alike=False)
        chat.replies(delta="Yes")
        chat.passes(seconds=0.01)
        for delta in ("\n", "Yes, run it so.", "\n"):
            chat.replies(delta=delta)
        # It is made by then, and neither answered nor told.
        for _ in range(100):
            if chat.editor.came_to is chat.buffer and "so.\n" in text_of(chat.buffer)[-5:]:
                break
            chat.passes(seconds=0.005)
        else:
            raise AssertionError("the edit was never made")
        chat.saves()
        chat.another_editor_writes(older=False)
        chat.closes()
        chat.passes(seconds=closed_for)
        chat.opens()
        chat.all_is_written()
    finally:
        chat.teardown()
