"""Files that replies and outputs name, in VS Code: as links that open them at their line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from repository import git
from test_vscode_faults import use
from vscode_parts import Chat, Workbench, missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

REPLY = """\
Look at `src/my app.py`, at src/old.py, at src/app.py:3:5, and at [the second line](src/app.py#L2);
secret.txt and ../secret.txt are elsewhere, gone.py is nowhere.

```python
Traceback (most recent call last):
  File "src/app.py", line 3, in add
```

<https://example.com/a?q=C%23%26D>

CMD: printf 'src/app.py:2:9: error: no\\n'
"""


EDIT = {"path": "src/sum.py", "old": "a - b", "new": "a + b"}


async def model(request: Request, peer: Peer) -> None:
    """Reply with the names of files, or edit one."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    last = request.json["messages"][-1]
    await peer.head()
    if last["role"] == "user" and "mend" in last["content"]:
        function = {"name": "edit_file", "arguments": json.dumps(EDIT)}
        calls = [{"index": 0, "id": "call1", "type": "function", "function": function}]
        await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
        await peer.event(chunk_of("", finish_reason="tool_calls"))
    else:
        await peer.event(chunk_of("Done." if last["role"] == "tool" else REPLY))
        await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place.make(tmp_path_factory.mktemp("place"), "work 1")
    source = place.folder / "src"
    source.mkdir()
    (source / "app.py").write_text("# sums\ndef add(a, b):\n    return a - b\n")
    (source / "my app.py").write_text("# mine\n")
    (source / "old.py").write_text("# old\n")
    (source / "sum.py").write_text("a - b\n")
    git(place.folder, "init", "-q")
    secret = place.folder.with_name("secret.txt")
    secret.write_text("secret\n")
    (place.folder / "secret.txt").symlink_to(secret)
    return place


@pytest.fixture(scope="module", name="bench")
def fixture_bench(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    root = tmp_path_factory.mktemp("bench")
    with served(model) as url:
        use(place, url)
        with opened(place, root / "profile", package(root)) as bench:
            yield bench


@pytest.fixture(name="chat")
def fixture_chat(bench: Workbench) -> Chat:
    chat = bench.new_chat()
    chat.ask("where is the bug?")
    return chat


def link(chat: Chat, target: str) -> Any:
    return chat.frame.locator(f'a.file[data-target="{target}"]').first


def wait_for_line(bench: Workbench, name: str, line: int) -> None:
    """Wait until the caret is on a line of a file."""
    bench.page.locator(".tab.active", has_text=name).wait_for()
    bench.page.locator(".statusbar-item", has_text=f"Ln {line}, ").wait_for()


def test_a_name_in_a_reply_opens_the_file_at_its_line(bench: Workbench, chat: Chat) -> None:
    link(chat, "src/app.py:3:5").click()
    wait_for_line(bench, "app.py", 3)
    link(chat, "src/app.py#L2").click()
    wait_for_line(bench, "app.py", 2)
    # The block of code has colors by now, and its link still.
    chat.frame.locator(".code [class^=hljs]").first.wait_for()
    traced = link(chat, "src/app.py:3")
    traced.focus()
    bench.page.keyboard.press("Enter")
    wait_for_line(bench, "app.py", 3)
    link(chat, "src/my app.py").click()
    wait_for_line(bench, "my app.py", 1)
    targets = chat.frame.locator("a.file").evaluate_all("all => all.map(a => a.dataset.target)")
    assert not [one for one in targets if "secret" in one or "gone" in one]


def test_an_address_is_opened_as_it_is_written(bench: Workbench, chat: Chat) -> None:
    bench.page.evaluate("window.open = (...given) => { window.given = given.map(String); }")
    chat.frame.locator(".markdown a[href^=https]").click()
    bench.dialog().get_by_role("button", name="Open").click()
    opened = bench.until("the page", lambda: bench.page.evaluate("window.given"))
    assert "https://example.com/a?q=C%23%26D" in opened


def test_a_name_in_an_output_opens_the_file_at_its_line(bench: Workbench, chat: Chat) -> None:
    card = chat.frame.locator(".card").last
    card.get_by_role("button", name="Run", exact=True).click()
    card.locator("a.file", has_text="src/app.py:2:9").click()
    wait_for_line(bench, "app.py", 2)


def test_a_file_that_is_gone_by_now_is_said_to_be(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    named = link(chat, "src/old.py")
    named.wait_for()
    (place.folder / "src" / "old.py").unlink()
    named.click()
    told = bench.page.locator(
        ".notification-list-item-message", has_text="src/old.py is not a file"
    )
    told.first.wait_for()


def test_an_edit_is_a_diff_with_a_link_and_is_undone_once(
    bench: Workbench, chat: Chat, place: Place
) -> None:
    sums = place.folder / "src" / "sum.py"
    chat.ask("mend it", waits=False)
    chat.exchanges.last.get_by_role("button", name="Accept").click()
    chat.ended()
    assert sums.read_text() == "a + b\n"
    edit = chat.exchanges.last.locator(".tool")
    assert edit.locator(".added").inner_text().strip() == "+a + b"
    edit.locator(".title a.file").click()
    wait_for_line(bench, "sum.py", 1)
    # Also after a restart.
    bench.load()
    chat = bench.chat()
    undo = chat.exchanges.last.get_by_role("button", name="Undo its changes")
    undo.click()
    bench.until("the file as it was", lambda: sums.read_text() == "a - b\n")
    undo.click()
    bench.page.locator(".notification-list-item-message", has_text="already been undone").wait_for()
    assert sums.read_text() == "a - b\n"
