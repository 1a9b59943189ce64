"""Commands that go to the user's terminal, and what the terminal ran last, in VS Code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from editor_parts import Place
from vscode_parts import Chat, Workbench, missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]


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


def to_terminal(chat: Chat) -> Any:
    """Send the last suggestion to the terminal; return its card."""
    card = chat.frame.locator(".card").last
    card.get_by_role("button", name="To terminal").click()
    return card


def typed(bench: Workbench, text: str) -> None:
    """Type a line into the terminal in sight."""
    bench.command("Terminal: Focus Terminal")
    # What is typed before is lost.
    bench.page.locator(".xterm.focus").wait_for()
    bench.page.keyboard.type(text)
    bench.page.keyboard.press("Enter")


def entered(bench: Workbench, what: str, has_run: Callable[[], bool]) -> None:
    """Press Enter in the terminal, until what stands there has run."""
    bench.command("Terminal: Focus Terminal")
    bench.until(what, lambda: bench.page.keyboard.press("Enter") or has_run())


def sent(place: Place) -> dict[str, Any]:
    """Return the last question, with what was sent along."""
    return [one for one in place.sessions() if one.get("role") == "user"][-1]


def test_how_a_command_ends_in_the_terminal_comes_back(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    chat.ask("how many lines are in main.py")
    card = to_terminal(chat)
    card.locator(".ended", has_text="exit 0").wait_for()
    assert "main.py" in card.locator(".output").inner_text()
    chat.ask("how many lines are in nowhere.txt")
    card = to_terminal(chat)
    card.locator(".ended", has_text="exit 1").wait_for()
    assert "No such file" in card.locator(".output").inner_text()
    card.get_by_role("button", name="Ask about it").click()
    bench.until("the mention", lambda: chat.box.input_value() == "@terminal ")
    chat.box.press_sequentially("why did that fail?")
    assert chat.box.input_value() == "@terminal why did that fail?"
    chat.box.press("Enter")
    chat.exchanges.nth(2).wait_for()
    chat.ended()
    message = str(sent(place))
    assert "nowhere.txt: No such file" in message
    assert f"(exit 1, in {place.folder})" in message


def test_a_terminal_in_which_a_program_runs_or_a_command_waits_is_left_alone(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    chat.ask("how many lines are in main.py")
    to_terminal(chat).locator(".ended", has_text="exit 0").wait_for()
    go, ended = place.folder / "go", place.folder / "ended"
    os.mkfifo(go)
    typed(bench, f"cat '{go}' && touch '{ended}'")
    bench.page.wait_for_timeout(1000)
    chat.ask("how many lines are in main.py")
    to_terminal(chat).locator(".ended", has_text="exit 0").wait_for()
    # It fails if nobody reads there any more.
    os.close(os.open(go, os.O_WRONLY | os.O_NONBLOCK))
    bench.until("its end", ended.exists)
    mine, both = place.folder / "mine.log", place.folder / "mine.logrm"
    for file in (mine, both):
        file.write_text("x\n")
    chat.ask("delete mine.log")
    for _ in range(2):
        to_terminal(chat).locator(".ended", has_text="press Enter there").wait_for()
    entered(bench, "one of the two", lambda: not mine.exists())
    assert both.exists()


def test_without_shell_integration_a_terminal_is_used_again_once_it_is_free(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    bench.set({"terminal.integrated.shellIntegration.enabled": False})
    go, shells = place.folder / "later", place.folder / "shells"
    os.mkfifo(go)

    def shell(lines: int) -> list[str]:
        """Send a command to the terminal and run it; return the shells that were used."""
        to_terminal(chat).locator(".ended", has_text="press Enter there").wait_for()
        typed(bench, "")
        typed(bench, "echo $$ >> shells")
        bench.until("its shell", lambda: len(shells.read_text().split()) == lines)
        return shells.read_text().split()

    shells.touch()
    chat.ask("delete a.log")
    shell(1)
    first, second = shell(2)
    assert first == second
    typed(bench, "cat later")
    bench.page.wait_for_timeout(1000)
    *_, third = shell(3)
    assert third != first
    os.close(os.open(go, os.O_WRONLY | os.O_NONBLOCK))
    bench.set({})
    bench.command("Terminal: Kill All Terminals")


def test_what_the_user_types_there_is_the_terminals_last(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    bench.command("Terminal: Create New Terminal")
    marker = place.folder / "typed"

    def is_ready() -> bool:
        typed(bench, f"touch '{marker}'")
        return marker.exists()

    bench.until("the shell", is_ready)
    typed(bench, f"rm '{marker}'; printf 'so %s\\n' it-is; (exit 7)")
    bench.until("the command", lambda: not marker.exists())
    bench.page.wait_for_timeout(500)
    bench.page.evaluate("navigator.clipboard.writeText('of the user')")
    chat.ask("@terminal what is that?")
    message = str(sent(place))
    assert "so it-is" in message
    assert f"(exit 7, in {place.folder})" in message
    assert bench.page.evaluate("navigator.clipboard.readText()") == "of the user"


def test_what_could_lose_something_waits_for_the_users_own_enter(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    lost = place.folder / "old.log"
    lost.write_text("x\n")
    chat.ask("delete old.log")
    card = to_terminal(chat)
    card.locator(".ended", has_text="press Enter there").wait_for()
    bench.page.wait_for_timeout(1500)
    assert lost.exists()
    entered(bench, "its end", lambda: not lost.exists())


def test_a_safe_command_that_was_made_another_one_is_shown_as_that_and_only_typed(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    kept = place.folder / "kept.log"
    kept.write_text("x\n")
    chat.ask("which folder am i in")
    card = chat.frame.locator(".card.safe").last
    card.get_by_role("button", name="Edit", exact=True).click()
    box = card.get_by_label("Edit the command")
    box.fill("rm kept.log")
    box.press("Control+Enter")
    question = chat.frame.locator(".question", has_text="could lose something")
    question.get_by_role("button", name="Cancel").click()
    card = chat.frame.locator(".card:not(.safe)").last
    card.locator(".ended", has_text="not run").wait_for()
    assert card.locator(".command").inner_text() == "rm kept.log"
    to_terminal(chat).locator(".ended", has_text="press Enter there").wait_for()
    bench.page.wait_for_timeout(1500)
    assert kept.exists()
    entered(bench, "its end", lambda: not kept.exists())


def test_what_a_line_ran_runs_again_and_goes_to_the_terminal(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    chat.ask(":run echo again >> ran.txt; echo done")
    card = chat.frame.locator(".card").last
    card.locator(".output", has_text="done").wait_for()
    card.get_by_role("button", name="Run again").click()
    ran = place.folder / "ran.txt"
    bench.until("the second run", lambda: ran.read_text() == "again\n" * 2)
    card.get_by_role("button", name="Run again").wait_for()
    # Nobody judged it: there it only stands.
    to_terminal(chat).locator(".ended", has_text="press Enter there").wait_for()
    entered(bench, "the third run", lambda: ran.read_text() == "again\n" * 3)


def test_lines_are_not_typed(bench: Workbench, chat: Chat, place: Place) -> None:
    chat.ask("which folder am i in")
    card = chat.frame.locator(".card").last
    card.get_by_role("button", name="Edit", exact=True).click()
    box = card.get_by_label("Edit the command")
    box.fill("echo one > one.txt\necho two > two.txt")
    # All of it is in sight.
    assert box.evaluate("box => box.scrollHeight <= box.clientHeight")
    box.press("Control+Enter")
    bench.until("the lines run", (place.folder / "two.txt").exists)
    card.locator(".ended", has_text="exit 0").wait_for()
    (place.folder / "two.txt").unlink()
    to_terminal(chat).locator(".ended", has_text="paste it").wait_for()
    bench.page.wait_for_timeout(1500)
    assert not (place.folder / "two.txt").exists()
