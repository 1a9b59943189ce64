"""``aish-lsp protocol --json``: a sound schema, of all there is, the same each time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from aish_lsp.lsp.protocol import COMMANDS
from aish_lsp.lsp.reference import kinds_of, schema
from aish_lsp.operations import OPERATIONS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_it_is_printed_the_same_each_time() -> None:
    command = [sys.executable, "-m", "aish_lsp", "protocol", "--json"]
    printed = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert printed[0] == printed[1]
    assert json.loads(printed[0]) == schema()


def test_it_is_sound_and_has_all() -> None:
    found = schema()
    assert set(found["commands"]) == set(COMMANDS)
    for definition in found["$defs"].values():
        Draft202012Validator.check_schema(definition)
    for reference in re.findall(r'"#/\$defs/(\w+)"', json.dumps(found)):
        assert reference in found["$defs"]


def test_what_an_operation_refuses_is_an_error_that_there_is() -> None:
    for name, operation in OPERATIONS.items():
        assert operation.doc, name
        for names, when in operation.refusals:
            assert kinds_of(names), name
            assert when, name


def test_what_is_unknown_does_not_fit() -> None:
    validator = Draft202012Validator(
        {"$defs": schema()["$defs"], **schema()["commands"]["aish.memory.add"]["result"]}
    )
    assert validator.is_valid({"id": 1})
    for wrong in (
        {},
        {"id": "1"},
        {"id": 1, "x": 1},
    ):
        assert not validator.is_valid(wrong)
