"""The plugin from where nobody looks first: no file, a terminal, two workspaces, slow text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from editor_parts import Place
from fault_server import served
from test_neovim import READY, Neovim, opened, place
from test_neovim_faults import Model, kill, talking
from test_neovim_plugin import FLOAT, VIRTUAL, ask, fixture_profile, opened_chat

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
        neovim.until("saved", lambda: neovim.is_saved)
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


#: A question as the server asks it; what was answered is kept in ``answers``.
APPROVE = """
local name, folder = ...
_G.answers = _G.answers or {}
local params = { kind = "command", text = name, cwd = vim.uri_from_fname(vim.fn.getcwd()),
  risk = "caution", undo = "", covers = "", labels = { "Cancel", "Run" }, remember = {},
  reasons = { "holds\\na line" } }
coroutine.wrap(function()
  _G.answers[name] = require("aish.question").approve(params).approved
end)()
"""


ANSWERS = "return vim.tbl_keys(_G.answers)"


def approve(neovim: Neovim, name: str) -> None:
    neovim.lua(APPROVE.replace("...", f"{name!r}"))


def test_questions_wait_for_each_other(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        for name in ("one", "two", "three"):
            approve(neovim, name)
        for name, key in (("one", "2"), ("two", "1"), ("three", "2")):
            shown = neovim.until(name, lambda: neovim.lua(FLOAT))
            assert name in shown
            assert "• holds" in shown
            assert "  a line" in shown
            neovim.keys(key)
            neovim.until("its answer", lambda one=name: one in neovim.lua(ANSWERS))  # type: ignore[misc]
        neovim.until("no window", lambda: neovim.lua(FLOAT) == [])
        answers = neovim.lua("return _G.answers")
        assert answers == {"one": True, "two": False, "three": True}


def test_what_somebody_goes_on_typing_answers_no_question(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        neovim.keys("Ohello ")
        neovim.until("insert mode", lambda: neovim.lines[0] == "hello ")
        approve(neovim, "one")
        neovim.lua("require('aish.question').SEEN = 1e9")
        neovim.until("the question", lambda: "one" in neovim.lua(FLOAT))
        neovim.keys("2j<CR>2 files<Esc>q")
        # Keys and requests are taken in their order.
        neovim.until("the question", lambda: "one" in neovim.lua(FLOAT))
        assert neovim.lua("return _G.answers.one") is None
        # Whoever has paused is heard.
        neovim.lua("require('aish.question').SEEN = 0")
        neovim.keys("2")
        neovim.until("an answer", lambda: neovim.lua("return _G.answers.one"))


def test_a_terminal_whose_shell_has_ended_is_left_alone(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        neovim.lua("""
            vim.cmd("botright new")
            local job = vim.fn.jobstart({ "sh", "-c", "exit 3" }, { term = true })
            vim.fn.jobwait({ job }, 20000)
            _G.ended = vim.api.nvim_get_current_buf()
            vim.cmd("wincmd p")
            vim.o.shell = "/bin/sh"
            require("aish.terminal").type("echo typed")
        """)
        shown = "return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false))"
        neovim.until_in_terminal("it is typed", lambda: "echo typed" in neovim.lua(shown))
        assert neovim.lua("return vim.api.nvim_get_current_buf() ~= _G.ended")


def test_lines_are_not_typed_into_what_would_run_each(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        neovim.lua("""
            vim.o.shell = "/bin/bash"
            vim.cmd("botright new")
            vim.fn.jobstart({ "cat" }, { term = true })
            vim.cmd("wincmd p")
            require("aish.terminal").type("echo one\\necho two")
        """)
        told = "aish: cat would run its lines one by one"
        neovim.until("a word", lambda: told in neovim.messages)


def test_what_a_reply_says_about_modelines_sets_nothing(place: Place, profile: Path) -> None:
    model = Model("Put this at the end:\n\n    # vim: set nomodifiable tabstop=3:\n")
    with talking(place, profile, model) as neovim:
        ask(neovim, "how?", 2)
        neovim.until("saved", lambda: neovim.is_saved)
        neovim.keys(":set modeline<CR>:edit!<CR>")
        neovim.until("loaded", lambda: neovim.lines.count("## You") == 2)
        assert neovim.lua("return vim.bo.modifiable and vim.bo.tabstop") == 8


def test_the_chat_takes_no_list_and_no_text_away(place: Place, profile: Path) -> None:
    profile.write_text(profile.read_text().replace("window = 'current'", ""))
    with opened(place, profile) as neovim:
        neovim.lua("vim.o.hidden = false")
        neovim.keys(":copen<CR>")
        neovim.until("a list", lambda: neovim.lua("return vim.bo.buftype") == "quickfix")
        neovim.keys(":Aish<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        assert neovim.lua("return vim.fn.getqflist({ winid = 0 }).winid ~= 0")
        neovim.keys(":bwipeout<CR>:cclose<CR>:only<CR>:enew<CR>")
        neovim.until("no name", lambda: neovim.name == "")
        neovim.keys("imine<Esc>:Aish<CR>")
        neovim.until("the chat", lambda: neovim.name == str(place.chat))
        assert neovim.lua("return #vim.api.nvim_list_wins()") == 2


def test_code_actions_are_reached_in_the_chat(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        opened_chat(neovim, place)
        ask(neovim, "how do I run the tests here?", 2)
        # Key by key, without a limit of time.
        neovim.lua("vim.o.timeout = false")
        neovim.keys("gg/^CMD: make<CR>gr")
        neovim.keys("a")
        neovim.choose_titled("Run: make test")
        neovim.until("the output", lambda: any("exit 0" in line for line in neovim.lines))
        neovim.lua("vim.o.timeout = true")
        # And the shorter one still asks again.
        neovim.keys("Gothanks<Esc><CR>")
        neovim.until("a reply", lambda: neovim.lines.count("## You") == 3)
        neovim.keys("gr")
        neovim.until("another", lambda: neovim.lines.count("## You") == 4)


def test_health_of_a_command_of_several_words(place: Place, profile: Path) -> None:
    command = f"cmd = {{ {sys.executable!r}, '-m', 'aish_lsp' }}, window ="
    profile.write_text(profile.read_text().replace("window =", command))
    with opened(place, profile) as neovim:
        neovim.keys(":checkhealth aish<CR>")
        neovim.until("a report", lambda: any("A server runs for" in line for line in neovim.lines))
        assert any("aish-lsp" in line and "OK" in line for line in neovim.lines), neovim.lines


def test_a_question_that_cannot_be_shown_is_a_no(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        neovim.keys("q:")
        neovim.until("the window", lambda: neovim.lua("return vim.fn.getcmdwintype()") == ":")
        approve(neovim, "one")
        neovim.until("an answer", lambda: neovim.lua("return _G.answers.one ~= nil"))
        assert neovim.lua("return _G.answers.one") is False
        neovim.keys(":quit<CR>")
        neovim.until("a file", lambda: neovim.lua("return vim.fn.getcmdwintype()") == "")
        approve(neovim, "two")
        neovim.until("the question", lambda: "two" in neovim.lua(FLOAT))


def test_run_far_above_the_end_goes_to_where_the_output_comes(place: Place, profile: Path) -> None:
    model = Model("CMD: echo here\n\n" + "And so on.\n\n" * 100)
    with talking(place, profile, model) as neovim:
        ask(neovim, "what?", 2)
        neovim.keys("gg/^CMD:<CR>")
        neovim.until("a suggestion", lambda: neovim.lua(VIRTUAL))
        neovim.keys("gx")
        neovim.until("the output", lambda: "here" in neovim.lines)
        neovim.until("the end", lambda: neovim.lua("return vim.fn.line('.') == vim.fn.line('$')"))
        neovim.keys("``")
        neovim.until("back", lambda: neovim.lua("return vim.fn.getline('.')") == "CMD: echo here")


def test_help_on_keys_in_40_columns_breaks_between_words(place: Place, profile: Path) -> None:
    with opened(place, profile) as neovim:
        opened_chat(neovim, place)
        neovim.lua("vim.o.columns = 40")
        neovim.keys("?")
        shown = neovim.until("the keys", lambda: neovim.lua(FLOAT))
        assert max(map(len, shown)) <= 36
        assert "<CR>   Send, or run the suggestion" in shown
        assert "       here" in shown
