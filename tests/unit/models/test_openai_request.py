"""What is sent to a chat-completions server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from aish_lsp.config.schema import Preset
from aish_lsp.models.providers.openai import request_body
from aish_lsp.models.providers.responses import request_body as responses_body
from aish_lsp.models.request import (
    ModelRequest,
    RequestMessage,
    StoredReasoning,
    ToolCall,
    ToolSchema,
)

HERE = "http://127.0.0.1:8080"


def body(preset: Preset, *messages: RequestMessage, **fields: Any) -> dict[str, Any]:
    return request_body(ModelRequest(preset, messages, **fields), preset.model)


def test_the_smallest_request() -> None:
    sent = body(Preset(endpoint=HERE), RequestMessage("system", "s"), RequestMessage("user", "u"))
    assert sent == {
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 1024,
    }


def test_the_presets_settings_are_sent_where_they_are_set() -> None:
    preset = Preset(
        endpoint=HERE,
        model="m",
        temperature=0.0,
        top_p=0.5,
        stop=["x"],
        seed=0,
        reasoning_effort="low",
        max_output_tokens=7,
    )
    sent = body(preset)
    wanted = {"model": "m", "temperature": 0.0, "top_p": 0.5, "stop": ["x"], "seed": 0,
              "reasoning_effort": "low", "max_tokens": 7}  # fmt: skip
    assert wanted.items() <= sent.items()


def test_the_requests_own_limit_comes_first() -> None:
    assert body(Preset(endpoint=HERE), max_output_tokens=9)["max_tokens"] == 9


def test_the_limit_goes_under_one_name() -> None:
    """OpenAI refuses a request that has both."""
    for field in ("max_tokens", "max_completion_tokens"):
        preset = Preset(endpoint="https://api.openai.com/v1", model="m", extra_body={field: 5})
        assert {key: value for key, value in body(preset).items() if "max_" in key} == {field: 5}


@pytest.mark.parametrize(
    ("endpoint", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://openrouter.ai/api/v1", "max_tokens"),
        ("https://api.openai.com.example/v1", "max_tokens"),
    ],
)
def test_the_limits_name(endpoint: str, field: str) -> None:
    sent = body(Preset(endpoint=endpoint, model="m"))
    assert {key for key in sent if key.startswith("max_")} == {field}


def test_mistral_is_not_asked_for_usage() -> None:
    assert "stream_options" not in body(Preset(endpoint="https://api.mistral.ai/v1", model="m"))


def test_extra_body_is_merged_as_it_is() -> None:
    extra = {"grammar": "root ::= [a-z]", "stream_options": None, "max_completion_tokens": 5}
    sent = body(Preset(endpoint=HERE, extra_body=extra))
    assert extra.items() <= sent.items()
    assert "max_tokens" not in sent


def test_tools_calls_and_results() -> None:
    sent = body(
        Preset(endpoint=HERE),
        RequestMessage(
            "assistant", "", (ToolCall("1", "ls", '{"a": 1}'), ToolCall("2", "pwd", ""))
        ),
        RequestMessage("tool", "result", tool_call_id="1"),
        tools=(ToolSchema("ls", "lists", {"type": "object"}),),
    )
    assert sent["tools"] == [
        {
            "type": "function",
            "function": {"name": "ls", "description": "lists", "parameters": {"type": "object"}},
        }
    ]
    assert sent["messages"] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "ls", "arguments": '{"a": 1}'},
                },
                {"id": "2", "type": "function", "function": {"name": "pwd", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "result", "tool_call_id": "1"},
    ]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("no JSON", {"arguments": "no JSON"}),
        ('{"a": ', {"arguments": '{"a": '}),
        ("[1]", {"arguments": "[1]"}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
        ("[" * 100_000, {"arguments": "[" * 100_000}),
        ('{"a": 1}{"b": 2}', {"arguments": '{"a": 1}{"b": 2}'}),
        (" ", {}),
    ],
)
def test_arguments_that_are_no_object_go_within_one(written: str, sent: dict[str, Any]) -> None:
    """Templates read them as JSON, and some servers answer 500 where they are none."""
    call = ToolCall("1", "ls", written)
    [message] = body(Preset(endpoint=HERE), RequestMessage("assistant", "", (call,)))["messages"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == sent


def test_arguments_that_are_an_object_go_as_they_came() -> None:
    written = '{ "b":1,\n"a" : 2.0}'
    call = ToolCall("1", "ls", written)
    [message] = body(Preset(endpoint=HERE), RequestMessage("assistant", "", (call,)))["messages"]
    assert message["tool_calls"][0]["function"]["arguments"] == written


@pytest.mark.parametrize(
    ("endpoint", "given", "form"),
    [
        (HERE, "call_1", "call_1"),
        (HERE, "x" * 40, "x{40}"),
        (HERE, "x" * 41, "call_[0-9a-f]{24}"),
        (HERE, "", "call_[0-9a-f]{24}"),
        ("https://api.mistral.ai/v1", "D681PevKs", "D681PevKs"),
        ("https://api.mistral.ai/v1", "toolu_01A09q90qw90lq917835", "[0-9a-f]{9}"),
    ],
)
def test_ids_and_names_of_other_providers_go_in_a_form_that_is_taken(
    endpoint: str, given: str, form: str
) -> None:
    called = RequestMessage("assistant", "", (ToolCall(given, "fs.read now", "{}"),))
    result = RequestMessage("tool", "r", tool_call_id=given)
    sent = body(Preset(endpoint=endpoint, model="m"), called, result)["messages"]
    [call] = sent[0]["tool_calls"]
    assert re.fullmatch(form, call["id"])
    assert sent[1]["tool_call_id"] == call["id"]
    assert call["function"]["name"] == "fs_read_now"


def test_reasoning_goes_back_to_where_it_came_from_and_nowhere_else() -> None:
    details = [{"type": "reasoning.encrypted", "data": "X"}]
    reasoning = StoredReasoning("hm", "openrouter.ai", {"reasoning_details": details})
    message = RequestMessage("assistant", "a", reasoning=reasoning)
    home = body(Preset(endpoint="https://openrouter.ai/api/v1"), message)
    assert home["messages"] == [{"role": "assistant", "content": "a", "reasoning_details": details}]
    away = body(Preset(endpoint=HERE), message)
    assert away["messages"] == [{"role": "assistant", "content": "a"}]


def test_plain_reasoning_goes_back_with_the_call_that_it_led_to() -> None:
    """DeepSeek and others refuse the call's result without it."""
    metadata = {"reasoning_field": "reasoning_content"}
    reasoning = StoredReasoning("hm", "127.0.0.1:8080", metadata)
    called = RequestMessage("assistant", "", (ToolCall("1", "ls", "{}"),), reasoning=reasoning)
    [sent] = body(Preset(endpoint=HERE), called)["messages"]
    assert sent["reasoning_content"] == "hm"
    [away] = body(Preset(endpoint="http://127.0.0.1:8081"), called)["messages"]
    [folded] = body(Preset(endpoint=HERE), replace(called, tool_calls=()))["messages"]
    edited = replace(
        called, reasoning=StoredReasoning("hm", "127.0.0.1:8080", {"reasoning_field": "role"})
    )
    [odd] = body(Preset(endpoint=HERE), edited)["messages"]
    for message in (away, folded, odd):
        assert "hm" not in message.values()


def test_reasoning_without_parts_to_return_is_not_sent() -> None:
    message = RequestMessage("assistant", "a", reasoning=StoredReasoning("hm", "127.0.0.1", {}))
    assert body(Preset(endpoint=HERE), message)["messages"] == [
        {"role": "assistant", "content": "a"}
    ]


def test_what_a_server_said_of_a_call_goes_back_to_it_and_to_no_other() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "X"}}}
    called = ToolCall("a", "ls", "{}", {"127.0.0.1:8080": extra})
    message = RequestMessage("assistant", "", tool_calls=(called,))
    [here] = body(Preset(endpoint=HERE), message)["messages"][0]["tool_calls"]
    assert here["extra_content"] == extra["extra_content"]
    assert here["id"] == "a"
    [there] = body(Preset(endpoint="http://other"), message)["messages"][0]["tool_calls"]
    assert there.keys() == {"id", "type", "function"}


def test_signed_blocks_of_thinking_go_back() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "X"}]
    reasoning = StoredReasoning("hm", "127.0.0.1:8080", {"thinking_blocks": blocks})
    [sent] = body(Preset(endpoint=HERE), RequestMessage("assistant", "a", reasoning=reasoning))[
        "messages"
    ]
    assert sent["thinking_blocks"] == blocks


@pytest.mark.parametrize("build", [request_body, responses_body])
def test_the_cache_of_the_beginning_has_a_name_where_that_is_known(build: Any) -> None:
    def key(endpoint: str, *messages: RequestMessage, **extra: Any) -> Any:
        preset = Preset(endpoint=endpoint, extra_body=extra)
        return build(ModelRequest(preset, messages), "m").get("prompt_cache_key")

    system = RequestMessage("system", "Be short.")
    first, second = RequestMessage("user", "One?"), RequestMessage("user", "Two?")
    here = key("https://api.openai.com/v1", system, first)
    assert here.startswith("aish-")
    assert key("https://eu.api.openai.com/v1", system, first, second) == here
    assert key("https://api.openai.com/v1", replace(system, content="Be long."), first) != here
    assert key("https://api.openai.com/v1", system, prompt_cache_key="mine") == "mine"
    for other in ("https://integrate.api.nvidia.com/v1", "https://x.openai.azure.com", HERE):
        assert key(other, system, first) is None
