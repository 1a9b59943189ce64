"""What a request to Gemini holds, whatever the conversation."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.models.forms import NO_SIGNATURE
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers import goes_back, reasoning_source, reply_limit
from aish_lsp.models.providers.gemini import (
    GeminiModel,
    contents_of,
    method_url,
    request_body,
)
from aish_lsp.models.request import (
    ModelRequest,
    RequestMessage,
    StoredReasoning,
    ToolCall,
    ToolSchema,
)

QUESTION = (RequestMessage("system", "Be brief."), RequestMessage("user", "Which files?"))
CLOUD = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"
TOOL = ToolSchema("ls", "Lists.", {"type": "object", "properties": {}, "$schema": "x"})


def body(
    *messages: RequestMessage, tools: tuple[ToolSchema, ...] = (), **settings: Any
) -> dict[str, Any]:
    preset = Preset(**{"provider": "gemini", "model": "gemini-2.5-flash", **settings})
    return request_body(ModelRequest(preset, messages or QUESTION, tools))


def contents(*messages: RequestMessage, must_sign: bool = False) -> list[Any]:
    return contents_of(messages, must_sign=must_sign)


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def call(name: str, args: Any, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args}, **more}


def response(name: str, output: str) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}}}


def test_a_question() -> None:
    assert body() == {
        "contents": [user("Which files?")],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {
            "maxOutputTokens": 1024,
            "thinkingConfig": {"includeThoughts": True},
        },
    }


def test_the_presets_settings_under_their_names() -> None:
    config = body(
        temperature=0.5, top_p=0.9, stop=["a"], seed=7, max_output_tokens=9, model="gemini-2.0-pro"
    )["generationConfig"]
    assert config == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["a"],
        "seed": 7,
    }


def test_the_extra_body_comes_last_and_leaves_the_rest_of_the_configuration() -> None:
    extra = {"generationConfig": {"topK": 3, "maxOutputTokens": 5}, "contents": [], "safety": 1}
    made = body(extra_body=extra, temperature=0.0)
    assert made["contents"] == []
    assert made["safety"] == 1
    config = made["generationConfig"]
    assert (config["topK"], config["maxOutputTokens"], config["temperature"]) == (3, 5, 0.0)


def test_tools_go_as_real_json_schemas() -> None:
    [declared] = body(tools=(TOOL,))["tools"][0]["functionDeclarations"]
    assert declared == {
        "name": "ls",
        "description": "Lists.",
        "parametersJsonSchema": TOOL.parameters,
    }


@pytest.mark.parametrize(
    ("name", "effort", "thinking"),
    [
        ("gemini-2.0-flash", None, None),
        ("gemini-1.5-pro", None, None),
        ("llama", None, None),
        ("gemma-3-27b-it", None, None),
        ("gemini-2.5-flash", None, {"includeThoughts": True}),
        ("models/gemini-3-flash-preview", None, {"includeThoughts": True}),
        ("gemini-flash-latest", None, {"includeThoughts": True}),
        ("gemini-flash-lite-latest", "low", {"includeThoughts": True, "thinkingLevel": "low"}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", {"includeThoughts": True, "thinkingBudget": 128}),
        ("gemini-2.5-flash", "low", {"includeThoughts": True, "thinkingBudget": 1024}),
        ("gemini-2.5-flash", "Medium", {"includeThoughts": True, "thinkingBudget": 8192}),
        ("gemini-2.5-pro", "high", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-2.5-pro", "xhigh", {"includeThoughts": True, "thinkingBudget": 24576}),
        ("gemini-2.5-pro", "-1", {"includeThoughts": True, "thinkingBudget": -1}),
        ("gemini-2.5-flash", "0", {"thinkingBudget": 0}),
        ("gemini-3.1-pro-preview", "high", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-3.1-pro-preview", "max", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-3.1-pro-preview", "minimal", {"includeThoughts": True, "thinkingLevel": "low"}),
        ("gemini-3.5-flash", "none", {"includeThoughts": True, "thinkingLevel": "minimal"}),
        ("gemini-4-flash", "medium", {"includeThoughts": True, "thinkingLevel": "medium"}),
        ("gemma-4-31b-it", "high", {"thinkingLevel": "high"}),
    ],
)
def test_how_long_to_think_by_the_models_family(
    name: str, effort: str | None, thinking: dict[str, Any] | None
) -> None:
    config = body(model=name, reasoning_effort=effort)["generationConfig"]
    assert config.get("thinkingConfig") == thinking


def test_neighbors_are_merged_and_empty_texts_left_out() -> None:
    made = contents(
        RequestMessage("user", "a"),
        RequestMessage("assistant", ""),
        RequestMessage("user", "b"),
        RequestMessage("assistant", "c"),
        RequestMessage("assistant", "d"),
        RequestMessage("user", ""),
        RequestMessage("user", "e"),
    )
    assert made == [user("a", "b"), model("c", "d"), user("e")]


@pytest.mark.parametrize(
    ("messages", "made"),
    [
        ((), [user("Go on.")]),
        ((RequestMessage("system", "s"), RequestMessage("user", "")), [user("Go on.")]),
        ((RequestMessage("assistant", "a"),), [user("Go on."), model("a"), user("Go on.")]),
    ],
)
def test_it_begins_and_ends_with_the_user(messages: Any, made: Any) -> None:
    assert contents(*messages) == made


def test_the_results_of_parallel_calls_stand_in_one_content_in_the_order_of_the_calls() -> None:
    made = contents(
        RequestMessage("user", "q"),
        RequestMessage(
            "assistant", "I look.", (ToolCall("1", "ls", ""), ToolCall("2", "cat", '{"f":1}'))
        ),
        RequestMessage("tool", "text", tool_call_id="2"),
        RequestMessage("tool", "files", tool_call_id="1"),
        RequestMessage("user", "and?"),
    )
    # A response shares its content with nothing else: newer models refuse that.
    assert made == [
        user("q"),
        model("I look.", call("ls", {}), call("cat", {"f": 1})),
        user(response("ls", "files"), response("cat", "text")),
        user("and?"),
    ]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_goes() -> None:
    made = contents(
        RequestMessage("user", "q"),
        RequestMessage("assistant", "", (ToolCall("1", "ls", "{}"),)),
        RequestMessage("tool", "lost", tool_call_id="9"),
        RequestMessage("assistant", "done"),
        RequestMessage("tool", "lost", tool_call_id="1"),
        RequestMessage("user", "r"),
    )
    missing = {"functionResponse": {"name": "ls", "response": {"error": "There is no result."}}}
    assert made == [user("q"), model(call("ls", {})), user(missing), model("done"), user("r")]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": [1]}', {"a": [1]}),
        ("[1]", {"arguments": "[1]"}),
        ("null", {"arguments": "null"}),
        ('{"a": ', {"arguments": '{"a": '}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
        ("[" * 100_000, {"arguments": "[" * 100_000}),
    ],
)
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str, sent: Any) -> None:
    made = contents(
        RequestMessage("user", "q"),
        RequestMessage("assistant", "", (ToolCall("1", "ls", arguments),)),
    )
    assert made[1] == model(call("ls", sent))


def stored(*parts: Any, server: str = "generativelanguage.googleapis.com") -> StoredReasoning:
    return StoredReasoning("", "gemini", {"server": server, "parts": list(parts)})


CALLS = (ToolCall("x1", "ls", '{"p": "."}'), ToolCall("x2", "ls", "{}"))
SENT = (
    {"text": "Hm.", "thought": True},
    {"text": "I look."},
    {"functionCall": {"name": "ls", "args": {"p": "."}, "id": "x1"}, "thoughtSignature": "S1"},
    {"functionCall": {"name": "ls", "args": {}, "id": "x2"}},
    {"text": "", "thoughtSignature": "S2"},
)


def test_what_the_server_sent_goes_back_as_it_came_and_results_with_its_ids() -> None:
    made = contents(
        RequestMessage("user", "q"),
        RequestMessage("assistant", "I look.", CALLS, reasoning=stored(*SENT)),
        RequestMessage("tool", "a", tool_call_id="x1"),
        RequestMessage("tool", "b", tool_call_id="x2"),
        must_sign=True,
    )
    assert made[1] == {"role": "model", "parts": list(SENT)}
    ids = [part["functionResponse"]["id"] for part in made[2]["parts"]]
    assert ids == ["x1", "x2"]


def test_a_reply_whose_text_was_cut_keeps_the_signatures_of_its_calls() -> None:
    made = contents(
        RequestMessage("user", "q"),
        RequestMessage("assistant", "look.", CALLS, reasoning=stored(*SENT)),
        must_sign=True,
    )
    assert made[1] == model("look.", SENT[2], SENT[3])


def test_parts_that_do_not_fit_the_reply_are_dropped() -> None:
    for calls in ((), CALLS[:1], (CALLS[0], ToolCall("x2", "cat", "{}"))):
        made = contents(
            RequestMessage("user", "q"),
            RequestMessage("assistant", "I look.", calls, reasoning=stored(*SENT)),
        )
        assert made[1] == model(
            "I look.", *(call(known.name, json.loads(known.arguments)) for known in calls)
        )


@pytest.mark.parametrize("metadata", [{}, {"parts": None}, {"parts": 1}, {"parts": [None, 1]}])
def test_odd_metadata_is_no_metadata(metadata: dict[str, Any]) -> None:
    reasoning = StoredReasoning("", "gemini", metadata)
    made = contents(
        RequestMessage("user", "q"), RequestMessage("assistant", "a", reasoning=reasoning)
    )
    assert made[1] == model("a")


def test_a_call_of_another_provider_gets_the_value_that_skips_the_check() -> None:
    messages = (RequestMessage("user", "q"), RequestMessage("assistant", "", CALLS))
    for name, signature in (("gemini-3-flash", NO_SIGNATURE), ("gemini-2.5-flash", None)):
        [_, sent, _] = body(*messages, model=name)["contents"]
        signatures = [part.get("thoughtSignature") for part in sent["parts"]]
        # The first call alone: those beside it carry none.
        assert signatures == [signature, None]


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"maxOutputTokens": 5000}, 5000),
        ({"maxOutputTokens": 0}, 1024),
        ({"maxOutputTokens": True}, 1024),
        ({"topK": 3}, 1024),
        (5, 1024),
    ],
)
def test_the_budget_knows_the_limit_in_the_extra_body(config: Any, limit: int) -> None:
    preset = Preset(provider="gemini", model="m", extra_body={"generationConfig": config})
    assert reply_limit(preset) == limit


def test_signatures_go_to_the_server_that_made_them_alone() -> None:
    here = Preset(provider="gemini", model="m")
    there = Preset(provider="gemini", model="m", endpoint="https://proxy.example")
    assert reasoning_source(here) == "gemini"
    assert goes_back(stored(*SENT), here)
    assert not goes_back(stored(*SENT), there)
    assert not goes_back(StoredReasoning("thoughts", "gemini", {}), here)


MESSAGES = st.lists(
    st.builds(
        RequestMessage,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=st.sampled_from(["", "a", "I look."]),
        tool_calls=st.sampled_from(
            [(), (), CALLS, CALLS[:1], (ToolCall("1", "", "["), ToolCall("1", "f", "{}"))]
        ),
        tool_call_id=st.sampled_from(["1", "x1", "x2", None]),
        reasoning=st.sampled_from([None, stored(*SENT), stored(*SENT[:2]), stored({"a": 1})]),
    ),
    max_size=12,
)


@given(MESSAGES, st.sampled_from(["gemini-2.0-flash", "gemini-3-pro"]))
def test_any_conversation_makes_a_request_that_the_server_takes(
    messages: list[RequestMessage], name: str
) -> None:
    # Only an assistant's message has calls.
    messages = [
        message
        if message.role == "assistant"
        else RequestMessage(message.role, message.content, tool_call_id=message.tool_call_id)
        for message in messages
    ]
    made = body(*messages, model=name)["contents"] if messages else contents()
    assert made[0]["role"] == made[-1]["role"] == "user"
    for at, content in enumerate(made):
        parts = content["parts"]
        assert parts
        for part in parts:
            assert part.get("text") != "" or "thoughtSignature" in part
        responses = [p["functionResponse"] for p in parts if "functionResponse" in p]
        assert len(responses) in {0, len(parts)}
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [p.get("functionResponse") for p in made[at + 1]["parts"]] if calls else []
        assert [(a["name"], a.get("id")) for a in answers] == [
            (c["name"], c.get("id")) for c in calls
        ]
        assert all(known["name"] and isinstance(known["args"], dict) for known in calls)
        if responses:
            assert any("functionCall" in part for part in made[at - 1]["parts"])
        elif at:
            before = made[at - 1]
            alone = "functionResponse" in before["parts"][0]
            assert before["role"] != content["role"] or alone
        if calls and name == "gemini-3-pro":
            first = next(part for part in parts if "functionCall" in part)
            assert first["thoughtSignature"]
    json.loads(json.dumps(made, allow_nan=False))


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", "https://generativelanguage.googleapis.com/v1beta/models/m:go?alt=sse"),
        ("https://g.example", "https://g.example/v1beta/models/m:go?alt=sse"),
        ("https://g.example/", "https://g.example/v1beta/models/m:go?alt=sse"),
        ("https://g.example/v1", "https://g.example/v1/models/m:go?alt=sse"),
        ("https://g.example/v1beta/models/", "https://g.example/v1beta/models/m:go?alt=sse"),
        ("https://g.example/v1?a=b", "https://g.example/v1/models/m:go?a=b&alt=sse"),
        (CLOUD, f"{CLOUD}/models/m:go?alt=sse"),
        (
            "https://aiplatform.googleapis.com/v1/publishers/google/models",
            "https://aiplatform.googleapis.com/v1/publishers/google/models/m:go?alt=sse",
        ),
    ],
)
def test_the_address_of_a_method(endpoint: str, url: str) -> None:
    for name in ("m", " models/m"):
        preset = Preset(provider="gemini", endpoint=endpoint, model=name)
        assert method_url(preset, "go", "alt=sse") == url


def test_a_name_cannot_leave_its_place_in_the_address() -> None:
    preset = Preset(provider="gemini", model="gemini/m:x?y#z")
    assert re.search(r"/models/gemini/m%3Ax%3Fy%23z:go$", method_url(preset, "go"))


@pytest.mark.parametrize("name", ["", " ", "models/"])
def test_a_preset_must_name_its_model(name: str) -> None:
    with pytest.raises(InvalidArgument, match="Set `model`") as caught:
        method_url(Preset(name="g", provider="gemini", model=name), "go")
    assert caught.value.data["path"] == "model"


def count_body(request: ModelRequest) -> dict[str, Any]:
    """Return what the model's server is asked to count."""
    return GeminiModel(HttpClient(), {})._count_body(request, request.preset.model)


def test_what_is_counted_is_the_whole_input() -> None:
    preset = Preset(provider="gemini", model="models/gemini-3-pro", temperature=1.0)
    counted = count_body(ModelRequest(preset, QUESTION, (TOOL,)))["generateContentRequest"]
    assert counted.pop("model") == "models/gemini-3-pro"
    made = request_body(ModelRequest(preset, QUESTION, (TOOL,)))
    del made["generationConfig"]
    assert counted == made


def test_google_cloud_counts_without_the_wrapping() -> None:
    preset = Preset(provider="gemini", model="gemini-3-pro", endpoint=CLOUD)
    assert count_body(ModelRequest(preset, QUESTION)).keys() == {"contents", "systemInstruction"}
