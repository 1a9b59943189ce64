"""Neovim with our plugin, from a packed copy and a clean profile, by a user's keys."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place, blocks
from test_neovim import Neovim, find, opened, place

__all__ = ["place"]

pytestmark = pytest.mark.editor

PLUGIN = Path(__file__).resolve().parents[2] / "editors" / "nvim"

#: What the plugin shows at the end of lines.
VIRTUAL = """
local found = {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, -1, 0, -1, { details = true })) do
  local text = ""
  for _, chunk in ipairs(mark[4].virt_text or {}) do text = text .. chunk[1] end
  if text ~= "" then table.insert(found, vim.fn.getline(mark[2] + 1) .. " |" .. text) end
end
return found
"""

#: What it shows on lines of its own.
BELOW = """
local found = {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, -1, 0, -1, { details = true })) do
  for _, line in ipairs(mark[4].virt_lines or {}) do
    local text = ""
    for _, chunk in ipairs(line) do text = text .. chunk[1] end
    table.insert(found, text)
  end
end
return found
"""

#: The lines of the window above the others; nothing where there is none.
FLOAT = """
for _, window in ipairs(vim.api.nvim_list_wins()) do
  if vim.api.nvim_win_get_config(window).relative ~= "" then
    return vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
  end
end
return {}
"""


@pytest.fixture(name="profile")
def fixture_profile(tmp_path: Path) -> Path:
    """The configuration of somebody who has installed the packed plugin."""
    packed = tmp_path / "aish.nvim.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(PLUGIN, "aish.nvim")
    packages = tmp_path / "site" / "pack" / "here" / "start"
    packages.mkdir(parents=True)
    subprocess.run(["tar", "-xf", packed, "-C", packages], check=True)
    path = tmp_path / "init.lua"
    path.write_text(
        f"vim.opt.packpath:prepend({str(tmp_path / 'site')!r})\nvim.g.mapleader = ' '\n"
        "vim.cmd.packadd('aish.nvim')\nrequire('aish').setup{ window = 'current' }\n"
    )
    return path


@pytest.fixture(name="neovim")
def fixture_neovim(place: Place, profile: Path) -> Iterator[Neovim]:
    with opened(place, profile) as started:
        yield started


def ask(neovim: Neovim, question: str, headings: int) -> None:
    """Write a question below the last heading and send it by its key."""
    neovim.keys(f"Gi{question}<Esc><CR>")
    neovim.until("a reply", lambda: neovim.lines.count("## You") == headings)


def opened_chat(neovim: Neovim, place: Place) -> None:
    neovim.keys(":Aish<CR>")
    neovim.until("the chat", lambda: neovim.name == str(place.chat))
    neovim.until("a heading", lambda: "## You" in neovim.lines)


def test_a_conversation(neovim: Neovim, place: Place) -> None:
    opened_chat(neovim, place)
    ask(neovim, "how do I run the tests here?", 2)
    shown = neovim.until("what it could do", lambda: neovim.lua(VIRTUAL))
    assert len(shown) == 1
    assert shown[0].startswith("CMD: make test |  caution")

    # By its key, on its line.
    neovim.keys("gg/^CMD: make<CR>gx")
    neovim.until("the output", lambda: any("exit 0" in line for line in neovim.lines))
    neovim.until("it is off the list", lambda: "caution" not in "".join(neovim.lua(VIRTUAL)))
    ask(neovim, "did that work?", 3)
    assert "exit 0" in "\n".join(neovim.lines).rpartition("## aish")[2]

    # Nothing is left to write: the chat has saved itself.
    neovim.until("saved", lambda: neovim.is_saved)
    text = "\n".join([*neovim.lines, ""])
    neovim.until("the file", lambda: place.chat.read_text() == text)
    assert re.fullmatch(
        r"offline \d+%%( \$0.00)?", neovim.lua("return require('aish').statusline()")
    )
    neovim.keys(":qa<CR>")
    neovim.ended()


def test_what_a_suggestion_could_do_is_not_cut_in_a_narrow_window(
    neovim: Neovim, place: Place
) -> None:
    opened_chat(neovim, place)
    ask(neovim, "how do I run the tests here?", 2)
    [behind] = neovim.until("what it could do", lambda: neovim.lua(VIRTUAL))
    assert neovim.lua(BELOW) == []
    told = behind.partition(" |")[2].split()
    for width in (60, 24):
        neovim.lua(f"vim.cmd.vsplit() vim.cmd('vertical resize {width}')")
        below = neovim.until("it stands below", lambda: neovim.lua(BELOW))
        assert " ".join(below).split() == told
        assert max(map(len, below)) <= width
        neovim.lua("vim.cmd.only()")
        neovim.until("it stands behind", lambda: neovim.lua(VIRTUAL) == [behind])


def test_a_question_of_the_servers_is_refused_by_escape(neovim: Neovim, place: Place) -> None:
    opened_chat(neovim, place)
    neovim.keys("Gi:run rm main.py<Esc><CR>")
    asked = neovim.until("the question", lambda: neovim.lua(FLOAT))
    assert any("rm main.py" in line for line in asked), asked
    assert asked[-2].endswith("Cancel"), asked
    neovim.keys("<CR>")
    neovim.until("the window is gone", lambda: neovim.lua(FLOAT) == [])
    neovim.until("it says so", lambda: any("Not run" in line for line in neovim.lines))
    assert (place.folder / "main.py").exists()


def test_prose_of_a_question_breaks_between_words(neovim: Neovim) -> None:
    text = "('• ' .. ('words '):rep(20) .. '\\n- more')"
    neovim.lua("vim.o.columns = 30")
    lines = neovim.lua(f"return require('aish.float').prose({text}, '  ')")
    assert max(map(len, lines)) <= 26
    assert " ".join(lines).split() == ["•", *["words"] * 20, "-", "more"]
    # No line of it passes for one of a diff.
    assert all(line.startswith("  ") for line in lines[1:]), lines


def test_one_that_is_agreed_to_runs(neovim: Neovim, place: Place) -> None:
    opened_chat(neovim, place)
    neovim.keys("Gi:run rm main.py<Esc><CR>")
    neovim.until("the question", lambda: neovim.lua(FLOAT))
    neovim.keys("2")
    neovim.until("it ran", lambda: not (place.folder / "main.py").exists())


def test_the_server_is_started_again(neovim: Neovim, place: Place) -> None:
    opened_chat(neovim, place)
    ask(neovim, "how do I run the tests here?", 2)
    client = "return vim.lsp.get_clients({ name = 'aish' })[1]"
    before = neovim.lua(f"local c = ({client.removeprefix('return ')}) return c and c.id")
    shell = neovim.lua("return vim.fn.system({'pgrep', '-P', tostring(vim.fn.getpid())})")
    for child in str(shell).split():
        subprocess.run(["pkill", "-KILL", "-P", child], check=False)
        # What waited for that one may have ended with it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    neovim.until("a word", lambda: "the server ended and was started again" in neovim.messages)
    assert neovim.lua("return vim.lsp.get_clients({ name = 'aish' })[1].id") != before
    ask(neovim, "did that work?", 3)


def test_a_quick_question(neovim: Neovim) -> None:
    neovim.keys(":Aish ask<CR>how do I run the tests?<CR>")
    neovim.until("the answer", lambda: "CMD: make test" in neovim.lua(FLOAT))
    neovim.keys("q")
    neovim.until("the window is gone", lambda: neovim.lua(FLOAT) == [])
    assert neovim.lines == ["print()"]


def test_health(neovim: Neovim) -> None:
    neovim.keys(":checkhealth aish<CR>")
    neovim.until("a report", lambda: any("A server runs for" in line for line in neovim.lines))
    assert not any("ERROR" in line for line in neovim.lines)


def test_without_a_server_one_message_says_what_to_do(
    place: Place,
    profile: Path,
) -> None:
    text = profile.read_text().replace("window =", "cmd = { 'no-such-aish' }, window =")
    profile.write_text(text)
    done = subprocess.run(
        [find(), "--headless", "--clean", "-u", profile, "+qa"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "no-such-aish not found: `pipx install aish-lsp` (:help aish)" in done.stderr


def test_lines_of_the_page_for_an_installation_by_hand_give_the_command_and_its_help(
    place: Place, tmp_path: Path
) -> None:
    home = Path(place.environment["HOME"])
    shutil.copytree(PLUGIN, home / "src/aish-lsp/editors/nvim")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    kept["PATH"] = f"{Path(find()).parent}:{kept['PATH']}"
    by_hand = blocks("neovim.md", "sh")[0]
    subprocess.run(["sh", "-ec", by_hand], env=kept, check=True, timeout=60)
    init = tmp_path / "init.lua"
    init.write_text(blocks("neovim.md", "lua")[0])
    found = "lua io.stdout:write(vim.v.errmsg .. vim.fn.exists(':Aish') .. vim.fn.expand('%:t'))"
    done = subprocess.run(
        [find(), "--headless", "-u", init, "-c", "help :Aish", "-c", found, "-c", "qa!"],
        env=kept,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "2aish.txt", done.stderr


def test_the_window_of_the_keys_takes_no_text(neovim: Neovim, place: Place) -> None:
    opened_chat(neovim, place)
    neovim.keys("?")
    shown = neovim.until("the keys", lambda: neovim.lua(FLOAT))
    neovim.keys("ihello")
    neovim.until("a refusal", lambda: "E21" in neovim.messages)
    assert neovim.lua(FLOAT) == shown
