"""What endpoints tell about themselves, in each server's way."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from fault_server import FaultServer, Peer, Request, Script, unused_port

from aish_lsp.config.schema import Preset, Provider
from aish_lsp.models.endpoint import EndpointInfo
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import describe


def answering(**replies: Any) -> Script:
    """Return a script that answers paths, written with ``_`` for ``/``, with JSON."""

    async def script(request: Request, peer: Peer) -> None:
        name = request.path.partition("?")[0].strip("/").replace("/", "_")
        if name in replies:
            await peer.reply(replies[name])
        else:
            await peer.reply({"error": "not found"}, "404 Not Found")

    return script


def models(owner: str, *names: str, **more: Any) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": owner, **more} for name in names],
    }


LLAMA = models("llamacpp", "tiny", meta={"n_ctx": 512, "n_ctx_train": 32768})
OLLAMA = models("library", "llama3:8b", "nomic-embed-text:latest")
CLAUDE = {"type": "model", "id": "claude-opus-9-20300101", "display_name": "Claude Opus 9"}
RUNNING = {"models": [{"name": "llama3:8b", "context_length": 32768}]}


@pytest.mark.parametrize(
    ("replies", "info"),
    [
        pytest.param(
            {"v1_models": LLAMA, "props": {"default_generation_settings": {"n_ctx": 256}}},
            EndpointInfo("llama.cpp", ("tiny",), 256),
            id="llama.cpp",
        ),
        pytest.param(
            {"v1_models": LLAMA},
            EndpointInfo("llama.cpp", ("tiny",), 512),
            id="llama.cpp without props",
        ),
        pytest.param(
            {"v1_models": models("vllm", "qwen", max_model_len=4096)},
            EndpointInfo("vllm", ("qwen",), 4096),
            id="vllm",
        ),
        pytest.param(
            {"v1_models": OLLAMA, "api_ps": RUNNING},
            EndpointInfo("ollama", ("llama3:8b",), 32768),
            id="ollama, loaded",
        ),
        pytest.param(
            {
                "v1_models": OLLAMA,
                "api_ps": {"models": []},
                "api_show": {
                    "parameters": 'stop "x"\nnum_ctx   16384\n',
                    "model_info": {"llama.context_length": 131072},
                },
            },
            EndpointInfo("ollama", ("llama3:8b",), 16384),
            id="ollama, not loaded, with a window of its own",
        ),
        pytest.param(
            {
                "v1_models": OLLAMA,
                "api_ps": {"models": []},
                "api_show": {"model_info": {"llama.context_length": 131072}},
            },
            EndpointInfo("ollama", ("llama3:8b",), 4096),
            id="ollama, not loaded: what the model could take is not what it gets",
        ),
        pytest.param(
            {
                "v1_models": OLLAMA,
                "api_ps": {"models": []},
                "api_show": {"model_info": {"llama.context_length": 2048}},
            },
            EndpointInfo("ollama", ("llama3:8b",), 2048),
            id="ollama, not loaded, small",
        ),
        pytest.param(
            {
                "v1_models": models("organization_owner", "qwen"),
                "api_v0_models": {
                    "data": [
                        {"id": "qwen", "max_context_length": 9999, "loaded_context_length": 4097}
                    ]
                },
            },
            EndpointInfo("lm-studio", ("qwen",), 4097),
            id="lm studio",
        ),
        pytest.param(
            {"v1_models": models("Groq", "a", context_window=131072)},
            EndpointInfo(None, ("a",), 131072),
            id="a provider that tells the window in its list",
        ),
        pytest.param(
            {"v1_models": models("x", "a", "b")},
            EndpointInfo(None, ("a", "b"), None),
            id="a server that tells nothing",
        ),
    ],
)
@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
async def test_servers(
    http: HttpClient, replies: dict[str, Any], info: EndpointInfo, provider: Provider
) -> None:
    async with FaultServer(answering(**replies)) as server:
        preset = Preset(provider=provider, endpoint=f"{server.url}/v1", api_key_env="K")
        assert await describe(http, preset, {"K": "sk"}) == info


def routed(*models: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return the list of a llama.cpp that loads models when they are asked for."""
    return {"data": [{"id": name, "status": status, **more} for name, status in models]}


COMMAND = ["llama-server", "--ctx-size", "8192", "--model", "/b.gguf"]


async def test_a_router_names_the_loaded_model_first_and_its_window(http: HttpClient) -> None:
    listed = routed(
        ("a", {"value": "unloaded", "args": COMMAND}),
        ("broken", {"value": "unloaded", "failed": True, "exit_code": 1}),
        ("b", {"value": "loaded", "args": COMMAND}),
        ("c", {"value": "sleeping"}),
    )
    listed["data"] += routed(
        ("decides", {"value": "unloaded"}), architecture={"output_modalities": ["decisions"]}
    )["data"]

    async def script(request: Request, peer: Peer) -> None:
        # As the router does: without a model it tells nothing, and it must not load one.
        match request.path:
            case "/v1/models":
                await peer.reply(listed)
            case "/props?autoload=false&model=b":
                await peer.reply({"default_generation_settings": {"n_ctx": 4096}})
            case "/props":
                await peer.reply({"default_generation_settings": {"n_ctx": 0}})
            case _:
                await peer.reply({"error": {"message": "model is not loaded"}}, "400 Bad Request")

    async with FaultServer(script) as server:

        async def info(model: str) -> EndpointInfo:
            return await describe(http, Preset(endpoint=server.url, model=model), {})

        names = ("b", "c", "a", "broken")
        assert await info("") == EndpointInfo("llama.cpp", names, 4096)
        # The window that it will have.
        assert await info("a") == EndpointInfo("llama.cpp", names, 8192)
        assert await info("c") == EndpointInfo("llama.cpp", names, None)


@pytest.mark.parametrize("arguments", [None, 5, ["-c"], ["-c", 5], ["-c", "0"], ["-c", "x"], [{}]])
async def test_nonsense_in_a_routers_list_is_passed_over(http: HttpClient, arguments: Any) -> None:
    listed = routed(("a", {"value": "unloaded", "args": arguments}), ("b", {"value": []}))
    async with FaultServer(answering(v1_models=listed)) as server:
        info = await describe(http, Preset(endpoint=server.url, model="a"), {})
    assert info == EndpointInfo("llama.cpp", ("a", "b"), None)


async def test_the_window_is_that_of_the_presets_model(http: HttpClient) -> None:
    data = [{"id": "a", "context_length": 1000}, {"id": "b", "context_length": 2000}]
    async with FaultServer(answering(v1_models={"data": data})) as server:
        for model, window in (("b", 2000), ("c", None), ("", 1000)):
            preset = Preset(endpoint=server.url, model=model)
            assert (await describe(http, preset, {})).context_window == window


async def test_the_key_is_sent(http: HttpClient) -> None:
    async with FaultServer(answering(v1_models=LLAMA)) as server:
        await describe(http, Preset(endpoint=server.url, api_key_env="K"), {"K": "sk"})
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer sk"] * 2


@pytest.mark.parametrize(
    "reply",
    [
        [],
        5,
        None,
        {"data": None},
        {"data": [1, {"id": 5}, {}]},
        {"data": [{"id": "a", "max_model_len": -1, "meta": {"n_ctx": "x"}}]},
        b"<html>",
    ],
)
async def test_nonsense_tells_nothing(http: HttpClient, reply: Any) -> None:
    async with FaultServer(answering(v1_models=reply)) as server:
        info = await describe(http, Preset(endpoint=server.url), {})
    assert (info.kind, info.context_window) == (None, None)


@pytest.mark.parametrize("props", [b"not json", {"default_generation_settings": 5}, 7])
async def test_nonsense_beside_the_list_leaves_the_list(http: HttpClient, props: Any) -> None:
    async with FaultServer(answering(v1_models=LLAMA, props=props)) as server:
        info = await describe(http, Preset(endpoint=server.url), {})
    assert info == EndpointInfo("llama.cpp", ("tiny",), 512)


@pytest.mark.parametrize(
    "preset",
    [
        Preset(endpoint=""),
        Preset(endpoint="nonsense"),
        Preset(endpoint=f"http://127.0.0.1:{unused_port()}"),
        Preset(endpoint="http://127.0.0.1:9", api_key_env="NOT_SET"),
    ],
)
async def test_never_raises(http: HttpClient, preset: Preset) -> None:
    assert await describe(http, preset, {}) == EndpointInfo()


async def test_a_server_that_hangs_costs_the_timeout(http: HttpClient) -> None:
    async def script(request: Request, peer: Peer) -> None:
        await asyncio.sleep(60)

    async with FaultServer(script) as server:
        begin = time.monotonic()
        info = await describe(http, Preset(endpoint=server.url), {}, timeout_s=0.2)
    assert info == EndpointInfo()
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    ("replies", "window"),
    [
        ({"v1_models_claude-opus-9": {**CLAUDE, "max_input_tokens": 1_000_000}}, 1_000_000),
        ({"v1_models_claude-opus-9": CLAUDE}, None),
        ({}, None),
    ],
)
async def test_anthropic_is_asked_for_the_one_model(
    http: HttpClient, replies: dict[str, Any], window: int | None
) -> None:
    listed = {"data": [CLAUDE, {**CLAUDE, "id": "claude-haiku-9"}], "has_more": True}
    async with FaultServer(answering(v1_models=listed, **replies)) as server:
        preset = Preset(
            provider="anthropic", endpoint=server.url, model="claude-opus-9", api_key_env="K"
        )
        info = await describe(http, preset, {"K": "sk-5"})
    assert info == EndpointInfo("anthropic", ("claude-opus-9-20300101", "claude-haiku-9"), window)
    for request in server.requests:
        assert request.headers["x-api-key"] == "sk-5"
        assert request.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in request.headers


async def test_a_window_of_countless_digits_does_not_raise(http: HttpClient) -> None:
    shown = {"parameters": "num_ctx " + "9" * 5000}
    async with FaultServer(answering(v1_models=OLLAMA, api_ps={}, api_show=shown)) as server:
        info = await describe(http, Preset(endpoint=server.url), {})
    assert info == EndpointInfo("ollama", ("llama3:8b",), None)


async def test_half_a_surrogate_pair_in_a_models_name_does_not_raise(http: HttpClient) -> None:
    listed = b'{"data": [{"type": "model", "id": "\\ud83d"}]}'
    async with FaultServer(answering(v1_models=listed)) as server:
        info = await describe(http, Preset(endpoint=server.url), {})
    assert info.kind == "anthropic"


@pytest.mark.parametrize(
    ("listed", "info"),
    [
        ([{"id": "mine", "context_length": "8192"}], EndpointInfo(None, ("mine",), 8192)),
        ({"data": [{"name": "mine"}, {"name": "b"}]}, EndpointInfo(None, ("mine", "b"), None)),
        ({"data": [{"max_model_len": 4096}]}, EndpointInfo(None, ("mine",), 4096)),
        ({"models": [{"name": "mine"}]}, EndpointInfo(None, ("mine",), None)),
        ({"data": ["mine", "b"]}, EndpointInfo(None, ("mine", "b"), None)),
        ({"data": {"mine": {"max_model_len": 4096.0}}}, EndpointInfo(None, ("mine",), 4096)),
        (
            {"data": [{"id": "Mine", "limits": {"n_ctx": 4096}}, {"id": "b"}]},
            EndpointInfo(None, ("Mine", "b"), 4096),
        ),
        (
            [{"id": "mine", "capabilities": {"limits": {"max_context_window_tokens": 4096}}}],
            EndpointInfo(None, ("mine",), 4096),
        ),
    ],
)
async def test_a_list_in_another_form_counts_for_a_configured_model(
    http: HttpClient, listed: Any, info: EndpointInfo
) -> None:
    async with FaultServer(answering(v1_models=listed)) as server:
        preset = Preset(endpoint=server.url, model="mine")
        assert await describe(http, preset, {}) == info
