"""The fenced blocks of a reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from aish_lsp.shell.blocks import fenced_blocks


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("So:\n\n```python\nx = 1\n```\nand\n", [("python", "x = 1\n", 2, 4)]),
        ("```\na\n\n  b\n```", [("", "a\n\n  b\n", 0, 4)]),
        ("~~~ js title\na\n~~~\n```\nb\n```", [("js title", "a\n", 0, 2), ("", "b\n", 3, 5)]),
        ("````\n```\nx\n```\n````", [("", "```\nx\n```\n", 0, 4)]),
        ("1. do\n   ```py\n   if x:\n       y\n   ```\n", [("py", "if x:\n    y\n", 1, 4)]),
        ("```\n```", [("", "", 0, 1)]),
        ("```py\nnever closed\n", []),
        ("`code` and ```more```\n", []),
        ("```a`b\nx\n```", []),
        ("```\nx\n``` y\n```", [("", "x\n``` y\n", 0, 3)]),
        ("- ```py\n  x\n  ```\n", [("py", "x\n", 0, 2)]),
        ("> ```py\n> x\n>  y\n> ```\n", [("py", "x\n y\n", 0, 3)]),
        ("> ```py\n> x\n```\ny\n```\n", [("", "y\n", 2, 4)]),
        ("", []),
    ],
)
def test_they_are_found(text: str, found: list[tuple[str, str, int, int]]) -> None:
    blocks = fenced_blocks(text)
    assert [(block.info, block.text, block.first, block.last) for block in blocks] == found


@given(
    st.lists(
        st.sampled_from(["```", "````", "```py", "~~~", "x", "  y", "", "``", "~~~ js", "``` `"]),
        max_size=12,
    )
)
def test_they_are_those_that_markdown_has(lines: list[str]) -> None:
    text = "\n".join(lines)
    fences = [token for token in MarkdownIt().parse(f"{text}\n") if token.type == "fence"]
    found = [(block.info, block.text) for block in fenced_blocks(text)]
    # One that is never closed is Markdown's, and not ours.
    assert found == [(token.info.strip(), token.content) for token in fences][: len(found)]
    assert len(fences) - len(found) <= 1
