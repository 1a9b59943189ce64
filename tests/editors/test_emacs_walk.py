"""The walk of ``walking`` in Emacs, with the lines of its page."""

from __future__ import annotations

import base64
from contextlib import ExitStack

import pytest
from editor_parts import Place
from fault_server import served
from test_emacs import Emacs, headings, opened, place
from walking import NAME, Model, Walk, prepare

__all__ = ["place"]

pytestmark = pytest.mark.editor

#: The file's text in base 64, and whether it is unsaved.
BUFFER = f"""
(with-current-buffer "{NAME}"
  (concat (base64-encode-string (encode-coding-string (buffer-string) 'utf-8) t)
          (if (buffer-modified-p) "+" "-")))
"""


class Hands:
    """The keys of a user of Emacs."""

    can_agree = True

    def __init__(self, emacs: Emacs) -> None:
        self._emacs = emacs

    def ask(self, text: str, agreed: int = 0) -> None:
        emacs = self._emacs
        self._to_chat()
        before = int(emacs.evaluate('(how-many "^## You$" (point-min) (point-max))') or 0)
        emacs.keys(f"\x1b>{text}^c as")
        if self.buffer()[1]:
            # It is asked in the echo area.
            messages = '(with-current-buffer "*Messages*" (buffer-string))'
            emacs.until("whether to save", f'(string-match-p "Save file .*{NAME}" {messages})')
            emacs.keys("y")
        for _ in range(agreed):
            emacs.until_asked("default Cancel")
            yes = emacs.evaluate(
                "(with-current-buffer (window-buffer (active-minibuffer-window)) (buffer-string))"
            )
            assert yes is not None
            # After what does nothing, which is the default.
            emacs.keys(yes.partition(" (default")[0].split(", ")[1] + "\r")
            emacs.until("no question", "(not (active-minibuffer-window))")
        emacs.until(f"the end of {text}", headings(before + 1))

    def run(self, command: str) -> None:
        emacs = self._emacs
        self._to_chat()
        done = '(how-many "^> exit 0" (point-min) (point-max))'
        before = int(emacs.evaluate(done) or 0)
        emacs.keys(f"\x1b>^r CMD: {command[:8]}\r^c ^c ")
        emacs.until("the output", f"(= {before + 1} {done})")

    def _to_chat(self) -> None:
        is_chat = '(string-suffix-p "chat.md" (or buffer-file-name ""))'
        if self._emacs.evaluate(is_chat) != "t":
            self._emacs.keys("^c ao")
        self._emacs.until("the chat", is_chat)
        self._emacs.until("that the server manages it", "(eglot-managed-p)")

    def look(self) -> None:
        # What `global-auto-revert-mode` does by itself, or a user of a buffer that has changed.
        self._emacs.keys(f"^x b{NAME}\r")
        self._emacs.evaluate("(global-auto-revert-mode 1)")

    def buffer(self) -> tuple[str, bool]:
        answer = (self._emacs.evaluate(BUFFER) or "").strip('"')
        return base64.b64decode(answer[:-1]).decode(), answer.endswith("+")

    def put_above(self, line: str) -> None:
        self._emacs.keys(f"^x b{NAME}\r\x1b<{line}\r")


def test_a_walk(place: Place) -> None:
    model = Model()
    with served(model) as url, ExitStack() as stack:
        prepare(place, url)
        editors = []
        for name in ("one", "two"):
            folder = place.programs.with_name(name)
            folder.mkdir()
            editors.append(stack.enter_context(opened(folder, place.folder / NAME)))
        Walk(place, model, *map(Hands, editors)).take()
