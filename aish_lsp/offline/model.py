"""The offline model as an adapter: it streams its answer like the others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Text
from aish_lsp.offline.answers import reply
from aish_lsp.offline.machine import Machine
from aish_lsp.offline.question import read_question


class OfflineModel:
    """Answers the last user message from the files under ``root``. Runs nothing."""

    def __init__(self, root: Path, machine: Machine | None = None) -> None:
        self._root = root
        self._machine = machine

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the answer word by word. Never raises of itself; the same question, same answer.

        It has no tokenizer, and tells no usage.
        """
        question = read_question(request.messages)
        text = await asyncio.to_thread(reply, question, self._root, self._machine)
        for word in re.findall(r"\s*\S+|\s+", text):
            yield Text(word)
            await asyncio.sleep(0)  # where a cancel takes effect
        yield Finish("stop")
