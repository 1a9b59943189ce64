"""Lines of JSON: what is read of a file, whatever stands in it, and what is written."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.jsonl import (
    MOST_REPORTED,
    BadLine,
    Flaws,
    TornLine,
    iter_jsonl,
    json_line,
    read_jsonl,
)


@dataclass(frozen=True)
class Lines:
    """What a file holds, sorted."""

    records: tuple[tuple[int, dict[str, Any]], ...]
    bad: tuple[BadLine, ...]
    torn: TornLine | None


def read(path: Path) -> Lines:
    lines = list(read_jsonl(path))
    torn = [line for _, line in lines if isinstance(line, TornLine)]
    return Lines(
        tuple((number, line) for number, line in lines if isinstance(line, dict)),
        tuple(line for _, line in lines if isinstance(line, BadLine)),
        torn[0] if torn else None,
    )


def test_read_jsonl_of_a_missing_file_is_empty(tmp_path: Path) -> None:
    lines = read(tmp_path / "none")
    assert (lines.records, lines.bad, lines.torn) == ((), (), None)


def test_read_jsonl_tells_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot read .*: Is a directory"):
        read_jsonl(tmp_path)


def test_read_jsonl_numbers_good_and_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"a": 1}\r\n\n  \n[1]\n{"b": \xff}\n{broken\n'
        + '{"c": "\u2028\x85"}\n'.encode()
        + b'{"deep": '
        + b"[" * 100_000
        + b"\n"
        + b'{"whole, but for its line end": true}'
    )
    lines = read(path)
    assert [number for number, _ in lines.records] == [1, 7, 9]
    assert lines.records[1][1] == {"c": "\u2028\x85"}
    assert [bad.number for bad in lines.bad] == [4, 5, 6, 8]
    assert lines.bad[:2] == (
        BadLine(4, "it is not an object"),
        BadLine(5, "it is not UTF-8"),
    )
    assert lines.torn is None


@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), max_size=5),
    st.data(),
)
def test_a_file_cut_anywhere_gives_its_whole_lines_and_where_the_torn_one_begins(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "x.jsonl"
    whole = [f"{json_line(record)}\n".encode() for record in records]
    content = b"".join(whole)
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    lines = read(path)
    assert not lines.bad
    count = len(lines.records)
    assert [record for _, record in lines.records] == records[:count]
    end = sum(map(len, whole[:count]))
    if lines.torn is None:
        assert cut in {end, end - 1}
    else:
        assert (lines.torn.offset, lines.torn.number) == (end, count + 1)
        assert end < cut


@given(st.dictionaries(st.text(), st.text(st.characters()) | st.floats(allow_nan=False)))
def test_any_text_survives_as_one_line_of_utf8(record: dict[str, object]) -> None:
    if float("inf") in record.values() or float("-inf") in record.values():
        with pytest.raises(ValueError, match="not JSON compliant"):
            json_line(record)
        return
    line = json_line(record)
    assert "\n" not in line
    assert json.loads(line.encode()) == record


def test_half_a_surrogate_pair_survives() -> None:
    assert json.loads(json_line({"x": "\ud83d alone"}).encode()) == {"x": "\ud83d alone"}


def nested(depth: int, inner: str = "1") -> str:
    """Return an object whose values stand ``depth`` deep in each other, itself being 1."""
    return '{"x": ' + "[" * (depth - 1) + inner + "]" * (depth - 1) + "}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"x": NaN}', "it holds the number NaN"),
        ('{"x": [{"y": -Infinity}]}', "it holds the number -Infinity"),
        ('{"x": 1e999}', "a number that is too large"),
        ('{"x": -1e999 } ', "a number that is too large"),
        ('{"x": 1' + "0" * 400 + ".0}", "a number that is too large"),
        ('{"x": ' + "9" * 5000 + "}", "a number with too many digits"),
        (nested(1_000_000), "nested too deeply"),
    ],
)
def test_what_could_not_be_written_again_is_a_bad_line(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n' + line + '\n{"b": 2}\n')
    lines = read(path)
    assert [number for number, _ in lines.records] == [1, 3]
    (bad,) = lines.bad
    assert bad.number == 2
    assert reason in bad.reason


@pytest.mark.parametrize(
    "line",
    [
        nested(100),
        # Brackets in a text are no nesting.
        json.dumps({"x": "[{" * 500, "y": [[]] * 500}),
        '{"x": ' + "9" * 4000 + ', "y": 1e308, "z": -0.0}',
        # The last one counts, as in every reader of JSON that is known.
        '{"x": 1, "x": 2}',
    ],
)
def test_what_is_read_can_be_written(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line + "\n")
    ((_, record),) = read(path).records
    path.write_text(json_line(record) + "\n")
    assert read(path).records == ((1, record),)


def test_what_could_not_be_read_again_is_not_written() -> None:
    ring: dict[str, object] = {}
    ring["x"] = ring
    with pytest.raises(ValueError, match="Circular"):
        json_line(ring)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        json_line({"x": deep})


def test_a_last_line_is_whole_or_torn_whatever_stands_before_it() -> None:
    lines = ['{"a": "é"}', "", "junk", '{"b": "\u2028"}', "[]", " ", '{"c": 1}']
    whole = "\n".join(lines).encode()
    data = [b"\xef\xbb\xbf" + whole + end for end in (b"", b"\n", b"\n\n", b"\n{", b"\n\xff")]
    read_lines = [list(iter_jsonl(one)) for one in data]
    assert [type(last[1]).__name__ for *_, last in read_lines] == ["dict"] * 3 + ["TornLine"] * 2
    assert [last[0] for *_, last in read_lines] == [7, 7, 7, 8, 8]


@pytest.mark.slow
def test_of_very_many_bad_lines_the_first_are_told_and_the_others_counted() -> None:
    flaws = Flaws(Path("f"), "It is skipped.")
    for number, line in iter_jsonl(b"junk\n" * 200_000):
        assert isinstance(line, BadLine)
        flaws.add(number, line.reason)
    *each, others = flaws.messages()
    assert len(each) == MOST_REPORTED
    assert each[0] == "f, line 1: it is not JSON (Expecting value, column 1). It is skipped."
    assert others == f"f: 199,997 more bad lines, the first at line {MOST_REPORTED + 1}."


@pytest.mark.slow
def test_very_many_bad_lines_take_little_more_memory_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n' * 100_000 + b"junk\n" * 100_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_jsonl(path)) == 200_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * path.stat().st_size


@pytest.mark.parametrize("after", ["{}", " {}", "x", " x", "]"])
def test_a_line_with_something_after_its_object_is_bad_and_says_where(after: str) -> None:
    [(_, line)] = iter_jsonl(f'{{"a": 1}}{after}\n'.encode())
    column = 10 if after[0] == " " else 9
    assert line == BadLine(1, f"it is not JSON (Extra data, column {column})")
