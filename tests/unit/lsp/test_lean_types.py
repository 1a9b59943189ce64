"""The classes of LSP that are built with shared methods, against those that attrs builds."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

import attrs
import pytest

from aish_lsp.lsp import lean_types

#: Prints what the types do; the first line is put before.
SCRIPT = """
import json, sys
import attrs
before = attrs.define
from lsprotocol import types as t
from lsprotocol.converters import get_converter
assert attrs.define is before

def action(title="a", line=1):
    at = t.Range(t.Position(line, 2), t.Position(line, 3))
    diagnostic = t.Diagnostic(range=at, message="m", severity=t.DiagnosticSeverity.Error)
    return t.CodeAction(title=title, diagnostics=[diagnostic], data={"one": 1})

def hashable(value):
    try:
        return isinstance(hash(value), int)
    except TypeError:
        return False

uri = t.TextDocumentIdentifier("file:///a")
versioned = t.VersionedTextDocumentIdentifier(version=1, uri="file:///a")
circle = t.CodeAction(title="c")
circle.data = [circle]
location = t.Location("file:///a", t.Range(t.Position(0, 0), t.Position(1, 0)))
raw = json.loads(json.dumps(get_converter().unstructure(action(), t.CodeAction)))
classes = [one for one in vars(t).values() if isinstance(one, type) and attrs.has(one)]
print(json.dumps({
    "equal": [action() == action(), action() == action("b"), action() == action(line=9)],
    "other classes": [uri == versioned, uri == "file:///a", uri != None],
    "own methods": [location == location, t.Position(1, 0) > t.Position(0, 9)],
    "hashable": [hashable(one) for one in (action(), uri, t.Position(0, 0), location)],
    "shown": [repr(one) for one in (action(), uri, versioned, location, circle)],
    "read back": get_converter().structure(raw, t.CodeAction) == action(),
    "validated": [type(error).__name__ for error in failures],
    "classes": sorted(
        f"{one.__name__} {attrs.fields_dict(one).keys()} {hasattr(one, '__dict__')}"
        f" {one.__hash__ is None}" for one in classes
    ),
}))
"""


def told(first: str) -> dict[str, Any]:
    """Return what the script prints, in a process of its own, after a first line."""
    failing = (
        "failures = []\n"
        "try:\n    t.Position('x', 1)\n"
        "except Exception as error:\n    failures.append(error)\n"
    )
    script = first + SCRIPT.replace("uri = t.", f"{failing}uri = t.", 1)
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(found.stdout)
    return result


@pytest.mark.slow
def test_types_with_shared_methods_act_as_those_of_attrs() -> None:
    lean = told("from aish_lsp.lsp import lean_types\nlean_types.build()\n")
    assert lean == told("")
    assert lean["equal"] == [True, False, False]
    assert lean["validated"]


def test_class_that_is_defined_with_options_is_left_to_attrs() -> None:
    define: Any = partial(lean_types._define, attrs.define)

    @define(frozen=True)
    class Frozen:
        a: int

    @define()
    class Plain:
        a: int

    frozen: Any = Frozen
    assert hash(frozen(1)) == hash(frozen(1))
    assert frozen(1) == frozen(1) != frozen(2)
    plain: Any = Plain
    assert repr(plain(1)).endswith("Plain(a=1)")


@pytest.mark.slow
def test_building_again_changes_nothing() -> None:
    script = """
import lsprotocol.types as t
from aish_lsp.lsp import lean_types
before = t.CodeAction.__eq__
lean_types.build()
assert t.CodeAction.__eq__ is before is not lean_types._equal
"""
    subprocess.run([sys.executable, "-c", script], check=True)
