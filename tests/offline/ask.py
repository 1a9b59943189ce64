"""Puts one question to the offline model, in the folder where it is started; nothing is run.

``python tests/offline/ask.py QUESTION ...`` holds a conversation of several.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aish_lsp.config.schema import Preset
from aish_lsp.models.request import ModelRequest, RequestMessage, Text
from aish_lsp.offline import OfflineModel


async def main(questions: list[str]) -> None:
    """Ask one after the other, and print the replies."""
    messages: list[RequestMessage] = []
    for question in questions:
        messages.append(RequestMessage("user", question))
        request = ModelRequest(Preset(), tuple(messages))
        reply = "".join(
            [
                event.delta
                async for event in OfflineModel(Path.cwd()).stream(request)
                if isinstance(event, Text)
            ]
        )
        messages.append(RequestMessage("assistant", reply))
        sys.stdout.write(f"> {question}\n{reply}\n\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
