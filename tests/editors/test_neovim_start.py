"""The first minutes in Neovim: the chat's first lines, its folder, an earlier session."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place
from test_neovim import Neovim, init, opened, place
from test_neovim_plugin import (
    BELOW,
    FLOAT,
    VIRTUAL,
    ask,
    fixture_neovim,
    fixture_profile,
    opened_chat,
)

__all__ = ["fixture_neovim", "fixture_profile", "init", "place"]

pytestmark = pytest.mark.editor

KEYS_OF_PLUGIN = """\
Write below the last `## You`: `<CR>` sends it, `q` stops the reply.
`?` shows the keys, `:help` on a line of its own lists the commands."""
KEYS_OF_PAGE = """\
Write below the last `## You`: `<leader>as` sends it, `<leader>ac` stops the reply.
`:help` on a line of its own lists the commands."""


def test_first_lines_with_the_plugin_name_its_keys(neovim: Neovim, place: Place) -> None:
    opened_chat(neovim, place)
    assert KEYS_OF_PLUGIN in "\n".join(neovim.lines)


def test_first_lines_without_the_plugin_name_the_keys_of_the_page(place: Place, init: Path) -> None:
    with opened(place, init) as neovim:
        neovim.keys(" ao")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        neovim.until("its first lines", lambda: KEYS_OF_PAGE in "\n".join(neovim.lines))


def test_first_lines_with_keys_of_the_users_name_these(place: Place, profile: Path) -> None:
    keys = "keys = { send = '<C-s>', stop = '', help = 'g?' }, window ="
    profile.write_text(profile.read_text().replace("window =", keys))
    with opened(place, profile) as neovim:
        opened_chat(neovim, place)
        assert "`<C-s>` sends it.\n`g?` shows the keys" in "\n".join(neovim.lines)


@pytest.fixture(name="bare", params=["plugin", "page"])
def fixture_bare(request: pytest.FixtureRequest, place: Place) -> Iterator[Neovim]:
    """Neovim in a folder that is no repository, with the plugin or with the page's lines."""
    (place.folder / ".git").rmdir()
    is_plugin = request.param == "plugin"
    with opened(place, request.getfixturevalue("profile" if is_plugin else "init")) as neovim:
        neovim.keys(":Aish<CR>" if is_plugin else " ao")
        yield neovim


def test_workspace_without_a_repository_is_the_current_folder(bare: Neovim, place: Place) -> None:
    bare.until("the chat", lambda: bare.name == str(place.chat))
    bare.until("a heading", lambda: "## You" in bare.lines)
    bare.lua("vim.api.nvim_buf_set_lines(0, -1, -1, false, { ':run ls' })")
    bare.keys("<CR>" if "`<CR>`" in "\n".join(bare.lines) else " as")
    bare.until("files of that folder", lambda: "Makefile" in bare.lines)


def test_workspace_in_the_home_folder_is_none(place: Place, profile: Path) -> None:
    home = Path(place.environment["HOME"])
    (home / "main.py").write_text("")
    with opened(place, profile) as neovim:
        neovim.lua(f"vim.cmd.cd({str(home)!r}) vim.cmd.edit('main.py')")
        root = "local one = vim.lsp.get_clients({ name = 'aish', bufnr = 0 })[1] return "
        neovim.until("a server", lambda: neovim.lua(f"{root} one ~= nil"))
        assert neovim.lua(f"{root} one.root_dir") is None


def test_suggestion_is_shown_with_the_folder_that_it_would_run_in(
    neovim: Neovim, place: Place
) -> None:
    opened_chat(neovim, place)
    ask(neovim, "how do I run the tests here?", 2)
    neovim.until("what it could do", lambda: neovim.lua(VIRTUAL) or neovim.lua(BELOW))
    shown = " ".join("".join([*neovim.lua(VIRTUAL), *neovim.lua(BELOW)]).split())
    assert " run in /" in shown
    assert f"/{place.folder.name} · " in shown


#: A question about a change, with reasons that read like lines of a diff.
APPROVE = """
local params = { kind = "edit", text = "main.py", cwd = vim.uri_from_fname(vim.fn.getcwd()),
  risk = "caution", undo = "", covers = "", labels = { "Cancel", "Change it" }, remember = {},
  reasons = { "one\\n- two\\n+ three", "- four" },
  diff = { uri = vim.uri_from_bufnr(0), before = "old\\n", after = "new\\n" } }
coroutine.wrap(function() require("aish.question").approve(params) end)()
"""

#: The lines of the question with how each is colored at its first visible character.
COLORS = """
local found = {}
for number = 1, vim.fn.line("$") do
  local column = vim.fn.match(vim.fn.getline(number), [[\\S]]) + 1
  local id = vim.fn.synID(number, math.max(column, 1), 1)
  table.insert(found, { vim.fn.getline(number), vim.fn.synIDattr(id, "name") })
end
return found
"""


def test_reason_that_reads_like_a_diff_is_not_colored_as_one(neovim: Neovim) -> None:
    neovim.keys(":syntax on<CR>")
    neovim.lua(APPROVE)
    neovim.until("the question", lambda: "-old" in neovim.lua(FLOAT))
    colored = [line for line, color in neovim.lua(COLORS) if color in ("diffRemoved", "diffAdded")]
    assert colored == ["-old", "+new"]


def test_session_is_chosen_by_when_it_was_and_its_title(
    place: Place, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 13 hours before UTC: what is written in UTC is another hour, and most often another day.
    monkeypatch.setenv("TZ", "XXX-13")
    for question in ("how do I run the tests here?", "which files are here?"):
        subprocess.run(
            ["aish-lsp", "ask", "--no-stdin", question],
            cwd=place.folder,
            check=True,
            capture_output=True,
            timeout=60,
        )
    with opened(place, profile) as neovim:
        opened_chat(neovim, place)
        neovim.keys("gl")
        screen = neovim.choose(0, "how do I run the tests here?")
        last = dt.datetime.fromisoformat(place.sessions()[-1]["ts"])
        when = last.astimezone(dt.timezone(dt.timedelta(hours=13)))
        assert f"1: {when:%Y-%m-%d %H:%M}    1 question   which files are here?\n" in screen
        assert "  1 question   how do I run the tests here?\n" in screen
        neovim.until("nothing chosen", lambda: neovim.lines.count("## You") == 1)

        neovim.keys(":Aish sessions tests<CR>")
        screen = neovim.choose(1, "how do I run the tests here?")
        assert "question   which files" not in screen
        neovim.until("it goes on", lambda: neovim.lines.count("## You") == 2)
        ask(neovim, "did that work?", 3)
    asked = [one["content"] for one in place.sessions() if one.get("role") == "user"]
    assert sorted(asked) == [
        "did that work?",
        "how do I run the tests here?",
        "which files are here?",
    ]
