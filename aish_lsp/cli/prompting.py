"""Reading what the user types at ``aish-lsp chat``: with completion and history, or plainly.

``prompt_toolkit`` (``pip install aish-lsp[chat]``) does it well; without it, and where there is no
terminal, Python's own line editing does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
from typing import TYPE_CHECKING, Final, Protocol

from aish_lsp.chat.colon import commands_at, files_at
from aish_lsp.cli import output
from aish_lsp.foundation.paths import data_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from prompt_toolkit.completion import CompleteEvent, Completer
    from prompt_toolkit.document import Document

    from aish_lsp.agent.workspace import Workspace

PROMPT: Final = "aish> "

#: Messages that plain line editing remembers.
_REMEMBERED: Final = 1000

_PLAINLY: Final = (
    "prompt_toolkit is not installed: no completion and no messages of several lines here."
    " `pip install 'aish-lsp[chat]'` brings them."
)


class Typing(Protocol):
    """Where messages come from."""

    async def message(self) -> str:
        """Return the next message.

        Raises:
            EOFError: there is none any more.
            KeyboardInterrupt: the user wants to begin it anew.
        """


def typing(workspace: Workspace, chat_text: Callable[[], str]) -> Typing:
    """Return the best way to read there is; say so where a better one can be had."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _Plain(history=False)
    if importlib.util.find_spec("prompt_toolkit") is None:
        output.tell(_PLAINLY)
        return _Plain(history=True)
    return _Toolkit(workspace, chat_text)


class _Plain:
    """Python's own line editing."""

    def __init__(self, *, history: bool) -> None:
        self._prompt = ""
        if history:
            self._prompt = PROMPT
            with contextlib.suppress(ImportError):
                self._remember()

    def _remember(self) -> None:
        import atexit  # noqa: PLC0415 - where there is a terminal
        import readline  # noqa: PLC0415 - as above; Windows has none

        path = data_dir() / "chat_history.txt"
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(_REMEMBERED)

        def keep() -> None:
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                readline.write_history_file(path)

        atexit.register(keep)

    async def message(self) -> str:
        """Return a line. Nothing else is done meanwhile: nothing runs while we wait for it."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if self._prompt:
                # No color is left from before.
                output.out.prompt("")
            return input(self._prompt)  # noqa: ASYNC250 - see above
        finally:
            signal.signal(signal.SIGINT, before)


class _Toolkit:
    """prompt_toolkit's: completion as one types, history, messages of several lines."""

    def __init__(self, workspace: Workspace, chat_text: Callable[[], str]) -> None:
        from prompt_toolkit import PromptSession  # noqa: PLC0415 - for this alone, and maybe missing
        from prompt_toolkit.history import FileHistory  # noqa: PLC0415 - as above
        from prompt_toolkit.key_binding import KeyBindings  # noqa: PLC0415 - as above
        from prompt_toolkit.key_binding.key_processor import KeyPressEvent  # noqa: PLC0415

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        path = data_dir() / "chat_history"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=FileHistory(str(path)),
            completer=_completer(workspace, chat_text),
            complete_while_typing=True,
            key_bindings=keys,
            enable_open_in_editor=True,
        )

    async def message(self) -> str:
        """Return a message; Alt+Enter begins another line of it."""
        output.out.end_line()
        return await self._session.prompt_async(handle_sigint=False)


def _completer(workspace: Workspace, chat_text: Callable[[], str]) -> Completer:
    """Return what completes ``:`` commands with their arguments, and ``@`` files."""
    from prompt_toolkit.completion import Completer, Completion  # noqa: PLC0415 - as above

    class _Completer(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> list[Completion]:
            """Return nothing: all of them are awaited."""
            return []

        async def get_completions_async(
            self, document: Document, complete_event: CompleteEvent
        ) -> AsyncGenerator[Completion, None]:
            """Yield what may stand at the cursor."""
            prefix = document.current_line_before_cursor
            named = await files_at(workspace, prefix)
            if named is not None:
                for file in named.files:
                    yield Completion(
                        file.insert, start_position=named.start - len(prefix), display=file.name
                    )
                return
            for item in await commands_at(workspace, prefix, chat_text()):
                yield Completion(
                    item.insert,
                    start_position=item.start - len(prefix),
                    display=item.label,
                    display_meta=item.detail,
                )

    return _Completer()
