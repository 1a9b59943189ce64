"""The box for the next message, and what a screen reader meets in each state of the pages."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_vscode_tour import sound
from vscode_parts import Chat, Workbench, missing, opened, package, playwright

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

CARDS = """\
Three ways, from the one that only looks:

CMD: ls -l

CMD: touch made.txt

CMD: rm -rf build

CMD: ssh <host>

```python
def double(x: int) -> int:
    return 2 * x
```

| name | what it is |
| ---- | ---------- |
| `ls` | a list     |

- [x] done, see [the page](https://example.com) and `calc.py:2`
- [ ] to do
"""


#: Lines of a tale.
TALE = 100


class Model:
    """A model server that answers with cards, an error, a tale, or words without end."""

    async def __call__(self, request: Request, peer: Peer) -> None:
        """Answer a request."""
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        asked = request.json["messages"][-1]["content"]
        if "error" in asked:
            await peer.reply({"error": {"message": "It is broken."}}, "400 Bad Request")
            return
        await peer.head()
        if "cards" in asked:
            await peer.event(chunk_of(CARDS))
            await peer.event(chunk_of("", finish_reason="stop"))
            await peer.event("[DONE]")
            return
        for number in itertools.count(1):
            await peer.event(chunk_of(f"Line {number} of a story.\n\n"))
            await asyncio.sleep(0.05)
            if "tale" in asked and number == TALE:
                break
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("place"), "work 1")


@pytest.fixture(scope="module", name="bench")
def fixture_bench(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    root = tmp_path_factory.mktemp("bench")
    (place.folder / "calc.py").write_text("def double(x):\n    return x + 1\n")
    (place.folder / "package.json").write_text('{"name": 1,, }\n')
    with served(Model()) as url:
        place.config.write_text(
            f'[models.local]\nendpoint = "{url}"\nmodel = "m"\ncontext_window = 65536\n'
        )
        with opened(place, root / "profile", package(root)) as bench:
            yield bench


@pytest.fixture(name="chat")
def fixture_chat(bench: Workbench) -> Chat:
    return bench.new_chat()


def stop(chat: Chat) -> None:
    chat.frame.locator(".composer").get_by_role("button", name="Stop").click()


def has_caret(chat: Chat) -> bool:
    """Return whether what is typed goes into the box."""
    return bool(chat.box.evaluate("box => box === document.activeElement && document.hasFocus()"))


def states(bench: Workbench, chat: Chat) -> Iterator[tuple[str, Any]]:
    """Bring the pages into one state after the other; yield its name and the page's frame."""
    yield "empty", chat.frame
    chat.box.fill("")
    chat.box.press_sequentially("what is in @")
    chat.frame.get_by_role("option", name="calc.py").first.wait_for()
    yield "proposals", chat.frame
    chat.box.press("Escape")
    chat.ask("cards")
    yield "cards", chat.frame
    chat.exchanges.first.get_by_role("button", name="Edit", exact=True).first.click()
    chat.frame.get_by_label("Edit the question").wait_for()
    card = chat.frame.locator(".card", has_text="ssh")
    card.get_by_role("button", name="Fill in and run").click()
    chat.frame.get_by_label("Edit the command").wait_for()
    yield "inputs", chat.frame
    chat.frame.locator(".card", has_text="ls -l").get_by_role(
        "button", name="Run", exact=True
    ).click()
    chat.frame.locator(".ended", has_text="exit 0").wait_for()
    yield "output", chat.frame
    chat.ask("error")
    yield "error", chat.frame
    chat.ask("a story", waits=False)
    chat.exchanges.last.locator(".markdown", has_text="Line 3").wait_for()
    yield "streaming", chat.frame
    chat.ask("another story", waits=False)
    yield "queue", chat.frame
    for _ in range(2):
        stop(chat)
    chat.ended()
    bench.command("aish: New Chat")
    chat.frame.locator(".welcome").wait_for()
    chat.frame.get_by_role("tab").nth(1).wait_for()
    yield "tabs", chat.frame
    bench.command("aish: Show the Context and the Cost")
    context = bench.webview("context")
    context.locator("table").first.wait_for()
    yield "context", context


def test_no_state_of_the_pages_has_a_serious_fault(bench: Workbench, chat: Chat) -> None:
    for name, frame in states(bench, chat):
        sound(frame, name)
    bench.command("View: Close All Editors")


def test_the_caret_is_in_the_box_after_each_way_to_the_chat(bench: Workbench, chat: Chat) -> None:
    chat.box.blur()
    bench.command("aish: New Chat")
    bench.until("the caret, after a new chat", lambda: has_caret(chat))
    bench.page.keyboard.type("cards")
    chat.frame.get_by_role("button", name="Send").click()
    chat.exchanges.first.wait_for()
    chat.ended()
    bench.until("the caret, after a question", lambda: has_caret(chat))
    bench.page.locator(".part.editor").click(position={"x": 300, "y": 400})
    assert not has_caret(chat)
    bench.page.keyboard.press("Control+Alt+a")
    bench.until("the caret, after the key", lambda: has_caret(chat))
    chat.frame.locator(".log").click(position={"x": 3, "y": 3})
    bench.page.keyboard.press("Control+Alt+a")
    bench.until("the caret, from the chat itself", lambda: has_caret(chat))


def test_stop_ends_what_goes_on_and_leaves_the_question_that_waits(chat: Chat) -> None:
    chat.ask("a story", waits=False)
    chat.exchanges.last.locator(".markdown", has_text="Line 3").wait_for()
    chat.ask("another story", waits=False)
    stop(chat)
    chat.exchanges.nth(1).locator(".markdown", has_text="Line 3").wait_for()
    assert "stopped" in chat.exchanges.first.inner_text()
    stop(chat)
    chat.ended()
    assert "stopped" in chat.last


def test_a_little_way_up_is_up_and_a_button_leads_to_the_end(bench: Workbench, chat: Chat) -> None:
    chat.ask("a story", waits=False)
    chat.exchanges.last.locator(".markdown", has_text="Line 40").wait_for()
    chat.frame.locator(".log").hover()
    bench.page.mouse.wheel(0, -20)
    end = chat.frame.get_by_role("button", name="Go to the end")
    end.wait_for()
    top = "log => log.scrollTop"
    log = chat.frame.locator(".log")
    before, length = log.evaluate(top), len(chat.last)
    bench.until("more of it", lambda: len(chat.last) > length + 100)
    assert log.evaluate(top) == before
    end.click()
    length = len(chat.last)
    bench.until("more of it", lambda: len(chat.last) > length + 100)
    left = "log => log.scrollHeight - log.scrollTop - log.clientHeight"
    bench.until("the end", lambda: log.evaluate(left) < 2)
    assert has_caret(chat)
    stop(chat)
    chat.ended()


def test_the_box_grows_with_its_text_up_to_a_part_of_the_page(chat: Chat) -> None:
    height = "box => box.clientHeight"
    low = chat.box.evaluate(height)
    chat.box.fill("one\ntwo\nthree\nfour")
    higher = chat.box.evaluate(height)
    chat.box.fill("line\n" * 200)
    highest = chat.box.evaluate(height)
    assert low < 40 < higher < highest < chat.frame.evaluate("innerHeight") / 2
    chat.box.fill("")
    assert chat.box.evaluate(height) == low


def test_a_whole_reply_is_copied(bench: Workbench, chat: Chat) -> None:
    chat.ask("cards")
    chat.exchanges.last.get_by_role("button", name="Copy the reply").click()
    read = "() => navigator.clipboard.readText()"
    bench.until("the reply", lambda: bench.page.evaluate(read) == CARDS.strip())


def open_file(bench: Workbench, name: str) -> None:
    bench.page.locator(".part.editor").click(position={"x": 300, "y": 400})
    bench.page.keyboard.press("Control+p")
    bench.page.locator(".quick-input-widget input").first.fill(name)
    bench.page.locator(".quick-input-list .monaco-list-row", has_text=name).first.click()
    bench.page.locator(".tab", has_text=name).wait_for()


def test_the_sign_for_files_offers_the_selection_problems_and_the_terminal(
    bench: Workbench, chat: Chat
) -> None:
    open_file(bench, "calc.py")
    bench.page.locator(".view-lines .view-line", has_text="return").click(click_count=3)
    chat.frame.get_by_role("button", name="Attach").click()
    options = chat.frame.get_by_role("option")
    options.filter(has_text="Selection").wait_for()
    assert options.filter(has_text="Terminal").locator("svg").count() == 1
    bench.page.keyboard.press("Enter")
    assert chat.box.input_value().startswith("@calc.py:2-")
    bench.page.keyboard.type("and @term")
    options.filter(has_text="Terminal").wait_for()
    bench.page.keyboard.press("Tab")
    assert chat.box.input_value().endswith("and @terminal ")
    # The problems of the file are put in as text, which can be read and changed.
    open_file(bench, "package.json")
    chat.box.fill("")

    def is_offered() -> bool:
        chat.box.fill("")
        chat.box.press_sequentially("@prob")
        bench.page.wait_for_timeout(500)
        return bool(options.filter(has_text="Problems").count())

    bench.until("the problems", is_offered)
    assert options.filter(has_text="Problems").locator("svg").count() == 1
    bench.page.keyboard.press("Tab")
    assert re.search(r"package\.json:1\b.*[Ee]xpected", chat.box.input_value())
    chat.box.fill("")
    bench.command("View: Close All Editors")


def pages(bench: Workbench) -> list[Chat]:
    """Return the pages that show the chat, the side bar's first."""
    found = []
    for frame in bench.page.frames:
        for place in ("side bar", "editor"):
            with suppress(playwright.Error):
                body = frame.query_selector(f'body[data-page="chat"][data-place="{place}"]')
                if body is not None:
                    found.append((place == "editor", Chat(frame)))
    return [chat for _, chat in sorted(found, key=lambda one: one[0])]


def page_with(bench: Workbench, text: str) -> Chat:
    """Wait for a page that shows a text; those that are closed now are none."""

    def found() -> list[Chat]:
        shown = []
        for chat in pages(bench):
            with suppress(playwright.Error):
                shown += [chat] * bool(chat.frame.locator(".exchange", has_text=text).count())
        return shown

    return bench.until(f"a page with {text}", found)[0]


def whole(chat: Chat) -> bool:
    """Return whether the last reply has each line of its story once, in their order."""
    lines = re.findall(r"Line (\d+) of", chat.last)
    return bool(lines) and lines == [str(number) for number in range(1, len(lines) + 1)]


def test_an_editor_tab_shows_the_chat_and_loses_nothing_in_mid_stream(
    bench: Workbench, chat: Chat
) -> None:
    chat.ask("a story", waits=False)
    chat.exchanges.last.locator(".markdown", has_text="Line 3").wait_for()
    chat.box.fill("not sent yet")
    bench.command("aish: Open in an Editor Tab")
    bench.until("both pages", lambda: len(pages(bench)) == 2)
    tab = pages(bench)[1]
    tab.exchanges.last.locator(".markdown", has_text="Line 3").wait_for()
    bench.until("what was typed", lambda: tab.box.input_value() == "not sent yet")
    bench.until("the caret", lambda: has_caret(tab))
    assert whole(tab)
    bench.page.keyboard.type(" and more")
    bench.until("the same", lambda: chat.box.input_value() == "not sent yet and more")
    # Hidden behind another tab, moved, and closed.
    bench.command("aish: Show the Context and the Cost")
    bench.until("it is hidden", lambda: len(pages(bench)) == 1)
    bench.page.locator(".part.editor").get_by_role("tab", name="aish", exact=True).click()
    bench.until("it is there", lambda: len(pages(bench)) == 2)
    tab = pages(bench)[1]
    tab.exchanges.last.locator(".markdown", has_text="Line 9").wait_for()
    assert whole(tab)
    assert tab.box.input_value() == "not sent yet and more"
    bench.command("View: Move Editor into Next Group")
    bench.until("it is moved", lambda: len(pages(bench)) == 2 and pages(bench)[1].exchanges.count())
    assert whole(pages(bench)[1])
    bench.command("View: Close All Editors")
    bench.until("it is closed", lambda: len(pages(bench)) == 1)
    stop(chat)
    chat.ended()
    assert whole(chat)
    chat.box.fill("")


def test_a_chat_of_the_list_is_renamed_opened_and_deleted(bench: Workbench, chat: Chat) -> None:
    chat.ask("cards, for the list")
    bench.command("aish: Show Chats")
    rows = bench.page.locator(".quick-input-list .monaco-list-row")
    row = rows.filter(has_text="cards, for the list")
    row.wait_for()
    assert "Today" in bench.page.locator(".quick-input-list").inner_text()
    row.hover()
    row.locator(".action-label[aria-label*=Rename]").click()
    bench.page.locator(".quick-input-widget", has_text="A name for this chat").wait_for()
    bench.answer("My list")
    row = rows.filter(has_text="My list")
    row.wait_for()
    row.hover()
    row.locator(".action-label[aria-label*=Delete]").click()
    chat.frame.get_by_role("button", name="Delete", exact=True).click()
    chat.frame.locator(".exchange", has_text="for the list").wait_for(state="detached")
    bench.command("aish: Show Chats")
    box = bench.page.locator(".quick-input-widget input").first
    box.fill("for the list")
    row.wait_for(state="detached")
    bench.page.keyboard.press("Escape")


def test_the_chat_is_moved_to_the_right_and_back_in_mid_stream(
    bench: Workbench, chat: Chat
) -> None:
    chat.ask("a story", waits=False)
    chat.exchanges.last.locator(".markdown", has_text="Line 3").wait_for()
    bench.command("aish: Move the Chat")
    rows = bench.page.locator(".quick-input-list .monaco-list-row")
    rows.filter(has_text="Secondary Side Bar").first.click()
    bench.page.locator(".part.auxiliarybar", has_text="aish").wait_for()
    assert whole(page_with(bench, "Line 50"))
    bench.command("View: Reset View Locations")
    bench.page.locator(".part.auxiliarybar", has_text="aish").wait_for(state="hidden")
    last = re.findall(r"Line (\d+) of", bench.chat().last)[-1]
    chat = page_with(bench, f"Line {int(last) + 20}")
    stop(chat)
    chat.ended()
    assert whole(chat)


def test_a_reply_that_ends_while_no_page_shows_it_is_all_there(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    chat.ask("a tale", waits=False)
    chat.exchanges.last.locator(".markdown", has_text="Line 3").wait_for()
    bench.page.keyboard.press("Control+Shift+e")
    bench.until("it is hidden", lambda: not pages(bench))
    bench.until("its end", lambda: f"Line {TALE} of" in str(place.sessions()))
    chat = bench.chat()
    chat.exchanges.last.locator(".markdown", has_text=f"Line {TALE} ").wait_for()
    chat.ended()
    assert whole(chat)
    assert not bench.page.locator(".notification-toast", has_text="rror").count()


def test_at_twice_the_size_the_chat_has_most_of_the_height(bench: Workbench, chat: Chat) -> None:
    size = bench.page.viewport_size
    # A window zoomed to 200 % has half of the pixels.
    bench.page.set_viewport_size({"width": 640, "height": 400})
    try:
        log = chat.frame.locator(".log")
        bench.until("a height", lambda: chat.frame.evaluate("innerHeight") < 400)
        assert chat.frame.evaluate("innerHeight") > 240
        assert log.evaluate("log => log.clientHeight") > 160
    finally:
        bench.page.set_viewport_size(size)
