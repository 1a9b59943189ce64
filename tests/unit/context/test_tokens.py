from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aish_lsp.context import tokens
from aish_lsp.context.tokens import (
    GENERAL,
    P99,
    PLAIN,
    PLAIN_FEATURES,
    SCRIPT_FEATURES,
    SCRIPTS,
    count,
    family_of,
    features,
    p99_error,
)

PAGE = Path(__file__).resolve().parents[3] / "docs/tokens.md"
FAMILIES = list(PLAIN)
ANY = st.text(st.characters(exclude_categories=()), max_size=200)


def test_nothing_is_nothing() -> None:
    assert count("") == 0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # Counted by a Qwen tokenizer; the estimate may be off by a quarter, or by two.
        ("hello world", 2),
        ("I'll list the files.\nCMD: ls -la\n", 12),
        ("def main(argv: list[str]) -> int:\n    return len(argv)\n", 15),
        ('{"name": "aish", "tags": ["a", "b"], "ok": true}', 21),
        ("getUserName(HTTPServer)", 5),
        ("    \n\n\n    x", 3),
        ("=" * 80, 1),
        ("total 24\ndrwxr-xr-x 2 root root 4096 Nov 21 22:01 docs\n", 32),
    ],
)
def test_the_estimate_is_near_a_real_tokenizer(text: str, tokens: int) -> None:
    assert abs(count(text, "qwen") - tokens) <= max(2, 0.25 * tokens)
    assert abs(count(text) - tokens) <= max(3, 0.4 * tokens)


@given(ANY, st.sampled_from(FAMILIES))
@example("\x00\x85\u2028\ud800\U0010ffff", GENERAL)
@example("\u0300\u200b٣", GENERAL)
def test_a_count_is_a_whole_number_of_a_text_that_is_there(text: str, family: str) -> None:
    counted = count(text, family)
    assert isinstance(counted, int)
    assert bool(counted) == bool(text)
    # No byte-level tokenizer needs more tokens than bytes, and here one of a blank.
    assert counted <= 3 * len(text) + 5


@given(ANY, ANY)
def test_more_text_is_hardly_ever_less_and_parts_nearly_add_up(one: str, other: str) -> None:
    whole = count(one + other)
    assert whole >= max(count(one), count(other)) - 12
    assert abs(whole - count(one) - count(other)) <= 25


@given(ANY)
def test_twice_the_text_is_about_twice_the_tokens(text: str) -> None:
    lines = f"{text}\n"
    assert abs(count(lines * 40) - 40 * count(lines)) <= 40 * 3


def test_a_text_in_pieces_is_counted_as_a_whole() -> None:
    text = "Ein Wörterbuch, 12 Bände.\n" * 20_000
    piece = text[: 26 * 1000]
    assert len(text) > 3 * tokens._CHUNK
    assert count(text) == pytest.approx(20 * count(piece), rel=0.001)


@pytest.mark.parametrize(
    ("text", "feature", "times"),
    [
        ("a word, Two2 x3", "word", 4),
        ("internationalization x", "ten", 2),
        ("HTTPServer", "capital", 5),
        ("strncpy aeiou", "cluster", 2),
        ("12 a3 4.5", "number", 4),
        ("12 a3 4.5", "digit", 5),
        ("f(x) $_", "mark", 4),
        ("f(x) $_", "tail", 2),
        ("f (x) -y", "head", 2),
        ("f(x) $_", "odd", 1),
        ("a\n\nb\n", "line", 3),
        ("\ta\t", "tab", 2),
        ("    a b", "gap", 2),
        ("-" * 64, "mark", 4),
        ("naïve café", "accent", 2),
        ("Nguyễn Thị", "vietnamese", 2),
        ("Nguyễn Thị", "word", 2),
        ("Привет, мир", "cyrillic", 9),
        ("Привет, мир", "cyr. word", 2),
        ("Привет, МИР", "cyr. capital", 4),
        ("λόγος", "alphabet", 5),
        ("שלום עולם", "alph. word", 2),
        ("हिन्दी", "indic", 6),
        ("漢字を書く", "han", 3),
        ("漢字を書く", "han run", 2),
        ("漢字を書く。", "kana", 3),
        ("안녕 하세요", "hangul", 5),
        ("a → b — c", "symbol", 2),
        ("a\uff0cb", "wide", 1),
        ("😀👍", "emoji", 2),
        ("\x00§", "rest", 2),
        ("\x1b[31mred\x1b[0m", "rest", 2),
    ],
)
def test_features_are_what_they_are_called(text: str, feature: str, times: int) -> None:
    named = dict(zip(PLAIN_FEATURES + SCRIPT_FEATURES, features(text), strict=False))
    assert named[feature] == times


def test_a_family_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        count("text", "no such family")


@pytest.mark.parametrize("unit", [*" \n\ta=1(é的\x00", " (", "Aa", "\r\n", " \t", "😀", "x1", "a "])
def test_a_long_run_of_anything_is_counted_at_once(unit: str) -> None:
    begun = time.process_time()
    counted = count(unit * 200_000)
    assert time.process_time() - begun < 10
    assert counted > 1000


@pytest.mark.parametrize("unit", ["\x00", "\x1b[0m", "\x85", "é", "😀", "Z", "7", "%", "的"])
def test_what_no_vocabulary_has_in_runs_is_not_cheap(unit: str) -> None:
    for family in FAMILIES:
        assert count(unit * 10_000, family) >= 300


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("qwen2.5-coder-7b", "qwen"),
        ("Qwen/Qwen3-30B-A3B", "qwen"),
        ("qwq:32b", "qwen"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3"),
        ("llama3.2:3b", "llama3"),
        ("llama-bpe", "llama3"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "llama3"),
        ("llama2:13b", "llama2"),
        ("codellama:7b", "llama2"),
        ("TinyLlama-1.1B-Chat-v1.0", "llama2"),
        ("llama-spm", "llama2"),
        ("Phi-3-mini-4k-instruct", "llama2"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "llama2"),
        ("mistral:latest", "llama2"),
        ("open-mixtral-8x7b", "llama2"),
        ("gemma3:12b", "gemma"),
        ("gemma-4", "gemma"),
        ("google/gemini-2.5-flash", "gemma"),
        ("deepseek-chat", "deepseek"),
        ("deepseek-reasoner", "deepseek"),
        ("deepseek/deepseek-r1", "deepseek"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek"),
        ("deepseek-llm-7b-chat", "deepseek-llm"),
        ("deepseek-coder-v2:16b", "deepseek-llm"),
        ("deepseek-coder-6.7b-instruct", "deepseek-coder"),
        ("DeepSeek-R1-Distill-Qwen-32B", "qwen"),
        ("DeepSeek-R1-Distill-Llama-70B", "llama3"),
        ("deepseek-r1:14b", "qwen"),
        ("deepseek-r1:70b", "llama3"),
        ("deepseek-r1:671b", "deepseek"),
        ("mistral-small-latest", "mistral"),
        ("mistral-nemo", "mistral"),
        ("devstral:24b", "mistral"),
        ("ministral-8b-latest", "mistral"),
        ("mistral-large-latest", "mistral"),
        ("mistral-large-2407", "llama2"),
        ("gpt-5.4-mini", "gpt"),
        ("openai/gpt-4o-mini", "gpt"),
        ("gpt-4.1", "gpt"),
        ("gpt-oss:20b", "gpt"),
        ("o3-mini", "gpt"),
        ("openai/o1", "gpt"),
        ("phi-4-mini-instruct", "gpt"),
        ("gpt-4-turbo", "gpt-4"),
        ("gpt-3.5-turbo", "gpt-4"),
        ("phi-4", "gpt-4"),
        ("claude-haiku-4-5", "claude"),
        ("anthropic/claude-sonnet-4", "claude"),
        ("command-r-plus", "command-r"),
        ("CohereForAI/aya-expanse-8b", "command-r"),
        ("falcon-7b-instruct", "falcon"),
        ("falcon", "falcon"),
        ("falcon3-10b", GENERAL),
        ("starcoder2:3b", "starcoder"),
        ("refact", "starcoder"),
        ("granite-3.1-8b-instruct", "starcoder"),
        ("granite4:3b", GENERAL),
        ("EleutherAI/pythia-1.4b", "neox"),
        ("OLMo-7B", "neox"),
        ("OLMo-2-1124-7B", "gpt-4"),
        ("mpt", "neox"),
        ("gpt-neox", "neox"),
        ("gpt2-xl", "gpt-2"),
        ("microsoft/phi-2", "gpt-2"),
        ("baichuan-13b", "baichuan"),
        ("aquila", "aquila"),
        ("aish-tiny", GENERAL),
        ("solo-model", GENERAL),
        ("kimi-k2", GENERAL),
        ("", GENERAL),
    ],
)
def test_a_model_s_name_tells_its_family(model: str, family: str) -> None:
    assert family_of(model) == family
    assert family in FAMILIES


def test_every_family_has_all_its_constants() -> None:
    assert PLAIN.keys() == SCRIPTS.keys() == P99.keys()
    for family in FAMILIES:
        assert len(PLAIN[family]) == len(PLAIN_FEATURES)
        assert len(SCRIPTS[family]) == len(SCRIPT_FEATURES)
        assert all(0 <= worth < 8 for worth in PLAIN[family] + SCRIPTS[family])
        assert 0 < p99_error(family) < 2


def section(name: str) -> list[list[str]]:
    """The cells of a table of the page, its head first and its rule left out."""
    page = PAGE.read_text("utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", page, re.DOTALL)
    assert found is not None
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found[1].splitlines()
        if line.startswith("|")
    ]
    return [rows[0], *rows[2:]]


def test_the_page_shows_the_constants() -> None:
    head, *rows = section("constants")
    assert head[1:] == FAMILIES
    names = PLAIN_FEATURES + SCRIPT_FEATURES
    assert [row[0] for row in rows] == list(names)
    for index, row in enumerate(rows):
        worth = [(PLAIN[family] + SCRIPTS[family])[index] for family in FAMILIES]
        assert [float(cell) for cell in row[1:]] == worth


def test_the_page_shows_the_99th_percentiles() -> None:
    _, *rows = section("p99")
    assert {family: float(cell.rstrip("%")) / 100 for family, cell in rows} == pytest.approx(P99)


def test_the_page_s_errors_are_within_what_was_promised() -> None:
    head, *rows = section("errors")
    kinds = ["python", "c", "c++", "shell", "english", "russian", "chinese", "japanese"]
    for row in rows:
        # A blank is a token to these two, and an indent is as many as it is wide.
        if row[0].startswith("…") or row[0] in ("gpt-2", "baichuan"):
            continue
        errors = dict(zip(head, row, strict=True))
        for kind in kinds:
            mean, p95 = map(int, errors[kind].split("/"))
            assert (mean <= 10, p95 <= 25) == (True, True), (row[0], kind)
        mean, p95 = map(int, errors["json"].split("/"))
        assert mean <= 15
        assert p95 <= 40
