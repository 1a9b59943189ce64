"""What a chat template adds, learned from templates of every kind. A token is a byte here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.models.request import TemplateOverhead
from aish_lsp.models.tokenizer import LLAMA_CPP, Post, measure_overhead

Messages: TypeAlias = list[dict[str, Any]]
Template: TypeAlias = Callable[[Messages], str]

#: What llama.cpp says of a template's own refusal, and what other versions of it say.
REFUSALS = [BackendRejected("refused", status=400), BackendUnavailable("failed", status=500)]


def llama(template: Template, refusal: AishError = REFUSALS[0]) -> Post:
    """Return a llama.cpp server with ``template``, which raises ValueError for what it refuses."""

    async def post(path: str, body: Mapping[str, Any]) -> Any:
        if path == "tokenize":
            first = [1] if body.get("add_special") else []
            return {"tokens": first + list(body["content"].encode())}
        try:
            return {"prompt": template(body["messages"])}
        except ValueError:
            raise refusal from None

    return post


def learn(post: Post) -> TemplateOverhead | None:
    return asyncio.run(measure_overhead(LLAMA_CPP, post, {}))


def texts_of(message: Mapping[str, Any]) -> Iterable[str]:
    yield message["content"]
    for call in message.get("tool_calls", ()):
        yield call["function"]["name"]
        yield call["function"]["arguments"]


def estimate(overhead: TemplateOverhead | None, messages: Messages) -> int:
    assert overhead is not None
    tokens = overhead.request
    for message in messages:
        tokens += getattr(overhead, message["role"])
        tokens += overhead.call * len(message.get("tool_calls", ()))
        tokens += sum(len(text.encode()) for text in texts_of(message))
    return tokens


def truth(template: Template, messages: Messages) -> int:
    return 1 + len(template(messages).encode())


def conversation(questions: int) -> Messages:
    messages = [{"role": "system", "content": "What the system says, at some length."}]
    for number in range(questions):
        if number:
            messages.append({"role": "assistant", "content": f"Reply {number}."})
        messages.append({"role": "user", "content": f"Question {number}?"})
    return messages


def with_calls(calls: int, arguments: str = '{"text": 5}') -> Messages:
    messages = conversation(1)
    function = {"name": "count", "arguments": arguments}
    for number in range(calls):
        call = {"id": "123456789", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": f"Result {number}", "tool_call_id": "123456789"},
        ]
    return messages


def chatml(messages: Messages) -> str:
    body = "".join(f"<|{m['role']}|>{m['content']}<|end|>\n" for m in messages)
    return f"{body}<|assistant|>"


def trimming(messages: Messages) -> str:
    parts = [f"<{m['role']}>\n\n{m['content'].strip()}<eot>" for m in messages]
    return "Today is Monday." + "".join(parts) + "<assistant>\n\n"


def folding(messages: Messages) -> str:
    """Put the system message into the first question, as Llama 2 does; take turns in order only."""
    system, *others = messages
    roles = [message["role"] for message in others]
    if not roles or roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        raise ValueError
    first, *later = (message["content"] for message in others)
    pieces = [f"[INST]<<SYS>>{system['content']}<</SYS>>{first}[/INST]"]
    for number, text in enumerate(later):
        pieces.append(f"[INST]{text}[/INST]" if number % 2 else f"{text}</s><s>")
    return "".join(pieces)


def dropping(messages: Messages) -> str:
    return chatml([message for message in messages if message["role"] != "system"])


def calling(messages: Messages) -> str:
    pieces = []
    for message in messages:
        calls = "".join(
            f'<call>{{"name": "{call["function"]["name"]}", '
            f'"arguments": {call["function"]["arguments"]}}}</call>'
            for call in message.get("tool_calls", ())
        )
        pieces.append(f"<{message['role']}>{message['content']}{calls}</>")
    return "".join(pieces) + "<assistant>"


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("template", [chatml, trimming, folding, calling])
def test_the_sum_is_what_the_server_makes_of_it(template: Template, refusal: AishError) -> None:
    overhead = learn(llama(template, refusal))
    for questions in (1, 2, 7, 30):
        messages = conversation(questions)
        assert estimate(overhead, messages) == truth(template, messages)


AROUND = st.text("<|>ab \n", max_size=30)


@given(st.tuples(AROUND, AROUND), *[st.tuples(AROUND, AROUND)] * 3, st.booleans())
def test_the_sum_is_exact_for_whatever_surrounds_the_messages(
    whole: tuple[str, str],
    system: tuple[str, str],
    user: tuple[str, str],
    assistant: tuple[str, str],
    strict: bool,
) -> None:
    around = {"system": system, "user": user, "assistant": assistant}

    def template(messages: Messages) -> str:
        roles = [message["role"] for message in messages]
        if "tool" in roles or (strict and "user" not in roles):
            raise ValueError
        parts = (message["content"].join(around[message["role"]]) for message in messages)
        return "".join(parts).join(whole)

    overhead = learn(llama(template))
    assert overhead is not None
    assert min(astuple(overhead)) >= 0
    for questions in (1, 2, 5):
        messages = conversation(questions)
        assert estimate(overhead, messages) == truth(template, messages)


def test_the_parts_by_role() -> None:
    # The heads are as long as the roles' names; the system's part is taken to be the user's.
    user, assistant = len("<|user|><|end|>\n"), len("<|assistant|><|end|>\n")
    request = 1 + len("<|assistant|>") + len("system") - len("user")
    assert learn(llama(chatml)) == TemplateOverhead(
        request=request, system=user, user=user, assistant=assistant, tool=user, call=0
    )


@pytest.mark.parametrize("calls", [1, 2, 9])
def test_tool_calls_and_their_results(calls: int) -> None:
    overhead = learn(llama(calling))
    messages = with_calls(calls)
    assert estimate(overhead, messages) == truth(calling, messages)


@pytest.mark.parametrize("arguments", ["{}", json.dumps({"path": "x" * 200})])
def test_calls_that_the_template_drops_are_not_counted_too_low(arguments: str) -> None:
    overhead = learn(llama(chatml))
    messages = with_calls(3, arguments)
    assert estimate(overhead, messages) >= truth(chatml, messages)


def test_a_call_has_its_price_where_the_template_takes_none() -> None:
    overhead = learn(llama(folding))
    assert overhead is not None
    assert overhead.call > 0
    assert overhead.tool == overhead.user


def test_what_a_template_drops_makes_no_negative_number() -> None:
    overhead = learn(llama(dropping))
    assert overhead is not None
    assert min(astuple(overhead)) >= 0
    messages = conversation(3)
    assert estimate(overhead, messages) >= truth(dropping, messages)


def refusing(messages: Messages) -> str:
    raise ValueError


def only_questions(messages: Messages) -> str:
    if len(messages) > 2:
        raise ValueError
    return chatml(messages)


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("template", [refusing, only_questions])
def test_without_a_dialog_nothing_is_known(template: Template, refusal: AishError) -> None:
    assert learn(llama(template, refusal)) is None


def test_an_absurd_template_is_not_believed() -> None:
    assert learn(llama(lambda messages: chatml(messages) + "x" * 100_000)) is None


def test_who_is_busy_may_tell_later() -> None:
    post = llama(refusing, BackendUnavailable("busy", status=503))
    with pytest.raises(ExceptionGroup) as caught:
        learn(post)
    assert caught.group_contains(BackendUnavailable)
