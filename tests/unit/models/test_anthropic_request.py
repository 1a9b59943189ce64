"""Requests over Anthropic's Messages: what is sent, and what never is."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Preset
from aish_lsp.models.providers.anthropic import request_body
from aish_lsp.models.request import (
    ModelRequest,
    RequestMessage,
    StoredReasoning,
    ToolCall,
    ToolSchema,
)

OWN = "api.anthropic.com"
EPHEMERAL = {"type": "ephemeral"}
TOOL = ToolSchema("ls", "Lists files.", {"properties": {"path": {"type": "string"}}})
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, arguments: str = '{"path": "."}') -> ToolCall:
    return ToolCall(call_id, "ls", arguments)


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "ls", "input": {"path": "."}}


def result(call_id: str, words: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": words}


def thought(*content: dict[str, Any], server: str = "127.0.0.1:8080") -> StoredReasoning:
    return StoredReasoning("hm", "anthropic", {"server": server, "content": [*content]})


def unmarked(value: Any) -> Any:
    """Return ``value`` without the marks for the cache, which have tests of their own."""
    if isinstance(value, dict):
        return {name: unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [unmarked(part) for part in value] if isinstance(value, list) else value


def body_of(
    *messages: RequestMessage, tools: tuple[ToolSchema, ...] = (), **settings: Any
) -> dict[str, Any]:
    """Return the body of a request to a server that is not Anthropic's own, without its marks."""
    settings = {"endpoint": "http://127.0.0.1:8080", "model": "claude-sonnet-4-5", **settings}
    preset = Preset(provider="anthropic", **settings)
    body = request_body(ModelRequest(preset, messages, tools), preset.model)
    unmarked_body: dict[str, Any] = unmarked(body)
    return unmarked_body


def own_body(
    *messages: RequestMessage, model: str = "claude-sonnet-4-5", **more: Any
) -> dict[str, Any]:
    """Return the body of a request to Anthropic itself."""
    preset = Preset(provider="anthropic", model=model, **more)
    assert preset.endpoint == f"https://{OWN}"
    return request_body(ModelRequest(preset, messages, (TOOL,)), preset.model)


SYSTEM, QUESTION = (
    RequestMessage("system", "You are a shell."),
    RequestMessage("user", "Which files?"),
)


def test_a_question() -> None:
    assert body_of(SYSTEM, QUESTION, tools=(TOOL,), stop=["END"], seed=7) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "stream": True,
        "system": [text("You are a shell.")],
        "messages": [{"role": "user", "content": [text("Which files?")]}],
        "tools": [
            {
                "name": "ls",
                "description": "Lists files.",
                "input_schema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}},
                },
            }
        ],
        "stop_sequences": ["END"],
    }


def test_what_is_not_set_is_not_sent() -> None:
    assert body_of(QUESTION, model="").keys() == {"max_tokens", "stream", "messages"}


def test_extra_body_comes_last() -> None:
    extra = {"max_tokens": 5, "top_k": 3, "system": "Other."}
    body = body_of(SYSTEM, QUESTION, extra_body=extra)
    assert (body["max_tokens"], body["top_k"], body["system"]) == (5, 3, "Other.")


def test_the_requests_own_limit() -> None:
    preset = Preset(provider="anthropic", endpoint="http://127.0.0.1:1", max_output_tokens=9)
    assert request_body(ModelRequest(preset, (QUESTION,)), "m")["max_tokens"] == 9
    request = ModelRequest(preset, (QUESTION,), max_output_tokens=5)
    assert request_body(request, "m")["max_tokens"] == 5


class TestCacheMarks:
    def test_system_and_the_last_two_of_the_users(self) -> None:
        body = own_body(
            SYSTEM,
            QUESTION,
            RequestMessage("assistant", "", tool_calls=(call("a"),)),
            RequestMessage("tool", "x.py", tool_call_id="a"),
            RequestMessage("assistant", "One."),
            RequestMessage("user", "And now?"),
        )
        assert body["system"] == [{**text("You are a shell."), "cache_control": EPHEMERAL}]
        assert [message["content"] for message in body["messages"]] == [
            [text("Which files?")],
            [use("a")],
            [{**result("a", "x.py"), "cache_control": EPHEMERAL}],
            [text("One.")],
            [{**text("And now?"), "cache_control": EPHEMERAL}],
        ]

    def test_no_mark_where_no_request_begins_as_the_last_one(self) -> None:
        body = own_body(SYSTEM, QUESTION, local_compress=True)
        assert "cache_control" in body["system"][0]
        assert "cache_control" not in json.dumps(body["messages"])

    def test_for_a_proxy_too(self) -> None:
        preset = Preset(provider="anthropic", endpoint="http://127.0.0.1:4000", model="m")
        body = request_body(ModelRequest(preset, (SYSTEM, QUESTION)), "m")
        assert body["system"][0]["cache_control"] == EPHEMERAL
        assert body["messages"][0]["content"][-1]["cache_control"] == EPHEMERAL


class TestThinking:
    @pytest.mark.parametrize(
        ("model", "effort", "limit", "budget"),
        [
            ("claude-sonnet-4-5", "low", 8000, 2048),
            ("claude-opus-4-20250514", "medium", 64000, 8192),
            ("claude-3-7-sonnet-latest", "high", 64000, 16384),
            ("us.anthropic.claude-opus-4-5-20251101-v1:0", "max", 10000, 5000),
            ("glm-5", "high", 3000, 1500),
            # Too little room, no word of ours, nothing asked.
            ("claude-sonnet-4-5", "high", 2047, None),
            ("claude-sonnet-4-5", "none", 8000, None),
            ("claude-sonnet-4-5", None, 8000, None),
        ],
    )
    def test_a_budget(self, model: str, effort: str | None, limit: int, budget: int | None) -> None:
        body = body_of(QUESTION, model=model, reasoning_effort=effort, max_output_tokens=limit)
        wanted = budget and {"type": "enabled", "budget_tokens": budget}
        assert body.get("thinking") == wanted
        assert body["max_tokens"] == limit
        assert "output_config" not in body

    def test_the_budget_is_a_part_of_the_limit_in_force(self) -> None:
        extra = {"max_tokens": 4000}
        body = body_of(QUESTION, reasoning_effort="high", extra_body=extra)
        assert body["thinking"]["budget_tokens"] == 2000

    @pytest.mark.parametrize(
        ("model", "effort", "thinking"),
        [
            ("claude-opus-4-6", "max", {}),
            ("claude-sonnet-4-6", None, None),
            ("claude-opus-4-8", None, None),
            ("claude-sonnet-5", None, {}),
            ("claude-opus-5", "low", {}),
            ("claude-opus-5-5", "low", {"block_binding"}),
            ("claude-fable-5-1", None, {"block_binding"}),
            ("claude-haiku-5-5-20261007", "xhigh", {"block_binding"}),
        ],
    )
    def test_adaptive(self, model: str, effort: str | None, thinking: set[str] | None) -> None:
        body = own_body(QUESTION, model=model, reasoning_effort=effort)
        if thinking is None:
            assert "thinking" not in body
        else:
            assert body["thinking"].keys() == {"type", "display", *thinking}
            assert body["thinking"]["type"] == "adaptive"
            assert body["thinking"]["display"] == "summarized"
            binding = body["thinking"].get("block_binding", {})
            assert set(binding.values()) <= {"drop_block"}
        assert body.get("output_config") == (effort and {"effort": effort})

    def test_elsewhere_only_what_was_asked_for(self) -> None:
        assert "thinking" not in body_of(QUESTION, model="anthropic/claude-opus-5.5")
        body = body_of(QUESTION, model="anthropic/claude-opus-5.5", reasoning_effort="low")
        assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
        assert body["output_config"] == {"effort": "low"}

    def test_no_budget_where_tools_answer_a_turn_begun_without(self) -> None:
        def thinks(reasoning: StoredReasoning | None, *last: RequestMessage) -> bool:
            begun = RequestMessage("assistant", "", tool_calls=(call("a"),), reasoning=reasoning)
            then = RequestMessage("assistant", "", tool_calls=(call("b"),))
            answers = (
                RequestMessage("tool", "x", tool_call_id="a"),
                then,
                RequestMessage("tool", "y", tool_call_id="b"),
            )
            body = body_of(
                QUESTION, begun, *answers, *last, reasoning_effort="low", max_output_tokens=9000
            )
            return "thinking" in body

        assert not thinks(None)
        assert thinks(thought(THOUGHT, {"type": "tool_use"}))
        assert thinks(thought(HIDDEN, {"type": "tool_use"}))
        assert thinks(None, RequestMessage("assistant", "Done."), RequestMessage("user", "Next?"))

    @pytest.mark.parametrize(
        ("model", "effort", "extra", "sent"),
        [
            ("claude-sonnet-4-5", None, {}, {"temperature": 0.5}),
            ("claude-sonnet-4-5", "low", {}, {}),
            ("claude-sonnet-4-5", None, {"thinking": {"type": "adaptive"}}, {}),
            ("claude-sonnet-4-5", "low", {"thinking": {"type": "disabled"}}, {"temperature": 0.5}),
            ("claude-sonnet-4-6", None, {}, {"temperature": 0.5}),
            ("claude-opus-4-7", None, {}, {}),
            ("claude-sonnet-5", None, {}, {}),
            ("claude-sonnet-5", None, {"temperature": 1}, {"temperature": 1}),
            ("qwen", "low", {}, {"temperature": 0.5, "top_p": 0.9}),
        ],
    )
    def test_sampling_is_left_out_where_it_is_refused(
        self, model: str, effort: str | None, extra: dict[str, Any], sent: dict[str, float]
    ) -> None:
        body = body_of(
            QUESTION,
            model=model,
            temperature=0.5,
            top_p=0.9,
            reasoning_effort=effort,
            extra_body=extra,
            max_output_tokens=9000,
        )
        assert {name: body[name] for name in ("temperature", "top_p") if name in body} == sent

    def test_top_p_alone(self) -> None:
        assert body_of(QUESTION, top_p=0.9)["top_p"] == 0.9


class TestReasoningGoesBack:
    def reply(self, reasoning: StoredReasoning, words: str = "One.Two.") -> list[Any]:
        calls = (call("a"), call("b"))
        reply = RequestMessage("assistant", words, tool_calls=calls, reasoning=reasoning)
        content: list[Any] = body_of(QUESTION, reply)["messages"][1]["content"]
        return content

    def test_in_its_place(self) -> None:
        parts = (
            THOUGHT,
            {"type": "text", "length": 4},
            {"type": "tool_use"},
            HIDDEN,
            {"type": "text", "length": 4},
            {"type": "tool_use"},
        )
        assert self.reply(thought(*parts)) == [
            THOUGHT,
            text("One."),
            use("a"),
            HIDDEN,
            text("Two."),
            use("b"),
        ]

    @pytest.mark.parametrize(
        "places",
        [
            [],
            [{"type": "text", "length": 8}],
            [{"type": "text", "length": 9}, {"type": "tool_use"}, {"type": "tool_use"}],
            [{"type": "text"}, {"type": "tool_use"}, {"type": "tool_use"}],
            [{"type": "text", "length": "8"}, None, 7, {"type": "tool_use"}],
        ],
    )
    def test_first_where_its_place_is_lost(self, places: list[Any]) -> None:
        content = self.reply(thought(*places, THOUGHT, HIDDEN))
        assert content == [THOUGHT, HIDDEN, text("One.Two."), use("a"), use("b")]

    @pytest.mark.parametrize(
        "reasoning",
        [
            StoredReasoning("hm", "127.0.0.1", {"reasoning_details": [{"text": "hm"}]}),
            StoredReasoning("hm", "gemini", {"content": [THOUGHT]}),
            thought(THOUGHT, server=OWN),
            thought(THOUGHT, server="127.0.0.1"),
            thought(THOUGHT, server="127.0.0.1:8081"),
            StoredReasoning("hm", "anthropic", {}),
            StoredReasoning("hm", "anthropic", {"server": "127.0.0.1:8080", "content": "hm"}),
            thought({"type": "thinking", "thinking": 5, "signature": "s"}),
            thought({"type": "redacted_thinking", "data": ""}),
        ],
    )
    def test_to_nobody_else(self, reasoning: StoredReasoning) -> None:
        assert self.reply(reasoning) == [text("One.Two."), use("a"), use("b")]

    def test_never_last(self) -> None:
        parts = (THOUGHT, {"type": "text", "length": 4}, THOUGHT, HIDDEN)
        reply = RequestMessage("assistant", "One.", reasoning=thought(*parts))
        blank = RequestMessage("assistant", "\n", reasoning=thought(THOUGHT))
        body = body_of(QUESTION, reply, QUESTION, blank, QUESTION)
        contents = [message["content"] for message in body["messages"]]
        assert contents[1:] == [[THOUGHT, text("One.")], [text("Which files?")] * 2]

    def test_unsigned_to_anthropic_never(self) -> None:
        unsigned = {**THOUGHT, "signature": ""}
        reply = RequestMessage("assistant", "Yes.", reasoning=thought(unsigned, server=OWN))
        assert own_body(QUESTION, reply)["messages"][1]["content"] == [text("Yes.")]
        reply = RequestMessage("assistant", "Yes.", reasoning=thought(unsigned))
        assert body_of(QUESTION, reply)["messages"][1]["content"] == [unsigned, text("Yes.")]


class TestCalls:
    @pytest.mark.parametrize(
        ("arguments", "given"),
        [
            ('{"path": "."}', {"path": "."}),
            ("", {}),
            (" \n", {}),
            ('{"path": ', {"arguments": '{"path": '}),
            ("[1]", {"arguments": "[1]"}),
            ("null", {"arguments": "null"}),
            ('{"size": NaN}', {"arguments": '{"size": NaN}'}),
            ("[" * 9999, {"arguments": "[" * 9999}),
        ],
    )
    def test_arguments_are_an_object(self, arguments: str, given: dict[str, Any]) -> None:
        body = body_of(
            QUESTION, RequestMessage("assistant", "", tool_calls=(call("a", arguments),))
        )
        assert body["messages"][1]["content"][0]["input"] == given

    def test_results_stand_first_in_one_message(self) -> None:
        body = body_of(
            QUESTION,
            RequestMessage("assistant", "Look.", tool_calls=(call("a"), call("b"))),
            RequestMessage("tool", "2", tool_call_id="b"),
            RequestMessage("tool", "lost", tool_call_id="z"),
            RequestMessage("tool", " ", tool_call_id="a"),
            RequestMessage("user", "Go."),
        )
        assert body["messages"][1:] == [
            {"role": "assistant", "content": [text("Look."), use("a"), use("b")]},
            {
                "role": "user",
                "content": [
                    result("b", "2"),
                    {"type": "tool_result", "tool_use_id": "a"},
                    text("lost"),
                    text("Go."),
                ],
            },
        ]

    def test_a_call_without_a_result_gets_one(self) -> None:
        body = body_of(
            QUESTION,
            RequestMessage("assistant", "", tool_calls=(call("a"),)),
            RequestMessage("user", "Stop."),
        )
        missing, said = body["messages"][2]["content"]
        assert (missing["tool_use_id"], missing["is_error"]) == ("a", True)
        assert said == text("Stop.")

    def test_ids_and_names_of_other_providers(self) -> None:
        calls = (
            ToolCall("functions.ls:0", "fs/ls", "{}"),
            ToolCall("", "", "{}"),
            ToolCall("", "n" * 99, "{}"),
        )
        body = body_of(
            QUESTION,
            RequestMessage("assistant", "", tool_calls=calls),
            RequestMessage("tool", "1", tool_call_id="functions.ls:0"),
            RequestMessage("tool", "2", tool_call_id=""),
            RequestMessage("tool", "3", tool_call_id=""),
            RequestMessage("assistant", "", tool_calls=calls[:1]),
            RequestMessage("tool", "4", tool_call_id="functions.ls:0"),
        )
        _, first, results, second, more = (message["content"] for message in body["messages"])
        assert [(use["id"], use["name"]) for use in (*first, *second)] == [
            ("functions_ls_0", "fs_ls"),
            ("call", "unknown"),
            ("call_2", "n" * 64),
            ("functions_ls_0_2", "fs_ls"),
        ]
        assert [(r["tool_use_id"], r["content"]) for r in (*results, *more)] == [
            ("functions_ls_0", "1"),
            ("call", "2"),
            ("call_2", "3"),
            ("functions_ls_0_2", "4"),
        ]


def test_neighbors_merge_and_the_user_is_first_and_last() -> None:
    body = body_of(
        RequestMessage("assistant", "I"),
        RequestMessage("assistant", " am"),
        RequestMessage("user", "q"),
        RequestMessage("user", " \n"),
        RequestMessage("user", "r"),
        RequestMessage("assistant", ""),
        RequestMessage("user", "s"),
        RequestMessage("assistant", "half a"),
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert body["messages"][1]["content"] == [text("I"), text(" am")]
    assert body["messages"][2]["content"] == [text("q"), text("r"), text("s")]
    assert body["messages"][4]["content"] == [text("Go on.")]


TEXTS = st.sampled_from(["", " ", "\n\n", "x", "One.Two.", "\ud83d", "\x00"]) | st.text(max_size=5)
IDS = st.sampled_from(["a", "b", "", "c.1", "é"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=3,
)
PARTS = st.sampled_from(
    [THOUGHT, HIDDEN, {"type": "text", "length": 1}, {"type": "tool_use"}, {"type": "thinking"}]
)
REASONING = st.none() | st.builds(
    StoredReasoning,
    text=TEXTS,
    provider=st.sampled_from(["anthropic", "gemini"]),
    metadata=st.fixed_dictionaries({"content": JUNK | st.lists(PARTS | JUNK, max_size=5)}),
)
CALLS = st.builds(
    ToolCall,
    id=IDS,
    name=st.sampled_from(["ls", "", "a b"]),
    arguments=st.sampled_from(["{}", "", "[", "3"]),
)
MESSAGES = st.builds(
    RequestMessage,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXTS,
    tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    tool_call_id=st.none() | IDS,
    reasoning=REASONING,
)


@given(
    messages=st.lists(MESSAGES, max_size=12),
    endpoint=st.sampled_from(["http://127.0.0.1:8080", ""]),
    effort=st.sampled_from([None, "low"]),
)
def test_any_conversation_keeps_the_rules(
    messages: list[RequestMessage], endpoint: str, effort: str | None
) -> None:
    preset = Preset(
        provider="anthropic",
        endpoint=endpoint,
        model="claude-sonnet-4-5",
        max_output_tokens=9000,
        reasoning_effort=effort,
    )
    body = request_body(ModelRequest(preset, tuple(messages)), preset.model)
    json.dumps(body, allow_nan=False)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * math.floor(len(roles) / 2) + ["user"]
    assert body.get("system", "x") not in ("", [])
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        assert message["content"]
        kinds = [block["type"] for block in message["content"]]
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert sorted(results) == sorted(waiting)
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert seen.isdisjoint(waiting)
        seen.update(waiting)
        assert "thinking" not in kinds[-1]
        for block in message["content"]:
            if block["type"] == "text":
                assert block["text"].strip()
            if block["type"] == "tool_use":
                assert re.fullmatch("[a-zA-Z0-9_-]+", block["id"])
                assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", block["name"])
                assert isinstance(block["input"], dict)
    assert json.dumps(body).count("cache_control") <= 4
