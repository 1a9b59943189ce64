"""What the controls of the chat's page do: rows of ``test_vscode_every_button``."""

from __future__ import annotations

from vscode_hands import (
    CALC,
    CHOICES,
    CLOSED,
    ESCAPE,
    MODELS,
    NEW,
    Day,
    Row,
    Step,
    ask,
    box,
    button,
    card,
    click,
    clipboard,
    exchanges,
    fill,
    is_true,
    lacks,
    misses,
    other,
    palette,
    sees,
    shows,
    tab,
    then,
    top,
    website,
)

BOX = "textarea[aria-label='Edit the command']"


def ran(command: str, times: int) -> Step:
    """See how often a command has run."""

    def condition(day: Day) -> bool:
        runs = [one for one in day.place.sessions() if one.get("event") == "exec"]
        return bool(sum(one["command"] == command for one in runs) == times)

    return is_true(f"{command} has run", condition)


def scrolled_up(day: Day) -> None:
    """Turn the wheel in the chat."""
    day.frame.locator(".log").hover()
    day.page.mouse.wheel(0, -200)


def dropped(day: Day) -> None:
    """Drop a file into the chat."""
    drop = """uri => {
      const dataTransfer = new DataTransfer();
      dataTransfer.setData("text/uri-list", uri);
      document.dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
    }"""
    day.frame.evaluate(drop, (day.place.folder / "calc.py").as_uri())


def at_end(day: Day) -> bool:
    """Return whether the chat is scrolled down."""
    left = "log => log.scrollHeight - log.scrollTop - log.clientHeight"
    return bool(day.frame.locator(".log").evaluate(left) < 2)


CARDS = (
    Row(
        "card.ts: Copy",
        then(NEW, ask("cards"), card("ls -l", "Copy")),
        clipboard("ls -l"),
    ),
    Row("card.ts: Run", card("ls -l", "Run"), shows(".card .ended", "exit 0")),
    Row("card.ts: Run again", card("ls -l", "Run again"), ran("ls -l", 2)),
    Row("card.ts: Edit", card("ls -l", "Edit"), shows(BOX)),
    Row("card.ts: Cancel", button("Cancel", ".card"), lacks(BOX)),
    Row(
        "card.ts: Run (2)",
        then(
            card("ls -l", "Edit"),
            lambda day: day.frame.locator(BOX).fill("seq 60000"),
            button("Run", f".card:has({BOX})"),
        ),
        then(lacks(BOX), shows(".output", "59999"), shows(".card .command", "seq 60000")),
    ),
    Row("card.ts: All of the output", button("All of the output"), then(tab("txt"), CLOSED)),
    Row(
        "card.ts: Fill in and run",
        card("ssh", "Fill in and run"),
        then(shows(BOX), button("Cancel", ".card")),
    ),
    Row(
        "card.ts: Stop",
        then(card("mkdir", "Run"), shows(".card.running"), card("mkdir", "Stop")),
        then(
            lacks(".card.running"),
            shows(".card:has-text('mkdir') .ended"),
            is_true("it has ended", lambda day: not day.place.runs("sleep 600")),
            lacks(".foot", "stopped"),
        ),
    ),
    Row(
        "card.ts: Explain",
        then(card("fail.sh", "Run"), shows(".ended", "exit 3"), button("Explain", ".foot, .ended")),
        shows(".exchange .prompt", "Explain why"),
    ),
    Row(
        "card.ts: Fix",
        card("fail.sh", "Fix"),
        shows(".exchange .prompt", "Suggest what to run instead"),
    ),
    Row(
        "question.ts: Cancel",
        then(card("rm -rf", "Run"), button("Cancel", ".question")),
        shows(".card .ended", "not run"),
    ),
    Row(
        "question.ts: Run",
        then(
            lambda day: (day.place.folder / "build").mkdir(),
            card("rm -rf", "Run"),
            button("Run", ".question"),
        ),
        is_true("it is gone", lambda day: not (day.place.folder / "build").exists()),
    ),
    Row(
        "card.ts: To terminal",
        # What the user has edited is only typed there.
        card("fail.sh", "To terminal"),
        then(sees(".terminal-wrapper"), shows(".card .ended button", "Ask about it")),
    ),
    Row("card.ts: Ask about it", button("Ask about it"), then(box("@terminal"), fill(""))),
    Row(
        "card.ts: Dismiss",
        then(other("View: Hide Panel"), card("ssh", "Dismiss")),
        lacks(".card", "ssh"),
    ),
)

REPLIES = (
    Row(
        "exchange_view.ts: Copy",
        then(NEW, ask("cards"), button("Copy", ".code-block")),
        clipboard("return 2 * x"),
    ),
    Row("exchange_view.ts: Copy the reply", button("Copy the reply"), clipboard("See [the page]")),
    Row(
        "file_links.ts: <a>",
        click(".markdown a", "calc.py"),
        then(tab("calc.py"), CLOSED),
    ),
    Row("chat.ts: <click>", click("a", "the page"), website("https://example.com/page")),
    Row(
        "exchange_view.ts: Edit",
        button("Edit", ".you"),
        shows("textarea[aria-label='Edit the question']"),
    ),
    Row("exchange_view.ts: Cancel", button("Cancel", ".you"), lacks(".you textarea")),
    Row("exchange_view.ts: Ask again", button("Ask again"), exchanges(2)),
    Row(
        "exchange_view.ts: Ask in a new chat",
        then(
            button("Edit", ".you"),
            lambda day: day.frame.locator(".you textarea").fill("otherwise"),
            button("Ask in a new chat"),
        ),
        then(exchanges(1), shows(".exchange .prompt", "otherwise")),
    ),
    Row(
        "exchange_view.ts: <summary>",
        then(NEW, ask("think"), click(".reasoning summary")),
        shows(".reasoning-body", "It thinks."),
    ),
    Row(
        "exchange_view.ts: Retry",
        then(ask("error"), button("Retry")),
        then(exchanges(3), shows(".callout", "It is broken.")),
    ),
    Row(
        "exchange_view.ts: Another model",
        button("Another model"),
        then(top(MODELS), ESCAPE),
    ),
    Row(
        "exchange_view.ts: Settings",
        button("Settings", ".callout"),
        then(tab("config.toml"), CLOSED),
    ),
    Row(
        "exchange_view.ts: Connect a model…",
        then(ask("away"), button("Connect a model…")),
        then(top(CHOICES), ESCAPE),
    ),
    Row(
        "chat.ts: Go to the end",
        then(
            NEW,
            ask("story", waits=False),
            shows(".markdown", "Line 40"),
            scrolled_up,
            button("Go to the end"),
        ),
        is_true("the end", at_end),
    ),
    Row("composer.ts: Stop", button("Stop", ".composer"), shows(".foot", "stopped")),
    Row(
        "command aish.stop",
        then(ask("story", waits=False), shows(".markdown", "Line 4"), palette("Stop")),
        then(lacks(".foot .busy"), shows(".foot", "stopped")),
    ),
)


def page_shown_again(day: Day) -> None:
    """Load the window again."""
    day.bench.load()
    day.bench.chat()


TABS = (
    Row(
        "chat.ts: Show earlier messages",
        then(
            NEW,
            *(ask(f"number {number}") for number in range(22)),
            page_shown_again,
            # A press of the mouse would scroll up to it, which shows them as well.
            lambda day: day.frame.get_by_role("button", name="Show earlier").evaluate(
                "button => button.click()"
            ),
        ),
        then(shows(".prompt", "number 1"), lacks(".more")),
    ),
    Row(
        "tabs.ts: <click>",
        then(NEW, ask("the first"), NEW, click(".tab", "the first")),
        shows(".exchange .prompt", "the first"),
    ),
    Row("tabs.ts: <click> (2)", click(".tab.active .tab-close"), lacks(".tab", "the first")),
    Row(
        "tabs.ts: <auxclick>",
        then(NEW, ask("the second"), click(".tab", "the second", button="middle")),
        lacks(".tab", "the second"),
    ),
    Row(
        "chat.ts: how much disk space is left?",
        then(NEW, button("how much disk space is left?")),
        then(box("how much disk space is left?"), fill("")),
    ),
    Row(
        "chat.ts: what are the ten largest files here?",
        button("what are the ten largest files here?"),
        then(box("what are the ten largest files here?"), fill("")),
    ),
)

COMPOSER = (
    Row(
        "composer.ts: Attach a file, the selection, problems or the terminal",
        button("Attach a file, the selection, problems or the terminal"),
        shows("[role=option]", "Terminal"),
    ),
    Row(
        "composer.ts: <mousedown>",
        click("[role=option]", "calc.py"),
        then(box("@calc.py"), fill("")),
    ),
    Row("chat.ts: <drop>", dropped, then(box("@calc.py"), fill(""))),
    Row(
        "composer.ts: <status.model>",
        click(".composer .model"),
        then(top(MODELS), ESCAPE),
    ),
    Row(
        "composer.ts: <spent>",
        then(NEW, *[ask("hello")] * 4, click(".composer .used")),
        tab("aish: context"),
    ),
    Row(
        "context.ts: Summarize what was said",
        lambda day: (
            day.bench.webview("context")
            .get_by_role("button", name="Summarize what was said")
            .click()
        ),
        is_true(
            "the model is asked",
            lambda day: "ummar" in day.model.last,
        ),
    ),
)

EDITED = is_true("the edit", lambda day: (day.place.folder / "calc.py").read_text() != CALC)
QUESTIONS = (
    Row(
        "questions.ts: Open the diff",
        then(CLOSED, NEW, ask("edit", waits=False), button("Open the diff")),
        sees(".monaco-diff-editor", "2 * x"),
    ),
    Row("question.ts: Reject", button("Reject", ".question"), misses(".monaco-diff-editor")),
    Row(
        "exchange_parts.ts: <summary>",
        then(
            shows(".tool.denied .added", "2 * x"),
            ask("look"),
            click(".tool summary"),
        ),
        shows(".tool[open] .result", "return x + 1"),
    ),
    Row(
        "questions.ts: <label>",
        then(ask("edit", waits=False), button("In this session", ".question")),
        EDITED,
    ),
    Row(
        "exchange_view.ts: Undo its changes",
        button("Undo its changes"),
        is_true("the file", lambda day: (day.place.folder / "calc.py").read_text() == CALC),
    ),
)
