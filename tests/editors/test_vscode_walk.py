"""The walk of ``walking`` in VS Code, with two windows."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import served
from vscode_parts import Chat, Workbench, missing, opened, package
from walking import NAME, Model, Walk, prepare

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

#: The text that the editor shows; its lines are in the page in any order.
SHOWN = """
(lines) => lines.sort((a, b) => a.offsetTop - b.offsetTop)
  .map((one) => one.textContent.replaceAll("\\u00a0", " ")).join("\\n")
"""


class Hands:
    """A user of one window."""

    can_agree = True

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._tab = bench.page.locator(f".tab[data-resource-name='{NAME}']")
        bench.page.locator(".part.editor").click(position={"x": 300, "y": 400})
        bench.page.keyboard.press("Control+p")
        bench.page.locator(".quick-input-widget input").first.fill(NAME)
        bench.page.locator(".quick-input-list .monaco-list-row", has_text=NAME).first.click()
        self._tab.first.wait_for()
        self._known: Chat | None = None

    @property
    def _chat(self) -> Chat:
        self._known = self._known or self._bench.chat()
        return self._known

    def ask(self, text: str, agreed: int = 0) -> None:
        chat = self._chat
        chat.ask(text, waits=False)
        for _ in range(agreed):
            yes = chat.frame.locator(".question button.primary").first
            yes.wait_for()
            shown = yes.element_handle()
            shown.click()
            # Another question may come at once.
            shown.wait_for_element_state("hidden")
        chat.ended()

    def run(self, command: str) -> None:
        card = self._chat.frame.locator(".card", has_text=command).last
        card.get_by_role("button", name="Run", exact=True).click()
        card.locator(".ended", has_text="exit 0").wait_for()

    def look(self) -> None:
        self._tab.first.click()

    def buffer(self) -> tuple[str, bool]:
        self.look()
        lines = self._bench.page.locator(".editor-instance .view-lines .view-line")
        is_unsaved = "dirty" in (self._tab.first.get_attribute("class") or "").split()
        return str(lines.evaluate_all(SHOWN)), is_unsaved

    def put_above(self, line: str) -> None:
        self.look()
        self._bench.page.locator(".editor-instance .view-lines").first.click()
        self._bench.page.keyboard.press("Control+Home")
        self._bench.page.keyboard.type(f"{line}\n")


def test_a_walk(tmp_path: Path) -> None:
    place, model = Place.make(tmp_path, "work 1"), Model()
    with served(model) as url:
        prepare(place, url)
        # Else VS Code asks about the model's port, too.
        settings = {"remote.autoForwardPorts": False}
        packaged = package(tmp_path)
        with opened(place, tmp_path / "profile", packaged, settings=settings) as bench:
            other = copy.copy(bench)
            other.page = bench.page.context.new_page()
            other.load()
            Walk(place, model, Hands(bench), Hands(other)).take()
