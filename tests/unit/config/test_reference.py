from __future__ import annotations

import json
import tomllib
from typing import Any

from configuration_page import EXAMPLE, markdown

from aish_lsp.config.keys import NAME, all_keys, json_schema
from aish_lsp.config.sources import checked, from_environment, variable_of


def test_the_page_tells_each_key() -> None:
    page = markdown()
    for key in all_keys():
        assert f"| `{key.path[-1]}` |" in page
        assert key.doc in page


def test_the_example_is_good() -> None:
    layer = checked(tomllib.loads(EXAMPLE), str)
    assert layer.problems == ()
    assert layer.data["default_model"] == "local"


def schema_at(path: tuple[str, ...]) -> dict[str, Any]:
    found = json_schema()
    for name in path:
        found = found["additionalProperties"] if name == NAME else found["properties"][name]
    return found


def test_the_schema_is_plain_json_and_closed() -> None:
    assert json.loads(json.dumps(json_schema())) == json_schema()
    assert json_schema()["$schema"].endswith("2020-12/schema")
    assert json_schema()["additionalProperties"] is False
    assert schema_at(("context", "compress"))["additionalProperties"] is False


def test_the_schema_describes_each_key() -> None:
    for key in all_keys():
        schema = schema_at(key.path)
        assert schema["description"] == key.doc, key.path
        assert schema.get("minimum") == key.minimum, key.path
        assert schema.get("maximum") == key.maximum, key.path
        assert isinstance(key.default, dict | list) or schema["default"] == key.default, key.path


def test_the_name_of_a_preset_is_no_key() -> None:
    assert "name" not in schema_at(("models", NAME))["properties"]


def test_choices_stand_in_the_schema() -> None:
    assert schema_at(("safety", "confirm"))["enum"] == ["destructive", "always"]


def test_each_key_can_be_set_by_a_variable() -> None:
    for key in all_keys():
        path = tuple("a" if name == NAME else name for name in key.path)
        layer = from_environment({variable_of(path): "no such value"})
        assert all("unknown" not in problem.message for problem in layer.problems)


def test_defaults_are_within_their_own_bounds() -> None:
    """A default is data like any other: written down, it is accepted."""
    for key in all_keys():
        if key.default is None:
            continue
        data: Any = key.default
        for name in reversed(key.path):
            data = {("a" if name == NAME else name): data}
        assert checked(data, str).problems == (), key.path
