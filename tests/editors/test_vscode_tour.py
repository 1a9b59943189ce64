"""A user's day with the extension, in VS Code: docs/editors/vscode-screens.md.

``SCREENS=write`` in the environment retakes the page's pictures.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import llama_server
import pytest
from editor_parts import Place
from fault_server import served
from test_neovim_tour import (
    CALC,
    EDIT,
    MODEL,
    STATUS,
    STEP,
    WAIT,
    Streaming,
    calling,
    fixture_place,
)
from vscode_parts import EXTENSION, ROOT, Chat, Workbench, missing, opened, package

__all__ = ["calling", "fixture_place"]

pytestmark = [
    pytest.mark.editor,
    pytest.mark.llama,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

PICTURES = ROOT / "docs" / "images" / "vscode"

#: What of a page's faults is none of ours: the host's frame has no heading of its own.
_AXE = """
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations
  .filter(({impact}) => impact === "serious" || impact === "critical")
  .map(({id, nodes}) => id + ": " + nodes.map(({html, failureSummary}) =>
    html.slice(0, 200) + " " + failureSummary).join(" | ")))
"""

#: What sticks out of the page to the right, or is cut there.
_CUT = """
() => [...document.querySelectorAll("button, .prompt, .risk, .note, h1, h2, p, .tabs")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.outerHTML.slice(0, 120))
"""

THEMES = {
    "light": "Default Light Modern",
    "dark": "Default Dark Modern",
    "high-contrast": "Default High Contrast",
}


def shot(bench: Workbench, name: str) -> None:
    """Take a picture of the window, without what a hover shows."""
    bench.page.mouse.move(700, 300)
    bench.page.wait_for_timeout(600)
    if os.environ.get("SCREENS") == "write":
        PICTURES.mkdir(parents=True, exist_ok=True)
        bench.page.screenshot(path=str(PICTURES / f"{name}.png"))


def sound(frame: Any, what: str) -> None:
    """See that a page has no serious fault, and that nothing of it is cut."""
    axe = (EXTENSION / "node_modules" / "axe-core" / "axe.min.js").read_text()
    frame.evaluate(axe)
    faults = frame.evaluate(_AXE)
    assert not faults, (what, faults)
    cut = frame.evaluate(_CUT)
    assert not cut, (what, cut)


def card(chat: Chat, command: str) -> Any:
    return chat.frame.locator(".card", has_text=command).last


def run(chat: Chat, command: str) -> None:
    card(chat, command).get_by_role("button", name="Run", exact=True).click()


def test_a_day(place: Place, tmp_path: Path, calling: llama_server.LlamaServer) -> None:
    vsix = package(tmp_path)
    caller = Streaming(calling, [(STATUS, ())])
    with served(caller) as url:
        place.config.write_text(f"[models.local]\n{MODEL.replace('URL', url)}\n")
        profile = tmp_path / "profile"
        with opened(place, profile, vsix) as bench:
            talk(bench, place, caller)
            bench.load()
            restarted(bench)
            looks(bench)


def talk(bench: Workbench, place: Place, caller: Streaming) -> None:
    chat = bench.chat()
    shot(bench, "01-chat")
    chat.ask("What did I change here?")
    card(chat, "git checkout").wait_for()
    sound(chat.frame, "a reply")
    shot(bench, "02-question")

    run(chat, "git status")
    chat.frame.locator(".output", has_text="M calc.py").wait_for()
    card(chat, "git status").locator(".ended", has_text="exit 0").wait_for()
    shot(bench, "03-output")
    run(chat, "git checkout")
    asked = chat.frame.get_by_role("alertdialog")
    asked.wait_for()
    assert "git checkout -- ." in asked.inner_text()
    assert str(place.folder) in asked.inner_text()
    assert asked.get_by_role("button").all_inner_texts() == ["Run", "Cancel"]
    sound(chat.frame, "a destructive command")
    shot(bench, "04-destructive")
    # What Enter presses loses nothing.
    bench.page.keyboard.press("Enter")
    card(chat, "git checkout").locator(".ended", has_text="not run").wait_for()
    assert (place.folder / "calc.py").read_text() == CALC

    caller.replies = [("One file, `calc.py`, and nothing else.\n", ())]
    chat.ask("Is that all?")
    assert "$ git status --short (exit 0)\\n M calc.py" in json.dumps(caller.sent[-1])
    shot(bench, "05-follow-up")

    caller.replies = [(Streaming.ENDLESS, ())]
    chat.ask("Tell me a story.", waits=False)
    text = chat.exchanges.last.locator(".markdown")
    bench.until("some text", lambda: text.count() and len(text.inner_text()) > 20)
    before = len(text.inner_text())
    bench.until("more of it", lambda: len(text.inner_text()) > before)
    shot(bench, "06-streaming")
    chat.frame.get_by_role("button", name="Stop").click()
    chat.ended()
    assert "stopped" in chat.last

    caller.replies = [("", [("edit_file", EDIT)]), ("Now it doubles.\n", ())]
    chat.ask("Repair calc.py.", waits=False)
    asked = chat.frame.locator(".question")
    asked.wait_for()
    assert asked.locator(".change .added").all_inner_texts() == ["+    return 2 * x\n"]
    sound(chat.frame, "a change")
    asked.get_by_role("button", name="Open the diff").click()
    bench.page.locator(".monaco-diff-editor", has_text="2 * x").wait_for()
    shot(bench, "07-diff")
    asked.get_by_role("button", name="Accept").click()
    bench.page.locator(".monaco-diff-editor").wait_for(state="detached")
    chat.ended()
    assert (place.folder / "calc.py").read_text() == CALC.replace("x + 1", "2 * x")

    caller.replies = [(STEP, ()), (WAIT, ())]
    bench.command("aish: Pursue a Goal")
    bench.answer("Make the test pass, and wait.")
    bench.answer("Run what may change something")
    asked.wait_for()
    assert "a goal by itself" in asked.inner_text()
    sound(chat.frame, "the question whether goals may be pursued")
    shot(bench, "08-goal-question")
    asked.locator("button.primary").click()
    chat.frame.locator(".step", has_text="Step 2").wait_for()
    bench.until("it runs", lambda: place.runs("sleep 600"))
    strip = chat.frame.locator(".goal")
    assert "Step 2: running" in strip.inner_text()
    sound(chat.frame, "a goal")
    shot(bench, "09-goal")
    strip.get_by_role("button", name="Stop").click()
    chat.ended()
    assert "stopped" in chat.last
    bench.until("nothing is left", lambda: not place.runs("sleep 600"))

    bench.command("aish: Remember")
    bench.answer("The tests run by sh test.sh")
    bench.command("aish: Show the Memory")
    bench.page.locator(".monaco-list-row", has_text="The tests run by sh test.sh").wait_for()
    bench.page.locator(".monaco-list-row", has_text="edit_file").wait_for()
    shot(bench, "10-memory")
    bench.command("View: Hide Panel")

    bench.command("aish: Show the Context and the Cost")
    context = bench.webview("context")
    context.locator("table").first.wait_for()
    assert "Messages" in context.locator("table").first.inner_text()
    assert context.locator("svg.bar rect").count() > 3
    hidden = 'all => all.filter((one) => getComputedStyle(one).display === "none").length'
    assert context.locator(".swatch, svg.bar rect").evaluate_all(hidden) == 0
    sound(context, "the context page")
    shot(bench, "11-context")


def restarted(bench: Workbench) -> None:
    """See that the conversation and the memory are there after a reload."""
    chat = bench.chat()
    chat.frame.locator(".exchange", has_text="What did I change here?").wait_for(state="attached")
    # What is far out of view is not laid out, and has no inner text.
    assert "One file" in str(chat.frame.locator(".log").text_content())
    bench.command("aish: Show the Memory")
    bench.page.locator(".monaco-list-row", has_text="The tests run by sh test.sh").wait_for()
    shot(bench, "12-restarted")
    bench.command("View: Hide Panel")
    bench.command("View: Close All Editors")


def looks(bench: Workbench) -> None:
    """See that it can be read in each theme, and in 300 pixels."""
    chat = bench.chat()
    for name, theme in THEMES.items():
        bench.set({"workbench.colorTheme": theme})
        kind = {"light": "light", "dark": "dark", "high-contrast": "high-contrast"}[name]
        body = chat.frame.locator(f"body[data-vscode-theme-kind=vscode-{kind}]")
        body.wait_for(state="attached")
        chat.frame.locator(".log").evaluate("(log) => { log.scrollTop = 0 }")
        sound(chat.frame, name)
        shot(bench, f"13-{name}")
    bench.set({"workbench.colorTheme": "Default High Contrast Light"})
    body = chat.frame.locator("body[data-vscode-theme-kind=vscode-high-contrast-light]")
    body.wait_for(state="attached")
    sound(chat.frame, "light, high contrast")
    narrow(bench)
    for name, theme in THEMES.items():
        bench.set({"workbench.colorTheme": theme})
        bench.page.wait_for_timeout(800)
        width = chat.frame.evaluate("innerWidth")
        assert width <= 300, width
        sound(chat.frame, f"{name}, narrow")
        shot(bench, f"14-narrow-{name}")


def narrow(bench: Workbench) -> None:
    """Make the side bar 300 pixels wide, the bar with the icons not counted."""
    sash = bench.page.locator(".monaco-sash.vertical").first
    bar = bench.page.locator(".part.sidebar")
    box, edge = bar.bounding_box(), sash.bounding_box()
    mouse = bench.page.mouse
    x = box["x"] + box["width"]
    mouse.move(x, edge["y"] + 300)
    mouse.down()
    mouse.move(box["x"] + 300, edge["y"] + 300, steps=5)
    mouse.up()
