"""A server with commands for the tests, bound through the same interface as the real ones."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aish_lsp.__main__ import serve
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.lsp.calls import Call
from aish_lsp.lsp.protocol import CommandSpec
from aish_lsp.lsp.server import AishServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """What the commands here take, each what it needs."""

    value: Any = None
    seconds: float = 30.0
    count: int = 1
    size: int = 1
    method: str = ""
    token: str | int | None = None
    some_name: str = ""


async def echo(_: Call, params: Params) -> object:
    return {"value": params.value, "someName": params.some_name}


async def slow(_: Call, params: Params) -> object:
    """End early only by being cancelled."""
    await asyncio.sleep(params.seconds)
    return {"slept": True}


async def partial(call: Call, params: Params) -> object:
    """End early with what there is."""
    stop = asyncio.Event()
    call.on_cancel(stop.set)
    progress = call.progress("Working")
    progress.report("half way")
    try:
        await asyncio.wait_for(stop.wait(), params.seconds)
    except TimeoutError:
        return {"cancelled": False}
    finally:
        progress.end("done")
    return {"cancelled": call.cancelled}


async def big(_: Call, params: Params) -> object:
    return {"text": "x" * params.size}


async def fail(_: Call, params: Params) -> object:
    if params.value == "aish":
        raise BackendRejected("the key is wrong", status=401)
    if params.value == "unsendable":
        return {"text": float("nan")}
    raise RuntimeError(params.value)


async def block(_: Call, params: Params) -> object:
    """Keep a thread of the default pool."""
    await asyncio.to_thread(time.sleep, params.seconds)
    return {}


async def hang(_: Call, params: Params) -> object:
    """Keep the event loop itself."""
    time.sleep(params.seconds)
    return {}


async def stream(server: AishServer, _: Call, params: Params) -> object:
    """Send much; keep to what the client takes."""
    assert params.token is not None
    for number in range(params.count):
        server.protocol.send_progress(params.token, {"number": number, "text": "y" * params.size})
        if params.value != "careless":
            await server.drained()
    return {"queued": server.outbox.queued if server.outbox else 0}


async def tick(call: Call, params: Params) -> object:
    """Show that the loop runs: count in a file."""
    path = Path(params.method)
    for number in range(params.count):
        path.write_text(str(number), encoding="utf-8")
        await asyncio.sleep(0.01)
    return {}


async def progress(server: AishServer, _: Call, params: Params) -> object:
    """Show progress of our own until it is cancelled, or at once."""
    stop = asyncio.Event()
    shown = server.begin_progress("Ours", on_cancel=stop.set)
    shown.report("on the way")
    if params.value == "wait":
        await asyncio.wait_for(stop.wait(), params.seconds)
    shown.end("over")
    return {"cancelled": stop.is_set()}


async def ask(server: AishServer, _: Call, params: Params) -> object:
    """Ask the client."""
    try:
        asking = server.protocol.send_request_async(params.method, params.value)
        answer = await asyncio.wait_for(asking, params.seconds)
    except TimeoutError:
        return {"timeout": True}
    except Exception as error:  # noqa: BLE001
        return {"error": str(error), "code": getattr(error, "code", None)}
    return {"answer": repr(answer)}


async def tables(server: AishServer, _: Call, __: Params) -> object:
    """Count what the protocol keeps; this very request is in two of them."""
    return {
        "calls": len(server.protocol._calls),
        "futures": len(server.protocol._request_futures),
        "pending": len(server.protocol._result_types),
        "tokens": len(server.protocol.progress.tokens),
    }


async def noise(_: Call, __: Params) -> object:
    """Do all that must not touch the client's stream."""
    print("printed")  # noqa: T201
    os.write(1, b"written\n")
    child = subprocess.run(["cat"], capture_output=True, check=False)
    subprocess.run(["echo", "echoed"], check=False)
    return {"read": child.stdout.decode()}


async def document(server: AishServer, _: Call, params: Params) -> object:
    found = server.workspace.text_documents.get(params.method)
    return {"source": found and found.source, "version": found and found.version}


HANDLERS = (echo, slow, partial, big, fail, block, hang, tick, noise)
OF_SERVER = (stream, progress, ask, tables, document)


def create() -> AishServer:
    specs = [CommandSpec(f"test.{one.__name__}", Params) for one in (*HANDLERS, *OF_SERVER)]
    server = AishServer({spec.name: spec for spec in specs})
    for handler in HANDLERS:
        server.bind(f"test.{handler.__name__}", handler)
    for of_server in OF_SERVER:
        server.bind(f"test.{of_server.__name__}", functools.partial(of_server, server))

    async def record() -> None:
        path = os.environ.get("ECHO_RECORD")
        if path:
            await asyncio.sleep(0.1)
            Path(path).write_text("recorded", encoding="utf-8")

    server.on_shutdown(record)
    return server


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], create))
