"""A test is skipped for what was looked up, never since something failed.

What failed could be the very thing that is tested: a test of the sandbox skipped itself wherever
the sandbox did not start.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
#: These fetch something from the network, where no more can be known than that it failed.
FETCHING = {"acpx.py", "test_tool_servers_llama.py", "test_vscode_package.py", "trained_model.py"}


def skips_for_a_failure(source: str) -> Iterator[int]:
    """Yield the lines at which a test is skipped for an exception or an exit status."""
    for node in ast.walk(ast.parse(source)):
        failed = isinstance(node, ast.If) and "returncode" in ast.unparse(node.test)
        if isinstance(node, ast.ExceptHandler):
            # One that is told apart from all others was looked up.
            failed = not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        if failed:
            yield from (
                inner.lineno
                for inner in ast.walk(node)
                if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "pytest.skip"
            )


def test_no_test_is_skipped_for_a_failure() -> None:
    paths = [path for path in TESTS.rglob("*.py") if path.name not in FETCHING]
    found = {path.name: [*skips_for_a_failure(path.read_text(encoding="utf-8"))] for path in paths}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    begin()\nexcept OSError:\n    pytest.skip('no')",
        "try:\n    begin()\nexcept OSError as error:\n    if error:\n        pytest.skip('no')",
        "if run().returncode != 0:\n    pytest.skip('no')",
        "if not done.returncode == 0:\n    pytest.skip('no')",
    ],
)
def test_such_a_skip_is_found(source: str) -> None:
    assert list(skips_for_a_failure(source))
