"""What waits for the user's yes in VS Code: where it is asked, and what becomes of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_vscode_faults import kill, use
from vscode_parts import Chat, Workbench, missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

CALC = "def double(x):\n    return x + 1\n"
EDIT = {"path": "calc.py", "old": "x + 1", "new": "2 * x"}

#: The tools that the model calls, by the first word of a question.
TOOLS = {"edit": ("edit_file", EDIT), "call": ("s__change", {"text": "called"})}

TOOL_SERVER = Path(__file__).parents[1] / "kit" / "tool_server.py"

#: So long that it is asked about, though it was seen in a card.
LONG = f"echo {'x' * 90} && sh run.sh"


class Model:
    """A model server that edits a file, tidies up step by step, or suggests commands."""

    async def __call__(self, request: Request, peer: Peer) -> None:
        """Answer a request."""
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        messages = request.json["messages"]
        asked = str(messages[-1]["content"])
        await peer.head()
        name, arguments = TOOLS.get(asked.partition(" ")[0], ("", {}))
        if messages[-1]["role"] != "tool" and name:
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls = [{"index": 0, "id": "call1", "type": "function", "function": function}]
            await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        else:
            await peer.event(chunk_of(self.text(asked)))
            await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")

    def text(self, asked: str) -> str:
        """Return the reply to a question."""
        if "[norris]" in asked:
            return "I tidy up.\nCMD: touch made.txt\n"
        return f"So:\n\nCMD: {LONG}\n" if "long" in asked else "It is done."


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place.make(tmp_path_factory.mktemp("place"), "work 1")
    (place.folder / "run.sh").write_text("echo ran\n")
    return place


@pytest.fixture(scope="module", name="bench")
def fixture_bench(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    root = tmp_path_factory.mktemp("bench")
    with served(Model()) as url:
        use(place, url)
        argv = [sys.executable, str(TOOL_SERVER), "none", str(root / "of the tool")]
        server = f"\n[tools.servers.s]\ncommand = {json.dumps(argv)}\n"
        place.config.write_text(place.config.read_text() + server)
        with opened(place, root / "profile", package(root)) as bench:
            yield bench


@pytest.fixture(name="calc")
def fixture_calc(place: Place) -> Path:
    calc = place.folder / "calc.py"
    calc.write_text(CALC)
    return calc


@pytest.fixture(name="chat")
def fixture_chat(bench: Workbench, calc: Path) -> Chat:
    del calc
    return bench.new_chat()


def edits(chat: Chat) -> Any:
    """Have the model edit a file; return the question whether it may."""
    chat.ask("edit calc.py", waits=False)
    question = chat.frame.locator(".tool + .question")
    question.wait_for()
    return question


def test_a_call_of_a_tool_server_asks_in_its_row_until_it_is_allowed_in_the_session(
    chat: Chat,
) -> None:
    for times in range(2):
        chat.ask("call it", waits=False)
        if times == 0:
            question = chat.frame.locator(".tool + .question")
            question.wait_for()
            assert chat.frame.locator(".questions .question").count() == 0
            assert question.locator(".command").inner_text() == 'change {"text": "called"}'
            assert "a tool of the server s" in question.inner_text()
            question.get_by_role("button", name="In this session").click()
        chat.ended()
        assert chat.frame.locator(".tool.done").count() == times + 1


def test_a_question_out_of_sight_is_told_of_and_is_there_again(
    bench: Workbench, chat: Chat, calc: Path
) -> None:
    edits(chat)
    bench.page.keyboard.press("Control+Shift+e")
    toast = bench.page.locator(".notification-toast", has_text="aish asks: Change calc.py?")
    toast.wait_for()
    bench.press("Show")
    chat = bench.chat()
    question = chat.frame.locator(".question")
    question.wait_for()
    assert question.count() == 1
    assert "+    return 2 * x" in question.inner_text()
    question.get_by_role("button", name="Reject").click()
    chat.ended()
    assert calc.read_text() == CALC
    assert chat.frame.locator(".question").count() == 0


def test_a_question_of_another_chat_is_told_of_and_shown(
    bench: Workbench, chat: Chat, calc: Path
) -> None:
    edits(chat)
    bench.new_chat()
    assert chat.frame.locator(".question").count() == 0
    bench.press("Show")
    chat.frame.locator(".question").get_by_role("button", name="Accept").click()
    chat.ended()
    assert calc.read_text() == CALC.replace("x + 1", "2 * x")


def test_calls_of_one_id_in_two_chats_are_asked_about_each_in_its_own(
    bench: Workbench, chat: Chat, calc: Path
) -> None:
    edits(chat)
    bench.new_chat()
    edits(chat)
    chat.frame.locator(".question").get_by_role("button", name="Reject").click()
    chat.ended()
    assert calc.read_text() == CALC
    # The other one waits on.
    bench.press("Show")
    chat.frame.locator(".tool + .question").get_by_role("button", name="Accept").click()
    chat.ended()
    assert calc.read_text() == CALC.replace("x + 1", "2 * x")


def test_a_question_is_gone_when_its_reply_is_stopped(
    bench: Workbench, chat: Chat, calc: Path
) -> None:
    question = edits(chat)
    question.get_by_role("button", name="Open the diff").click()
    bench.page.locator(".monaco-diff-editor").wait_for()
    chat.frame.locator(".composer").get_by_role("button", name="Stop").click()
    chat.ended()
    question.wait_for(state="detached")
    bench.page.locator(".monaco-diff-editor").wait_for(state="detached")
    assert calc.read_text() == CALC


def test_a_question_is_gone_with_the_server_that_asked(
    bench: Workbench, chat: Chat, place: Place, calc: Path
) -> None:
    question = edits(chat)
    kill(place)
    question.wait_for(state="detached")
    chat.ended()
    assert calc.read_text() == CALC
    chat.ask("Is it done?")
    assert "It is done." in chat.last


def test_a_command_that_asks_does_so_in_its_card_and_is_asked_about_no_more_in_the_session(
    bench: Workbench, chat: Chat
) -> None:
    for times in range(2):
        chat.ask("long")
        card = chat.frame.locator(".card").last
        card.get_by_role("button", name="Run", exact=True).click()
        if times == 0:
            question = card.locator(".question")
            question.wait_for()
            assert bench.page.locator(".monaco-dialog-box").count() == 0
            question.get_by_role("button", name="In this session").click()
        card.locator(".ended", has_text="exit 0").wait_for()


def test_a_step_of_a_goal_asks_in_its_card_while_stop_is_reachable(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    bench.command("aish: Pursue a Goal")
    bench.answer("Tidy up.")
    bench.answer("Ask before")
    chat.frame.locator(".questions .question .primary").click()
    question = chat.frame.locator(".card .question")
    question.wait_for()
    stop = chat.frame.locator(".goal").get_by_role("button", name="Stop")
    assert stop.is_visible()
    question.get_by_role("button", name="Accept").click()
    bench.until("the file", (place.folder / "made.txt").exists)
    stop.click()
    chat.frame.locator(".goal").wait_for(state="hidden")
    chat.ended()
