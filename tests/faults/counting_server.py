"""The server, with a method that counts what it keeps: for the test that it keeps nothing."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

from aish_lsp.__main__ import serve
from aish_lsp.lsp.server import AishServer, create_server


def create() -> AishServer:
    server = create_server()

    @server.feature("test/counts")
    def _counts(_: Any) -> dict[str, int]:
        gc.collect()
        return {
            "tasks": len(asyncio.all_tasks()),
            "requests": len(server.protocol._request_futures),
            "calls": len(server.protocol._calls),
            "tokens": len(server.protocol.progress.tokens),
            "pending": len(server.protocol._result_types),
            "spawned": len(server._tasks),
            "jobs": sum(
                len(session.jobs)
                for workspace in server.workspaces.all()
                for session in workspace.sessions.open
            ),
            "objects": len(gc.get_objects()),
        }

    return server


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], create))
