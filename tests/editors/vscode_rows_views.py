"""What the controls of the side bar and the panel do: rows of ``test_vscode_every_button``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import sdk_tool_server
from vscode_hands import (
    CHAT,
    CHOICES,
    CLOSED,
    ESCAPE,
    LOG,
    MODELS,
    NEW,
    Day,
    Row,
    Step,
    answer,
    ask,
    button,
    choice,
    has_caret,
    is_true,
    lacks,
    misses,
    other,
    palette,
    row,
    sees,
    shows,
    tab,
    then,
    title,
    toast,
    top,
)

MEMORY = '.part.panel .pane-header[aria-label^="Memory"]'
TOOLS = '.part.panel .pane-header[aria-label^="Tools"]'


def pages(count: int) -> Step:
    """See on how many pages the chat is."""
    found = "body[data-page=chat]"
    return is_true(
        f"{count} pages",
        lambda day: sum(bool(one.query_selector(found)) for one in day.page.frames) == count,
    )


def listed(text: str, action: str) -> Step:
    """Press an icon in the list of chats."""

    def press(day: Day) -> None:
        found = day.page.locator(".quick-input-list .monaco-list-row", has_text=text)
        found.hover()
        found.locator(f".action-label[aria-label*={action}]").click()

    return press


def walkthrough(day: Day) -> None:
    """Open the walkthrough."""
    day.bench.command("Welcome: Open Walkthrough")
    day.page.locator(".monaco-list-row", has_text="Begin with aish").first.click()


def in_walkthrough(name: str) -> Step:
    """Press a button of the walkthrough."""
    return lambda day: (
        day.page.locator(".gettingStartedContainer")
        .get_by_role("button", name=name, exact=True)
        .click()
    )


HIDDEN = other("View: Hide Panel")
MOVED = then(top("Select a Destination for the View"), ESCAPE)
LISTED = top("Choose a chat, or type words")
GOAL = top("What should be reached?")
IN_PANEL = ".part.panel .monaco-list-row"
REMEMBERED = sees(IN_PANEL, "The sky is blue.")

PLACES = (
    Row("view/title aish.newChat", title(CHAT, "New Chat"), shows(".welcome")),
    Row("view/title aish.searchChats", title(CHAT, "Show Chats…"), then(LISTED, ESCAPE)),
    Row(
        "view/title aish.showContext",
        title(CHAT, "Show the Context and the Cost"),
        then(tab("aish: context"), CLOSED),
    ),
    Row(
        "command aish.showContext",
        palette("Show the Context and the Cost"),
        then(tab("aish: context"), CLOSED),
    ),
    Row(
        "status_bar.ts: <status bar>",
        lambda day: day.page.locator('.statusbar-item[id="aish-lsp.aish.aish"] a').click(),
        then(tab("aish: context"), CLOSED),
    ),
    Row(
        "view/title aish.pickModel",
        title(CHAT, "Choose the Model…"),
        then(top(MODELS), ESCAPE),
    ),
    Row(
        "view/title aish.connectModel",
        title(CHAT, "Connect a Model…"),
        then(top(CHOICES), ESCAPE),
    ),
    Row("view/title aish.startGoal", title(CHAT, "Pursue a Goal…"), then(GOAL, ESCAPE)),
    Row("view/title aish.moveChat", title(CHAT, "Move the Chat…"), MOVED),
    Row("command aish.moveChat", palette("Move the Chat"), MOVED),
    Row(
        "view/title aish.openInEditor",
        title(CHAT, "Open in an Editor Tab"),
        then(pages(2), CLOSED, pages(1)),
    ),
    Row(
        "command aish.openInEditor",
        palette("Open in an Editor Tab"),
        then(pages(2), CLOSED, pages(1)),
    ),
    Row("view/title aish.showLog", title(CHAT, "Show the Log"), LOG),
    Row("command aish.showLog", palette("Show the Log"), LOG),
    Row("view/title aish.showMemory", title(CHAT, "Show the Memory"), sees(MEMORY)),
    Row(
        "link Remember something",
        lambda day: day.page.get_by_role("button", name="Remember something").click(),
        then(top("What should be remembered"), ESCAPE),
    ),
    Row("command aish.showMemory", then(HIDDEN, palette("Show the Memory")), sees(MEMORY)),
    Row("view/title aish.showTools", then(HIDDEN, title(CHAT, "Show the Tools")), sees(TOOLS)),
    Row("command aish.showTools", then(HIDDEN, palette("Show the Tools")), sees(TOOLS)),
    Row("command aish.searchChats", palette("Show Chats"), LISTED),
    Row(
        "chats.ts: Rename…",
        then(
            ESCAPE, NEW, ask("a chat to name"), palette("Show Chats"), listed("to name", "Rename")
        ),
        then(top("A name for this chat"), answer("My own chat")),
    ),
    Row(
        "chats.ts: Delete",
        listed("My own chat", "Delete"),
        then(button("Delete", ".question"), lacks(".prompt", "a chat to name"), ESCAPE),
    ),
    Row(
        "link Connect a model",
        then(walkthrough, in_walkthrough("Connect a model")),
        then(top(CHOICES), ESCAPE),
    ),
    Row(
        "link Open the chat",
        then(
            lambda day: (
                day.page.locator(".gettingStartedContainer")
                .get_by_text("Ask", exact=True)
                .first.click()
            ),
            in_walkthrough("Open the chat"),
        ),
        then(is_true("the caret", has_caret), CLOSED),
    ),
)


def remembered(day: Day) -> str:
    """Return what is remembered, as the command line says it."""
    return memory(day, "list")


def remembered_elsewhere(day: Day) -> None:
    """Remember something by the command line."""
    memory(day, "add", "From elsewhere.")


def memory(day: Day, *words: str) -> str:
    """Run ``aish-lsp memory`` in the place."""
    command = [sys.executable, "-m", "aish_lsp", "memory", *words]
    environment = {**os.environ, **day.place.environment}
    return subprocess.run(
        command, cwd=day.place.folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


MEMORIES = (
    Row(
        "command aish.remember",
        then(palette("Remember…"), answer("The sky is blue.")),
        then(palette("Show the Memory"), REMEMBERED),
    ),
    Row(
        "view/title aish.remember",
        then(title(MEMORY, "Remember…"), answer("The grass is green.")),
        sees(IN_PANEL, "The grass is green."),
    ),
    Row(
        "view/item/context aish.memory.editItem",
        then(row("The grass is green.", "Edit…"), answer("The grass is dry.")),
        sees(IN_PANEL, "The grass is dry."),
    ),
    Row(
        "view/item/context aish.memory.moveEverywhere",
        row("The grass is dry.", "Remember It Everywhere"),
        sees(IN_PANEL, "Everywhere"),
    ),
    Row(
        "view/item/context aish.memory.moveHere",
        row("The grass is dry.", "Remember It Only in This Folder"),
        misses(IN_PANEL, "Everywhere"),
    ),
    Row(
        "view/item/context aish.memory.forgetItem",
        row("The grass is dry.", "Forget"),
        misses(IN_PANEL, "The grass is dry."),
    ),
    Row("memory.ts: Undo", toast("Undo"), sees(IN_PANEL, "The grass is dry.")),
    Row(
        "view/title aish.reviewMemory",
        then(NEW, ask("hello"), title(MEMORY, "Find What Is Worth Remembering")),
        sees(IN_PANEL, "To review"),
    ),
    Row(
        "view/item/context aish.memory.keepCandidate",
        row("The cat is black.", "Remember"),
        is_true("it is kept", lambda day: "The cat is black." in remembered(day)),
    ),
    Row(
        "view/item/context aish.memory.dropCandidate",
        row("The tests run by make.", "Drop"),
        misses(IN_PANEL, "The tests run by make."),
    ),
    Row(
        "command aish.reviewMemory",
        then(misses(IN_PANEL, "To review"), palette("Find What Is Worth")),
        sees(IN_PANEL, "To review"),
    ),
    Row(
        "view/title aish.memory.refreshView",
        then(remembered_elsewhere, title(MEMORY, "Refresh")),
        sees(IN_PANEL, "From elsewhere."),
    ),
)


def tool_server_ends(day: Day) -> None:
    """End the server of tools."""
    name = Path(sdk_tool_server.__file__).name
    for pid in day.place.pids(f"{name} stdio"):
        os.kill(pid, signal.SIGKILL)
    day.bench.until("its end", lambda: not day.place.pids(f"{name} stdio"))


TOOLS_SHOWN = (
    Row(
        "view/item/context aish.tools.disconnectItem",
        then(
            # The first question connects the servers of tools.
            then(NEW, ask("hello"), palette("Show the Tools")),
            then(other("View: Toggle Maximized Panel"), row("real", "Disconnect")),
        ),
        misses(IN_PANEL, "realready"),
    ),
    Row(
        "view/item/context aish.tools.connectItem",
        then(misses(IN_PANEL, "confirm"), row("real", "Connect")),
        sees(IN_PANEL, "confirm"),
    ),
    Row(
        "view/item/context aish.tools.switchItem",
        row("confirm", "Switch On or Off"),
        sees(IN_PANEL, "confirmoff"),
    ),
    *(
        Row(
            control,
            then(row("look", "Allow without a Question…"), choice(label)),
            then(
                is_true(label, lambda day: "asks" not in tool(day, "look")),
                row("look", "Ask Again before It Is Called"),
                is_true("it asks", lambda day: "asks" in tool(day, "look")),
            ),
        )
        for control, label in (
            ("tools.ts: Once", "Once"),
            ("tools.ts: In this chat", "In this chat"),
            ("tools.ts: Always in this folder", "Always in this folder"),
        )
    ),
    Row(
        "view/item/context aish.tools.allowItem",
        row("look", "Allow without a Question…"),
        then(top("How long may real__look be called"), choice("In this chat")),
    ),
    Row(
        "view/item/context aish.tools.revokeItem",
        row("look", "Ask Again before It Is Called"),
        is_true("it asks", lambda day: "asks" in tool(day, "look")),
    ),
    Row(
        "view/title aish.tools.refreshView",
        then(sees(IN_PANEL, "realready"), tool_server_ends, title(TOOLS, "Refresh")),
        then(misses(IN_PANEL, "realready"), other("View: Toggle Maximized Panel")),
    ),
)


def tool(day: Day, name: str) -> str:
    """Return what the row of a tool says."""
    return str(day.page.locator(IN_PANEL, has_text=name).first.inner_text())
