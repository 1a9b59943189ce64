from __future__ import annotations

import os
from pathlib import Path

import pytest

from aish_lsp.foundation.opening import read_head
from aish_lsp.project.picture import (
    CUT,
    Instructions,
    nested_instructions,
    read_instructions,
)
from aish_lsp.project.tree import INSTRUCTIONS


def test_the_first_file_there_is_read(tmp_path: Path) -> None:
    assert read_instructions(tmp_path, 1000) is None
    for name in reversed(INSTRUCTIONS):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"from {name}\n")
        assert read_instructions(tmp_path, 1000) == Instructions(name, f"from {name}")


def test_empty_and_binary_files_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("\n \n")
    (tmp_path / "AGENT.md").mkdir()
    (tmp_path / "CLAUDE.md").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "GEMINI.md").write_text("Use tabs.")
    assert read_instructions(tmp_path, 1000) == Instructions("GEMINI.md", "Use tabs.")


def test_nothing_outside_is_read(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "AGENTS.md").symlink_to(tmp_path / "secret")
    (root / ".github").symlink_to(tmp_path)
    (tmp_path / "copilot-instructions.md").write_text("secret")
    assert read_instructions(root, 1000) is None


def test_a_link_inside_is_fine(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("Use tabs.")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    assert read_instructions(tmp_path, 1000) == Instructions("AGENTS.md", "Use tabs.")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    assert read_instructions(tmp_path, 1000) is None


def test_what_cannot_be_seen_is_stripped(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(
        "\ufeffUse\u202e tabs\x1b[0m.\r\n\tAnd \u200bno\U000e0041 blanks."
    )
    text = "Use tabs[0m.\n\tAnd no blanks."
    assert read_instructions(tmp_path, 1000) == Instructions("AGENTS.md", text)


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"Use \xff tabs.")
    assert read_instructions(tmp_path, 1000) == Instructions("AGENTS.md", "Use \ufffd tabs.")


@pytest.mark.parametrize("text", ["line\n" * 1000, "ü" * 50 + "\n" + "x" * 10**6])
def test_a_long_file_is_cut_behind_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "AGENTS.md").write_text(text)
    read = read_instructions(tmp_path, 100)
    assert read is not None
    assert len(read.text) <= 100
    *kept, last = read.text.split("\n")
    assert last == CUT
    assert text.startswith("\n".join(kept) + "\n")


def test_no_room_no_text(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("a long line of text\n")
    assert read_instructions(tmp_path, 0) is None


def test_a_single_long_line_is_cut_behind_a_word(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("a long line of text\n")
    assert read_instructions(tmp_path, 10) == Instructions("AGENTS.md", f"a long\n{CUT}")
    (tmp_path / "AGENTS.md").write_text("x" * 50)
    assert read_instructions(tmp_path, 10) == Instructions("AGENTS.md", f"xxxxxxxx\n{CUT}")


def nested(root: Path, at: str, max_chars: int = 1000) -> list[tuple[str, str]]:
    found = nested_instructions(root, root / at, max_chars)
    return [(instructions.name, instructions.text) for instructions in found]


def test_the_files_on_the_way_to_a_file_are_read_the_nearest_last(tmp_path: Path) -> None:
    web = tmp_path / "packages" / "web"
    (web / "src").mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("the root's")
    (tmp_path / "packages" / "CLAUDE.md").write_text("the packages'")
    (web / "AGENTS.md").write_text("the web's")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "AGENTS.md").write_text("the other's")
    told = [("packages/CLAUDE.md", "the packages'"), ("packages/web/AGENTS.md", "the web's")]
    assert nested(tmp_path, "packages/web/src/new/file.ts") == told
    assert nested(tmp_path, "packages/web/src/../x.ts") == told
    assert nested(tmp_path, "packages/x.ts") == told[:1]
    assert nested(tmp_path, "README.md") == []
    assert nested(tmp_path, "../elsewhere/x.ts") == []


def test_the_nearest_have_the_room(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "AGENTS.md").write_text("far line\n" * 10)
    (inner / "AGENTS.md").write_text("near line\n" * 3)
    near = ("a/b/AGENTS.md", "near line\nnear line\nnear line")
    far = ("a/AGENTS.md", f"far line\nfar line\n{CUT}")
    assert nested(tmp_path, "a/b/x.py", 50) == [far, near]
    assert nested(tmp_path, "a/b/x.py", 29) == [near]
    assert nested(tmp_path, "a/b/x.py", 0) == []


def test_a_nested_file_that_leads_out_or_repeats_is_passed_over(tmp_path: Path) -> None:
    root = tmp_path / "work"
    for folder in ("a/b", "c", "d"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("outside")
    (root / "a" / "AGENTS.md").write_text("Use tabs.")
    (root / "a" / "b" / "AGENTS.md").symlink_to("../AGENTS.md")
    (root / "c" / "AGENTS.md").symlink_to(tmp_path / "AGENTS.md")
    (root / "d" / "out").symlink_to(tmp_path)
    assert nested(root, "a/b/x.py") == [("a/b/AGENTS.md", "Use tabs.")]
    assert nested(root, "c/x.py") == []
    assert nested(root, "d/out/x.py") == []


def test_a_nested_file_is_bounded_and_clean(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "AGENTS.md").write_text("Use\u202e \u200btabs.\n" + "x" * 10**6)
    assert nested(tmp_path, "a/x.py", 100) == [("a/AGENTS.md", f"Use tabs.\n{CUT}")]
    (tmp_path / "a" / "AGENTS.md").write_bytes(b"\x7fELF\0")
    assert nested(tmp_path, "a/x.py") == []


def test_a_file_of_no_folder_yet_and_very_deep_ones(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "AGENTS.md").write_text("Use tabs.")
    assert nested(tmp_path, "a/" + "x/" * 10 + "new.py") == [("a/AGENTS.md", "Use tabs.")]
    assert nested(tmp_path, "a/" + "x/" * 300 + "new.py") == []


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "a" * 5000])
def test_a_name_that_no_file_can_have_is_not_read(tmp_path: Path, name: str) -> None:
    assert read_head(tmp_path, name, 100) is None
