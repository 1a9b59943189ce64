"""Folders that change while they are open, and several of them, in VS Code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from editor_parts import Place
from vscode_parts import Chat, missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

LIST = "how do I list files?"


@pytest.fixture(scope="module", name="vsix")
def fixture_vsix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("vsix"))


def test_a_folder_that_is_renamed_while_open(tmp_path: Path, vsix: Path) -> None:
    place = Place.make(tmp_path, "work 1")
    away = place.folder.with_name("away")
    with opened(place, tmp_path / "profile", vsix) as bench:
        chat = bench.chat()
        chat.ask(LIST)
        place.folder.rename(away)
        chat.ask("and the hidden ones?")
        card = chat.frame.locator(".card").last
        card.get_by_role("button", name="Run", exact=True).click()
        card.locator(".ended", has_text="is gone").wait_for()
        chat.ask(":run echo x > made.txt")
        assert f"The folder {place.folder} is gone." in chat.last
        assert not place.folder.exists()
        away.rename(place.folder)
        card.get_by_role("button", name="Run", exact=True).click()
        card.locator(".ended", has_text="exit 0").wait_for()
        chat.ask(":memory list")
        chat.frame.locator(".exchange", has_text=LIST).first.wait_for()


def test_each_of_several_folders_has_chats_of_its_own(tmp_path: Path, vsix: Path) -> None:
    place = Place.make(tmp_path, "one")
    other = tmp_path / "two"
    other.mkdir()
    (other / "other.py").write_text("print()\n")
    several = tmp_path / "both.code-workspace"
    folders = [{"path": str(place.folder)}, {"path": str(other)}]
    several.write_text(json.dumps({"folders": folders, "settings": {}}))
    with opened(place, tmp_path / "profile", vsix, several=several) as bench:
        chat = bench.chat()
        chat.ask("which folder am i in")
        chat.ask(":run pwd")
        assert str(place.folder) in chat.last
        bench.page.locator(".part.editor").click(position={"x": 300, "y": 400})
        bench.page.keyboard.press("Control+p")
        bench.page.locator(".quick-input-widget input").first.fill("other.py")
        bench.page.locator(".quick-input-list .monaco-list-row", has_text="other.py").first.click()
        bench.page.locator(".view-lines .view-line", has_text="print").wait_for()
        bench.command("aish: New Chat")
        chat.frame.locator(".welcome").wait_for()
        chat.ask("which folder am i in")
        chat.ask(":run pwd")
        assert str(other) in chat.last
        tabs = chat.frame.get_by_role("tab")
        assert ["one" in tabs.nth(0).inner_text(), "two" in tabs.nth(1).inner_text()] == [True] * 2
        # Both are there after a reload, each in its folder.
        bench.load()
        chat = bench.chat()
        chat.frame.locator(".exchange", has_text="folder am i in").wait_for()
        for number, folder in enumerate((place.folder, other)):
            chat.frame.get_by_role("tab").nth(number).click()
            chat.frame.get_by_role("tab", selected=True).filter(has_text=folder.name).wait_for()
            chat.frame.locator(".exchange", has_text="folder am i in").wait_for()
            chat.ask(":run pwd -P")
            assert str(folder) in chat.last
            card = chat.frame.locator(".card.safe").first
            card.get_by_role("button", name="To terminal").click()
            card.locator(".output", has_text=str(folder)).wait_for()
            card.locator(".ended", has_text="exit 0").wait_for()
        # One that is taken out of the window takes its chats along, and no other.
        several.write_text(json.dumps({"folders": folders[:1], "settings": {}}))
        bench.until("one tab", lambda: tabs_of(bench.chat()) == 1)
        bench.load()
        chat = bench.chat()
        chat.frame.locator(".exchange", has_text="folder am i in").wait_for()
        assert tabs_of(chat) == 1
        chat.ask(":run pwd")
        assert str(place.folder) in chat.last


def tabs_of(chat: Chat) -> int:
    return int(chat.frame.locator("[role=tab]").count())
