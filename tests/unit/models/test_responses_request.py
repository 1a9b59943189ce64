"""What is sent to a Responses server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Preset
from aish_lsp.models.providers import goes_back, reasoning_source, reply_limit
from aish_lsp.models.providers.responses import request_body
from aish_lsp.models.request import (
    ModelRequest,
    RequestMessage,
    StoredReasoning,
    ToolCall,
    ToolSchema,
)

Json = dict[str, Any]

HERE = Preset(provider="openai-responses", endpoint="http://127.0.0.1:8080", model="m")
USER = RequestMessage("user", "u")


def body(preset: Preset, *messages: RequestMessage, **fields: Any) -> Json:
    return request_body(ModelRequest(preset, messages, **fields), preset.model)


def items(*messages: RequestMessage, preset: Preset = HERE) -> list[Json]:
    found: list[Json] = body(preset, *messages)["input"]
    return found


def said(text: str, **more: Any) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **more}


def called(call_id: str, name: str = "ls", arguments: str = "{}") -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, output: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def thought(name: str, encrypted: str = "X") -> Json:
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": encrypted}


def stored(*output: Json, provider: str = "127.0.0.1:8080") -> StoredReasoning:
    return StoredReasoning("hm", provider, {"output": list(output)})


def test_the_smallest_request() -> None:
    assert body(HERE, RequestMessage("system", "s"), USER) == {
        "model": "m",
        "instructions": "s",
        "input": [{"type": "message", "role": "user", "content": "u"}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 1024,
    }


def test_settings_are_sent_where_the_protocol_knows_them() -> None:
    preset = replace(
        HERE,
        temperature=0.0,
        top_p=0.5,
        stop=["x"],
        seed=0,
        reasoning_effort="low",
        max_output_tokens=7,
    )
    sent = body(preset, USER)
    wanted = {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_output_tokens": 7,
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    assert wanted.items() <= sent.items()
    assert not {"stop", "seed", "reasoning_effort", "max_tokens"} & sent.keys()


def test_neither_model_nor_instructions_where_there_are_none() -> None:
    sent = body(replace(HERE, model=""), RequestMessage("system", ""), USER)
    assert not {"model", "instructions"} & sent.keys()


def test_a_later_system_message_is_the_developers() -> None:
    assert items(USER, RequestMessage("assistant", "a"), RequestMessage("system", "s"))[-1] == {
        "type": "message",
        "role": "developer",
        "content": "s",
    }


def test_the_limit_of_the_reply() -> None:
    assert body(HERE, USER, max_output_tokens=9)["max_output_tokens"] == 9
    own = replace(HERE, extra_body={"max_output_tokens": 5, "store": True})
    assert body(own, USER)["max_output_tokens"] == reply_limit(own) == 5
    assert body(own, USER)["store"] is True


def test_tools_are_not_strict() -> None:
    parameters = {"type": "object"}
    assert body(HERE, USER, tools=(ToolSchema("ls", "lists", parameters),))["tools"] == [
        {
            "type": "function",
            "name": "ls",
            "description": "lists",
            "parameters": parameters,
            "strict": False,
        }
    ]


def test_calls_and_results() -> None:
    calls = (ToolCall("1", "ls", '{"a": 1}'), ToolCall("2", "pwd", ""))
    assert items(
        USER,
        RequestMessage("assistant", "I look.", calls),
        RequestMessage("tool", "r1", tool_call_id="1"),
        RequestMessage("tool", "", tool_call_id="2"),
    )[1:] == [
        said("I look."),
        called("1", "ls", '{"a": 1}'),
        called("2", "pwd"),
        result("1", "r1"),
        result("2", ""),
    ]


def test_one_id_for_the_calls_of_two_replies() -> None:
    call = ToolCall("call_0", "ls", "{}")
    sent = items(
        USER,
        RequestMessage("assistant", "", (call,)),
        RequestMessage("tool", "one", tool_call_id="call_0"),
        RequestMessage("assistant", "", (call,)),
        RequestMessage("tool", "two", tool_call_id="call_0"),
    )[1:]
    first, second = sent[0]["call_id"], sent[2]["call_id"]
    assert first != second
    assert sent == [called(first), result(first, "one"), called(second), result(second, "two")]


def test_an_id_that_is_too_long_or_empty() -> None:
    for call_id in ("x" * 65, ""):
        sent = items(
            USER,
            RequestMessage("assistant", "", (ToolCall(call_id, "ls", "{}"),)),
            RequestMessage("tool", "one", tool_call_id=call_id),
        )[1:]
        assert 0 < len(sent[0]["call_id"]) <= 64
        assert sent[1] == result(sent[0]["call_id"], "one")


def test_calls_without_results_and_results_without_calls() -> None:
    sent = items(
        USER,
        RequestMessage("assistant", "", (ToolCall("1", "ls", "{}"),)),
        USER,
        RequestMessage("tool", "of no call", tool_call_id="2"),
        RequestMessage("assistant", "", (ToolCall("2", "ls", "{}"),)),
    )
    outputs = [item for item in sent if item["type"] == "function_call_output"]
    assert outputs == [result("1", "cancelled"), result("2", "cancelled")]
    assert sent[2] == outputs[0]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a":  1}', '{"a":  1}'),
        ("", "{}"),
        (" ", "{}"),
        ("[1]", '{"arguments": "[1]"}'),
        ('{"a": ', '{"arguments": "{\\"a\\": "}'),
        ('{"a": NaN}', '{"arguments": "{\\"a\\": NaN}"}'),
        ("[" * 100_000, None),
    ],
)
def test_arguments_are_always_an_object(arguments: str, sent: str | None) -> None:
    message = RequestMessage("assistant", "", (ToolCall("1", "ls", arguments),))
    got = items(USER, message)[1]["arguments"]
    assert isinstance(json.loads(got), dict)
    assert sent is None or got == sent


@pytest.mark.parametrize(
    ("name", "sent"), [("functions.ls", "functions_ls"), ("", "unknown"), ("é b", "__b")]
)
def test_names_that_no_function_can_have(name: str, sent: str) -> None:
    assert (
        items(USER, RequestMessage("assistant", "", (ToolCall("1", name, "{}"),)))[1]["name"]
        == sent
    )


class TestReasoning:
    """Reasoning goes back to where it came from, and in its place."""

    OUTLINE = (
        thought("r1"),
        {"type": "message", "length": 7, "phase": "commentary"},
        thought("r2", "Y"),
        {"type": "function_call", "call_id": "c1"},
        {"type": "message", "length": 4, "phase": "final_answer"},
    )
    REPLY = RequestMessage(
        "assistant",
        "I look.\n\nDone",
        (ToolCall("c1", "ls", "{}"),),
        reasoning=stored(*OUTLINE),
    )

    def test_in_its_place(self) -> None:
        assert items(USER, self.REPLY)[1:] == [
            thought("r1"),
            said("I look.", phase="commentary"),
            thought("r2", "Y"),
            called("c1"),
            said("Done", phase="final_answer"),
            result("c1", "cancelled"),
        ]

    @pytest.mark.parametrize("text", ["look.\n\nDone", "I look.\n\nDone!", "I look.Done", ""])
    def test_a_text_that_was_changed_since(self, text: str) -> None:
        sent = items(USER, replace(self.REPLY, content=text))[1:-1]
        spoken = [said(text)] if text else []
        assert sent == [thought("r1"), thought("r2", "Y"), *spoken, called("c1")]

    def test_to_no_other_server(self) -> None:
        other = replace(HERE, endpoint="https://api.openai.com/v1")
        sent = items(USER, self.REPLY, preset=other)[1:]
        assert sent == [said("I look.\n\nDone"), called("c1"), result("c1", "cancelled")]

    def test_not_what_the_server_could_not_read(self) -> None:
        refused = frozenset({"X"})
        sent = request_body(ModelRequest(HERE, (USER, self.REPLY)), "m", refused)["input"]
        assert [item["id"] for item in sent if item["type"] == "reasoning"] == ["r2"]

    def test_a_reply_without_anything_to_return(self) -> None:
        for reasoning in (StoredReasoning("hm", "127.0.0.1:8080", {}), stored()):
            assert items(USER, RequestMessage("assistant", "a", reasoning=reasoning))[1:] == [
                said("a")
            ]

    def test_not_without_what_it_led_to(self) -> None:
        reply = RequestMessage("assistant", "", (ToolCall("c9", "ls", "{}"),))
        gone = replace(reply, tool_calls=(), content="", reasoning=stored(thought("r1")))
        assert items(USER, gone)[1:] == []

    def test_whose_it_is(self) -> None:
        openai = Preset(provider="openai-responses")
        assert reasoning_source(openai) == "api.openai.com"
        assert reasoning_source(HERE) == "127.0.0.1:8080"
        assert goes_back(stored(thought("r1")), HERE)
        assert not goes_back(stored(thought("r1")), openai)
        assert not goes_back(StoredReasoning("hm", "127.0.0.1:8080", {}), HERE)

    @pytest.mark.parametrize(
        "output",
        [
            5,
            [5, None, []],
            [{"type": []}],
            [{"type": "message"}],
            [{"type": "message", "length": -1}, {"type": "message", "length": "x"}],
            [{"type": "reasoning"}, {"type": "reasoning", "encrypted_content": 5}],
            [{"type": "function_call", "call_id": []}],
        ],
    )
    def test_a_log_that_somebody_edited(self, output: Any) -> None:
        reasoning = StoredReasoning("", "127.0.0.1:8080", {"output": output})
        reply = RequestMessage("assistant", "a", (ToolCall("1", "ls", "{}"),), reasoning=reasoning)
        assert items(USER, reply)[1:] == [said("a"), called("1"), result("1", "cancelled")]


IDS = st.sampled_from(["call_0", "call_1", "", "x" * 70])
CALLS = st.builds(ToolCall, IDS, st.sampled_from(["ls", "a.b", ""]), st.text(max_size=5))
PARTS = st.one_of(
    st.builds(thought, st.sampled_from(["r1", "r2"]), st.sampled_from(["X", ""])),
    st.builds(lambda n: {"type": "message", "length": n}, st.integers(0, 5)),
    st.builds(lambda i: {"type": "function_call", "call_id": i}, IDS),
)
REASONING = st.none() | st.lists(PARTS, max_size=4).map(lambda parts: stored(*parts))
MESSAGES = st.one_of(
    st.builds(RequestMessage, st.sampled_from(["user", "system"]), st.text(max_size=5)),
    st.builds(
        RequestMessage,
        st.just("assistant"),
        st.text(max_size=5),
        st.lists(CALLS, max_size=3).map(tuple),
        reasoning=REASONING,
    ),
    st.builds(RequestMessage, st.just("tool"), st.text(max_size=5), tool_call_id=st.none() | IDS),
)


@given(st.lists(MESSAGES, max_size=10))
def test_a_server_takes_whatever_was_said(messages: list[RequestMessage]) -> None:
    sent = items(*messages)
    json.dumps(sent)
    waiting: list[str] = []
    calls: list[str] = []
    for item, following in zip_longest(sent, sent[1:]):
        match item["type"]:
            case "message":
                content = item["content"]
                assert content if isinstance(content, str) else content[0]["text"]
            case "reasoning":
                assert item["encrypted_content"]
                assert following is not None
                assert following["type"] != "function_call_output"
                assert following.get("role", "assistant") == "assistant"
            case "function_call":
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"])
                assert isinstance(json.loads(item["arguments"]), dict)
                assert 0 < len(item["call_id"]) <= 64
                waiting.append(item["call_id"])
                calls.append(item["call_id"])
            case "function_call_output":
                waiting.remove(item["call_id"])
        if item["type"] == "message" and item["role"] != "assistant":
            assert not waiting
    assert not waiting
    assert len(set(calls)) == len(calls)
