"""Chat templates that refuse a conversation, in a real llama.cpp server, over all its protocols.

The exceptions are those of Gemma's, Mistral's and Llama's templates, and of providers that check
what comes back to them.
"""

from __future__ import annotations

import pytest
from llama_server import LlamaServer, says
from replies import text_of

from aish_lsp.config.schema import Preset, Provider
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import protocol
from aish_lsp.models.providers.base import StreamingModel
from aish_lsp.models.request import ModelRequest, RequestMessage, ToolCall, WithoutPart

pytestmark = pytest.mark.llama

PROTOCOLS: tuple[Provider, ...] = ("openai", "openai-responses", "anthropic")


def refusing(condition: str, words: str, scope: str = "m.role") -> str:
    """Return a template that raises an exception for a message on which ``condition`` holds."""
    over = "{% for c in m.tool_calls or [] %}" if scope == "c" else ""
    return (
        f"{{% for m in messages %}}{over}{{% if {condition} %}}{{{{ raise_exception({words!r}) }}}}"
        f"{{% endif %}}{'{% endfor %}' if over else ''}<{{{{ m.role }}}}>{{{{ m.content }}}}"
        "{% for call in m.tool_calls or [] %}[{{ call.function.name }}]{% endfor %}{% endfor %}<a>"
    )


ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
MISTRAL = (
    "{% set ns = namespace(i=0) %}{% for m in messages %}{% if m.role == 'user' or (m.role =="
    " 'assistant' and not m.tool_calls) %}{% if (m.role == 'user') != (ns.i % 2 == 0) %}"
    "{{ raise_exception('After the optional system message, conversation roles must alternate user"
    " and assistant roles except for tool calls and results.') }}{% endif %}{% set ns.i = ns.i + 1"
    " %}{% endif %}<{{ m.role }}>{{ m.content }}{% for call in m.tool_calls or [] %}"
    "[{{ call.function.name }}]{% endfor %}{% endfor %}<a>"
)

TEMPLATES = {
    "roles alternate": refusing("(m.role == 'user') != (loop.index0 % 2 == 0)", ALTERNATE),
    "roles alternate except for tools": MISTRAL,
    "no tools": refusing(
        "m.role not in ['user', 'assistant', 'system']",
        "Only user and assistant roles are supported!",
    ),
    "ids of nine characters": refusing(
        "c.id is not defined or c.id | length != 9",
        "Tool call IDs should be alphanumeric strings with length 9!",
        "c",
    ),
    "one call": refusing(
        "m.tool_calls and m.tool_calls | length != 1",
        "This model only supports single tool-calls at once!",
    ),
    "reasoning": refusing(
        "m.role == 'assistant' and not m.reasoning_content",
        "The reasoning_content in the thinking mode must be passed back to the API.",
    ),
    # Of a signature that is not its own, llama.cpp tells the template nothing.
    "signatures": refusing(
        "not c.extra_content",
        "Function call is missing a thought_signature in functionCall parts.",
        "c",
    ),
}

TALK = (
    RequestMessage("system", "Be short."),
    RequestMessage("user", "Read."),
    RequestMessage(
        "assistant", "", (ToolCall("call_1", "ls", "{}"), ToolCall("call_2", "ls", "{}"))
    ),
    RequestMessage("tool", "one", tool_call_id="call_1"),
    RequestMessage("tool", "two", tool_call_id="call_2"),
    RequestMessage("user", "And now?"),
)


async def answer(model: StreamingModel, request: ModelRequest, tried: list[str]) -> str:
    """Return the reply, and in ``tried`` what the user is told of each form."""
    while True:
        try:
            return text_of([event async for event in model.stream(request)])
        except WithoutPart as refused:
            tried.append(refused.told)


@pytest.mark.parametrize("case", TEMPLATES)
async def test_a_strict_template_gets_the_conversation_in_a_form_that_it_takes(
    parts: None, http: HttpClient, case: str
) -> None:
    with LlamaServer(grammar=says("Fine."), context=2048, template=TEMPLATES[case]) as server:
        for provider in PROTOCOLS:
            model = protocol(provider)(http)
            preset = Preset(name="m", provider=provider, endpoint=server.url, model="aish-tiny")
            request = ModelRequest(preset, TALK)
            tried: list[str] = []
            again: list[str] = []
            assert await answer(model, request, tried) == "Fine."
            assert 1 <= len(tried) <= 3
            # It is remembered.
            assert await answer(model, request, again) == "Fine."
            assert again == []
