"""What servers list as tools: each shape is taken as it is meant, or left out alone."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.tools.listing import Unfit, checked_tools, fit_schema

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jsonschema") is None,
    reason="the SDK of tool servers is not installed",
)

TEXT = {"type": "string"}
EMPTY = {"type": "object", "properties": {}}


def with_text(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"text": TEXT}, **more}


@pytest.mark.parametrize(
    ("schema", "fit"),
    [
        (None, EMPTY),
        ({}, EMPTY),
        ([], EMPTY),
        ({"type": "object"}, EMPTY),
        ({"type": "object", "properties": None, "required": None}, EMPTY),
        ({"type": "object", "properties": []}, EMPTY),
        ({"properties": {"text": TEXT}}, with_text()),
        (with_text(type=["object", "null"]), with_text()),
        (with_text(required=True), with_text()),
        (with_text(required="text"), with_text(required=["text"])),
        (
            {"type": "object", "properties": {"text": TEXT, "required": ["text"]}},
            with_text(required=["text"]),
        ),
        ({"type": "object", "properties": {"text": "string"}}, with_text()),
        (
            {"type": "object", "properties": {"n": {"type": "array"}}},
            {"type": "object", "properties": {"n": {"type": "array", "items": {}}}},
        ),
        (with_text(required=["text", "text", "gone", 7]), with_text(required=["text"])),
        (
            {"type": "object", "properties": {"text": {**TEXT, "required": True}}},
            with_text(required=["text"]),
        ),
        ({"type": "object", "properties": {"text": None}}, {**EMPTY, "properties": {"text": {}}}),
        (
            {"type": "object", "properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}},
            {"type": "object", "properties": {"n": {"exclusiveMinimum": 0}}},
        ),
        (
            {"type": "object", "properties": {"n": {"items": [TEXT, TEXT], "type": "array"}}},
            {"type": "object", "properties": {"n": {"prefixItems": [TEXT, TEXT], "type": "array"}}},
        ),
        ({"anyOf": [with_text(), {"type": "null"}]}, with_text()),
        ({"allOf": [with_text(required=["text"])]}, with_text(required=["text"])),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": with_text()}},
            {**with_text(), "$defs": {"a": with_text()}},
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}, "b": {"$ref": "#"}}},
            {"type": "object", "properties": {"a": {}, "b": {"$ref": "#"}}},
        ),
        ({**with_text(), "not": {"required": ["text"]}, "enum": [{}]}, with_text()),
    ],
)
def test_an_odd_schema_is_taken_as_it_is_meant(schema: Any, fit: Any) -> None:
    assert fit_schema(schema) == fit


def test_alternatives_at_the_root_are_all_allowed() -> None:
    by_name = {"type": "object", "properties": {"kind": {"const": "name"}, "name": TEXT}}
    by_id = {"type": "object", "properties": {"kind": {"const": "id"}, "id": {"type": "integer"}}}
    schema = fit_schema(
        {
            "oneOf": [
                {**by_name, "required": ["kind", "name"]},
                {**by_id, "required": ["kind", "id"]},
            ]
        }
    )
    assert schema == {
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"const": "name"}, {"const": "id"}]},
            "name": TEXT,
            "id": {"type": "integer"},
        },
        "required": ["kind"],
        "description": "Needed: kind, name; or kind, id.",
    }


def test_alternatives_of_what_is_required_are_told() -> None:
    schema = fit_schema(with_text(anyOf=[{"required": ["text"]}, {"required": ["other"]}]))
    assert schema == with_text(description="Needed: text; or other.")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("none", "its schema is not an object"),
        (7, "its schema is not an object"),
        ({"type": "array", "items": TEXT}, "its arguments are not an object"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "its arguments are not an object"),
        ({"$ref": "#/$defs/gone"}, "which it does not have"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "which it does not have"),
        ({"$ref": "https://example.org/schema"}, "which it does not have"),
        ({"properties": {"a": {"type": "no"}}}, "its schema is not valid"),
    ],
)
def test_what_no_model_could_use_is_unfit(schema: Any, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        fit_schema(schema)


def test_references_that_multiply_are_unfit() -> None:
    names = [f"d{number}" for number in range(30)]
    defs = {
        name: {"anyOf": [{"$ref": f"#/$defs/{after}"}] * 2}
        for name, after in zip(names, [*names[1:], "end"], strict=True)
    }
    with pytest.raises(Unfit):
        fit_schema({"$ref": "#/$defs/d0", "$defs": {**defs, "end": with_text()}})


#: Schemas as they should be: nothing of theirs may change.
_KINDS = st.recursive(
    st.sampled_from(
        [
            TEXT,
            {"type": ["string", "null"]},
            {"enum": [None, 1]},
            {"const": None},
            {"default": None},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda named: {
                "type": "object",
                "properties": named,
                "required": sorted(named),
                "additionalProperties": False,
            },
            st.dictionaries(
                st.sampled_from(["a", "required", "properties", "items"]), inner, min_size=1
            ),
        ),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "type", "anyOf"]), _KINDS, min_size=1))
def test_a_schema_as_it_should_be_is_not_changed(properties: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    assert fit_schema(schema) == schema


LISTED = [
    {"name": "good", "description": "Good.", "inputSchema": with_text()},
    {"name": "bare"},
    {"name": "icons", "inputSchema": {}, "icons": "star.png", "annotations": [], "title": 7},
    {"name": "hints", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}},
    {"name": "reads", "inputSchema": {}, "annotations": {"readOnlyHint": True, "extra": 1}},
    {"name": "output", "inputSchema": {}, "outputSchema": "wrong"},
    {"name": "list", "inputSchema": {"type": "array"}},
    {"name": "task", "inputSchema": {}, "execution": {"taskSupport": "required"}},
    {"name": ""},
    {"name": 7},
    {},
    "text",
    None,
    {"name": "good"},
]


def test_each_listed_tool_is_judged_alone() -> None:
    tools, left_out = checked_tools("s", LISTED)
    assert [tool.name for tool in tools] == ["good", "bare", "icons", "hints", "reads", "output"]
    assert [tool.name for tool in tools if tool.reads] == ["reads"]
    assert all(tool.schema.parameters["type"] == "object" for tool in tools)
    assert left_out == [
        "list: its arguments are not an object",
        "task: it can only be called as a task, which aish does not do",
        *(f"number {number}: it has no name" for number in (9, 10, 11)),
        *(f"number {number}: it is not an object" for number in (12, 13)),
        "good: another one has the same name",
    ]


@pytest.mark.parametrize(
    "key", ["description", "inputSchema", "outputSchema", "annotations", "title"]
)
def test_whatever_a_server_says_of_a_tool_is_in_its_pin(key: str) -> None:
    before, after = (
        checked_tools("s", [{"name": "t", "inputSchema": {}, key: {"b": text}}])[0][0]
        for text in ("one", "other")
    )
    assert before.pin != after.pin
    assert json.dumps("one") in before.definition


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"description": 5, "anyOf": [{"description": "one"}]}, ""),
        ({"allOf": [{"description": ["x"], "title": {}}], "description": "y"}, ""),
        (
            {"$ref": f"#/anyOf/{'9' * 5000}", "anyOf": [{}]},
            "odd: its definition cannot be understood",
        ),
    ],
)
def test_one_odd_schema_does_not_spoil_the_other_tools(schema: Any, reason: str) -> None:
    listed = [{"name": "odd", "inputSchema": schema}, {"name": "good", "inputSchema": {}}]
    tools, left_out = checked_tools("s", listed)
    assert [tool.name for tool in tools] == (["good"] if reason else ["odd", "good"])
    assert left_out == ([reason] if reason else [])
