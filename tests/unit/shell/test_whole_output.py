"""Long outputs: what the chat shows of them, and the file that has it all."""

from __future__ import annotations

import os
import random
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swapping import swapped

from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.redaction import redact
from aish_lsp.operations.markdown import HeadAndTail
from aish_lsp.shell.output import SHOWN_CHARACTERS, SHOWN_LINES, WholeOutput, make_room

TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "c2VjcmV0\n" * 40 + "-----END RSA PRIVATE KEY-----\n"


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(count))


def shown(*pieces: str) -> tuple[str, str]:
    """Return what is shown of a text, and what is said to be left out."""
    shortened = HeadAndTail()
    text = "".join(map(shortened.feed, pieces)) + shortened.finish()
    return text, shortened.left_out


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "\n", lines(1), lines(SHOWN_LINES), "x" * 9_000),
        lines(SHOWN_LINES) + "x",
        lines(40) + "x" * 20_000,
        "x" * 16_000 + "\n" + lines(50),
        lines(40) + "x\fy\n" * 15,
    ],
)
def test_what_is_short_is_shown_whole(text: str) -> None:
    assert shown(text) == shown(*text) == (text, "")


def test_of_more_lines_head_and_tail_are_shown() -> None:
    text, left_out = shown(lines(1_300))
    found = text.split("\n")
    assert left_out == "1,240 lines"
    assert len(found) == SHOWN_LINES + 2
    assert (found[0], found[39], found[41], found[-2]) == (
        "line 0",
        "line 39",
        "line 1280",
        "line 1299",
    )
    assert found[40] == "[aish: 1,240 lines left out]"
    assert shown(lines(SHOWN_LINES + 1))[1] == "1 line"


def test_of_long_lines_no_more_is_shown() -> None:
    text, left_out = shown("x" * 200_000)
    assert left_out == "168,000 characters"
    assert len(text) < SHOWN_CHARACTERS + 100
    text, left_out = shown(("y" * 5_000 + "\n") * 50)
    assert left_out.endswith(" lines")
    assert len(text) < SHOWN_CHARACTERS + 100


@given(st.integers(0, 200), st.integers(1, 3_000), st.randoms(use_true_random=False))
def test_how_it_came_in_pieces_makes_no_difference(
    count: int, width: int, rng: random.Random
) -> None:
    text = "".join("z" * rng.randint(0, width) + "\n" for _ in range(count))
    cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 30)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert shown(*pieces) == shown(text)
    assert shown(text)[0].count("\n") <= SHOWN_LINES + 2


def whole(folder: Path, name: str = "ab12") -> WholeOutput:
    return WholeOutput(folder, name, redact)


async def test_a_short_output_makes_no_file(tmp_path: Path) -> None:
    output = whole(tmp_path)
    await output.add(lines(SHOWN_LINES))
    assert await output.close() is None
    assert list(tmp_path.iterdir()) == []


async def test_a_long_one_is_kept_whole_private_and_without_secrets(tmp_path: Path) -> None:
    output = whole(tmp_path)
    for line in lines(500).splitlines(keepends=True):
        await output.add(line)
    await output.add(f"token {TOKEN[:9]}")
    await output.add(f"{TOKEN[9:]}\n\x1b[31mred\x1b[0m\n{KEY}end\n")
    path = await output.close()
    assert path == tmp_path / "output" / "ab12.txt"
    assert path.read_text() == f"{lines(500)}token [redacted]\nred\n[redacted]\nend\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("before", [1024 * 1024 - 40, 1024 * 1024 - 64 * 1024 - 200])
@pytest.mark.slow
async def test_no_secret_is_seen_where_a_very_long_one_is_cut(tmp_path: Path, before: int) -> None:
    output = whole(tmp_path)
    text = ("w" * 99 + "\n") * (before // 100) + KEY + TOKEN + "\n" + lines(90_000)
    for start in range(0, len(text), 30_000):
        await output.add(text[start : start + 30_000])
    path = await output.close()
    assert path is not None
    kept = path.read_text()
    assert "c2VjcmV0" not in kept
    assert TOKEN not in kept
    assert kept.endswith(lines(90_000))
    assert kept.count("w" * 99) == before // 100


async def test_a_long_line_is_masked_a_few_times_at_most(tmp_path: Path) -> None:
    masked = 0

    def mask(text: str) -> str:
        nonlocal masked
        masked += len(text)
        return text

    output = WholeOutput(tmp_path / ".aish", "ab12", mask)
    for _ in range(256):
        await output.add("0123456789abcdef" * 4096)
    path = await output.close()
    assert path is not None
    assert path.stat().st_size == 1 << 24
    assert masked < 5 * (1 << 24)


async def test_one_that_leads_elsewhere_is_not_written(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / ".aish", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "output").symlink_to(elsewhere)
    output = whole(folder)
    await output.add(lines(100))
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        await output.close()
    (folder / "output").unlink()
    (folder / "output").mkdir()
    (folder / "output" / "ab12.txt").symlink_to(elsewhere / "file")
    output = whole(folder)
    await output.add(lines(100))
    with pytest.raises(StoreUnavailable):
        await output.close()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.slow
async def test_a_folder_that_is_swapped_with_a_link_leads_no_output_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / ".aish", tmp_path / "elsewhere"
    (folder / "output").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "precious.txt").write_text("x" * 2_000)
    # So small that the older outputs have to go each time.
    monkeypatch.setattr("aish_lsp.shell.output.LIMIT", 3_000)
    tried = written = 0
    with swapped(folder / "output", elsewhere):
        while tried < 100 or not written:
            tried += 1
            output = whole(folder, f"{tried:04}")
            await output.add(lines(100))
            with suppress(StoreUnavailable):
                written += await output.close() is not None
    assert [path.name for path in elsewhere.iterdir()] == ["precious.txt"]


def test_the_oldest_go_first(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "mid", "old")):
        path = tmp_path / f"{name}.txt"
        path.write_text("x" * 100)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "other").write_text("x" * 1_000)
    (tmp_path / "link.txt").symlink_to(tmp_path / "other")
    make_room(300, keep=tmp_path / "old.txt")
    assert len(list(tmp_path.glob("*.txt"))) == 4
    make_room(200, keep=tmp_path / "old.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "link.txt",
        "new.txt",
        "old.txt",
        "other",
    ]
    make_room(0, keep=tmp_path / "old.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "old.txt", "other"]


def test_an_output_that_another_command_deletes_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here.txt").write_text("x")
    gone = tmp_path / "gone.txt"
    monkeypatch.setattr(os, "listdir", lambda _: ["gone.txt", "here.txt"])
    make_room(0, keep=gone)
    assert not (tmp_path / "here.txt").exists()
