"""What goes wrong around the extension, in VS Code.

Servers that end, replies that attack, settings that are wrong.
"""

from __future__ import annotations

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from vscode_parts import Chat, Workbench, missing, opened, package, servers

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]


@pytest.fixture(scope="module", name="vsix")
def fixture_vsix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("vsix"))


@pytest.fixture(name="place")
def fixture_place(tmp_path: Path) -> Place:
    return Place.make(tmp_path, "work 1")


class Says:
    """A model server that replies with a text; ``hangs`` after its first half."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.hangs = False

    async def __call__(self, request: Request, peer: Peer) -> None:
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        await peer.head()
        middle = len(self.text) // 2
        await peer.event(chunk_of(self.text[:middle]))
        if self.hangs:
            await peer.wait_closed()
            return
        await peer.event(chunk_of(self.text[middle:]))
        await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")


def use(place: Place, url: str) -> None:
    place.config.write_text(
        f'[models.local]\nendpoint = "{url}"\nmodel = "m"\ncontext_window = 65536\n'
    )


def kill(place: Place) -> None:
    for pid in servers(place):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Counting(http.server.BaseHTTPRequestHandler):
    """Answers all with a pixel, and counts."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    do_CONNECT = do_POST = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(name="evil")
def fixture_evil() -> Iterator[tuple[str, list[str]]]:
    """A server that no reply may have VS Code ask anything; with what it was asked."""
    handler = type("Handler", (Counting,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler.asked  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


ATTACK = """\
<img src="{evil}/img.png"> ![pixel]({evil}/markdown.png)
<script>fetch("{evil}/script")</script><style>@import url({evil}/style.css);</style>
<iframe src="{evil}/frame"></iframe><svg onload="fetch('{evil}/svg')"></svg>
<link rel=stylesheet href={evil}/link.css><video src={evil}/v poster={evil}/p></video>
[run](command:workbench.action.files.newUntitledFile) [js](javascript:fetch('{evil}/js'))
<a href="command:workbench.action.files.newUntitledFile">two</a>
[page]({evil}/page "title") <{evil}/auto>

```html
<img src="{evil}/code.png">
```

turned \u202earound\u202c and \u001b[31mred\u001b[0m
and \u001b]8;;{evil}/osc\u0007link\u001b]8;;\u0007

CMD: echo \u202e'gnp.exe'
"""


def test_a_reply_asks_nothing_of_the_net_and_runs_nothing(
    place: Place, tmp_path: Path, vsix: Path, evil: tuple[str, list[str]]
) -> None:
    url, asked = evil
    with served(Says(ATTACK.replace("{evil}", url))) as model:
        use(place, model)
        with opened(place, tmp_path / "profile", vsix) as bench:
            requests: list[str] = []
            bench.page.on("request", lambda request: requests.append(request.url))
            chat = bench.chat()
            chat.ask("Attack.")
            links = chat.frame.locator(".markdown a")
            hrefs = [link.get_attribute("href") for link in links.all()]
            assert hrefs
            assert all(href.startswith(url) for href in hrefs), hrefs
            for element in (
                "img",
                "iframe",
                "script:not([nonce])",
                "svg:not(.icon svg)",
                "video",
                "style",
            ):
                assert chat.frame.locator(f".exchange {element}").count() == 0, element
            assert "<U+202E>" in chat.last
            bench.page.wait_for_timeout(1000)
            assert bench.page.locator(".tabs-container .tab").count() == 0
            assert asked == []
            assert not [one for one in requests if one.startswith(url)]


#: Replies of which there is too much, each with how it ends; of the names one is a file's.
MUCH = {
    "a line": (hashlib.shake_256(b"much").hexdigest(1 << 19) + " end", "end"),
    "levels of a list": (
        "\n".join(f"{'  ' * level}- level {level}" for level in range(201)),
        "level 200",
    ),
    "levels of quotations": ("> " * 200 + "deep", "deep"),
    "columns": (f"|{' x |' * 500}\n|{'-|' * 500}\n|{' y |' * 499} end |", "end"),
    "a fence": ("```py\n" + "x = 1\n" * 20_000 + "end = 1\n", "end = 1"),
    "names": (" ".join(f"src/{at}.py" for at in range(10_000)) + " main.py", "main.py"),
}


def test_a_reply_of_too_much_is_all_there_and_freezes_nothing(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    model = Says("")
    with served(model) as url:
        use(place, url)
        with place.config.open("a") as config:
            config.write('[suggestions]\nrepetition_guard = "off"\n')
        with opened(place, tmp_path / "profile", vsix) as bench:
            for what, (model.text, end) in MUCH.items():
                chat = bench.new_chat()
                chat.ask(f"Much, as {what}.")
                shown = str(chat.exchanges.last.locator(".markdown").first.text_content())
                assert shown.rstrip("\n").endswith(end), what
                chat.ask(":help")
                assert ":undo" in chat.last, what
                wide = "document.documentElement.scrollWidth > innerWidth"
                assert not chat.frame.evaluate(wide), what
                if what == "names":
                    chat.frame.locator("a.file", has_text="main.py").wait_for()


def test_a_server_that_is_killed_is_started_again_with_the_conversation(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    model = Says("The first half and the other half.\n")
    with served(model) as url:
        use(place, url)
        with opened(place, tmp_path / "profile", vsix) as bench:
            chat = bench.chat()
            chat.ask("First?")
            for number in range(2):
                model.hangs = True
                chat.ask("Torn?", waits=False)
                chat.exchanges.last.locator(".markdown").wait_for()
                kill(place)
                chat.ended()
                assert "The first half" in chat.last, number
                assert "ask again" in chat.last
                model.hangs = False
                bench.until("a server", lambda: servers(place))
                again(bench, chat, f"Again {number}?")
            text = str(chat.frame.locator(".log").inner_text())
            assert [text.count(f"Again {number}?") for number in range(2)] == [1, 1]
            # Of one session, and each question once.
            asked = [one["content"] for one in place.sessions() if one.get("role") == "user"]
            assert asked.count("First?") == 1
            assert [asked.count(f"Again {number}?") for number in range(2)] == [1, 1]


def again(bench: Workbench, chat: Chat, text: str) -> None:
    """Ask until a server is there to answer."""
    chat.ask(text)
    assert "other half" in chat.last, chat.last
    assert bench.page.locator(".notification-toast").count() == 0


def test_what_the_server_tells_is_no_link(place: Place, tmp_path: Path, vsix: Path) -> None:
    name = "[x](command:workbench.action.files.newUntitledFile)"
    (place.folder / name).write_text("x\n")
    subprocess.run(["git", "init", "-q", place.folder], check=True)
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        chat.ask(f":run rm '{name}'", waits=False)
        chat.frame.locator(".question").get_by_role("button", name="Run").click()
        chat.ended()
        assert not (place.folder / name).exists()
        bench.command("aish: Undo")
        toast = bench.page.locator(".notification-toast", has_text="[x] (command:")
        toast.wait_for()
        assert toast.locator(".notification-list-item-message a").count() == 0


def test_a_session_that_is_opened_twice_at_once_has_one_tab(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        chat.ask("how do I list files?")
        (log,) = (tmp_path / "data").glob("workspaces/*/sessions/*.jsonl")
        tabs = chat.frame.get_by_role("tab")
        bench.command("aish: New Chat")
        tabs.filter(has_text="how do I list").hover()
        tabs.filter(has_text="how do I list").locator(".tab-close").click()
        tabs.first.wait_for(state="hidden")
        # Both are sent before the first one is answered.
        chat.box.evaluate(
            """(box, line) => {
              for (let times = 0; times < 2; times++) {
                box.value = line;
                box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
              }
            }""",
            f":resume {log.stem}",
        )
        tabs.filter(has_text="how do I list").first.wait_for()
        bench.page.wait_for_timeout(2000)
        assert tabs.filter(has_text="how do I list").count() == 1


def test_a_server_that_ends_again_and_again_is_left_alone_and_told_of(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    starts = tmp_path / "starts"
    program = place.programs / "aish-lsp"
    program.write_text(f"#!/bin/sh\necho start >>{starts}\nexit 1\n")
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        problem = chat.frame.locator(".problem")
        problem.wait_for()
        bench.page.locator(".notification-toast").first.wait_for()
        bench.page.wait_for_timeout(5000)
        assert 1 <= len(starts.read_text().split()) <= 6
        told = bench.page.locator(".notification-toast").all_inner_texts()
        assert len(told) == 1, told
        # Once it is there again, a button goes on.
        Place.make(tmp_path, "work 1")
        problem.get_by_role("button", name="Try again").click()
        problem.wait_for(state="hidden")
        chat.ask(":help")
        assert ":undo" in chat.last


def test_no_server_is_said_with_what_to_do(place: Place, tmp_path: Path, vsix: Path) -> None:
    (place.programs / "aish-lsp").unlink()
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        problem = chat.frame.locator(".problem")
        problem.wait_for()
        assert "is not there. The setting aish.server.command names it." in problem.inner_text()
        told = bench.page.locator(".notification-toast").all_inner_texts()
        assert len(told) == 1, told
        # What is asked meanwhile is not lost.
        chat.box.fill("who am I?")
        chat.box.press("Enter")
        bench.until("the text again", lambda: chat.box.input_value().strip() == "who am I?")
        assert not chat.frame.locator(".exchange").count()


def test_a_server_that_does_not_answer_is_said_and_can_be_started_anew(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    (place.programs / "aish-lsp").write_text("#!/bin/sh\nexec sleep 600\n")
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        # Nothing of VS Code waits for it.
        chat.box.fill("hello")
        problem = chat.frame.locator(".problem", has_text="does not answer")
        problem.wait_for()
        Place.make(tmp_path, "work 1")
        problem.get_by_role("button", name="Try again").click()
        problem.wait_for(state="hidden")
        assert chat.box.input_value() == "hello"
        chat.ask(":help")
        assert ":undo" in chat.last


def test_one_that_is_too_old_is_said(place: Place, tmp_path: Path, vsix: Path) -> None:
    program = place.programs / "aish-lsp"
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c \"import aish_lsp; aish_lsp.__version__ = '0.0.1';"
        ' from aish_lsp.__main__ import main; main()"\n'
    )
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        problem = chat.frame.locator(".problem")
        problem.wait_for()
        assert "aish-lsp 0.0.1 is too old" in problem.inner_text()


def test_settings_that_are_wrong_are_told_and_lose_nothing(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    wrong = {"aish.context.maxTurns": "many", "aish.safety.confirm": 7}
    with opened(place, tmp_path / "profile", vsix, wrong) as bench:
        chat = bench.chat()
        chat.ask("how do I list files?")
        assert "ls" in chat.last
        assert "max_turns" in str(chat.frame.locator(".log").inner_text()) or (
            bench.page.locator(".notification-toast", has_text="max_turns").count() == 1
        )


def test_nothing_happens_in_a_folder_that_is_not_trusted(
    place: Place, tmp_path: Path, vsix: Path
) -> None:
    trust = {
        "security.workspace.trust.enabled": True,
        "security.workspace.trust.startupPrompt": "never",
        "security.workspace.trust.banner": "never",
    }
    with opened(place, tmp_path / "profile", vsix, trust) as bench:
        chat = bench.chat()
        chat.frame.locator(".problem", has_text="do not trust").wait_for()
        assert servers(place) == []
