"""What a request is said to come to, before it is sent, by each protocol that llama.cpp serves.

The real server process counts by llama.cpp's tokenizer, or by the protocol's own question for a
whole request, and llama.cpp then says what the request was.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from client import Client
from conversing import SHOWS_NOTHING, Place, ask
from llama_server import LlamaServer, says
from natural_texts import NATURAL

from aish_lsp.config.schema import Preset
from aish_lsp.models.endpoint import EndpointInfo
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import describe

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

PROTOCOLS = ("openai", "openai-responses", "anthropic")

pytestmark = [pytest.mark.llama, pytest.mark.usefixtures("parts"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=[None, "tiny-qwen3think.gguf", "tiny-llama-spm.gguf"])
def server(request: pytest.FixtureRequest, parts: None) -> Iterator[LlamaServer]:
    """A server for each of the models that are here."""
    model = None if request.param is None else SHARED / "models" / request.param
    if model is not None and not model.exists():
        pytest.skip(f"needs {request.param} in {SHARED.name}/models")
    # Not all protocols take a grammar with a request.
    with LlamaServer(model=model, context=32768, grammar=says("Yes.")) as running:
        yield running


def configure(place: Place, server: LlamaServer, provider: str) -> None:
    """Write a configuration whose one model is not known by its name."""
    lines = [
        'default_model = "tested"',
        "[models.tested]",
        f'provider = "{provider}"',
        f'endpoint = "{server.url}"',
        "temperature = 0.0",
        "max_output_tokens = 64",
        "[context]",
        "summarize = false",
        "[tokenize]",
        "use_endpoint = true",
        "timeout_ms = 30000",
        # Not every template has a place for tools, and a request with them is not known so well.
        "[tools.servers.aish]",
        "enabled = false",
    ]
    place.config.write_text("\n".join([*lines, ""]), encoding="utf-8")


async def compared(client: Client, prompt: str, token: str) -> tuple[int, int]:
    """Ask; return what the request was said to be, and what it was."""
    result = await ask(client, prompt, token)
    assert result["error"] is None
    report: dict[str, Any] = await client.command_result("aish.context.show")
    assert sum(report["breakdown"].values()) == report["total"]
    assert report["tokenizer"] == "endpoint"
    [start] = [event for event in client.progress[token] if event["kind"] == "start"]
    accuracy = report["accuracy"]
    assert start["contextTokens"] == accuracy["estimated"]
    assert report["lastCall"]["input"] == accuracy["actual"]
    return accuracy["estimated"], accuracy["actual"]


@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_the_first_request_is_known_before_it_is_sent(
    tmp_path: Path, server: LlamaServer, provider: str
) -> None:
    place, text = Place.make(tmp_path), random.Random(4)
    (place.folder / "AGENTS.md").write_text(NATURAL["english"](text, 2000))
    configure(place, server, provider)
    counts = []
    async with place.client() as client:
        await client.initialize(place.folder, capabilities=SHOWS_NOTHING)
        for kind in ("english", "python", "russian", "chinese", "output"):
            await client.command_result("aish.context.reset")
            for number in range(2):
                question = NATURAL[kind](text, 600)
                counts.append(await compared(client, question, f"{kind} {number}"))
    sys.stdout.write(f"{provider}: {counts}\n")
    off = [(said, was) for said, was in counts if abs(said - was) > max(8, was // 100)]
    assert off == []


@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_the_window_is_found_by_each_protocol(
    http: HttpClient, server: LlamaServer, provider: Any
) -> None:
    with ExitStack() as stack:
        keyed = stack.enter_context(LlamaServer(context=4096, parallel=2, api_key="sk-test"))
        preset = Preset(name="it", provider=provider, endpoint=keyed.url, api_key_env="K")
        info = await describe(http, preset, {"K": "sk-test"})
    assert isinstance(info, EndpointInfo)
    assert (info.kind, info.context_window) == ("llama.cpp", 2048)
