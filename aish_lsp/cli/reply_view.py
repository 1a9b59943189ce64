"""A reply in the terminal: its blocks as they are finished, and its suggestions where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from aish_lsp.cli.blocks import Block, CommandBlock, suggestion

if TYPE_CHECKING:
    from aish_lsp.cli.rendering import Renderer
    from aish_lsp.shell.suggestions import CommandInfo, Suggestion


class ReplyView:
    """Shows a reply block by block, with each suggestion where its lines are, and once.

    What may be a suggestion is held back until the next event, which says whether it is one.
    """

    def __init__(
        self,
        renderer: Renderer,
        write: Callable[[str], None],
        suggestion: Callable[[str], Suggestion],
    ) -> None:
        self._renderer, self._write, self._suggestion = renderer, write, suggestion
        self._blocks: list[Block] = []
        self._shown: dict[str, str] = {}

    async def text(self, delta: str) -> None:
        """Take the next piece of the reply; if it is long, let other work go on in between."""
        self._settle()
        for block in self._renderer.feed(delta):
            self._blocks.append(block)
            self._drain()
            await asyncio.sleep(0)

    def command(self, info: CommandInfo) -> None:
        """Show a suggestion in place of the lines that it comes from."""
        is_fence = info.source == "fence"
        target = self._place(is_fence=is_fence)
        if target is None:
            self._blocks += self._renderer.finish()
            target = self._place(is_fence=is_fence)
        shown = ""
        if self._shown.get(info.id) != info.text:
            one = self._suggestion(info.id)
            held = None if target is None else self._blocks[target]
            shown = suggestion(one, self._renderer.styled)
            if isinstance(held, CommandBlock):
                shown = self._renderer.suggested(held, one)
            self._shown[info.id] = info.text
        if target is None:
            self._blocks.append(shown)
        else:
            self._blocks[target] = shown
        self._drain()

    def finish(self) -> None:
        """Show what is left: the text has ended, or something else comes in between."""
        self._blocks += self._renderer.finish()
        self._settle()

    def pause(self) -> None:
        """Show what there is of the text, but for code that goes on, before a notice."""
        if not self._renderer.is_in_code:
            self.finish()

    def _place(self, *, is_fence: bool) -> int | None:
        places = (
            at
            for at, block in enumerate(self._blocks)
            if isinstance(block, CommandBlock) and bool(block.info) == is_fence
        )
        return next(places, None)

    def _settle(self) -> None:
        """Show what suggests nothing as text."""
        self._blocks = [
            block if isinstance(block, str) else self._renderer.plain(block)
            for block in self._blocks
        ]
        self._drain()

    def _drain(self) -> None:
        while self._blocks and isinstance(block := self._blocks[0], str):
            self._write(block)
            del self._blocks[0]
