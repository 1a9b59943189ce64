"""The plugin where things go wrong: no server, one that ends, odd replies, other editors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import Peer, Request, chunk_of, served
from test_neovim import ALONE, SCREEN, Neovim, find, opened, place
from test_neovim_plugin import (
    FLOAT,
    VIRTUAL,
    ask,
    fixture_neovim,
    fixture_profile,
    opened_chat,
)

__all__ = ["fixture_neovim", "fixture_profile", "place"]

pytestmark = pytest.mark.editor

END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


class Model:
    """A model server that says ``reply``, and goes on only once ``goes_on`` is set."""

    def __init__(self, reply: str, rest: str = "") -> None:
        self.reply = reply
        self.rest = rest
        self.goes_on = threading.Event()
        self.asked: list[str] = []
        self.requests: list[object] = []

    async def __call__(self, request: Request, peer: Peer) -> None:
        """Answer a request."""
        if request.method != "POST":
            await peer.reply({"data": [{"id": "m"}]})
            return
        self.requests.append(request.json)
        self.asked.append(request.json["messages"][-1]["content"])
        await peer.head()
        await peer.event(chunk_of(self.reply))
        while self.rest and not self.goes_on.is_set():
            await asyncio.sleep(0.02)
        await peer.event(chunk_of(self.rest))
        await peer.event(END)
        await peer.event("[DONE]")
        await peer.chunk(b"")


@contextlib.contextmanager
def talking(place: Place, profile: Path, model: Model) -> Iterator[Neovim]:
    """Start Neovim before a model, with its chat open."""
    with served(model) as url, opened(place, profile, f'endpoint = "{url}"') as neovim:
        opened_chat(neovim, place)
        yield neovim


def servers(neovim: Neovim) -> list[int]:
    """Return the processes of the server that this Neovim runs: a shell, and what it runs."""
    own = neovim.lua("return vim.fn.system({ 'pgrep', '-P', tostring(vim.fn.getpid()) })").split()
    below = [
        subprocess.run(["pgrep", "-P", one], capture_output=True, text=True, check=False).stdout
        for one in own
    ]
    return [int(one) for one in [*own, *" ".join(below).split()]]


def kill(neovim: Neovim) -> None:
    """End the server by SIGKILL."""
    for process in servers(neovim):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def logged(place: Place) -> list[tuple[str, str]]:
    """Return who said what in the sessions of a place, as their logs have it."""
    data = Path(place.environment["AISH_DATA_DIR"])
    records = [
        json.loads(line)
        for path in sorted(data.rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [(one["role"], one["content"]) for one in records if one.get("role")]


def kill_in_mid_reply(neovim: Neovim, number: int) -> None:
    """Kill the server in the middle of its reply, the one of that number, and await another."""
    client = "return (vim.lsp.get_clients({ name = 'aish' })[1] or {}).id"
    before = neovim.lua(client)
    neovim.until("half of it", lambda: neovim.lines[-1] == "Half of a reply")
    kill(neovim)
    neovim.until("another server", lambda: neovim.lua(client) not in (before, None))
    neovim.until("a heading", lambda: neovim.lines.count("## You") == number + 2)


def test_a_server_that_is_killed_five_times_in_mid_reply(place: Place, profile: Path) -> None:
    profile.write_text(profile.read_text().replace("window =", "restarts = 9, window ="))
    model = Model("Half of a reply", " and the rest.\n")
    with talking(place, profile, model) as neovim:
        for number in range(5):
            neovim.keys(f"Giquestion {number}?<Esc><CR>")
            kill_in_mid_reply(neovim, number)
        model.goes_on.set()
        neovim.keys("Giand at last?<Esc><CR>")
        neovim.until("the whole", lambda: "Half of a reply and the rest." in neovim.lines)
        neovim.until("the end", lambda: neovim.lines.count("## You") == 7)
        shown = "\n".join(neovim.lines)
        neovim.until("saved", lambda: place.chat.read_text() == f"{shown}\n")
    asked = [content for role, content in logged(place) if role == "user"]
    assert asked == [*(f"question {number}?" for number in range(5)), "and at last?"]
    replies = [content for role, content in logged(place) if role == "assistant"]
    assert replies[-1] == "Half of a reply and the rest.\n"
    for text in (*asked, replies[-1].strip()):
        assert shown.count(f"\n{text}\n") == 1, text


def test_a_server_that_ends_at_its_start_is_not_started_for_ever(
    place: Place, profile: Path
) -> None:
    count = place.folder.parent / "starts"
    broken = place.folder.parent / "broken"
    broken.write_text(f"#!/bin/sh\necho x >> '{count}'\nexit 3\n")
    broken.chmod(0o755)
    profile.write_text(
        profile.read_text().replace("window =", f"cmd = {{ {str(broken)!r} }}, window =")
    )
    ended = "vim.fn.execute('messages'):find('5 times')"
    wait = f"lua vim.wait(8000, function() return {ended} end)"
    # Long enough for one more, if there were any.
    more = "lua vim.wait(2500, function() return false end)"
    command = [find(), *ALONE, "-u", str(profile), str(place.folder / "main.py")]
    done = subprocess.run(
        [*command, "-c", wait, "-c", more, "+qa!"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "the server ended 5 times in a minute: see :checkhealth aish" in done.stderr
    assert count.read_text().count("x") == 5


OLD = """\
import json, sys
def read():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(length)) if length else None
while (message := read()):
    if "id" in message:
        result = {"capabilities": {}, "serverInfo": {"name": "aish-lsp", "version": "0.0.9"}}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
        sys.stdout.buffer.flush()
    if message["method"] == "exit":
        break
"""


def test_a_server_that_is_too_old_is_told(place: Place, profile: Path) -> None:
    old = place.folder.parent / "old.py"
    old.write_text(OLD)
    command = f"cmd = {{ {sys.executable!r}, {str(old)!r} }}, window ="
    profile.write_text(profile.read_text().replace("window =", command))
    with opened(place, profile) as neovim:
        neovim.until(
            "a word",
            lambda: "aish-lsp 0.0.9 is too old: `pipx upgrade aish-lsp`" in neovim.messages,
        )


def test_options_that_are_wrong_are_named(place: Place, profile: Path) -> None:
    wrong = "window = 3, foo = 1, keys = { sned = 'x', stop = 7 }, restarts = 'no', "
    profile.write_text(profile.read_text().replace("window = 'current'", wrong))
    with opened(place, profile) as neovim:
        said = neovim.messages
        for named in (
            *('there is no option "foo"', "window must be a string", "keys.sned is not known"),
            *("keys.stop is not known", "restarts must be a number"),
        ):
            assert f"aish: in setup(): {named}" in said
        # The rest holds.
        neovim.keys(":Aish<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))


def test_a_setting_that_the_server_does_not_know_is_told(place: Place, profile: Path) -> None:
    profile.write_text(
        profile.read_text().replace("window =", "settings = { nonsense = 1 }, window =")
    )
    with opened(place, profile) as neovim:
        opened_chat(neovim, place)
        ask(neovim, "how do I run the tests here?", 2)
        assert "nonsense" in "\n".join(neovim.lines)


def test_a_reply_that_plays_tricks(place: Place, profile: Path) -> None:
    long = "".join(f"{number:x} " for number in range(1 << 18))
    tricks = f"\x1b[31mred\x1b[0m \x1b]0;title\x07 a\u202egnp.exe\n\n{long}\n\nCMD: ls\u202e -la\n"
    with talking(place, profile, Model(tricks)) as neovim:
        ask(neovim, "what?", 2)
        assert long.strip() in (line.strip() for line in neovim.lines)
        neovim.keys("gg")
        neovim.until("the top", lambda: "red" in neovim.lua(SCREEN))
        for shown in (neovim.lua(SCREEN), str(neovim.lua(VIRTUAL))):
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
        neovim.keys(":qa<CR>")
        neovim.ended()


def test_a_chat_that_is_wiped_while_a_reply_comes(place: Place, profile: Path) -> None:
    model = Model("The beginning", " and the end.\n")
    with talking(place, profile, model) as neovim:
        neovim.keys("Giwhat?<Esc><CR>")
        neovim.until("the beginning", lambda: "The beginning" in neovim.lines)
        neovim.keys(":bwipeout!<CR>")
        neovim.until("it is gone", lambda: neovim.name != str(place.chat))
        model.goes_on.set()
        neovim.until("its end", lambda: "and the end." in place.chat.read_text())
        neovim.keys(":Aish<CR>")
        neovim.until("the chat", lambda: neovim.lines.count("## You") == 2)
        assert neovim.lines.count("The beginning and the end.") == 1
        # Its keys are there.
        model.goes_on.set()
        ask(neovim, "and now?", 3)


def test_a_chat_that_is_renamed_is_a_text_like_any_other(place: Place, profile: Path) -> None:
    with talking(place, profile, Model("Yes.\n\nCMD: ls\n")) as neovim:
        ask(neovim, "what?", 2)
        neovim.until("what it could do", lambda: neovim.lua(VIRTUAL))
        neovim.keys(":file mine.md<CR>:silent! w!<CR>")
        keys = "return vim.fn.maparg('gx', 'n', false, true).buffer"
        neovim.until("no keys", lambda: neovim.lua(keys) != 1)
        assert neovim.lua(VIRTUAL) == []
        mine = neovim.lines
        neovim.keys(":Aish<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        ask(neovim, "and now?", 3)
        assert (place.folder / "mine.md").read_text().splitlines() == mine


def test_a_file_whose_text_is_here_already_is_no_conflict(place: Place, profile: Path) -> None:
    with talking(place, profile, Model("Yes.\n")) as neovim:
        ask(neovim, "what?", 2)
        neovim.until("saved", lambda: neovim.is_saved)
        # As by a server that did not know yet that the chat is open.
        place.chat.write_text("\n".join(neovim.lines[:-2]) + "\n\n")
        neovim.keys("Giand now?<Esc>")
        neovim.until("saved", lambda: "and now?" in place.chat.read_text())
        assert "has changed" not in neovim.messages


def test_a_chat_that_changed_on_the_disk_is_not_overwritten(place: Place, profile: Path) -> None:
    with talking(place, profile, Model("Yes.\n")) as neovim:
        ask(neovim, "from here?", 2)
        neovim.until("saved", lambda: neovim.is_saved)
        place.chat.write_text(f"{place.chat.read_text()}from elsewhere?\n")
        # The user types and has not looked at the file since.
        neovim.keys("Gifrom here, too?<Esc>")
        neovim.until("a word", lambda: "the chat's file has changed" in neovim.messages)
        assert "from elsewhere?" in place.chat.read_text()
        assert "from here, too?" in neovim.lines
        neovim.keys(":e!<CR>")
        neovim.until("the other's", lambda: "from elsewhere?" in neovim.lines)


def test_a_color_scheme_takes_no_group_away(neovim: Neovim) -> None:
    for scheme in ("blue", "default", "vim"):
        neovim.lua(f"vim.cmd('highlight clear') vim.cmd.colorscheme('{scheme}')")
        for group in ("Safe", "Caution", "Destructive", "Hint", "Busy"):
            found = neovim.lua(f"return vim.api.nvim_get_hl(0, {{ name = 'Aish{group}' }})")
            assert found, (scheme, group)


def test_a_suggestion_is_typed_into_a_narrow_terminal_and_asked_about(
    place: Place, profile: Path
) -> None:
    model = Model("CMD: echo one two three four five six seven eight nine ten\n")
    with talking(place, profile, model) as neovim:
        neovim.lua("vim.o.shell = '/bin/sh'")
        neovim.keys(":vsplit<CR>:terminal<CR><C-\\><C-n>:vertical resize 40<CR><C-w>p")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        ask(neovim, "what?", 2)
        neovim.until("what it could do", lambda: neovim.lua(FLOAT) == [] and described(neovim))
        neovim.keys("gg/^CMD: echo<CR>gs")

        def is_in_terminal() -> bool:
            # For a moment after a reply the plugin may have no suggestion, and says so.
            if "no suggested command" in str(neovim.lua("return vim.fn.execute('messages')")):
                neovim.keys(":messages clear<CR>gs")
            return neovim.name.startswith("term://")

        neovim.until_in_terminal("the terminal", is_in_terminal)
        text = "return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '')"
        neovim.until_in_terminal("it is typed", lambda: "nine ten" in neovim.lua(text))
        # Nothing runs before Enter is pressed.
        assert neovim.lua(text).count("nine ten") == 1
        neovim.keys("<CR>")
        neovim.until_in_terminal("it ran", lambda: neovim.lua(text).count("nine ten") == 2)
        neovim.keys("<C-\\><C-n><C-w>p")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        ask(neovim, "what did @terminal say?", 3)
        assert model.asked[-1].startswith("[terminal] ")
        assert "nine ten" in model.asked[-1].replace("\n", "")


def described(neovim: Neovim) -> bool:
    return "echo one" in str(neovim.lua(VIRTUAL)) or bool(neovim.lua(BELOW_TEXT))


BELOW_TEXT = """
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, -1, 0, -1, { details = true })) do
  if mark[4].virt_lines then return true end
end
return false
"""
