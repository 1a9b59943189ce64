from __future__ import annotations

import dataclasses
import json
import typing

import pytest

from aish_lsp.agent import events
from aish_lsp.agent.events import (
    Command,
    CommandInfo,
    End,
    Event,
    Notice,
    Output,
    Reasoning,
    Route,
    Start,
    Step,
    Text,
    Tool,
    Usage,
)
from aish_lsp.foundation.events import camel_case, to_wire

#: Each event with the object that protocol.md promises.
EVENTS: list[tuple[Event, dict[str, object]]] = [
    (
        Start("t1", "local", Route("shell", "short"), 412, 3072),
        {
            "kind": "start",
            "turnId": "t1",
            "model": "local",
            "route": {"class": "shell", "why": "short"},
            "contextTokens": 412,
            "tokenBudget": 3072,
        },
    ),
    (Text("a\n"), {"kind": "text", "delta": "a\n"}),
    (Reasoning("hm"), {"kind": "reasoning", "delta": "hm"}),
    (
        Command(CommandInfo("c1", "rm x", 3, 3, "cmd", (), "destructive", ("it deletes",))),
        {
            "kind": "command",
            "command": {
                "id": "c1",
                "text": "rm x",
                "line": 3,
                "endLine": 3,
                "source": "cmd",
                "placeholders": [],
                "risk": "destructive",
                "reasons": ["it deletes"],
            },
        },
    ),
    (
        Tool("1", "git", "log", "{}", "pending", "Calling git log"),
        {
            "kind": "tool",
            "callId": "1",
            "server": "git",
            "name": "log",
            "arguments": "{}",
            "status": "pending",
            "title": "Calling git log",
            "result": None,
            "diff": None,
        },
    ),
    (
        Output("c1", "stderr", "x"),
        {"kind": "output", "commandId": "c1", "stream": "stderr", "delta": "x"},
    ),
    (
        Step(1, "g", "done", "p", ("c1",), ("t1",), 0),
        {
            "kind": "step",
            "number": 1,
            "goal": "g",
            "status": "done",
            "plan": "p",
            "commandIds": ["c1"],
            "callIds": ["t1"],
            "exitCode": 0,
        },
    ),
    (Notice("info", "m"), {"kind": "notice", "level": "info", "message": "m"}),
    (
        Usage(10, 2),
        {
            "kind": "usage",
            "inputTokens": 10,
            "outputTokens": 2,
            "reasoningTokens": 0,
            "cacheReadTokens": 0,
            "cacheWriteTokens": 0,
            "cost": None,
        },
    ),
    (End("stop"), {"kind": "end", "finishReason": "stop", "error": None}),
    (
        End("error", {"kind": "busy", "message": "m"}),
        {
            "kind": "end",
            "finishReason": "error",
            "error": {"kind": "busy", "message": "m"},
        },
    ),
]


@pytest.mark.parametrize(("event", "wire"), EVENTS, ids=lambda value: getattr(value, "kind", None))
def test_events_have_the_promised_form(event: Event, wire: dict[str, object]) -> None:
    assert to_wire(event) == wire
    assert next(iter(to_wire(event))) == "kind"
    assert json.loads(json.dumps(to_wire(event))) == wire


def test_every_event_is_tried_and_has_a_kind_of_its_own() -> None:
    classes = set(typing.get_args(Event))
    assert {type(event) for event, _ in EVENTS} == classes
    assert len({cls.kind for cls in classes}) == len(classes)
    for cls in classes:
        assert getattr(events, cls.__name__) is cls
        assert dataclasses.is_dataclass(cls)


def test_events_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Text("a").delta = "b"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "wire"),
    [("turn_id", "turnId"), ("class_", "class"), ("a_b_c", "aBC"), ("delta", "delta")],
)
def test_names_on_the_wire(name: str, wire: str) -> None:
    assert camel_case(name) == wire


def test_plain_data_stays_as_it_is() -> None:
    data = {"snake_case": [1, 2.5, True, None, "x", (Text("a"),)], "": {}}
    assert to_wire(data) == {
        "snake_case": [1, 2.5, True, None, "x", [{"delta": "a"}]],
        "": {},
    }


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), Text, [object()], {"a": b""}])
def test_what_is_no_data_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="no form on the wire"):
        to_wire(value)
