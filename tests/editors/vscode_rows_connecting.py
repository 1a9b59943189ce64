"""What the controls that connect a model do: rows of ``test_vscode_every_button``."""

from __future__ import annotations

from vscode_hands import (
    CHOICES,
    CLOSED,
    ESCAPE,
    MODELS,
    NEW,
    Day,
    Row,
    Step,
    answer,
    box,
    button,
    choice,
    clipboard,
    has_caret,
    is_true,
    misses,
    palette,
    sees,
    shows,
    tab,
    then,
    toast,
    told,
    top,
    website,
)


def address(*rest: Step) -> Step:
    """Connect the model at the server's address."""
    return then(
        choice("A server at an address"),
        top("The address of a server"),
        # VS Code does not show a fourth notification within 0.8 seconds.
        misses(".notification-toast"),
        lambda day: day.bench.answer(day.model.address),
        *rest,
    )


CONNECTING = (
    Row("command aish.openChat", palette("Open the Chat"), shows(".welcome")),
    Row(
        "chat.ts: which process listens on port 8080?",
        button("which process listens on port 8080?"),
        box("which process listens on port 8080?"),
    ),
    Row("composer.ts: Send", button("Send"), shows(".exchange .foot", "offline")),
    Row(
        "exchange_view.ts: Connect a model",
        button("Connect a model", ".foot"),
        then(top(CHOICES), ESCAPE),
    ),
    Row(
        "client.ts: Connect a Model…",
        then(palette("Find What Is Worth Remembering"), toast("Connect a Model…")),
        then(top(CHOICES), ESCAPE),
    ),
    Row("command aish.newChat", palette("New Chat"), shows(".welcome")),
    Row("chat.ts: Connect a model", button("Connect a model", ".welcome"), top(CHOICES)),
    Row(
        "connect.ts: Look again",
        choice("Look again"),
        # The list is made anew, without what was typed to find the row.
        then(top(CHOICES), sees(".quick-input-list .monaco-list-row", "A model in a GGUF file")),
    ),
    Row(
        "connect.ts: A model in a GGUF file…",
        choice("A model in a GGUF file"),
        then(sees(".quick-input-widget a.monaco-button", "OK"), ESCAPE),
    ),
    Row(
        "connect.ts: Get a key at ${page}",
        then(
            palette("Connect a Model"),
            choice("Anthropic"),
            lambda day: day.page.locator(
                ".quick-input-widget .action-label[aria-label*='Get a key']"
            ).click(),
        ),
        then(website("anthropic.com"), ESCAPE),
    ),
    Row(
        "connect.ts: A small model…",
        then(palette("Connect a Model"), choice("A small model…")),
        told("-m pip install 'aish-lsp[local]'"),
    ),
    Row(
        "connect.ts: Copy the Command",
        toast("Copy the Command"),
        clipboard("-m pip install 'aish-lsp[local]'"),
    ),
    Row(
        "connect.ts: Open Ollama's Website",
        then(palette("Connect a Model"), choice("A small model…"), toast("Open Ollama's Website")),
        website("https://ollama.com/download"),
    ),
    Row("command aish.connectModel", palette("Connect a Model"), top(CHOICES)),
    Row(
        "connect.ts: A server at an address…",
        then(choice("A server at an address"), top("The address of a server"), answer("[::1]:1")),
        told("Is the server running?"),
    ),
    Row("connect.ts: Connect Another", toast("Connect Another"), top(CHOICES)),
    Row(
        "connect.ts: Another name…",
        address(
            choice("Another name"),
            top("The model's name"),
            answer("broken"),
        ),
        told("does not answer: "),
    ),
    Row("connect.ts: Edit config.toml", toast("Edit config.toml"), then(tab("config"), CLOSED)),
    Row(
        "connect.ts: In this chat only",
        then(palette("Connect a Model"), address(choice("one"), choice("In this chat only"))),
        told("answers: "),
    ),
    Row(
        "connect.ts: Open the Chat",
        toast("Open the Chat"),
        is_true("the caret", has_caret),
    ),
    Row(
        "connect.ts: Connect Another (2)",
        then(
            palette("Connect a Model"),
            address(choice("Another name"), answer("broken"), choice("In this chat only")),
            told("does not answer: "),
            toast("Connect Another"),
        ),
        then(top(CHOICES), ESCAPE),
    ),
    Row(
        "connect.ts: In this chat and in new ones",
        then(palette("Connect a Model"), address(choice("two"), choice("and in new ones"))),
        then(told("answers: "), NEW, is_true("its name", lambda day: is_model(day, "local-3"))),
    ),
    Row(
        "connect.ts: Edit config.toml (2)",
        then(palette("Connect a Model"), choice("Edit config")),
        then(tab("config"), CLOSED),
    ),
    Row("command aish.editModels", palette("Edit the Models"), then(tab("config"), CLOSED)),
    Row(
        "command aish.forgetKeys",
        palette("Forget Keys"),
        told("VS Code keeps no keys for aish."),
    ),
    Row("command aish.pickModel", palette("Choose the Model"), top(MODELS)),
    Row(
        "commands.ts: Connect a model…",
        choice("Connect a model…"),
        then(top(CHOICES), ESCAPE),
    ),
)


def is_model(day: Day, name: str) -> bool:
    """Return whether a model answers in the chat."""
    shown = day.frame.locator(".composer .model").inner_text()
    return name in str(shown)
