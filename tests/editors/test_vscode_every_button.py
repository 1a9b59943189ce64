"""Each control of the VS Code extension is pressed, and does what it says.

The rows are what a user does in one window, from its first start on: which control, how it is
reached and pressed, what is seen then. A control of the extension without a row fails the test.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import sdk_tool_server
import vscode_rows_chat as chat
import vscode_rows_connecting as connecting
import vscode_rows_views as views
import vscode_rows_window as window
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from vscode_controls import controls
from vscode_hands import CALC, STARTS, Day, Row, button, palette, sees, shows, then
from vscode_parts import missing, opened, package

pytestmark = [
    pytest.mark.editor,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(missing()), reason=missing() or "VS Code is there"),
]

#: What a question has the model call.
CALLS = {
    "edit": ("edit_file", {"path": "calc.py", "old": "x + 1", "new": "2 * x"}),
    "look": ("read_file", {"path": "calc.py"}),
}

CARDS = """\
See [the page](https://example.com/page) and `calc.py:2`:

CMD: ls -l

CMD: mkdir -p made && sleep 600

CMD: rm -rf build

CMD: ssh <host>

CMD: sh fail.sh

```python
def double(x):
    return 2 * x
```
"""

ROWS = (
    *connecting.CONNECTING,
    *chat.CARDS,
    *chat.REPLIES,
    *chat.TABS,
    *chat.COMPOSER,
    *chat.QUESTIONS,
    *window.EDITORS,
    *views.PLACES,
    *views.MEMORIES,
    *views.TOOLS_SHOWN,
    *window.GOALS,
    *window.DIFFS,
    *window.FAILURES,
)

#: In a window of its own, whose folder is not trusted.
UNTRUSTED = (
    Row(
        "chat.ts: <label>",
        then(palette("Open the Chat"), shows(".problem"), button("Manage trust")),
        sees(".workspace-trust-editor"),
    ),
)

#: Pressed where the extension has a server of its own, by ``test_vscode_first_start``.
ELSEWHERE = {"connect.ts: Get llama.cpp"}


class Model:
    """A server of models whose reply depends on the question."""

    address = ""
    last = ""

    async def __call__(self, request: Request, peer: Peer) -> None:
        """Answer a request."""
        if request.path.endswith("/models"):
            await peer.reply({"data": [{"id": "one"}, {"id": "two"}]})
            return
        if not request.path.endswith("/chat/completions"):
            await peer.reply({}, "404 Not Found")
            return
        self.last = json.dumps(request.json)
        message = request.json["messages"][-1]
        asked = str(message["content"]).rpartition("\n\n")[2]
        if "error" in asked or request.json["model"] == "broken":
            await peer.reply({"error": {"message": "It is broken."}}, "400 Bad Request")
            return
        await peer.head()
        name = next((name for name in CALLS if name in asked), "")
        if message["role"] != "tool" and name:
            tool, arguments = CALLS[name]
            function = {"name": tool, "arguments": json.dumps(arguments)}
            calls = [{"index": 0, "id": "call1", "type": "function", "function": function}]
            await peer.event({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
            await peer.event(chunk_of("", finish_reason="tool_calls"))
        elif "story" in asked:
            for number in range(100_000):
                await peer.event(chunk_of(f"Line {number} of a story.\n\n"))
                await asyncio.sleep(0.05)
        else:
            if "slow" in asked:
                await asyncio.sleep(11)
            if "think" in asked:
                delta = {"reasoning_content": "It thinks."}
                await peer.event({"choices": [{"index": 0, "delta": delta}]})
            await peer.event(chunk_of(reply(asked)))
            await peer.event(chunk_of("", finish_reason="stop"))
        await peer.event("[DONE]")


def reply(asked: str) -> str:
    """Return the reply to a question."""
    if "[norris]" in asked:
        return "I tidy up.\nCMD: touch tidy.txt\n"
    if "cards" in asked:
        return CARDS
    return "fact: The tests run by make.\nfact: The cat is black.\n"


def prepare(place: Place) -> None:
    """Have what the rows need: a repository, a tool server, and no engine for small models."""
    folder = place.folder
    (folder / ".git").rmdir()
    (folder / "calc.py").write_text(CALC)
    (folder / "bad.json").write_text('{"a": }\n')
    (folder / "fail.sh").write_text("echo no; exit 3\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    command = json.dumps([sys.executable, sdk_tool_server.__file__, "stdio"])
    place.config.write_text(f"[tools.servers.real]\ncommand = {command}\n")
    code = (
        "import importlib.util as util; find = util.find_spec;"
        " util.find_spec = lambda name, *more: name != 'xllamacpp' and find(name, *more) or None;"
        " from aish_lsp.__main__ import main; main()"
    )
    program = place.programs / "aish-lsp"
    program.write_text(
        f"#!/bin/sh\necho $$ >> {shlex.quote(str(program.with_name(STARTS)))}\n"
        f'exec {sys.executable} -c "{code}" "$@"\n'
    )


def walk(day: Day, rows: tuple[Row, ...]) -> None:
    """Press each control, and see what it does."""
    for row in rows:
        try:
            row.press(day)
            row.seen(day)
        except Exception as error:
            error.add_note(f"The control: {row.control}")
            raise


def test_every_control_of_the_extension_has_a_row() -> None:
    assert {row.control for row in (*ROWS, *UNTRUSTED)} | ELSEWHERE == controls()


def test_every_control_does_what_it_says(tmp_path: Path) -> None:
    place, model = Place.make(tmp_path, "work 1"), Model()
    prepare(place)
    vsix = package(tmp_path)
    # Else VS Code tells of the port of each server that a row starts.
    settings = {"remote.autoForwardPorts": False}
    with served(model) as model.address:
        with opened(place, tmp_path / "profile", vsix, settings) as bench:
            walk(Day(bench, place, model), ROWS)
        trust = {
            "security.workspace.trust.enabled": True,
            "security.workspace.trust.startupPrompt": "never",
        }
        with opened(place, tmp_path / "other", vsix, trust) as bench:
            walk(Day(bench, place, model), UNTRUSTED)
