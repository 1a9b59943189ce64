"""Calls that a model wrote into its text, as servers without a parser for them pass them on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.models.request import Finish, ModelEvent, Text, ToolCall, ToolSchema
from aish_lsp.models.written_calls import WrittenCalls

READ = ToolSchema(
    "read_file",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}, "first": {"type": "integer"}}},
)
CALL = '{"name": "read_file", "arguments": {"path": "a.py", "first": 2}}'
MEANT = [("read_file", {"path": "a.py", "first": 2})]

#: Each way to write the call: Hermes and Qwen, Mistral, Llama, Granite, Qwen's coders, bare.
WRITTEN = (
    f"<tool_call>\n{CALL}\n</tool_call>",
    f"<tool_call>{CALL}",
    f"[TOOL_CALLS][{CALL}]",
    f"[TOOL_CALLS] {CALL}",
    f"<|python_tag|>{CALL.replace('arguments', 'parameters')}<|eom_id|>",
    f"<|python_start|>{CALL.replace('arguments', 'parameters')}<|python_end|>",
    f"<|tool_call|>[{CALL}]",
    (
        "<tool_call>\n<function=read_file>\n<parameter=path>\na.py\n</parameter>\n"
        "<parameter=first>\n2\n</parameter>\n</function>\n</tool_call>"
    ),
    CALL,
    f"[{CALL}]",
    f"\n```json\n{CALL}\n```\n",
    f'{{"type": "function", "function": {CALL}}}',
    '{"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\", \\"first\\": 2}"}',
)

#: What only looks like it.
TEXTS = (
    "Plain text.",
    f"You would write `<tool_call>{CALL}</tool_call>`.",
    f"It begins so: {CALL}",
    '{"name": "my-package", "version": "1.0.0", "scripts": {"test": "node --test"}}',
    '```json\n{"name": "read", "arguments": 7}\n```\nThat is all.',
    "<tool_call>\nThis is how a call begins, and nothing more comes of it. " + "x" * 300,
    '<tool_call>{"name": "read_file", "arguments": {"path": "a.p',
    "[1, 2, 3]\nThese are the numbers.",
    "[TOOL_CALLS]",
    "<tool",
    "<",
    "{",
    "`",
    "",
    "a < b\n< c\n[TOOL",
)


def said(*pieces: str, tools: tuple[ToolSchema, ...] = (READ,)) -> tuple[str, list[Any], str]:
    """Return the text, the calls and the finish of a reply that arrives in pieces."""
    written = WrittenCalls(tools)
    events: list[ModelEvent] = []
    for piece in pieces:
        events += written.read([Text(piece)])
    events += written.end([Finish("stop")])
    calls = [(one.name, json.loads(one.arguments)) for one in events if isinstance(one, ToolCall)]
    assert isinstance(events[-1], Finish)
    return "".join(one.delta for one in events if isinstance(one, Text)), calls, events[-1].reason


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("before", ["", "I look at it.\n\n"])
def test_written_call_in_pieces_of_any_size_is_made(text: str, before: str) -> None:
    if before and text.lstrip("`\njson").startswith(("{", "[{")):
        assert said(before + text) == (before + text, [], "stop")
        return
    for size in (1, 3, 1000):
        whole = before + text
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert said(*pieces) == (before, MEANT, "tool")


def test_written_calls_two_in_a_row_are_both_made() -> None:
    text = f"<tool_call>\n{CALL}\n</tool_call>\n" * 2
    assert said(text) == ("", MEANT * 2, "tool")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_written_call_in_a_block_of_code_is_a_quotation(size: int) -> None:
    quoted = f"The file says:\n\n> ````md\n```\n\n{WRITTEN[0]}\n```\n"
    block = f"  ```\n{WRITTEN[0]}\n  ```\n"
    for text, calls in ((quoted, []), (f"So:\n{block}", []), (f"{block}\n{WRITTEN[0]}", MEANT)):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert said(*pieces)[1] == calls


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"{WRITTEN[0]}\nThen run:\n```bash\nls\n```", "Then run:\n```bash\nls\n```"),
        (f"```json\n{CALL}\n```\n```bash\nls\n```\n", "```bash\nls\n```"),
        (f"{WRITTEN[0]}\nas in [1]", "as in [1]"),
    ],
)
def test_text_beside_a_written_call_keeps_its_blocks_and_brackets(text: str, rest: str) -> None:
    assert said(text) == (rest, MEANT, "tool")
    assert said(*text) == (rest, MEANT, "tool")


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read_file"' + "{" * 300_000,
        '<tool_call>{"name": "read_file", "a": ' + '{"a": ' * 100_000,
        "<tool_call>" + "<function=read_file>" * 30_000,
        "<tool_call><function=read_file>" + "<parameter=a>" * 40_000 + "</function>",
        "<tool_call><function=read_file>\n<parameter=path>\na\n</function>",
    ],
)
def test_text_of_many_beginnings_of_calls_is_soon_known_to_be_no_call(text: str) -> None:
    # Hours, if each of them were looked at to the end.
    assert said(text) == (text, [], "stop")


def test_blanks_without_end_are_not_held_back() -> None:
    written = WrittenCalls((READ,))
    assert [*written.read([Text("\n")] * 400)]
    assert list(written.read([Text(CALL)])) == []
    assert any(isinstance(one, ToolCall) for one in written.end([Finish("stop")]))


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_no_call_passes_unchanged(text: str) -> None:
    assert said(*text) == (text, [], "stop")
    assert said(text) == (text, [], "stop")


def test_written_call_of_another_tool_or_with_no_tools_is_text() -> None:
    other = CALL.replace("read_file", "rm_file")
    assert said(f"<tool_call>{other}</tool_call>")[1] == []
    assert said(*WRITTEN[0], tools=()) == (WRITTEN[0], [], "stop")


def test_text_of_a_name_that_is_no_tool_does_not_wait_for_the_end() -> None:
    written = WrittenCalls((READ,))
    begun = '{"name": "my-package", '
    assert list(written.read([Text(begun)])) == [Text(begun)]
    assert list(written.read([Text("more")])) == [Text("more")]


def test_written_call_beside_a_parsed_one_is_text() -> None:
    written = WrittenCalls((READ,))
    assert list(written.read([Text(WRITTEN[0])])) == []
    parsed = ToolCall("1", "read_file", "{}")
    assert list(written.end([parsed, Finish("tool")])) == [Text(WRITTEN[0]), parsed, Finish("tool")]


@given(st.lists(st.sampled_from(["<tool_call>", CALL, "\n", "{", "[", "```json", "x", " ", '"'])))
def test_text_passes_in_its_order_and_nothing_is_lost(pieces: list[str]) -> None:
    text, calls, _ = said(*pieces)
    if not calls:
        assert text == "".join(pieces)
    assert said("".join(pieces))[:2] == (text, calls)
