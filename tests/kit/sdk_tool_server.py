"""A tool server made with the protocol's own SDK, over each of its transports.

python sdk_tool_server.py stdio|sse|streamable-http [PORT]
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel

server = MCPServer("real")


@server.tool()
def look(text: str = "") -> str:
    """Look."""
    return f"look: {text}"


@server.tool()
async def grow(ctx: Context[Any]) -> str:
    """Add a tool."""
    server.add_tool(look, name="grown", description="It was added.")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


class Answer(BaseModel):
    """What the user says."""

    sure: bool


def ask() -> Elicit[Answer]:
    """Ask the user."""
    return Elicit("Really?", Answer)


@server.tool()
def confirm(answer: Annotated[Answer, Resolve(ask)]) -> str:
    """Do what the user agrees to."""
    return "agreed" if answer.sure else "not agreed"


if __name__ == "__main__":
    kind: Any = sys.argv[1]
    options: Any = {"port": int(sys.argv[2])} if len(sys.argv) > 2 else {}
    server.run(kind, **options)
