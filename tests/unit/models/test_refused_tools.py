"""What model servers say against the tools that they were offered, in their own words."""

from __future__ import annotations

import pytest

from aish_lsp.models.refusals import limit_in, named_in

NAMES = ["read_file", "search", "s__look", "s__look_up", "s__change"]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        # OpenAI
        ("Invalid schema for function 's__look': In context=(), 'required' is required", "s__look"),
        (
            "tools[3].function.parameters Invalid schema: object schema missing properties",
            "s__look_up",
        ),
        # Anthropic
        ("tools.4.custom.input_schema: JSON schema is invalid", "s__change"),
        ("tools.2.custom.input_schema.type: Field required", "s__look"),
        # Gemini
        (
            (
                "* GenerateContentRequest.tools[0].function_declarations[3].parameters"
                ".properties[a].items: missing field."
            ),
            "s__look_up",
        ),
        # Others
        ("Invalid JSON schema for tool s__look_up: unresolvable $ref", "s__look_up"),
        ("schema of function: s__change is not valid", "s__change"),
        ("Failed to compile the grammar of tool `s__look`", "s__look"),
        # Not about a definition, or about none of ours.
        ("Invalid arguments for tool 's__look' in messages[3].tool_calls[0]", ""),
        ("The function call `s__look` in the 4. content block is missing a thought_signature.", ""),
        ("Invalid schema for function 'other': not an object", ""),
        ("temperature is not supported", ""),
        ("What does search mean?", ""),
        ("tools.99.custom.input_schema: invalid", ""),
    ],
)
def test_the_tool_that_a_refusal_is_about_is_the_one_it_names(said: str, name: str) -> None:
    assert named_in(said, NAMES) == name


@pytest.mark.parametrize(
    ("said", "most"),
    [
        (
            (
                "Invalid 'tools': array too long. Expected an array with maximum length 128,"
                " but got an array with length 200 instead."
            ),
            128,
        ),
        ("Maximum tools limit reached. Expected a maximum of 64 tools.", 64),
        ("Cannot have more than 100 tools per request.", 100),
        ("too many functions: at most 16 are supported", 16),
        ("tools: maximum number of items is 500", None),
        ("Invalid schema for function 'x': maxLength 10", None),
        ("This model's maximum context length is 100 tokens", None),
        ("the tools are wrong", None),
    ],
)
def test_the_most_tools_that_a_server_takes_are_what_it_names(said: str, most: int | None) -> None:
    assert limit_in(said, 200) == most
