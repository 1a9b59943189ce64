"""Several chats, earlier questions, completion, trees and selections, in VS Code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from editor_parts import Place
from vscode_parts import Chat, Workbench, missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

LIST = "how do I list files?"
DISK = "how do I see how full the disk is?"


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("place"), "work 1")


@pytest.fixture(scope="module", name="bench")
def fixture_bench(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    root = tmp_path_factory.mktemp("bench")
    with opened(place, root / "profile", package(root)) as bench:
        yield bench


@pytest.fixture(name="chat")
def fixture_chat(bench: Workbench) -> Chat:
    return bench.new_chat()


def asked(place: Place) -> list[str]:
    return [one["content"] for one in place.sessions() if one.get("role") == "user"]


def row(bench: Workbench, text: str) -> Any:
    return bench.page.locator(".monaco-list-row", has_text=text).first


def test_several_chats_and_a_search_in_them(bench: Workbench, chat: Chat) -> None:
    chat.ask(LIST)
    bench.command("aish: New Chat")
    chat.frame.locator(".welcome").wait_for()
    chat.ask(DISK)
    tabs = chat.frame.get_by_role("tab")
    tabs.filter(has_text="list files").first.click()
    chat.frame.locator(".exchange", has_text=LIST).wait_for()
    assert DISK not in chat.frame.locator(".log").inner_text()
    bench.command("aish: Show Chats")
    box = bench.page.locator(".quick-input-widget input").first
    box.wait_for()
    box.fill("full disk")
    found = bench.page.locator(".quick-input-list .monaco-list-row", has_text="disk is")
    found.first.click()
    chat.frame.locator(".exchange", has_text=DISK).wait_for()


def test_an_earlier_question_is_asked_otherwise_in_a_chat_beside(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    chat.ask(LIST)
    chat.ask("and the hidden ones?")
    chat.exchanges.first.get_by_role("button", name="Edit", exact=True).first.click()
    chat.frame.get_by_label("Edit the question").fill(DISK)
    chat.frame.get_by_role("button", name="Ask in a new chat").click()
    chat.frame.locator(".exchange", has_text=DISK).wait_for()
    chat.ended()
    assert "df" in chat.last
    assert chat.exchanges.count() == 1
    assert asked(place)[-1] == DISK


def test_a_question_is_asked_again(chat: Chat, place: Place) -> None:
    chat.ask(LIST)
    before = asked(place).count(LIST)
    chat.exchanges.first.get_by_role("button", name="Ask again").click()
    chat.exchanges.nth(1).wait_for()
    chat.ended()
    assert asked(place).count(LIST) == before + 1
    assert "no longer sent" in chat.exchanges.first.inner_text()


def test_commands_and_files_complete_by_the_keyboard(bench: Workbench, chat: Chat) -> None:
    keyboard = bench.page.keyboard
    options = chat.frame.get_by_role("option")
    chat.box.click()
    keyboard.type(":cont")
    options.first.wait_for()
    keyboard.press("Enter")
    assert chat.box.input_value().strip() == ":context"
    keyboard.press("Enter")
    chat.exchanges.first.wait_for()
    chat.ended()
    assert "tokens" in chat.last
    chat.box.click()
    keyboard.type("what is in @mai")
    options.filter(has_text="main.py").wait_for()
    keyboard.press("Tab")
    assert chat.box.input_value().startswith("what is in @main.py")
    keyboard.press("Escape")
    chat.box.fill("")
    # What was sent before comes back.
    chat.box.press("ArrowUp")
    assert chat.box.input_value() == ":context"


def test_a_command_is_edited_before_it_runs(chat: Chat) -> None:
    chat.ask(LIST)
    card = chat.frame.locator(".card").last
    card.get_by_role("button", name="Edit", exact=True).click()
    box = card.get_by_label("Edit the command")
    box.fill("echo mine; exit 3")
    box.press("Control+Enter")
    card.locator(".ended", has_text="exit 3").wait_for()
    assert "mine" in card.locator(".output").inner_text()
    chat.ask("did that work?")
    assert "3" in chat.last


def test_a_line_runs_a_command_and_can_be_stopped(chat: Chat) -> None:
    chat.ask(":run echo begun; sleep 600", waits=False)
    chat.exchanges.last.locator(".output", has_text="begun").wait_for()
    chat.box.press("Escape")
    chat.ended()
    assert "stopped" in chat.last


def test_a_selection_goes_along(bench: Workbench, chat: Chat, place: Place) -> None:
    (place.folder / "app.py").write_text("def add(a, b):\n    return a - b\n")
    bench.page.locator(".part.editor").click(position={"x": 300, "y": 400})
    bench.page.keyboard.press("Control+p")
    bench.page.locator(".quick-input-widget input").first.fill("app.py")
    bench.page.locator(".quick-input-list .monaco-list-row", has_text="app.py").first.click()
    bench.page.locator(".view-lines .view-line", has_text="return").click(click_count=3)
    bench.page.keyboard.press("Control+Alt+q")
    bench.answer("what is wrong here?")
    chat.frame.locator(".exchange", has_text="what is wrong here?").wait_for()
    chat.ended()
    assert "app.py:2-2" in chat.exchanges.last.locator(".foot").inner_text()
    bench.command("aish: Attach the Selection to the Chat")
    bench.until("its name", lambda: chat.box.input_value().startswith("@app.py:2-"))
    bench.command("View: Close All Editors")


def test_a_file_is_dropped_into_it(bench: Workbench, chat: Chat, place: Place) -> None:
    drop = """uri => {
      const dataTransfer = new DataTransfer();
      dataTransfer.setData("text/uri-list", uri);
      document.dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
    }"""
    chat.frame.evaluate(drop, (place.folder / "main.py").as_uri())
    bench.until("its name", lambda: chat.box.input_value().strip() == "@main.py")
    chat.frame.evaluate(drop, "https://example.com/main.py")
    # As the Explorer of a remote window names it.
    remote = f"vscode-remote://ssh-remote+host{place.folder}/main.py"
    chat.frame.evaluate(drop, remote)
    bench.until("it again", lambda: chat.box.input_value().strip() == "@main.py @main.py")
    chat.box.press_sequentially("what is it?")
    assert chat.box.input_value() == "@main.py @main.py what is it?"


def test_the_walkthrough_leads_to_the_chat(bench: Workbench, chat: Chat) -> None:
    bench.command("Welcome: Open Walkthrough")
    row(bench, "Begin with aish").click()
    page = bench.page.locator(".gettingStartedContainer")
    page.get_by_text("Connect a model").first.wait_for()
    page.get_by_text("Ask", exact=True).first.click()
    page.get_by_role("button", name="Open the chat").click()
    chat.box.wait_for()
    bench.command("View: Close All Editors")


def test_what_is_remembered_is_edited_moved_and_forgotten(bench: Workbench, chat: Chat) -> None:
    chat.ask(":remember The cat is black.")
    bench.command("aish: Show the Memory")
    row(bench, "The cat is black.").click()
    bench.page.locator(".monaco-list-row.focused .action-label[aria-label*=Edit]").click()
    bench.answer("The cat is white.")
    row(bench, "The cat is white.").click(button="right")
    bench.page.get_by_role("menuitem", name="Remember It Everywhere").hover()
    bench.page.keyboard.press("Enter")
    row(bench, "Everywhere").wait_for()
    row(bench, "The cat is white.").click()
    bench.page.locator(".monaco-list-row.focused .action-label[aria-label*=Forget]").click()
    bench.press("Undo")
    row(bench, "The cat is white.").wait_for()
    bench.command("View: Hide Panel")


def test_a_second_window_shows_what_was_sent_and_begins_a_chat_of_its_own(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    chat.ask(LIST)
    bench.until("it to be kept", lambda: LIST in asked(place))
    page = bench.page
    bench.page = page.context.new_page()
    bench.page.set_default_timeout(90_000)
    try:
        bench.load()
        other = bench.chat()
        other.frame.locator(".problem", has_text="open in another window").wait_for()
        # The tabs of the first window are open here, too; a single one has no row of tabs.
        exchange = other.frame.locator(".exchange", has_text=LIST)
        tab = other.frame.get_by_role("tab", name="list files").last
        exchange.or_(tab).first.wait_for()
        if tab.is_visible():
            tab.click()
        exchange.locator(".card", has_text=re.compile(r"\bls\b")).first.wait_for()
        before = len(asked(place))
        other.box.fill(DISK)
        other.frame.get_by_role("button", name="Send").click()
        other.frame.locator(".exchange", has_text=DISK).wait_for()
        other.ended()
        other.exchanges.last.locator(".card", has_text=re.compile(r"\bdf\b")).first.wait_for()
        assert other.exchanges.count() == 1
        assert not other.frame.locator(".problem").is_visible()
    finally:
        bench.page.close()
        bench.page = page
    chat.ask("and the hidden ones?")
    assert len(asked(place)) == before + 2
