"""What the controls of editors, goals and failures do: rows of ``test_vscode_every_button``."""

from __future__ import annotations

import sys

from vscode_hands import (
    CALC,
    CHAT,
    CLOSED,
    LOG,
    NEW,
    STARTS,
    Day,
    Row,
    Step,
    answer,
    ask,
    box,
    button,
    choice,
    click,
    clipboard,
    exchanges,
    fill,
    has_caret,
    is_true,
    key,
    lacks,
    menu,
    misses,
    other,
    palette,
    sees,
    shows,
    then,
    title,
    toast,
    told,
    top,
)


def selected(day: Day) -> None:
    """Open the file with the text to ask about, and select a line."""
    day.page.locator(".part.editor").click(position={"x": 300, "y": 400})
    day.page.keyboard.press("Control+p")
    day.page.locator(".quick-input-widget input").first.fill("calc.py")
    day.page.locator(".quick-input-list .monaco-list-row", has_text="calc.py").first.click()
    day.page.locator(".view-lines .view-line", has_text="return").click(click_count=3)


def fresh(day: Day) -> None:
    """Have the file be as before."""
    (day.place.folder / "calc.py").write_text(CALC)


def of_editor(name: str) -> Step:
    """Press an item of the editor's menu, with a line selected."""

    def press(day: Day) -> None:
        selected(day)
        day.page.locator(".view-lines .view-line", has_text="return").click(button="right")
        menu(name)(day)

    return press


def of_explorer(name: str) -> Step:
    """Press an item of the menu of a file."""

    def press(day: Day) -> None:
        day.page.keyboard.press("Control+Shift+e")
        file = day.page.locator(".explorer-folders-view .monaco-list-row", has_text="calc.py")
        file.first.click(button="right")
        menu(name)(day)

    return press


def mention(label: str) -> Step:
    """Choose what can be attached."""

    def press(day: Day) -> None:
        day.chat.box.fill("")
        attach = "Attach a file, the selection, problems or the terminal"
        button(attach)(day)
        click("[role=option]", label)(day)

    return press


def problem(day: Day) -> None:
    """Open a file that VS Code finds a fault in."""
    day.page.keyboard.press("Control+p")
    day.page.locator(".quick-input-widget input").first.fill("bad.json")
    day.page.locator(".quick-input-list .monaco-list-row", has_text="bad.json").first.click()
    day.page.locator(".squiggly-error").first.wait_for()


ASKED = "What is wrong here?"
EDITORS = (
    Row(
        "key ctrl+alt+q",
        then(selected, key("Control+Alt+q"), answer(ASKED)),
        shows(".exchange .foot", "calc.py:2-2"),
    ),
    Row(
        "command aish.askSelection",
        then(fresh, selected, palette("Ask about the Selection"), answer("cards of it")),
        then(shows(".code-block .replace"), lacks(".foot .busy")),
    ),
    Row(
        "exchange_view.ts: Replace selection",
        then(button("Replace selection"), button("Accept", ".question")),
        then(sees(".view-lines", "2 * x"), other("File: Revert File"), fresh),
    ),
    Row(
        "editor/context aish.askSelection",
        then(NEW, of_editor("Ask about the Selection…"), answer(ASKED)),
        shows(".exchange .prompt", ASKED),
    ),
    Row(
        "editor/context aish.attachSelection",
        of_editor("Attach the Selection to the Chat"),
        then(box("@calc.py:2-2"), fill("")),
    ),
    Row(
        "command aish.attachSelection",
        then(selected, palette("Attach the Selection")),
        then(box("@calc.py:2-2"), fill("")),
    ),
    Row("mentions.ts: Selection", mention("Selection"), box("@calc.py:2-2")),
    Row("mentions.ts: Terminal", mention("Terminal"), box("@terminal")),
    Row(
        "mentions.ts: Problems",
        then(problem, mention("Problems")),
        is_true("the fault", lambda day: "bad.json:1: " in day.chat.box.input_value()),
    ),
    Row("mentions.ts: This file", mention("This file"), box("@bad.json")),
    Row(
        "explorer/context aish.attachFile",
        then(fill(""), CLOSED, of_explorer("Attach to the aish Chat")),
        then(box("@calc.py"), fill("")),
    ),
    Row(
        "key ctrl+alt+a",
        then(key("Control+Shift+e"), sees(CHAT, "Explorer"), key("Control+Alt+a")),
        then(sees(CHAT, "Chat"), is_true("the caret", has_caret)),
    ),
)


def tidy(day: Day) -> bool:
    """Return whether the goal's step has been taken."""
    return (day.place.folder / "tidy.txt").exists()


AGREED = button("Allow it", ".questions .question")
GOALS = (
    Row(
        "command aish.startGoal",
        then(other("View: Hide Panel"), NEW, palette("Pursue a Goal")),
        top("What should be reached?"),
    ),
    Row(
        "commands.ts: Ask before anything is changed",
        then(answer("Tidy up."), choice("Ask before anything is changed")),
        then(
            AGREED,
            shows(".card .question", "touch tidy.txt"),
        ),
    ),
    Row("question.ts: Accept", button("Accept", ".card .question"), is_true("the file", tidy)),
    Row("goal_strip.ts: <summary>", click(".goal summary"), shows(".goal-steps li", "I tidy up.")),
    Row("goal_strip.ts: Stop", button("Stop the goal"), lacks(".goal:visible")),
    Row(
        "commands.ts: Run what may change something, confined to the folder",
        then(
            NEW,
            palette("Pursue a Goal"),
            answer("Tidy up again."),
            choice("Run what may change something"),
        ),
        then(shows(".step", "done"), button("Stop the goal"), lacks(".foot .busy")),
    ),
)


def edit(press: Step) -> Step:
    """Have the model ask whether it may edit, with the change in the diff editor; answer there."""
    shown = then(button("Open the diff"), sees(".monaco-diff-editor", "2 * x"))
    return then(CLOSED, fresh, NEW, ask("edit", waits=False), shown, press)


def calc(day: Day) -> str:
    """Return what is in the file."""
    return (day.place.folder / "calc.py").read_text()


def edited(is_wanted: bool) -> Step:
    """See whether the file was edited, and the question is gone."""
    return then(
        misses(".monaco-diff-editor"),
        lacks(".foot .busy"),
        is_true(
            "the file",
            lambda day: ("2 * x" in (day.place.folder / "calc.py").read_text()) == is_wanted,
        ),
    )


def in_tab(name: str) -> Step:
    """Press an icon of an editor's title."""
    return lambda day: day.page.locator(
        f".editor-actions .action-label[aria-label='{name}']"
    ).click()


def there(name: str, is_wanted: bool) -> Step:
    """See whether a file is there."""
    return is_true(name, lambda day: (day.place.folder / name).exists() == is_wanted)


def too_old(day: Day) -> None:
    """Have the server be one that is too old."""
    program = day.place.programs / "aish-lsp"
    program.with_suffix(".now").write_text(program.read_text())
    code = (
        "import aish_lsp; aish_lsp.__version__ = '0.0.1'; import aish_lsp.__main__ as it; it.main()"
    )
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n')


def mended(day: Day) -> None:
    """Have it be the one from before."""
    program = day.place.programs / "aish-lsp"
    program.write_text(program.with_suffix(".now").read_text())


def restarts(press: Step) -> Step:
    """Have the server started again, and see that it answers what is asked meanwhile."""

    def do(day: Day) -> None:
        starts = day.place.programs / STARTS
        before = starts.read_text()
        press(day)
        day.bench.until("another server", lambda: starts.read_text() != before)
        shown = day.chat.exchanges.count()
        day.chat.box.fill(":help")
        day.chat.box.press("Enter")
        day.chat.exchanges.nth(shown).filter(has_text=":undo").wait_for()

    return do


ASKS_FOR = '[context]\nsystem_prompt = "Be short."\n'

DIFFS = (
    Row("editor/title aish.diff.accept", edit(in_tab("Accept the Change")), edited(True)),
    Row("editor/title aish.diff.reject", edit(in_tab("Reject the Change")), edited(False)),
    Row("command aish.diff.accept", edit(palette("Accept the Change")), edited(True)),
    Row("command aish.diff.reject", edit(palette("Reject the Change")), edited(False)),
    Row(
        "notifications.ts: Show",
        then(
            then(fresh, NEW, ask("edit", waits=False), shows(".question"), NEW, toast("Show")),
            then(
                shows(".question", "calc.py"), button("Reject", ".question"), lacks(".foot .busy")
            ),
            then(NEW, ask("slow", waits=False), NEW, told("The reply has ended"), toast("Show")),
        ),
        shows(".exchange .prompt", "slow"),
    ),
    Row(
        "command aish.undo",
        then(NEW, ask(":run touch undone.txt"), there("undone.txt", True), palette("Undo What")),
        there("undone.txt", False),
    ),
    Row("command aish.redo", palette("Redo What Was Undone"), there("undone.txt", True)),
    Row(
        "view/title aish.undo",
        title(CHAT, "Undo What the Last Command Did"),
        there("undone.txt", False),
    ),
    Row(
        "command aish.trust.grant",
        then(
            lambda day: (day.place.folder / ".aish.toml").write_text(ASKS_FOR),
            NEW,
            ask(":trust"),
            palette("Allow What This Folder Asks For"),
        ),
        then(shows(".question", "Be short."), click(".question button.no"), lacks(".question")),
    ),
    Row(
        "view.ts: <request.actions ?? []>",
        then(key("Control+Shift+e"), palette("Allow What This Folder Asks For"), toast("Grant")),
        then(misses(".notification-toast", "Grant exactly these"), palette("Open the Chat")),
    ),
)

FAILURES = (
    Row(
        "command aish.restartServer",
        then(palette("Open the Chat"), NEW, restarts(palette("Restart the Server"))),
        exchanges(1),
    ),
    Row(
        "view/title aish.restartServer",
        restarts(title(CHAT, "Restart the Server")),
        lacks(".problem:visible"),
    ),
    Row(
        "extension.ts: Copy the Command",
        then(too_old, palette("Restart the Server"), toast("Copy the Command")),
        clipboard("pipx upgrade aish-lsp"),
    ),
    Row(
        "extension.ts: Show the Log",
        then(palette("Restart the Server"), toast("Show the Log")),
        LOG,
    ),
    Row(
        "extension.ts: Try Again",
        then(palette("Restart the Server"), told("too old"), mended, toast("Try Again")),
        lacks(".problem:visible"),
    ),
    Row(
        "chat.ts: <label>",
        then(
            too_old,
            palette("Restart the Server"),
            shows(".problem", "too old"),
            mended,
            button("Try again"),
        ),
        lacks(".problem:visible"),
    ),
)
