"""An endpoint's tokenizer against real llama.cpp: texts, and whole requests as it counts them.

The tiny model's tokens are bytes; the vocabularies of real models are a development machine's.
"""

from __future__ import annotations

import json
import os
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from llama_server import LlamaServer

from aish_lsp.config.schema import Preset
from aish_lsp.models.http import HttpClient
from aish_lsp.models.tokenizer import EndpointTokenizer

SHARED = Path(os.environ.get("TESTS_SHARED") or Path(__file__).resolve().parents[2] / "../shared")

KEY = "sk-of-this-test"

#: Seconds that a fetch may take on a machine that does much else.
PATIENT = 30.0

#: Enough for the longest conversation in the tiny model's bytes.
CONTEXT = 32768

SOURCES = sorted(Path(sysconfig.get_path("stdlib")).glob("c*.py"))
CODE = [path.read_text("utf-8")[:3000] for path in SOURCES]

TEXTS = [
    "",
    " ",
    "\n",
    "x",
    "Which files are here?",
    "\n\n  Which files are here?  \n",
    "Какие здесь файлы? Покажи их все.",
    "请把这里的文件全部列出来。",
    "👩‍💻 🇩🇪 😀 e\u0301",
    "<|im_end|>\n<|im_start|>user\n",
    "<s></s><think>",
    "half a character: \ud800!",
    '{"path": "src/main.py", "lines": [1, 2, 3], "text": "a\\nb"}',
    "\x00\x1b[31m\u202e\ufeff",
    "```sh\n\tCMD: make test\n```",
    "a" * 5000,
    *CODE,
]

REPLIES = [
    "I'll list the files.\nCMD: ls -la\n",
    "Готово: всё работает. 好的。",
    "It is this:\n\n```python\nprint('x')\n```\n\nThat is all.",
]

Messages: TypeAlias = list[dict[str, Any]]

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module", params=[None, "tiny-qwen3think.gguf", "tiny-llama-spm.gguf"])
def server(request: pytest.FixtureRequest, parts: None) -> Iterator[LlamaServer]:
    """A server for each of the models that are here."""
    model = None if request.param is None else SHARED / "models" / request.param
    if model is not None and not model.exists():
        pytest.skip(f"needs {request.param} in {SHARED.name}/models")
    with LlamaServer(model=model, context=CONTEXT) as running:
        yield running


def post(server: LlamaServer, path: str, body: dict[str, Any]) -> Any:
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server.url}{path}", content, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as reply:
        return json.load(reply)


def prompt_tokens(server: LlamaServer, messages: Messages) -> int:
    """Return what a request with ``messages`` was to the server."""
    body = {"messages": messages, "max_tokens": 1}
    return int(post(server, "/v1/chat/completions", body)["usage"]["prompt_tokens"])


def tokenizer(http: HttpClient, server: LlamaServer, **settings: Any) -> EndpointTokenizer:
    settings = {"endpoint": f"{server.url}/v1", **settings}
    return EndpointTokenizer(http, Preset(name="llama", **settings), {"K": KEY}, timeout_s=PATIENT)


async def estimate(mine: EndpointTokenizer, messages: Messages) -> int:
    """Return the sum of the texts and of what the template adds to them."""
    calls = [call["function"] for message in messages for call in message.get("tool_calls", ())]
    texts = [message["content"] for message in messages]
    texts += [text for call in calls for text in (call["name"], call["arguments"])]
    await mine.fetch(texts)
    counts = [mine.known(text) for text in texts]
    assert None not in counts
    overhead = mine.overhead
    assert overhead is not None
    added: int = overhead.request + overhead.call * len(calls)
    added += sum(getattr(overhead, message["role"]) for message in messages)
    return added + sum(count or 0 for count in counts)


async def test_a_count_is_the_servers_own(http: HttpClient, server: LlamaServer) -> None:
    mine = tokenizer(http, server)
    await mine.fetch(TEXTS)
    counts = [mine.known(text) for text in TEXTS]
    own = [len(post(server, "/tokenize", {"content": text})["tokens"]) for text in TEXTS]
    assert counts == own
    assert len(set(own)) > 10


@pytest.mark.parametrize("questions", [1, 2, 6, 20])
@pytest.mark.parametrize("size", [0, 40, 400])
async def test_the_sum_is_the_requests_size(
    http: HttpClient, server: LlamaServer, questions: int, size: int
) -> None:
    mine = tokenizer(http, server)
    messages = [{"role": "system", "content": f"You are a shell.\n[project]\n{CODE[0][:size]}"}]
    for number in range(questions):
        if number:
            messages.append({"role": "assistant", "content": REPLIES[number % len(REPLIES)]})
        content = f"Question {number}:\n{CODE[number % len(CODE)][:size]}\nWhat is it?"
        messages.append({"role": "user", "content": content})
    told = prompt_tokens(server, messages)
    assert abs(await estimate(mine, messages) - told) <= max(8, told // 100)


@pytest.mark.parametrize("calls", [1, 2, 5])
async def test_tool_calls_are_not_counted_too_low(
    http: HttpClient, server: LlamaServer, calls: int
) -> None:
    mine = tokenizer(http, server)
    messages: Messages = [
        {"role": "system", "content": "You are a shell."},
        {"role": "user", "content": "What is in these files?"},
    ]
    for number in range(calls):
        arguments = json.dumps({"path": f"src/part_{number}.py", "lines": 20})
        call = {"name": "read_file", "arguments": arguments}
        identity = f"call{number:05}"
        messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": identity, "type": "function", "function": call}],
            },
            {"role": "tool", "content": CODE[number][:200], "tool_call_id": identity},
        ]
    told = prompt_tokens(server, messages)
    guessed = await estimate(mine, messages)
    assert guessed >= told - 2 * calls
    # The templates that know no calls leave them out; the texts are counted all the same.
    assert guessed <= told + calls * 60


async def test_a_server_with_a_key(http: HttpClient, parts: None) -> None:
    with LlamaServer(context=512, api_key=KEY) as server:
        knowing = tokenizer(http, server, api_key_env="K")
        await knowing.fetch(["text"])
        assert knowing.known("text") == 4
        assert knowing.overhead is not None
        stranger = tokenizer(http, server)
        await stranger.fetch(["text"])
        assert not stranger.capable
        [notice] = stranger.take_notices()
        assert "HTTP 401" in notice


async def test_a_server_that_was_killed(http: HttpClient, parts: None) -> None:
    with LlamaServer(context=512) as server:
        mine = tokenizer(http, server)
        await mine.fetch(["text"])
        server.kill()
        await mine.fetch([f"text {number}" for number in range(40)])
        assert mine.known("text") == 4
        assert mine.known("text 1") is None
        assert mine.capable
