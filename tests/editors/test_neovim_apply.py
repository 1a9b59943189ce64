"""A code block of a reply, put into its file by a key, after its diff."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_parts import Place
from test_neovim import Neovim, place
from test_neovim_faults import Model, talking
from test_neovim_plugin import FLOAT, ask, fixture_profile

__all__ = ["fixture_profile", "place"]

pytestmark = pytest.mark.editor

CART = "import os\n\n\ndef one():\n    return 1\n\n\ndef two():\n    return 3\n\n\nprint(one())\n"
MENDED = CART.replace("return 3", "return 2")
PART = "def two():\n    return 2"


@pytest.fixture(name="model")
def fixture_model() -> Model:
    return Model("")


@pytest.fixture(name="neovim")
def fixture_neovim(place: Place, profile: Path, model: Model) -> Iterator[Neovim]:
    (place.folder / "cart.py").write_text(CART)
    (place.folder.parent / "outside.py").write_text(CART)
    with talking(place, profile, model) as started:
        yield started


def answered(neovim: Neovim, model: Model, reply: str, question: str = "Mend it.") -> None:
    """Have the model reply, and press the key at the end of the chat."""
    model.reply = reply
    ask(neovim, question, neovim.lines.count("## You") + 1)
    neovim.keys("Ggp")


@pytest.mark.parametrize(
    "reply",
    [
        f"```python cart.py\n{PART}\n```\n",
        f"```python\n# cart.py\n{PART}\n```\n",
        f"In `./cart.py`:\n\n```python\n{PART}\n```\n",
        f"Here it is.\n\n```python\n{PART}\n```\n",
    ],
    ids=["fence", "first line", "line above", "question"],
)
def test_block_goes_where_its_file_has_these_lines_once_its_diff_is_agreed_to(
    neovim: Neovim, place: Place, model: Model, reply: str
) -> None:
    answered(neovim, model, reply, "What is wrong in cart.py?")
    shown = neovim.until("the diff", lambda: neovim.lua(FLOAT))
    assert "Change cart.py (caution)?" in shown
    assert "-    return 3" in shown
    assert "+    return 2" in shown
    assert "-import os" not in shown
    assert (place.folder / "cart.py").read_text() == CART
    neovim.keys("2")
    neovim.until("the file", lambda: (place.folder / "cart.py").read_text() == MENDED)
    neovim.until("a word", lambda: "cart.py has changed" in neovim.messages)


DIFF = "@@ -8,2 +8,2 @@\n def two():\n-    return 3\n+    return 2\n"


@pytest.mark.parametrize("head", ["--- a/cart.py\n+++ b/cart.py\n", ""], ids=["header", "none"])
def test_diff_is_applied_and_not_put_into_the_file(
    neovim: Neovim, place: Place, model: Model, head: str
) -> None:
    answered(neovim, model, f"```diff\n{head}{DIFF}```\n", "What is wrong in cart.py?")
    neovim.until("the diff", lambda: neovim.lua(FLOAT))
    neovim.keys("2")
    neovim.until("the file", lambda: (place.folder / "cart.py").read_text() == MENDED)


def test_diff_that_does_not_fit_changes_nothing(neovim: Neovim, place: Place, model: Model) -> None:
    answered(neovim, model, f"```diff\n{DIFF.replace('two', 'three')}```\n", "And cart.py?")
    neovim.until("a word", lambda: "does not fit cart.py" in neovim.messages)
    assert (place.folder / "cart.py").read_text() == CART


def test_block_that_is_refused_changes_nothing(neovim: Neovim, place: Place, model: Model) -> None:
    answered(neovim, model, f"```python cart.py\n{PART}\n```\n")
    neovim.until("the diff", lambda: neovim.lua(FLOAT))
    neovim.keys("<CR>")
    neovim.until("no window", lambda: neovim.lua(FLOAT) == [])
    assert (place.folder / "cart.py").read_text() == CART


def test_block_of_a_file_with_changes_is_put_there_and_not_saved(
    neovim: Neovim, place: Place, model: Model
) -> None:
    neovim.lua("vim.cmd.split('cart.py') vim.fn.setline(1, 'import sys') vim.cmd.wincmd('p')")
    answered(neovim, model, f"```python cart.py\n{PART}\n```\n")
    neovim.until("the diff", lambda: neovim.lua(FLOAT))
    neovim.keys("2")
    lines = "return vim.api.nvim_buf_get_lines(vim.fn.bufnr('cart.py'), 0, -1, false)"
    wanted = MENDED.replace("import os", "import sys").splitlines()
    neovim.until("the buffer", lambda: neovim.lua(lines) == wanted)
    assert (place.folder / "cart.py").read_text() == CART


@pytest.mark.parametrize("name", ["../outside.py", ".git/config", "nowhere.py"])
def test_block_of_no_file_of_the_workspace_is_asked_about_and_refused(
    neovim: Neovim, place: Place, model: Model, name: str
) -> None:
    (place.folder / ".git" / "config").write_text("[core]\n")
    answered(neovim, model, f"```python {name}\n{PART}\n```\n")
    neovim.type_in("Apply to:", f"<C-u>{name}<CR>")
    neovim.until("a refusal", lambda: f"{name} is not a file of this workspace" in neovim.messages)
    assert (place.folder.parent / "outside.py").read_text() == CART


#: Where a line that the file does not have may go, with the cursor in line 9.
PLACES = {
    "Replace line 9: return 3": MENDED,
    "Insert below line 9: return 3": CART.replace("return 3\n", "return 3\n    return 2\n"),
    "Append at the end": f"{CART}    return 2\n",
}


@pytest.mark.parametrize("where", PLACES)
def test_line_that_the_file_does_not_have_goes_where_the_user_says_after_its_diff(
    neovim: Neovim, place: Place, model: Model, where: str
) -> None:
    neovim.lua("vim.cmd.split('cart.py') vim.fn.cursor(9, 1) vim.cmd.wincmd('p')")
    answered(neovim, model, "In cart.py:\n\n```python\n    return 2\n```\n")
    neovim.choose_titled(where)
    neovim.until("the diff", lambda: "+    return 2" in neovim.lua(FLOAT))
    assert (place.folder / "cart.py").read_text() == CART
    neovim.keys("2")
    neovim.until("the file", lambda: (place.folder / "cart.py").read_text() == PLACES[where])


def test_block_that_names_no_file_is_offered_for_the_file_that_was_last_in_use(
    neovim: Neovim, place: Place, model: Model
) -> None:
    neovim.lua("vim.cmd.split('cart.py') vim.fn.cursor(9, 1) vim.cmd.wincmd('p')")
    answered(neovim, model, "```python\n    return 2\n```\n")
    neovim.type_in("Apply to: cart.py", "<CR>")
    neovim.choose_titled("Replace line 9: return 3")
    neovim.until("the diff", lambda: "+    return 2" in neovim.lua(FLOAT))
    neovim.keys("2")
    neovim.until("the file", lambda: (place.folder / "cart.py").read_text() == MENDED)


def test_line_of_code_that_opens_a_file_is_not_put_into_that_file(
    neovim: Neovim, place: Place, model: Model
) -> None:
    (place.folder / "data.csv").write_text("a,b\n")
    answered(neovim, model, 'In cart.py:\n\n```python\nrows = open("data.csv")\n```\n')
    screen = neovim.choose(0, "Where does it go?")
    assert "No line of the block is in cart.py." in screen


@pytest.mark.parametrize(
    ("before", "block", "after"),
    [
        ("abcdef", "cXd", "abcXdef"),
        ("abcdef", "bf", "abf"),
        ("abc", "abcd", "abcd"),
        ("abc", "Xabc", "Xabc"),
        ("abcdef", "cX", "abcXef"),
        ("abcdef", "Xd", "abXdef"),
        ("abc", "xyz", None),
        ("abc", "abc", "abc"),
    ],
)
def test_merged_keeps_what_is_around_the_block(
    neovim: Neovim, before: str, block: str, after: str | None
) -> None:
    code = f"return require('aish.apply').merged({{{_lua(before)}}}, {{{_lua(block)}}})"
    assert neovim.lua(code) == (after and list(after))


def _lua(lines: str) -> str:
    return ", ".join(f"'{line}'" for line in lines)
