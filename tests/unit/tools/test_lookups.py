"""What the model is told of what an editor knows of the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_builtin_tools import PRESET, Editor, Place, place

from aish_lsp.foundation.ports import CodeLocation, Lookup

__all__ = ["place"]

pytestmark = pytest.mark.slow


@pytest.fixture
def editor(place: Place) -> Editor:
    """Return the editor of the place, which takes questions."""
    place.editor.offered = True
    return place.editor


def names(place: Place) -> list[str]:
    return [one for one in place.tools.names() if one in {"diagnostics", "symbols", "definition"}]


async def test_they_are_offered_where_the_editor_answers(place: Place, editor: Editor) -> None:
    assert editor.offered
    assert names(place) == ["diagnostics", "symbols", "definition"]


async def test_they_are_deferred_before_what_reads_and_writes(place: Place, editor: Editor) -> None:
    assert editor.offered
    names = [tool.name for tool in place.tools.definitions(PRESET, 7000)]
    assert names == [
        *("read_file", "list_files", "search", "edit_file", "write_file", "run_command"),
        "tool_search",
    ]
    search = place.tools.definitions(PRESET, 7000)[-1]
    assert [name in search.description for name in ("symbols", "read_file")] == [True, False]


async def test_they_are_not_where_it_does_not(place: Place) -> None:
    assert names(place) == []


async def test_places_are_counted_from_one(place: Place, editor: Editor) -> None:
    main = place.put("main.py", "x = 1\ny = x\n")
    editor.knows = [CodeLocation(main, 0, "x = 1\n   (integer)")]
    result = await place.call("definition", path="main.py", line=2, character="5")
    assert result.text == "main.py:1: x = 1 (integer)\n"
    assert editor.asked == [Lookup("definition", main, line=1, character=4)]


async def test_only_what_the_model_may_read_is_shown(place: Place, editor: Editor) -> None:
    (place.folder / "ignored").mkdir()
    hidden = [
        place.put("ignored/a.py", "key = 1\n"),
        place.put(".env", "KEY=1\n"),
        place.put(".aish/output/1.txt", "x\n"),
        Path("/usr/lib/python3/os.py"),
    ]
    shown = place.put("main.py", "x\n")
    editor.knows = [CodeLocation(path, 3, f"secret of {path}") for path in hidden]
    editor.knows.append(CodeLocation(shown, 0, "variable x"))
    result = await place.call("symbols", query="x")
    assert result.text.splitlines() == [
        "ignored/a.py:4 (outside of the project)",
        ".env:4 (outside of the project)",
        ".aish/output/1.txt:4 (outside of the project)",
        "/usr/lib/python3/os.py:4 (outside of the project)",
        "main.py:1: variable x",
    ]


@pytest.mark.parametrize("path", ["../config.toml", "ignored/a.py", "missing.py", "lib"])
async def test_it_is_not_asked_about_other_files(place: Place, editor: Editor, path: str) -> None:
    place.put("ignored/a.py", "")
    place.put("lib/b.py", "")
    for name in ("diagnostics", "symbols"):
        assert (await place.call(name, path=path)).status == "failed"
    assert (await place.call("definition", path=path, line=1)).status == "failed"
    assert editor.asked == []


async def test_arguments_that_do_not_fit_are_told(place: Place, editor: Editor) -> None:
    place.put("main.py", "")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("symbols", {}),
        ("symbols", {"query": 3}),
        ("definition", {"path": "main.py"}),
        ("definition", {"line": 2, "character": 1}),
        ("definition", {"path": "main.py", "line": 0, "character": 1}),
        ("definition", {"path": "main.py", "line": 1, "character": "x"}),
    ]
    for name, arguments in calls:
        result = await place.call(name, **arguments)
        assert (result.status, "internal" in result.text) == ("failed", False), name
    assert editor.asked == []


async def test_nothing_and_too_much_and_no_answer(place: Place, editor: Editor) -> None:
    main = place.put("main.py", "")
    result = await place.call("diagnostics")
    assert (result.status, result.text) == (
        "done",
        "The editor has no errors and no warnings there.",
    )
    assert editor.asked == [Lookup("diagnostics")]
    editor.knows = [CodeLocation(main, line, "wrong " * 200) for line in range(1000)]
    result = await place.call("diagnostics", limit=400_000)
    assert len(result.text.splitlines()) == 201
    assert result.text.endswith("[aish: 800 more]\n")
    result = await place.call("diagnostics", limit=2000)
    assert len(result.text) < 2400
    editor.knows = None
    assert (await place.call("diagnostics")).status == "failed"
