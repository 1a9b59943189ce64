"""What tool servers cost: seconds to start, and tokens of their schemas in a model's own template.

    python tests/bench/bench_tool_servers.py MODEL.gguf NAME=COMMAND...

MODEL's vocabulary counts, and its template; a server's command is split at its blanks.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aish_lsp.config.schema import ToolServer
from aish_lsp.foundation.ports import nobody
from aish_lsp.models.request import ToolSchema
from aish_lsp.tools.connection import Connection, ServerContext

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
from llama_server import LlamaServer


def post(url: str, body: Any) -> Any:
    """Return the answer to a request."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def tokens(llama: LlamaServer, schemas: Sequence[ToolSchema]) -> int:
    """Return the tokens of a request of one word with these tools."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
    if schemas:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": schema.name,
                    "description": schema.description,
                    "parameters": schema.parameters,
                },
            }
            for schema in schemas
        ]
    prompt = post(f"{llama.url}/apply-template", body)["prompt"]
    counted = post(f"{llama.url}/tokenize", {"content": prompt, "parse_special": True})
    return len(counted["tokens"])


async def nothing() -> None:
    """Load no other environment."""


async def started(name: str, command: list[str], folder: Path) -> tuple[float, list[ToolSchema]]:
    """Start a server; return the seconds that took, and its tools."""
    surroundings = ServerContext(folder, lambda: os.environ, nobody, nobody, str, nothing)
    connection = Connection(name, ToolServer(command=command), surroundings)
    began = time.monotonic()
    await connection.connect()
    seconds = time.monotonic() - began
    schemas = [tool.schema for tool in connection.tools]
    await connection.disconnect()
    return seconds, schemas


async def main() -> None:
    """Print a row for each server."""
    model, *named = sys.argv[1:]
    with LlamaServer(model=Path(model), context=2048) as llama, tempfile.TemporaryDirectory() as at:
        os.environ["AISH_DATA_DIR"] = at
        nothing = tokens(llama, [])
        for one in named:
            name, _, command = one.partition("=")
            seconds, schemas = await started(name, shlex.split(command), Path(at))
            count = tokens(llama, schemas) - nothing
            sys.stdout.write(f"{name}: {len(schemas)} tools, {count} tokens, {seconds:.1f} s\n")


if __name__ == "__main__":
    asyncio.run(main())
