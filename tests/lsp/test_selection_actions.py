"""Code actions on a selection and on a diagnostic, for editors that know nothing of us."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import Client
from selection_parts import Document, Model, span
from test_conversation import until

CODE = "def f(x):\n    return x + y\n\nz = 1\n"

EXPLAIN, FIX, ASK = ON_A_SELECTION = ["Explain", "Fix", "Ask about this"]
EXPLAIN_PROBLEM, SUGGEST_FIX = ON_A_PROBLEM = ["Explain this problem", "Suggest a fix"]

PROBLEM = {
    "range": span(1, 15, 1, 16),
    "message": "y is not defined",
    "severity": 1,
    "source": "pyright",
    "code": 7,
    "codeDescription": {"href": "https://example.org"},
    "tags": [1],
    "data": {"its": "own"},
}


@pytest.fixture
async def model(clean_home: Path) -> AsyncIterator[Model]:
    async with Model("It adds.").serve(clean_home, context_window=100_000) as served:
        yield served


@pytest.fixture
async def client(folder: Path, model: Model) -> AsyncIterator[Client]:
    async with Client() as started:
        await started.initialize(folder, capabilities={"textDocument": {}})
        yield started


@pytest.fixture
async def document(client: Client, folder: Path) -> Document:
    (folder / "src").mkdir()
    path = folder / "src" / "a b.py"
    path.write_text("saved = 1\n")
    return await Document(client, path.as_uri()).open(CODE)


@pytest.mark.parametrize("range_", [span(1, 4, 1, 16), span(0, 0, 9, 9), span(1, 16, 1, 4)])
async def test_a_selection_offers_what_can_be_asked(document: Document, range_: Any) -> None:
    actions = await document.actions(range_)
    assert list(actions) == ON_A_SELECTION
    assert {action["kind"] for action in actions.values()} == {"refactor.aish"}
    for only, offered in {
        "refactor": ON_A_SELECTION,
        "refactor.aish": ON_A_SELECTION,
        "quickfix": [],
        "source": [],
    }.items():
        assert list(await document.actions(range_, only=[only])) == offered


@pytest.mark.parametrize(
    "range_", [span(1, 4, 1, 4), span(2, 0, 3, 0), span(90, 0, 99, 0), span(1, 4, 1, 5)]
)
async def test_where_nothing_is_selected_nothing_is_offered(
    document: Document, range_: Any
) -> None:
    assert await document.actions(range_) == {}


async def test_explain_asks_about_the_text_of_the_editor(
    document: Document, model: Model, folder: Path
) -> None:
    actions = await document.actions(span(0, 0, 2, 0))
    assert set(await document.take(actions[EXPLAIN])) == {"turnId"}
    chat = folder / ".aish" / "chat.md"
    text = await until(document.client, chat, lambda text: text.count("\n## You\n") == 2)
    assert "\nExplain lines 1-2 of src/a b.py.\n" in text
    assert "\n> Sent along: src/a b.py, lines 1-2.\n" in text
    assert "\nIt adds.\n" in text
    [asked] = model.asked
    assert asked == (
        "[selection] src/a b.py, lines 1-2\n"
        f"```python\n{CODE[:27].rstrip()}\n```\n\nExplain lines 1-2 of src/a b.py."
    )


async def test_fix_wants_a_block_and_tells_the_problems(document: Document, model: Model) -> None:
    actions = await document.actions(span(1, 4, 1, 16), [PROBLEM])
    assert list(actions) == [*ON_A_PROBLEM, *ON_A_SELECTION]
    await document.take(actions[FIX])
    await model.until_asked()
    assert "[selection] src/a b.py, line 2\n```python\nreturn x + y\n```\n" in model.asked[0]
    assert "line 2: error: y is not defined (pyright 7)\n" in model.asked[0]
    assert model.asked[0].endswith("in one fenced code block.")


async def test_a_problem_is_asked_about_with_its_whole_lines(
    document: Document, model: Model
) -> None:
    actions = await document.actions(span(1, 15, 1, 15), [PROBLEM])
    assert list(actions) == ON_A_PROBLEM
    for action in actions.values():
        assert action["kind"].startswith("quickfix.")
        assert action["diagnostics"] == [PROBLEM]
    assert list(await document.actions(span(1, 0, 1, 0), [PROBLEM], only=["quickfix"])) == (
        ON_A_PROBLEM
    )
    for action in actions.values():
        await document.take(action)
    await model.until_asked(2)
    for asked in model.asked:
        assert "[selection] src/a b.py, line 2\n```python\n    return x + y\n```\n" in asked
        assert "[problems] src/a b.py\n```\nline 2: error: y is not defined (pyright 7)\n" in asked


async def test_several_problems_are_told_apart_and_ours_are_none(document: Document) -> None:
    others = [{"range": span(0, 0, 0, 3), "message": f"number {n}\n" + "x" * 99} for n in range(9)]
    ours = {"range": span(0, 0, 0, 3), "message": "Can be run", "source": "aish"}
    actions = await document.actions(span(0, 0, 0, 0), [ours, *others])
    assert len(actions) == 10
    assert all(len(title) < 90 and "number" in title for title in actions)
    assert await document.actions(span(0, 0, 0, 0), [ours]) == {}


@pytest.mark.parametrize(
    "range_", [span(99, 0, 99, 1), span(3, 0, 1, 0), span(1, 0, 99, 0), span(0, 0, 0, 10**9)]
)
async def test_a_problem_that_is_nowhere_breaks_nothing(document: Document, range_: Any) -> None:
    problem = {"range": range_, "message": "\ud800 half"}
    for action in (await document.actions(span(0, 0, 0, 0), [problem])).values():
        assert set(await document.take(action)) == {"turnId"}


async def test_ask_about_this_prepares_the_question_in_the_chat(
    document: Document, model: Model, folder: Path
) -> None:
    actions = await document.actions(span(0, 0, 2, 0))
    await document.take(actions[ASK])
    chat = folder / ".aish" / "chat.md"
    mention = '@"src/a b.py":1-2'
    text = await until(document.client, chat, lambda text: mention in text)
    chat.write_text(f"{text.rstrip()} what is y?\n")
    sent = await document.client.command_result("aish.chat.send", {"uri": document.uri})
    assert sent["turnId"]
    await until(document.client, chat, lambda text: "It adds." in text)
    [asked] = model.asked
    assert asked == (
        "[selection] src/a b.py, lines 1-2\n"
        f"```py\n{CODE[:27].rstrip()}\n```\n\n{mention} what is y?"
    )


async def test_what_no_question_can_name_is_not_offered_to_be_named(
    client: Client, tmp_path: Path
) -> None:
    outside = await Document(client, (tmp_path / "x.py").as_uri()).open(CODE)
    untitled = await Document(client, "untitled:Untitled-1").open(CODE)
    for document in (outside, untitled):
        found = await document.actions(span(0, 0, 1, 0))
        assert [title for title in found if title in ON_A_SELECTION] == [EXPLAIN, FIX]


async def test_a_document_that_was_closed_offers_nothing(document: Document) -> None:
    await document.close()
    assert await document.actions(span(0, 0, 2, 0), [PROBLEM]) == {}
