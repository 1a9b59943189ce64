"""A request that is too long, against a real llama.cpp server."""

from __future__ import annotations

import pytest
from llama_server import LlamaServer

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.openai import OpenAIModel
from aish_lsp.models.refusals import overflow_of
from aish_lsp.models.request import ModelRequest, RequestMessage

pytestmark = pytest.mark.llama


async def count(http: HttpClient, llama: LlamaServer, text: str) -> int:
    """Return the server's own count of the request that asks ``text``."""
    body = {"messages": [{"role": "user", "content": text}]}
    prompt = await http.fetch_json(f"{llama.url}/apply-template", body, timeout_s=30)
    asked = {"content": prompt["prompt"], "add_special": True}
    return len((await http.fetch_json(f"{llama.url}/tokenize", asked, timeout_s=30))["tokens"])


async def refusal_of(http: HttpClient, llama: LlamaServer, text: str) -> AishError:
    preset = Preset(name="llama", endpoint=llama.url)
    request = ModelRequest(preset, (RequestMessage("user", text),), max_output_tokens=8)
    with pytest.raises(AishError) as caught:
        async for _ in OpenAIModel(http).stream(request):
            pass
    return caught.value


async def test_a_request_over_the_window_tells_both_numbers(
    http: HttpClient, llama: LlamaServer
) -> None:
    text = "a" * 9000
    found = overflow_of(await refusal_of(http, llama, text))
    assert found is not None
    assert found.window == 8192
    assert found.prompt_tokens == await count(http, llama, text)
