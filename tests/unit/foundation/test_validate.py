from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.config.schema import Config
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.text import LARGEST
from aish_lsp.foundation.validate import PROBLEMS, FieldProblem, sift, structure


@dataclass(frozen=True, slots=True)
class Place:
    line: int
    character: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    prompt: str
    work_done_token: int | str | None = None
    range: Place | None = None
    places: tuple[Place, ...] = ()
    pair: tuple[int, str] = (0, "")
    tags: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    kind: Literal["fact", "pref", 1] = "fact"
    force: bool = False
    count: int = field(default=1, metadata={"minimum": 1, "maximum": 9})
    share: float | None = field(default=None, metadata={"minimum": 0})
    top: float = field(default=0.0, metadata={"maximum": 2})
    extra: dict[str, Any] = field(default_factory=dict)
    api_key: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            msg = "end lies before start"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Holder:
    range: Range | None = None


def problems_of(data: object, cls: type = Params) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        structure(data, cls, camel_case=True)
    return {problem["path"]: problem["message"] for problem in caught.value.data["problems"]}


def test_good_data_becomes_the_dataclass() -> None:
    data = {
        "prompt": "how?",
        "workDoneToken": "t",
        "range": {"line": 3},
        "places": [{"line": 1, "character": 2}],
        "pair": [7, "x"],
        "tags": ["a"],
        "names": {"keptAsItIs": 1},
        "kind": 1,
        "share": 1,
        "extra": {"deep": [{"some_key": None}]},
    }
    params = structure(data, Params, camel_case=True)
    assert params == Params(
        prompt="how?",
        work_done_token="t",
        range=Place(3),
        places=(Place(1, 2),),
        pair=(7, "x"),
        tags=["a"],
        names={"keptAsItIs": 1},
        kind=1,
        share=1.0,
        extra={"deep": [{"some_key": None}]},
    )
    assert isinstance(params.share, float)


def test_the_spelling_of_keys_is_the_callers_choice() -> None:
    assert structure({"prompt": "", "work_done_token": 1}, Params, camel_case=False)
    assert problems_of({"prompt": "", "work_done_token": 1}) == {
        "work_done_token": 'unknown; did you mean "workDoneToken"?'
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("prompt", 5, "found 5; accepted: a string"),
        ("prompt", None, "found null; accepted: a string"),
        ("prompt", ["a"], "found a list; accepted: a string"),
        ("workDoneToken", True, "found true; accepted: a whole number or a string"),
        ("workDoneToken", 1.0, "found 1.0; accepted: a whole number or a string"),
        ("range", [], "found a list; accepted: an object"),
        ("range", "x", 'found "x"; accepted: an object'),
        ("places", {"0": {}}, "found an object; accepted: a list of objects"),
        ("pair", [1], "found a list; accepted: a list of 2"),
        ("pair", [1, "a", 2], "found a list; accepted: a list of 2"),
        ("tags", "abc", 'found "abc"; accepted: a list of strings'),
        ("names", [["a", 1]], "found a list; accepted: an object"),
        ("names", {1: 1}, "found an object; accepted: an object with strings for keys"),
        ("kind", "fcat", 'found "fcat"; accepted: "fact" or "pref" or 1'),
        ("kind", True, 'found true; accepted: "fact" or "pref" or 1'),
        ("kind", {}, 'found an object; accepted: "fact" or "pref" or 1'),
        ("force", 1, "found 1; accepted: true or false"),
        ("force", "true", 'found "true"; accepted: true or false'),
        ("count", "5", 'found "5"; accepted: a whole number from 1 to 9'),
        ("count", True, "found true; accepted: a whole number from 1 to 9"),
        ("count", 2.0, "found 2.0; accepted: a whole number from 1 to 9"),
        ("count", 0, "found 0; accepted: a whole number from 1 to 9"),
        ("count", 10, "found 10; accepted: a whole number from 1 to 9"),
        ("share", -0.5, "found -0.5; accepted: a number of at least 0"),
        ("share", math.nan, "found NaN; accepted: a number of at least 0"),
        ("share", math.inf, "found Infinity; accepted: a number of at least 0"),
        ("share", 10**400, "found a whole number of 1329 bits; accepted: a number of at least 0"),
        ("share", False, "found false; accepted: a number of at least 0"),
        ("top", 2.5, "found 2.5; accepted: a number of at most 2"),
        ("extra", [], "found a list; accepted: an object"),
    ],
)
def test_nothing_is_coerced(key: str, value: object, message: str) -> None:
    assert problems_of({"prompt": "", key: value}) == {key: message}


@pytest.mark.parametrize(
    ("key", "value", "path", "message"),
    [
        ("range", {"line": "1"}, "range.line", 'found "1"; accepted: a whole number'),
        ("range", {}, "range.line", "missing; accepted: a whole number"),
        ("range", {"line": 1, "col": 1}, "range.col", "unknown; known: line, character"),
        ("places", [{"line": 1}, 5], "places[1]", "found 5; accepted: an object"),
        (
            "places",
            [{"line": LARGEST + 1}],
            "places[0].line",
            "found a whole number of 64 bits; accepted: a whole number of 64 bits, signed",
        ),
        ("pair", ["a", "b"], "pair[0]", 'found "a"; accepted: a whole number'),
        ("tags", ["a", None], "tags[1]", "found null; accepted: a string"),
        ("names", {"a b": "x"}, 'names."a b"', 'found "x"; accepted: a whole number'),
        ("extra", {"a": {1, 2}}, "extra.a", "found a set; accepted: a JSON value"),
        ("extra", {"a": math.nan}, "extra.a", "found NaN; accepted: a finite number"),
    ],
)
def test_the_path_leads_to_the_bad_value(key: str, value: object, path: str, message: str) -> None:
    assert problems_of({"prompt": "", key: value}) == {path: message}


@pytest.mark.parametrize("data", [None, [], "x", 5, [{"prompt": "x"}]])
def test_what_is_no_object_is_refused_as_a_whole(data: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^found .*; accepted: an object$") as caught:
        structure(data, Params, camel_case=True)
    assert caught.value.data["path"] == ""


def test_all_problems_are_told_at_once_and_the_first_in_the_message() -> None:
    with pytest.raises(InvalidArgument) as caught:
        structure({"promt": 1, "force": 1}, Params, camel_case=True)
    assert caught.value.message == "prompt: missing; accepted: a string (and 2 more)"
    assert caught.value.data["path"] == "prompt"
    assert [problem["path"] for problem in caught.value.data["problems"]] == [
        "prompt",
        "force",
        "promt",
    ]


def test_an_error_does_not_grow_with_the_data() -> None:
    assert len(problems_of({"prompt": "", "tags": [1] * 1000})) == PROBLEMS


def test_what_a_dataclass_says_of_itself_is_told() -> None:
    assert problems_of({"range": {"start": 2, "end": 1}}, Holder) == {
        "range": "end lies before start"
    }


def test_half_a_surrogate_pair_is_refused() -> None:
    assert "surrogate" in problems_of({"prompt": "a\ud800"})["prompt"]
    assert "surrogate" in problems_of({"prompt": "", "extra": {"a": ["\udfff"]}})["extra.a"]
    assert structure({"prompt": "ä😀"}, Params, camel_case=True).prompt == "ä😀"


def test_free_data_too_deep_to_be_written_is_refused() -> None:
    deep: object = 0
    for _ in range(10_000):
        deep = [deep]
    assert "deep" in problems_of({"prompt": "", "extra": {"a": deep}})["extra.a"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("names", {"a": "sk-proj-abcdefghijklmnop0123"}),
        ("names", {"a": "Bearer abcdefghijklmnop"}),
        ("names", {"Authorization": "hunter2"}),
        ("names", {"GITHUB_TOKEN": "hunter2"}),
        ("force", "ghp_abcdefghijklmnop0123"),
        ("apiKye", "sk-proj-abcdefghijklmnop0123"),
    ],
)
def test_a_secret_is_never_shown(key: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        structure({"prompt": "", key: value}, Params, camel_case=True)
    told = caught.value.message + json.dumps(caught.value.data)
    assert "abcdef" not in told
    assert "hunter2" not in told


def test_a_number_too_long_to_be_printed_is_told_all_the_same() -> None:
    assert problems_of({"prompt": "", "count": 10**5000}) == {
        "count": "found a whole number of 16610 bits; accepted: a whole number from 1 to 9"
    }


def sifted(data: object) -> tuple[Config, list[FieldProblem]]:
    good, problems = sift(data, Config)
    return structure(good, Config, camel_case=False), problems


def test_sifting_keeps_the_good_and_tells_the_bad() -> None:
    config, problems = sifted(
        {
            "default_model": 3,
            "models": {
                "a": {"endpoint": "http://x", "timeout": "5", "stop": ["x", 1]},
                "b": "http://x",
            },
            "context": {"max_turns": 0, "low_water": 0.5, "compress": {"keep_turns": 3}},
            "memroy": {},
        }
    )
    assert config.default_model == Config().default_model
    assert config.models["a"].endpoint == "http://x"
    assert config.models["a"].timeout == 120.0
    assert config.models["a"].stop is None
    assert "b" not in config.models
    assert (config.context.max_turns, config.context.low_water) == (40, 0.5)
    assert config.context.compress.keep_turns == 3
    assert [problem.path for problem in problems] == [
        "default_model",
        "models.a.timeout",
        "models.a.stop[1]",
        "models.b",
        "context.max_turns",
        "memroy",
    ]


@dataclass(frozen=True, slots=True)
class Table:
    places: dict[str, Place] = field(default_factory=dict)
    range: Range | None = None


def test_sifting_drops_what_lacks_something_or_contradicts_itself() -> None:
    data = {
        "places": {"here": {"line": 1}, "there": {"character": 2}},
        "range": {"start": 2, "end": 1},
    }
    good, problems = sift(data, Table)
    assert good == {"places": {"here": {"line": 1}}}
    assert [problem.path for problem in problems] == ["places.there.line", "range"]


def test_sifting_for_what_cannot_be_empty_is_refused() -> None:
    @dataclass
    class Needy:
        needed: str

    for data in ({}, {"needed": 1}, {"other": 1}, None):
        with pytest.raises(TypeError, match="Needy has a field without a default"):
            sift(data, Needy)


def test_sifting_what_is_no_object() -> None:
    assert sifted([1]) == (
        Config(),
        [FieldProblem("", "found a list; accepted: an object")],
    )


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.fixed_dictionaries({}, optional={f.name: inner for f in fields(Config)})
        | st.fixed_dictionaries({}, optional={"prompt": inner, "range": inner, "names": inner})
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(anything)
@pytest.mark.slow
def test_arbitrary_data_is_valid_or_an_invalid_argument(data: object) -> None:
    try:
        params = structure(data, Params, camel_case=True)
    except InvalidArgument as error:
        told = [problem["message"] for problem in error.data["problems"]]
        error.message.index(told[0])
        json.dumps(error.data, ensure_ascii=False).encode()
    else:
        assert isinstance(params.prompt, str)


@settings(deadline=None)
@given(anything)
@pytest.mark.slow
def test_arbitrary_configuration_gives_a_sound_one(data: object) -> None:
    config, problems = sifted(data)
    assert is_dataclass(config)
    assert sifted(data) == (config, problems)
    assert isinstance(config.context.max_turns, int)
    assert config.context.max_turns >= 1
    assert 0 <= config.context.low_water <= 1
