"""What a hand can do in VS Code and what an eye then sees, as values: the cells of a table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from editor_parts import Place
from vscode_parts import Chat, Workbench, playwright


class Model(Protocol):
    """A model server that knows what it was asked last."""

    last: str
    address: str


@dataclass
class Day:
    """A window of VS Code in a place, with a model."""

    bench: Workbench
    place: Place
    model: Model

    @property
    def page(self) -> Any:
        """The window's page."""
        return self.bench.page

    @property
    def frame(self) -> Any:
        """The chat's page."""
        return self.bench.webview("chat")

    @property
    def chat(self) -> Chat:
        """The chat, which is open."""
        return Chat(self.frame)


CALC = "def double(x):\n    return x + 1\n"

Step = Callable[[Day], object]


class Row(NamedTuple):
    """A control, how it is reached and pressed, and what is seen then."""

    control: str
    press: Step
    seen: Step


def then(*steps: Step) -> Step:
    """Do one after the other."""

    def do(day: Day) -> None:
        for step in steps:
            step(day)

    return do


# In the chat


def ask(text: str, *, waits: bool = True) -> Step:
    """Send a message."""
    return lambda day: day.chat.ask(text, waits=waits)


def fill(text: str) -> Step:
    """Have this in the chat's box."""
    return lambda day: day.chat.box.fill(text)


def button(name: str, within: str = "body", *, first: bool = False) -> Step:
    """Press a button of the chat, the last one of this name."""

    def press(day: Day) -> None:
        found = day.frame.locator(within).get_by_role("button", name=name, exact=True)
        (found.first if first else found.last).click()

    return press


def card(command: str, name: str) -> Step:
    """Press a button of a command's card."""
    return button(name, f'.card:has-text("{command}")')


def click(selector: str, text: str = "", **how: Any) -> Step:
    """Press what is no button of the chat."""
    return lambda day: day.frame.locator(selector, has_text=text).last.click(**how)


def shows(selector: str, text: str = "") -> Step:
    """See something in the chat."""
    return lambda day: day.frame.locator(selector, has_text=text).last.wait_for()


def lacks(selector: str, text: str = "") -> Step:
    """See that something in the chat has gone."""
    return lambda day: day.bench.until(
        f"no {selector} {text}", lambda: not day.frame.locator(selector, has_text=text).count()
    )


def has_caret(day: Day) -> bool:
    """Return whether what is typed goes into the chat's box."""
    is_there = "box => box === document.activeElement && document.hasFocus()"
    return bool(day.chat.box.evaluate(is_there))


def exchanges(count: int) -> Step:
    """See how many questions the chat has, the last one answered."""

    def see(day: Day) -> None:
        day.bench.until(f"{count} questions", lambda: day.chat.exchanges.count() == count)
        day.chat.ended()

    return see


def box(text: str) -> Step:
    """See what is in the chat's box."""
    return lambda day: day.bench.until(
        f"the box: {text}", lambda: day.chat.box.input_value().strip() == text
    )


# In the window


def palette(title: str) -> Step:
    """Run a command of the palette."""
    return lambda day: day.bench.command(f"aish: {title}")


def other(title: str) -> Step:
    """Run a command of VS Code's own."""
    return lambda day: day.bench.command(title)


def key(name: str) -> Step:
    """Press a key."""
    return lambda day: day.page.keyboard.press(name)


def answer(text: str) -> Step:
    """Type into the box at the top."""
    return lambda day: day.bench.answer(text)


def choice(label: str) -> Step:
    """Choose a row of the list at the top; only those in sight are there."""

    def press(day: Day) -> None:
        rows = day.page.locator(".quick-input-list .monaco-list-row")
        rows.first.wait_for()
        day.page.locator(".quick-input-widget input").first.fill(label)
        rows.filter(has_text=label).first.click()

    return press


def top(text: str) -> Step:
    """See what the box at the top says."""

    def see(day: Day) -> None:
        at_top = day.page.locator(".quick-input-widget")
        said = at_top.get_by_text(text).or_(at_top.get_by_placeholder(text))
        said.first.wait_for()

    return see


def toast(label: str) -> Step:
    """Press a button of a notification."""
    return lambda day: day.bench.press(label)


def told(text: str) -> Step:
    """See a notification."""
    return lambda day: day.page.locator(".notification-toast", has_text=text).first.wait_for()


def tab(name: str) -> Step:
    """See an editor tab."""
    return lambda day: day.page.locator(".part.editor .tab", has_text=name).first.wait_for()


def sees(selector: str, text: str = "") -> Step:
    """See something in the window."""
    return lambda day: day.page.locator(selector, has_text=text).first.wait_for()


def misses(selector: str, text: str = "") -> Step:
    """See that something in the window has gone."""
    return lambda day: day.bench.until(
        f"no {selector} {text}", lambda: not day.page.locator(selector, has_text=text).count()
    )


def is_true(what: str, condition: Callable[[Day], object]) -> Step:
    """See anything else."""
    return lambda day: day.bench.until(what, lambda: condition(day))


def clipboard(text: str) -> Step:
    """See what was copied."""
    read = "() => navigator.clipboard.readText()"
    return is_true(f"{text} in the clipboard", lambda day: text in day.page.evaluate(read))


def website(address: str) -> Step:
    """See VS Code ask whether it may open a website, and leave it: no page is opened."""

    def see(day: Day) -> None:
        dialog = day.bench.dialog()
        assert address in dialog.inner_text()
        dialog.get_by_role("button", name="Cancel").click()
        assert len(day.page.context.pages) == 1

    return see


def title(view: str, name: str) -> Step:
    """Press what a view has in its title, or behind the three dots there."""

    def press(day: Day) -> None:
        head = day.page.locator(view)
        head.hover()
        icon = head.locator(f'.action-label[aria-label="{name}"]')
        if icon.count() and icon.first.is_visible():
            icon.first.click()
            return
        head.locator('.action-label[aria-label*="More Actions"]').first.click()
        menu(name)(day)

    return press


def menu(name: str, **how: Any) -> Step:
    """Press an item of the menu that is open."""

    def press(day: Day) -> None:
        item = day.page.get_by_role("menuitem").filter(has=day.page.get_by_text(name, exact=True))
        item.hover(**how)
        day.page.keyboard.press("Enter")

    return press


def row(text: str, action: str) -> Step:
    """Press what a row of a tree has beside its text, or in its menu."""

    def is_pressed(day: Day) -> bool:
        found = day.page.locator(".part.panel .monaco-list-row", has_text=text).first
        icon = found.locator(f'.action-label[aria-label="{action}"]')
        # The rows move while the tree is drawn anew, and have their icons a little later.
        with suppress(playwright.TimeoutError):
            found.hover(timeout=3000)
            if icon.count():
                icon.first.click(timeout=3000)
            else:
                found.click(button="right", timeout=3000)
                menu(action, timeout=3000)(day)
            return True
        day.page.keyboard.press("Escape")
        return False

    return is_true(f"{action} beside {text}", is_pressed)


#: A file beside the program, with a line for each time that it was started.
STARTS = "starts"

CHOICES = "Which model should answer?"
MODELS = "The model that answers in this chat"
CHAT = ".part.sidebar .composite.title"
LOG = then(sees(".part.panel .action-item.checked", "Output"), other("View: Hide Panel"))


def fresh_chat(day: Day) -> None:
    """Go on in a chat in which nothing was said."""
    day.bench.new_chat()


NEW = fresh_chat
CLOSED = other("View: Close All Editors")
ESCAPE = key("Escape")
