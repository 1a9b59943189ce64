"""The plugin from where nobody looks first: no file, a terminal, two workspaces, slow text."""

from __future__ import annotations

from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import served
from test_neovim import READY, Neovim, opened, place
from test_neovim_faults import Model, kill, talking
from test_neovim_plugin import FLOAT, ask, fixture_profile, opened_chat

__all__ = ["fixture_profile", "place"]

pytestmark = pytest.mark.editor

#: The files that a server was told of, by all clients.
DOCUMENTS = """
local found = {}
for _, client in ipairs(vim.lsp.get_clients({ name = 'aish' })) do
  for buffer in pairs(client.attached_buffers) do
    table.insert(found, vim.api.nvim_buf_get_name(buffer))
  end
end
return found
"""

STOP = """
for _, client in ipairs(vim.lsp.get_clients({ name = 'aish' })) do client:stop(true) end
vim.wait(20000, function() return #vim.lsp.get_clients({ name = 'aish' }) == 0 end, 20)
"""

#: Keep which commands are asked for, and of the servers of which folders.
WATCH = """
_G.asked = {}
local function watch(client)
  local request = client.request
  client.request = function(self, method, params, ...)
    if method == "workspace/executeCommand" then
      table.insert(_G.asked, { self.root_dir, params.command })
    end
    return request(self, method, params, ...)
  end
end
-- Those that are there, and those that come.
vim.tbl_map(watch, vim.lsp.get_clients({ name = "aish" }))
watch(require("vim.lsp.client"))
"""

ASKED = "return _G.asked"

#: Whether the chat is as it is in its file.
SAVED = "return not vim.bo.modified"


@pytest.mark.parametrize("opens", ["enew", "terminal", "help"])
def test_the_chat_is_opened_from_what_is_no_file(place: Place, profile: Path, opens: str) -> None:
    with opened(place, profile) as neovim:
        neovim.lua(f"vim.cmd.{opens}()")
        assert not neovim.name.endswith("main.py")
        neovim.lua(STOP)
        neovim.keys(":Aish<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        ask(neovim, "how do I run the tests here?", 2)
        assert "CMD: make test" in neovim.lines
        # Nobody shows the server what a terminal or a page of help says.
        allowed = {str(place.folder / "main.py"), str(place.chat)}
        assert set(neovim.lua(DOCUMENTS)) <= allowed
        assert "aish:" not in neovim.messages


def test_a_slow_reply_that_is_saved_meanwhile_is_one_step_of_undo(
    place: Place, profile: Path
) -> None:
    model = Model("The beginning", " and the end.\n")
    with talking(place, profile, model) as neovim:
        neovim.keys("Giwhat?<Esc>")
        neovim.until("a question", lambda: neovim.lines[-1] == "what?")
        before = neovim.lines
        neovim.keys("<CR>")
        neovim.until("the beginning", lambda: "The beginning" in neovim.lines)
        neovim.until("saved", lambda: "The beginning" in place.chat.read_text())
        neovim.until("saved", lambda: neovim.lua(SAVED))
        model.goes_on.set()
        neovim.until("its end", lambda: neovim.lines.count("## You") == 2)
        neovim.keys("u")
        neovim.until("all of it is gone", lambda: neovim.lines == before)


def test_what_a_model_is_called_is_not_evaluated_in_the_status_line(
    place: Place, profile: Path
) -> None:
    with opened(place, profile) as neovim:
        evaluated = neovim.lua("""
            local client = require("aish.client")
            client.statuses[client.get().id] = { model = "a%{execute('let g:evil = 1')}b" }
            local line = "%{%v:lua.require'aish'.statusline()%}"
            return { vim.api.nvim_eval_statusline(line, {}).str, vim.g.evil or 0 }
        """)
        assert evaluated == ["a%{execute('let g:evil = 1')}b", 0]


def both(place: Place, neovim: Neovim) -> Path:
    """Open a file of another workspace beside; return that workspace."""
    other = place.folder.with_name("other")
    (other / ".git").mkdir(parents=True)
    (other / "other.txt").write_text("other\n")
    neovim.keys(f":edit {other / 'other.txt'}<CR>")
    neovim.until("another server", lambda: neovim.name.endswith("other.txt") and neovim.lua(READY))
    assert neovim.lua("return #vim.lsp.get_clients({ name = 'aish' })") == 2
    return other


def test_a_quick_question_goes_to_the_workspace_of_its_file(place: Place, profile: Path) -> None:
    model = Model("Yes.\n")
    with served(model) as url, opened(place, profile, f'endpoint = "{url}"') as neovim:
        other = both(place, neovim)
        # Neovim itself works in the first.
        assert neovim.lua("return vim.fn.getcwd()") == str(place.folder)
        neovim.lua(WATCH)
        neovim.keys(":Aish ask<CR>what?<CR>")
        neovim.until("an answer", lambda: "Yes." in neovim.lua(FLOAT))
        assert neovim.lua(ASKED) == [[str(other), "aish.ask"]]


def test_a_server_that_ended_goes_on_with_its_own_conversation(place: Place, profile: Path) -> None:
    model = Model("Yes.\n")
    with served(model) as url, opened(place, profile, f'endpoint = "{url}"') as neovim:
        opened_chat(neovim, place)
        ask(neovim, "what?", 2)
        both(place, neovim)
        neovim.lua(WATCH)
        kill(neovim)
        # Both have ended; only the first was asked something, and the file of the second is shown.
        neovim.until("both", lambda: neovim.messages.count("was started again") == 2)
        resumed = ["aish.session.resume" in command for _folder, command in neovim.lua(ASKED)]
        assert resumed.count(True) == 1
        assert [str(place.folder), "aish.session.resume"] in neovim.lua(ASKED)
        # The chat is mended by the server that serves it.
        neovim.until("mended", lambda: [str(place.folder), "aish.chat.open"] in neovim.lua(ASKED))
        assert {folder for folder, _command in neovim.lua(ASKED)} == {str(place.folder)}


def test_restarting_by_hand_goes_on_with_the_conversation(place: Place, profile: Path) -> None:
    model = Model("Yes.\n")
    with talking(place, profile, model) as neovim:
        ask(neovim, "what?", 2)
        neovim.lua(WATCH)
        neovim.keys(":Aish restart<CR>")
        neovim.until("a word", lambda: "the server was started again" in neovim.messages)
        neovim.until(
            "resumed", lambda: [str(place.folder), "aish.session.resume"] in neovim.lua(ASKED)
        )
        ask(neovim, "and now?", neovim.lines.count("## You") + 1)
        assert "what?" in str(model.requests[-1])
