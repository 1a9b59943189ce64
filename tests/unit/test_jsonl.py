"""Lines of JSON: what is read of a file, whatever stands in it, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.errors import StoreUnavailable
from aish_lsp.jsonl import MAX_DEPTH, BadLine, json_line, read_jsonl


def test_read_jsonl_of_a_missing_file_is_empty(tmp_path: Path) -> None:
    lines = read_jsonl(tmp_path / "none")
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
    lines = read_jsonl(path)
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
    lines = read_jsonl(path)
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
        ('{"x": ' + "9" * 5000 + "}", "a number of too many digits"),
        (nested(MAX_DEPTH + 1), "nested too deeply"),
        ('{"x": ' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "nested too deeply"),
        (nested(2000), "nested too deeply"),
        (nested(1_000_000), "nested too deeply"),
    ],
)
def test_what_could_not_be_written_again_is_a_bad_line(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n' + line + '\n{"b": 2}\n')
    lines = read_jsonl(path)
    assert [number for number, _ in lines.records] == [1, 3]
    (bad,) = lines.bad
    assert bad.number == 2
    assert reason in bad.reason


@pytest.mark.parametrize(
    "line",
    [
        nested(MAX_DEPTH),
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
    ((_, record),) = read_jsonl(path).records
    path.write_text(json_line(record) + "\n")
    assert read_jsonl(path).records == ((1, record),)


def test_what_could_not_be_read_again_is_not_written() -> None:
    record: dict[str, object] = json.loads(nested(MAX_DEPTH))
    assert json_line(record)
    with pytest.raises(ValueError, match="nested too deeply"):
        json_line({"x": record})
    ring: dict[str, object] = {}
    ring["x"] = ring
    with pytest.raises(ValueError, match="Circular"):
        json_line(ring)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        json_line({"x": deep})
