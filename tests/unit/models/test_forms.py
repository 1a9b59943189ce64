"""Forms of a conversation, for servers and templates that do not take every conversation."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import AishError
from aish_lsp.models import forms
from aish_lsp.models.faults import redactor, refusal
from aish_lsp.models.http import HttpClient
from aish_lsp.models.providers.openai import OpenAIModel, request_body
from aish_lsp.models.request import (
    ModelRequest,
    RequestMessage,
    StoredReasoning,
    ToolCall,
    WithoutPart,
)


def refused(words: str, status: int = 400) -> AishError:
    body = json.dumps({"error": {"message": words}}).encode()
    return refusal("https://api.example/v1/chat/completions", status, {}, body, redactor({}))


TALK = (
    RequestMessage("system", "Be short."),
    RequestMessage("user", "Hello."),
    RequestMessage("assistant", "Yes?"),
    RequestMessage("user", "Read a."),
    RequestMessage(
        "assistant",
        "",
        (ToolCall("call_1", "read", "{}"), ToolCall("call_2", "read", "{}", {"h": {"x": "X"}})),
        reasoning=StoredReasoning("hm", "h", {"reasoning_field": "reasoning"}),
    ),
    RequestMessage("tool", "text", tool_call_id="call_1"),
    RequestMessage("tool", "", tool_call_id="call_2"),
    RequestMessage("user", "And b?"),
)
REQUEST = ModelRequest(Preset(name="m", endpoint="http://h"), TALK)
PLAIN = replace(REQUEST, messages=TALK[1:2])

#: What servers and templates say, as reports quote it, and the form that is tried first.
SAID = {
    "reasoning on every reply": [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Missing `reasoning_content` field in the assistant message at message index 2.",
        "The `content[].thinking` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message",
    ],
    "short ids": [
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Tool call IDs should be alphanumeric strings with length 9!",
    ],
    "no empty text": [
        "Invalid request: the message at position 8 with role 'assistant' must not be empty",
        "Invalid request: text content is empty",
        "messages.0: all messages must have non-empty content except for the final one",
        "The text field in the ContentBlock object at messages.2.content.0 is blank.",
        "Assistant message must have either content or tool_calls, but not none.",
    ],
    "a reply after each result": [
        "Unexpected role 'user' after role 'tool'",
        "After the optional system message, conversation roles must alternate user/assistant/...",
    ],
    "system in the first question": [
        "System role not supported",
        "Only user and assistant roles are supported!",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Unsupported parameter: 'instructions'",
        "system: Extra inputs are not permitted",
        "This model does not support system messages.",
    ],
    "one call at a time": ["This model only supports single tool-calls at once!"],
    "signed calls": [
        "Function call is missing a thought_signature in functionCall parts.",
        "Function call `default_api:read_file` in block 4. is missing a thought_signature.",
    ],
    "no reasoning": [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.3.content.13: Invalid signature in thinking block",
        "Extra inputs are not permitted, field: 'messages[8].reasoning', value: 'Now I need'",
        "body.messages.2.assistant.reasoning_content: Extra inputs are not permitted",
        "property 'messages.3.assistant.reasoning_content' is unsupported",
        "messages.65.content.1.tool_use.text: Extra inputs are not permitted",
        "messages.2.provider_specific_fields: Extra inputs are not permitted",
        "Item with id 'rs_68' not found. Items are not persisted when `store` is set to false.",
        "Cannot pass both content and thinking in an assistant message with tool calls!",
        "body -> input -> list[union[ItemReference,ResponseReasoningItem]] -> 3 -> id required",
    ],
    "calls as text": [
        "messages.3: unexpected `tool_use_id` found in `tool_result` blocks",
        "Unexpected role 'tool' after role 'user'",
        "Item 'fc_1' of type 'function_call' was provided without its required item.",
        "No tool output found for function call call_1.",
    ],
    "": ["No idea.", "The temperature must be between 0 and 2."],
}


def first_form(error: AishError, request: ModelRequest, *known: str) -> str:
    """Return the form in which the request is sent once more; empty if it is not."""
    model = OpenAIModel(HttpClient(), {})
    form = model._form(request.preset, "m")
    form.conversation += known
    try:
        model._learn_form(error, request, "m", model._formed_body(request, "m"))
    except WithoutPart:
        return form.conversation[-1]
    return ""


@pytest.mark.parametrize(("form", "words"), [(f, words) for f in SAID for words in SAID[f]])
def test_a_form_is_asked_for(form: str, words: str) -> None:
    error = refused(words)
    assert first_form(error, REQUEST) == form
    # No form is tried twice, nor one that would change nothing.
    assert first_form(error, REQUEST, form) != form or not form
    assert first_form(error, PLAIN) == ""
    # OpenAI says with 404 that it did not find an item.
    assert first_form(refused(words, 404), REQUEST) == form
    assert first_form(refused(words, 429), REQUEST) == ""


def test_what_does_not_help_is_forgotten() -> None:
    model = OpenAIModel(HttpClient(), {})
    form = model._form(REQUEST.preset, "m")

    def learn(words: str) -> bool:
        try:
            model._learn_form(refused(words), REQUEST, "m", model._formed_body(REQUEST, "m"))
        except WithoutPart:
            return True
        return False

    assert learn("System role not supported")
    form.accept()
    assert learn("This model only supports single tool-calls at once!")
    assert learn("Tool call IDs should have a length of 9!")
    assert not learn("No.")
    assert form.conversation == ["system in the first question"]


def formed(*names: str) -> list[RequestMessage]:
    return list(forms.reformed(REQUEST, names, "h", "h").messages)


def test_forms_change_the_conversation_and_nothing_else() -> None:
    assert formed() == list(TALK)
    first, *others = formed("system in the first question")
    assert first == RequestMessage("user", "Be short.\n\nHello.")
    assert others == list(TALK[2:])
    [call, _] = formed("short ids")[4].tool_calls
    assert re.fullmatch("[a-z0-9]{9}", call.id)
    assert formed("short ids")[5].tool_call_id == call.id
    assert [m.content for m in formed("no empty text")][4:7] == ["[empty]", "text", "[empty]"]
    text = formed("calls as text", "system in the first question")
    assert [message.role for message in text] == ["user", "assistant"] * 2 + ["user"]
    assert not any(message.tool_calls or message.tool_call_id for message in text)
    assert "text" in text[4].content


def test_all_as_one_question() -> None:
    system, question = formed("one question")
    assert system == TALK[0]
    assert question.role == "user"
    parts = ("[user]\nHello.", "[you]\nYes?", "called read with {}", "[result of a tool]\ntext")
    at = [question.content.index(part) for part in parts]
    assert at == sorted(at)
    assert question.content.endswith("[user]\nAnd b?")
    assert forms.reformed(PLAIN, ["one question"], "h", "h") == PLAIN


def test_a_reply_between_a_result_and_a_question() -> None:
    roles = [message.role for message in formed("a reply after each result")]
    assert roles[4:] == ["assistant", "tool", "tool", "assistant", "user"]
    assert roles[:4] == [message.role for message in TALK[:4]]


def test_each_call_as_a_reply_of_its_own_is_followed_by_its_result() -> None:
    messages = formed("one call at a time")
    assert [(m.role, [c.id for c in m.tool_calls], m.tool_call_id) for m in messages[4:]] == [
        ("assistant", ["call_1"], None),
        ("tool", [], "call_1"),
        ("assistant", ["call_2"], None),
        ("tool", [], "call_2"),
        ("user", [], None),
    ]
    assert messages[4].reasoning == TALK[4].reasoning
    assert messages[6].reasoning is None
    assert messages[:4] == list(TALK[:4])


def test_each_call_as_a_reply_of_its_own_says_that_a_result_is_missing() -> None:
    talk = [one for one in TALK if one.tool_call_id != "call_2"]
    request = ModelRequest(Preset(), tuple(talk))
    messages = forms.reformed(request, ["one call at a time"], "h", "h").messages
    assert (messages[7].tool_call_id, messages[7].content) == ("call_2", "There is no result.")


def test_reasoning_and_signatures() -> None:
    replies = [m for m in formed("reasoning on every reply") if m.role == "assistant"]
    assert [reply.reasoning and reply.reasoning.text for reply in replies] == [" ", "hm"]
    unsigned, own = formed("signed calls")[4].tool_calls
    assert unsigned.extra == {"h": forms.UNSIGNED}
    assert own == TALK[4].tool_calls[1]
    reply = formed("no reasoning")[4]
    assert reply.reasoning is None
    assert not any(call.extra for call in reply.tool_calls)
    # What is no signature of the server's is replaced.
    [first, second] = formed("no reasoning", "signed calls")[4].tool_calls
    assert first.extra == second.extra == {"h": forms.UNSIGNED}


def test_the_field_that_is_named_is_the_one_in_which_reasoning_goes_back() -> None:
    body = request_body(forms.reformed(REQUEST, ["reasoning on every reply"], "h", "h"), "m")
    replies = [message for message in body["messages"] if message["role"] == "assistant"]
    assert [reply["reasoning_content"] for reply in replies] == [" ", "hm"]


def test_each_form_that_is_asked_for_can_be_made() -> None:
    assert {name for name, _, _ in forms._forms()} == set(forms._MADE)
