"""All that can be pressed in the VS Code extension, as its sources say it.

A control is named by where it is made and what stands on it: ``card.ts: Copy``. A second one that
reads the same has a number, ``card.ts: Run (2)``; one whose text is only known when it is shown is
named by the code that says it, ``composer.ts: <status.model>``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from vscode_parts import EXTENSION

_SOURCES = EXTENSION / "src"

#: A button of a page; its label is the first argument of the one, the second of the other.
_BUTTON = re.compile(r"(?<![\w.])(button|iconButton)\(")

#: What else of a page takes a press.
_OTHER = re.compile(
    r"""h\(\s*"(?P<element>summary|select|a)"  # the element itself
    | (?:addEventListener\("|\bon(?=\w+:\s))(?P<event>click|auxclick|drop|mousedown)  # a listener
    """,
    re.VERBOSE,
)

#: A message of VS Code's own, whose arguments after the first are buttons.
_MESSAGE = re.compile(r"show(?:Information|Warning|Error)Message\(")

#: The icons in a box of VS Code's own, and the rows of a list to choose from.
_ICON = re.compile(r"iconPath: new vscode\.ThemeIcon\(\"[^\"]*\"\),?\s*tooltip: (.)(.*?)\1")
_CHOICE = re.compile(r"\blabel: (?=[^,\n]*\")")

_STRING = re.compile(r"\"([^\"\\]*)\"")

#: Files that say how a button is made, and not which there are.
_MAKERS = {"dom.ts", "icons.ts"}


def controls() -> set[str]:
    """Return the names of all controls of the extension."""
    manifest = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))
    return {*_in_manifest(manifest["contributes"]), *_in_sources()}


def _in_manifest(contributes: dict[str, Any]) -> Iterator[str]:
    menus = dict(contributes["menus"])
    hidden = {one["command"] for one in menus.pop("commandPalette") if one["when"] == "false"}
    for one in contributes["commands"]:
        if one["command"] not in hidden:
            yield f"command {one['command']}"
    for menu, entries in menus.items():
        yield from (f"{menu} {one['command']}" for one in entries)
    yield from (f"key {one['key']}" for one in contributes["keybindings"])
    steps = [step for page in contributes["walkthroughs"] for step in page["steps"]]
    texts = [one["contents"] for one in contributes["viewsWelcome"]]
    for text in [*texts, *(step["description"] for step in steps)]:
        yield from (f"link {link}" for link in re.findall(r"\[([^\]]+)\]\(", text))


def _in_sources() -> Iterator[str]:
    for path in sorted(_SOURCES.rglob("*.ts")):
        if path.name in _MAKERS:
            continue
        text = path.read_text(encoding="utf-8")
        is_page = path.parent.name == "webview"
        seen: Counter[str] = Counter()
        for label in _of_page(text) if is_page else _of_window(text):
            seen[label] += 1
            number = f" ({seen[label]})" if seen[label] > 1 else ""
            yield f"{path.name}: {label}{number}"


def _of_page(text: str) -> Iterator[str]:
    for found in _BUTTON.finditer(text):
        label = _arguments(text[found.end() :])[found[1] == "iconButton"]
        yield from _STRING.findall(label) or _of_maker(text, label, found.start())
    for found in _OTHER.finditer(text):
        yield f"<{found['element'] or found['event']}>"


def _of_maker(text: str, label: str, before: int) -> Iterator[str]:
    """Return the labels of a button whose own one is an argument of a function of the file."""
    makers = (
        re.findall(rf"const (\w+) = \({label}: string", text[:before]) if label.isalpha() else []
    )
    if not makers:
        yield f"<{label}>"
        return
    for found in re.finditer(rf"(?<![\w.]){makers[-1]}\(", text):
        yield from _STRING.findall(_arguments(text[found.end() :])[0])


def _of_window(text: str) -> Iterator[str]:
    for found in _MESSAGE.finditer(text):
        for argument in _arguments(text[found.end() :])[1:]:
            # The options of a message are no button.
            if argument.startswith("{"):
                continue
            yield from _labels(text, argument, before=found.start())
    yield from (found[2] for found in _ICON.finditer(text))
    for found in _CHOICE.finditer(text):
        label = _arguments(text[found.end() :])[0]
        yield from (re.sub(r"^\$\([\w-]+\) ", "", one) for one in _STRING.findall(label))
    if "createStatusBarItem(" in text:
        yield "<status bar>"


def _labels(text: str, argument: str, before: int) -> Iterator[str]:
    """Return what the names in an argument stand for, as they were last set before it."""
    if spread := re.fullmatch(r"\.\.\.(\w+)", argument):
        set_to = re.findall(rf"const {spread[1]} = ([^;]*);", text[:before])
        if not set_to:
            yield f"<{argument}>"
            return
        argument = set_to[-1]
    known = dict(re.findall(r"const (\w+) = \"([^\"]*)\"", text[:before]))
    for several, values in re.findall(r"const \[([\w, ]+)\] = \[([^\]]*)\]", text[:before]):
        known.update(zip(several.split(", "), _STRING.findall(values), strict=False))
    names = [name for name in dict.fromkeys(re.findall(r"\w+", argument)) if name in known]
    yield from (known[name] for name in names)
    if not names:
        yield f"<{argument}>"


def _arguments(text: str) -> list[str]:
    """Return the arguments of a call whose opening parenthesis is right before the text."""
    found, depth, begin = [], 0, 0
    # What is in a string is nothing of the call.
    blank = re.sub(r"\"[^\"\n]*\"|`[^`]*`", lambda string: "_" * len(string[0]), text)
    for at, sign in enumerate(blank):
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        if depth < 0 or (sign == "," and depth == 0):
            found.append(text[begin:at].strip())
            begin = at + 1
        if depth < 0:
            break
    return [one for one in found if one]
