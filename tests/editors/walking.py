"""A walk of the same steps in each editor: buffer, disk and what the model is told are compared.

An editor is driven through ``Hands``: what a user does in it. Whatever changes a file, afterwards
the editor shows what the disk holds, and that is what the model reads.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any, Protocol

from editor_parts import Place
from fault_server import Peer, Request, chunk_of

#: Seconds that anything may take on a loaded machine.
TIMEOUT = 20.0

ONE = "def double(x):\n    return x + 1\n"
TWO = ONE.replace("x + 1", "x * 2")
THREE = ONE.replace("x + 1", "2 * x")
FOUR = f"{THREE}\n\nLIMIT = 4\n"
FIVE = FOUR.replace("4", "5")
SIX = FIVE.replace("2 * x", "x << 1")

TEST = "python3 -B -c 'import calc; print(calc.double(4))'"
NAME = "calc.py"


class Model:
    """A model that replies what the walk wants next: a text, or a call of a tool.

    Attributes:
        replies: those to come.
        sent: the messages of each request.
    """

    def __init__(self) -> None:
        self.replies: list[str | tuple[str, dict[str, str]]] = []
        self.sent: list[list[dict[str, Any]]] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.sent.append(request.json["messages"])
        reply = self.replies.pop(0) if self.replies else "Nothing is left to say.\n"
        await peer.head()
        if isinstance(reply, tuple):
            name, arguments = reply
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"c{len(self.sent)}", "type": "function"}
            delta = {"tool_calls": [call | {"function": function}]}
            await peer.event({"choices": [{"index": 0, "delta": delta}]})
        else:
            await peer.event(chunk_of(reply))
        reason = "tool_calls" if isinstance(reply, tuple) else "stop"
        await peer.event(chunk_of("", finish_reason=reason))
        await peer.event("[DONE]")

    @property
    def told(self) -> str:
        """The message that it answered last."""
        return str(self.sent[-1][-1]["content"])


class Hands(Protocol):
    """What a user does in an editor that has the file and the chat open.

    Attributes:
        can_agree: whether the editor shows the server's questions. Where it does not, a model's
            edits and goals are refused, and files are changed by commands that the user runs.
    """

    can_agree: bool

    def ask(self, text: str, agreed: int = 0) -> None:
        """Write a message below the last heading of the chat, and send it.

        Agree to as many questions; wait until all that comes of it has ended.
        """

    def run(self, command: str) -> None:
        """Run the last suggestion, which is ``command``; wait until it has ended."""

    def look(self) -> None:
        """Come back to the file's window, as after a while in another program."""

    def buffer(self) -> tuple[str, bool]:
        """Return what the file's buffer holds, and whether it is unsaved."""

    def put_above(self, line: str) -> None:
        """Write a line above the first one, and do not save."""


def prepare(place: Place, url: str) -> None:
    """Make the place a repository with the file, and a model at ``url`` the default."""
    (place.folder / NAME).write_text(ONE)
    (place.folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    place.config.write_text(
        f'default_model = "m"\n[models.m]\nmodel = "m"\nendpoint = "{url}"\n'
        "context_window = 32768\nmax_output_tokens = 512\n[context]\nmax_turns = 100\n"
    )


def edit(old: str, new: str) -> tuple[str, dict[str, str]]:
    """Return the call that changes the file."""
    return "edit_file", {"path": NAME, "old": old, "new": new}


class Walk:
    """The steps, in one editor, with another one that has the same file open."""

    def __init__(self, place: Place, model: Model, hands: Hands, other: Hands) -> None:
        self._path = place.folder / NAME
        self._model = model
        self._hands = hands
        self._other = other

    def take(self) -> None:
        """Take all steps."""
        self._edit_and_test()
        self._undo_and_redo()
        self._goal()
        self._changed_outside()
        self._two_editors()
        self._unsaved()

    def _change(self, old: str, new: str) -> None:
        """Have the model change the file."""
        command = f"sed -i 's/{old.replace('*', '[*]')}/{new}/' {NAME}"
        by_tool = edit(old, new), "Done.\n"
        by_command = (f"Like this.\nCMD: {command}\n",)
        self._model.replies = [*(by_tool if self._hands.can_agree else by_command)]
        self._hands.ask("Repair calc.py.", agreed=self._hands.can_agree)
        if not self._hands.can_agree:
            self._hands.run(command)
        else:
            assert self._model.told.startswith("Changed calc.py: 1 line added, 1 removed.")

    def _edit_and_test(self) -> None:
        self._change("x + 1", "x * 2")
        self.same("an edit accepted", TWO)
        self._model.replies = [f"Test it.\nCMD: {TEST}\n"]
        self._hands.ask("How do I test it?")
        self._hands.run(TEST)
        self.same("a test run", TWO)
        assert any("\n8\n" in str(one["content"]) for one in self._model.sent[-1])

    def _undo_and_redo(self) -> None:
        self._hands.ask(":undo")
        self.same(":undo", ONE)
        self._hands.ask(":redo")
        self.same(":redo", TWO)

    def _goal(self) -> None:
        self._model.replies = [edit("x * 2", "2 * x"), "GOAL: complete\nDone.\n"]
        # What a goal may do is asked once, and each edit is.
        self._hands.ask(":norris Put the factor first.", agreed=2 * self._hands.can_agree)
        if not self._hands.can_agree:
            self.same("a goal that is refused", TWO)
            self._change("x * 2", "2 * x")
        self.same("a goal", THREE)
        self._hands.ask(":undo")
        self.same(":undo of a goal", TWO)
        self._hands.ask(":redo")
        self.same(":redo of a goal", THREE)

    def _changed_outside(self) -> None:
        self._path.write_text(FOUR)
        # The question comes before the user has looked at the file again.
        self.told("a file changed outside", FOUR)
        self._hands.look()
        self.same("a file changed outside", FOUR)
        self._path.write_text(FIVE)
        self._change("2 * x", "x << 1")
        self._hands.look()
        self.same("an edit after a change outside", SIX)

    def _two_editors(self) -> None:
        self._other.look()
        self._until("the other editor", lambda: self._other.buffer() == (SIX, False))
        self._change("x << 1", "x + x")
        text = SIX.replace("x << 1", "x + x")
        self.same("an edit beside another editor", text)
        self._other.look()
        self._until("the other editor", lambda: self._other.buffer() == (text, False))

    def _unsaved(self) -> None:
        saved = self._path.read_text()
        self._hands.put_above("# mine")
        self.told("an unsaved line", f"# mine\n{saved}")
        # Some editors ask for it to be saved first.
        text, is_unsaved = self._hands.buffer()
        assert text == f"# mine\n{saved}"
        assert self._path.read_text() == (saved if is_unsaved else text)

    def same(self, step: str, text: str) -> None:
        """See that disk, buffer and what the model reads are this text."""
        path = self._path
        self._until(f"{step}: the disk", lambda: path.read_text() == text, path.read_text)
        hands = self._hands
        self._until(f"{step}: the buffer", lambda: hands.buffer() == (text, False), hands.buffer)
        self.told(step, text)

    def told(self, step: str, text: str) -> None:
        """See that the model reads this text."""
        self._model.replies = [("read_file", {"path": NAME}), "I see.\n"]
        self._hands.ask("Read calc.py.")
        lines = self._model.told.partition("\n")[2]
        assert lines == text.rstrip("\n"), f"{step}: the model was told {self._model.told!r}"

    @staticmethod
    def _until(
        what: str, condition: Callable[[], bool], seen: Callable[[], object] = lambda: ""
    ) -> None:
        end = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < end, f"{what}: {seen()!r}"
            time.sleep(0.1)
