"""A user's day with the plugin, on 80 columns: docs/editors/neovim-screens.md.

``SCREENS=write`` in the environment rewrites the page's screens.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import llama_server
import pytest
import tiny_model
from calling_proxy import Caller
from conversing import forward_to
from editor_parts import Place
from fault_server import Peer, Request, served
from machine import needs, without_namespaces
from test_neovim import Neovim, opened
from test_neovim_plugin import BELOW, FLOAT, VIRTUAL, fixture_profile
from test_neovim_tools import ROWS

__all__ = ["fixture_profile"]

pytestmark = [
    pytest.mark.editor,
    pytest.mark.llama,
    needs(without_namespaces()),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "editors" / "neovim-screens.md"

CALC = "def double(x):\n    return x + 1\n"
TEST = """\
got=$(python3 -c 'import calc; print(calc.double(4))')
[ "$got" = 8 ] && echo "1 passed" && exit
echo "1 failed: double(4) is $got, not 8"
exit 1
"""
STATUS = """\
What differs from the last commit:

CMD: git status --short

To take all of it back, for good:

CMD: git checkout -- .
"""
STEP = "I run the test to see how it fails.\nCMD: sh test.sh\n"
WAIT = "I wait for what it needs.\nCMD: sleep 600\n"
EDIT = {"path": "calc.py", "old": "    return x + 1\n", "new": "    return 2 * x\n"}
MODEL = 'endpoint = "URL"\ncontext_window = 16384\nmax_output_tokens = 4096'


#: Whether the chat has something to write; it saves itself.
UNSAVED = "return vim.bo[vim.fn.bufnr('chat.md')].modified"


#: Have the chat scrolled alike, however fast its text came.
SETTLED = """
vim.api.nvim_win_call(vim.fn.bufwinid("chat.md"), function() vim.cmd("normal! zb") end)
vim.cmd("redraw!")
"""


class Streaming(Caller):
    """A ``Caller`` whose replies without calls come as llama.cpp streams them."""

    #: A reply that goes on until it is stopped.
    ENDLESS = 'root ::= [a-z] [a-z] [a-z] [a-z] " " root'

    async def __call__(self, request: Request, peer: Peer) -> None:
        """Answer a request."""
        if not request.path.endswith("/chat/completions") or self.replies[0][1]:
            await super().__call__(request, peer)
            return
        said, _ = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        is_endless = said == self.ENDLESS
        grammar = said if is_endless else llama_server.says(said)
        self.sent.append(request.json)
        body = request.json | {"grammar": grammar, "tool_choice": "none"}
        forced = replace(request, body=json.dumps(body).encode())
        await forward_to(self._llama.port, 0.05 if is_endless else 0.0)(forced, peer)


@pytest.fixture(name="place")
def fixture_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A repository with a test that fails, in the home folder, so that its path is short."""
    made = Place.make(tmp_path, "home/shop")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(made.programs), prepend=":")
    monkeypatch.chdir(made.folder)
    (made.folder / ".git").rmdir()
    (made.folder / "calc.py").write_text(CALC.replace("+ 1", "+ x"))
    (made.folder / "test.sh").write_text(TEST)
    git = ["git", "-C", str(made.folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (made.folder / "calc.py").write_text(CALC)
    return made


@pytest.fixture(scope="module")
def calling() -> Iterator[llama_server.LlamaServer]:
    """A server whose template knows of tools."""
    if (reason := llama_server.missing_part()) is not None:
        pytest.skip(reason)
    with llama_server.LlamaServer(model=tiny_model.calling_model_path(), context=32768) as running:
        yield running


class Screens:
    """What the page shows, and what is seen."""

    def __init__(self) -> None:
        self.page = PAGE.read_text(encoding="utf-8")
        self.seen: dict[str, str] = {}

    def take(self, name: str, neovim: Neovim, since: str = "") -> None:
        """Take the screen as it is, less what differs each time; or what of it is since a text."""
        # While a reply comes there is always something to save.
        neovim.until("the chat is saved", lambda: since or not neovim.lua(UNSAVED))
        neovim.lua(SETTLED)
        rows: list[str] = neovim.lua(ROWS)
        assert max(map(len, rows)) <= 80
        text = "\n".join(row.rstrip() for row in rows).rstrip().replace("\N{NO-BREAK SPACE}", " ")
        for pattern, instead in (
            (r"\([0-9a-f]{8}\)", "(5d0c2f1e)"),
            (r"^[⠀-⣿] (aish .+?)(?: \(.*\))?$", r"⠋ \1 (3 s)"),
            (r"after \d+\.\d s", "after 0.1 s"),
            (r"\d{4}-\d\d-\d\d", "2026-01-31"),
        ):
            text = re.sub(pattern, instead, text, flags=re.MULTILINE)
        if since:
            # How much of the reply is there, and so what stands above it, differs.
            shown = text.rpartition(since)[2].rpartition("\n.aish/chat.md")[0].rstrip("~\n ")
            text = f"{since}\n\n{shown.lstrip()}"
            text = re.sub(
                r"^[a-z]{1,4}(?:[ \n][a-z]{1,4})*$",
                "once upon a time ...",
                text,
                flags=re.MULTILINE,
            )
        self.seen[name] = text

    def compare(self) -> None:
        """Compare all of them with the page, or write it."""
        if os.environ.get("SCREENS") == "write":
            for name, text in self.seen.items():
                start = self.page.index("~~~text\n", self.page.index(f"\n## {name}\n"))
                end = self.page.index("\n~~~\n", start)
                self.page = f"{self.page[:start]}~~~text\n{text}{self.page[end:]}"
            PAGE.write_text(self.page, encoding="utf-8")
        for name, text in self.seen.items():
            assert f"~~~text\n{text}\n~~~\n" in self.page, f"{name}:\n{text}"


def ask(neovim: Neovim, text: str) -> None:
    neovim.keys(f"Gi{text}<Esc><CR>")


def headings(neovim: Neovim, count: int) -> None:
    neovim.until("the end", lambda: neovim.lines.count("## You") == count)


def test_a_day(place: Place, profile: Path, calling: llama_server.LlamaServer) -> None:
    screens = Screens()
    caller = Streaming(calling, [(STATUS, ())])
    with served(caller) as url, opened(place, profile, MODEL.replace("URL", url)) as neovim:
        neovim.lua("vim.o.columns, vim.o.lines = 80, 24")
        neovim.keys(":Aish<CR>")
        headings(neovim, 1)

        ask(neovim, "What did I change here?")
        headings(neovim, 2)
        neovim.until("both are described", lambda: "safe" in str(neovim.lua(VIRTUAL)))
        neovim.until("the other, too", lambda: "destructive" in str(neovim.lua(BELOW)))
        screens.take("A question", neovim)

        neovim.keys("gg/^CMD: git status<CR>gx")
        neovim.until("the output", lambda: " M calc.py" in neovim.lines)
        neovim.until("its end", lambda: any("exit 0" in line for line in neovim.lines))
        neovim.keys("/^CMD: git checkout<CR>gx")
        neovim.until("the question", lambda: neovim.lua(FLOAT))
        screens.take("A command that could lose something", neovim)
        neovim.keys("<CR>")
        neovim.until("a word", lambda: any("Not run" in line for line in neovim.lines))
        assert (place.folder / "calc.py").read_text() == CALC

        caller.replies = [("One file, `calc.py`, and nothing else.\n", ())]
        ask(neovim, "Is that all?")
        headings(neovim, 3)
        assert "$ git status --short (exit 0)\\n M calc.py" in json.dumps(caller.sent[-1])
        screens.take("What the next question carries", neovim)

        caller.replies = [("", [("edit_file", EDIT)]), ("Now it doubles.\n", ())]
        ask(neovim, "Repair calc.py.")
        neovim.until("the diff", lambda: "+    return 2 * x" in neovim.lua(FLOAT))
        screens.take("A change of the model's", neovim)
        neovim.keys("2")
        headings(neovim, 4)
        assert (place.folder / "calc.py").read_text() == CALC.replace("x + 1", "2 * x")

        caller.replies = [(STEP, ()), (WAIT, ())]
        ask(neovim, ":norris --allow-caution Make the test pass, and wait.")
        neovim.until(
            "the question", lambda: any("a goal by itself" in row for row in neovim.lua(FLOAT))
        )
        neovim.keys("2")
        neovim.until("a step", lambda: any("> Step 1: " in line for line in neovim.lines))
        neovim.keys(":Aish steps<CR>G")
        neovim.until("the second", lambda: "CMD: sleep 600" in neovim.lines)
        neovim.until("it runs", lambda: any("> Running " in line for line in neovim.lines))
        neovim.until("it is described", lambda: "CMD: sleep 600 |" in str(neovim.lua(VIRTUAL)))
        assert place.runs("sleep 600")
        screens.take("A goal", neovim)
        neovim.keys("<C-w>pq")
        headings(neovim, 5)
        steps = "return vim.tbl_map(function(item) return item.text end, vim.fn.getloclist(0))"
        neovim.until("the list has grown", lambda: len(neovim.lua(steps)) == 2)
        assert not place.runs("sleep 600")
        neovim.keys(":lclose<CR>")

        ask(neovim, ":remember the tests run by sh test.sh")
        headings(neovim, 6)
        neovim.keys(":qa<CR>")
        neovim.ended()
    with served(caller) as url, opened(place, profile, MODEL.replace("URL", url)) as neovim:
        neovim.lua("vim.o.columns, vim.o.lines = 80, 24")
        neovim.keys(":Aish memory list<CR>")
        headings(neovim, 7)
        assert any("the tests run by sh test.sh" in line for line in neovim.lines[-8:])
        screens.take("What it remembers", neovim)
        neovim.keys(":Aish context<CR>")
        headings(neovim, 8)
        screens.take("Where the tokens go", neovim)

        caller.replies = [(Streaming.ENDLESS, ())]
        ask(neovim, "Tell me a story.")
        neovim.until("a reply", lambda: re.match("[a-z]{4} [a-z]{4} ", neovim.lines[-1]))
        screens.take("A reply that comes", neovim, since="Tell me a story.")
        neovim.keys("q")
        headings(neovim, 9)
        assert "> Stopped." in neovim.lines
        neovim.until("the end of its progress", lambda: "aish answers" not in str(neovim.lua(ROWS)))
        screens.take("A reply that was stopped", neovim, since="Tell me a story.")

    screens.compare()
