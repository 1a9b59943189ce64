"""The chat's line editing: messages are typed below a reply that is still arriving.

prompt_toolkit reads them, with completion and history. What is written meanwhile appears above the
line being typed, and a question takes its place until it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import StdoutProxy

from aish_lsp.chat.colon import completions_at
from aish_lsp.cli import terminal
from aish_lsp.foundation.files import data_dir, private_dir
from aish_lsp.foundation.text import with_line_feeds

if TYPE_CHECKING:
    from prompt_toolkit.document import Document

    from aish_lsp.agent import Workspace

_PROMPT: Final = "aish> "

#: Characters that may be pasted into a message.
_MOST_PASTED: Final = 100_000

#: Seconds between two writes above the prompt, which is drawn again after each.
_PAUSE: Final = 0.02


class _Interrupted(Exception):
    """A question takes the place of the message being typed."""


class _WholeLines(StdoutProxy):
    """Writes whole lines above the prompt: the prompt would overwrite an unfinished one."""

    def flush(self) -> None:
        """Wait for the end of the line."""

    def close(self) -> None:
        """Write what is left."""
        super().flush()
        super().close()


class _LongPastes(Vt100Parser):
    """Keeps no more of a paste than shows that it is too long; all of it would take minutes."""

    def feed(self, data: str) -> None:
        """Take what was typed or pasted."""
        if self._in_bracketed_paste and len(self._paste_buffer) > 2 * _MOST_PASTED:
            # The mark that ends it may have begun.
            self._paste_buffer = self._paste_buffer[: _MOST_PASTED + 1] + self._paste_buffer[-9:]
        super().feed(data)


class ChatInput:
    """What the user types at a terminal.

    Args:
        workspace: its commands and files complete.
        chat_text: returns the chat, whose numbers complete.
        stop: stops what is being done, at Ctrl-C; it returns False if there is nothing to stop.
        doing: returns what is being done, in a few words.
    """

    def __init__(
        self,
        workspace: Workspace,
        chat_text: Callable[[], str],
        stop: Callable[[], bool],
        doing: Callable[[], str],
    ) -> None:
        path = private_dir(data_dir()) / "chat_history"
        path.touch(mode=0o600)
        self._messages: PromptSession[str] = PromptSession(
            _PROMPT,
            history=FileHistory(str(path)),
            completer=_ChatCompleter(workspace, chat_text),
            complete_while_typing=True,
            key_bindings=_keys(stop),
            enable_open_in_editor=True,
            placeholder=lambda: [("fg:ansibrightblack", doing())],
        )
        keyboard = self._messages.input
        if isinstance(keyboard, Vt100Input):
            keyboard.vt100_parser = _LongPastes(keyboard.vt100_parser.feed_key_callback)
        self._answers: PromptSession[str] = PromptSession(input=keyboard)
        self._keyboard = asyncio.Lock()
        self._questions = 0
        #: What the next message begins with.
        self.draft = ""

    @contextlib.contextmanager
    def below_output(self) -> Iterator[None]:
        """Write all output above what is typed."""
        with (
            _WholeLines(sleep_between_writes=_PAUSE, raw=True) as lines,
            contextlib.redirect_stdout(lines),
            contextlib.redirect_stderr(lines),
        ):
            yield

    async def message(self) -> str | None:
        """Return the next message; None if the user drops it with Ctrl-C.

        Raises:
            EOFError: the input has ended.
        """
        while True:
            async with self._keyboard:
                draft, self.draft = self.draft, ""
                self._messages.app.erase_when_done = False
                try:
                    return await self._messages.prompt_async(
                        default=draft, handle_sigint=False, pre_run=self._give_way
                    )
                except _Interrupted:
                    self.draft = self.draft or self._messages.default_buffer.text
                except KeyboardInterrupt:
                    return None

    async def answer(self, question: str) -> str | None:
        """Return the answer to a question, which is one line; None at Ctrl-C and Ctrl-D.

        What was typed before it was shown is no answer to it.
        """
        self._questions += 1
        try:
            self._give_way()
            async with self._keyboard:
                clear_typeahead(self._answers.input)
                terminal.discard_typeahead()
                try:
                    return await self._answers.prompt_async(question, handle_sigint=False)
                except (EOFError, KeyboardInterrupt):
                    return None
        finally:
            self._questions -= 1

    def write_again(self, text: str) -> None:
        """Begin the next message with ``text``, for the user to change."""
        self.draft = text
        self._give_way(always=True)

    def refresh(self) -> None:
        """Draw the prompt again: what is being done has changed."""
        self._messages.app.invalidate()

    def _give_way(self, *, always: bool = False) -> None:
        app = self._messages.app
        if (self._questions or always) and app.is_running and not app.is_done:
            app.erase_when_done = True
            app.exit(exception=_Interrupted())


def _keys(stop: Callable[[], bool]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _stop(event: KeyPressEvent) -> None:
        if not stop():
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        if len(event.data) <= _MOST_PASTED:
            event.current_buffer.insert_text(with_line_feeds(event.data))
            return
        terminal.tell(
            f"More was pasted than the {_MOST_PASTED:,} characters that a message takes at once."
            " Save it as a file and name it with @FILE."
        )

    return keys


class _ChatCompleter(Completer):
    """Completes ``:`` commands with their arguments, and ``@`` files."""

    def __init__(self, workspace: Workspace, chat_text: Callable[[], str]) -> None:
        self._workspace, self._chat_text = workspace, chat_text

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> list[Completion]:
        """Return nothing: all completions come from the asynchronous method."""
        return []

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what could be inserted at the cursor."""
        prefix = document.current_line_before_cursor
        proposals = await completions_at(self._workspace, prefix, self._chat_text())
        for item in proposals.items:
            yield Completion(
                item.insert,
                start_position=item.start - len(prefix),
                display=item.label,
                display_meta=item.detail,
            )
