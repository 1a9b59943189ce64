"""Secrets that are known are masked in every form that a command gives them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine import without_programs

from aish_lsp.foundation.masking import Mask

SECRET = "tr0ub4dor&3/Xk=' \"q"
MARK = "[secret]"

#: What prints it, and a part of what would be left of it.
PRINTING = [
    'printf %s "$S"',
    'printf %s "$S" | base64',
    'printf x%s "$S" | base64',
    'printf xx%s "$S" | base64 -w 9',
    'printf %s "$S" | basenc --base64url',
    'printf x%s "$S" | basenc --base64url -w 7',
    'printf xxx%s "$S" | base32',
    'printf %s "$S" | base64 | rev | rev',
    'printf %s "$S" | fold -w 5',
    'printf %s "$S" | fold -w 1',
    'printf %s "$S" | sed "s/./& /g"',
    'printf %s "$S" | od -An -tx1',
    'printf %s "$S" | od -An -tx1 | tr -d " \\n" | tr a-f A-F',
    'printf %s "$S" | tr a-z A-Z',
    'printf %s "$S" | tr A-Z a-z',
    "declare -p S",
    'printf %q "$S"',
    "set | grep ^S=",
    "python3 -c 'import os, json; print(json.dumps(dict(os.environ)))'",
    "python3 -c 'import os, urllib.parse as u; print(u.quote(os.environ[\"S\"]))'",
    "python3 -c 'import os, urllib.parse as u; print(u.quote_plus(os.environ[\"S\"]))'",
    'python3 -c \'import os; print(os.environb[b"S"].hex(":"))\'',
    'python3 -c \'import os; print("".join(map("\\\\x{:02x}".format, os.environb[b"S"])))\'',
    "python3 -c 'import os, html; print(html.escape(os.environ[\"S\"]))'",
]


@pytest.mark.parametrize("command", PRINTING)
def test_every_form_is_masked(command: str) -> None:
    used = {"basenc", "base32", "rev", "od", "python3"} & set(command.split())
    if missing := without_programs(*used):
        pytest.skip(missing)
    done = subprocess.run(
        ["bash", "-c", command],
        env={"PATH": "/usr/bin:/bin", "S": SECRET, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    masked = Mask([SECRET]).whole(f"before\n{done.stdout}\nafter", MARK)
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter")
    assert MARK in masked
    # Digits that other bytes have a part in may stay, at both ends.
    assert len(done.stdout) + len(MARK) + 14 - len(masked) >= 0.8 * len(SECRET)


def test_the_longest_is_masked_and_neighbors_one_by_one() -> None:
    mask = Mask(["sk-12345678", "sk-12345678-longer", "", "a+b(c)*d$e"])
    text = "x sk-12345678-longer sk-12345678sk-12345678 short a+b(c)*d$e"
    assert mask.whole(text, r"\1") == r"x \1 \1\1 short \1"
    assert Mask([]).whole("nothing", MARK) == "nothing"


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_is_no_secret_stays(before: str, after: str) -> None:
    masked = Mask([SECRET]).whole(f"{before}|{SECRET}|{after}", MARK)
    assert masked == f"{before}|{MARK}|{after}"


@given(st.text(max_size=200))
def test_text_without_a_secret_is_the_same(text: str) -> None:
    mask = Mask(["0123456789abcdef-0123456789abcdef"])
    assert mask.whole(text, MARK) == mask.of_output(text, MARK) == text


KEY = "key-0123456789abcdefghij"
LEFT_OUT = "[aish: 4711 bytes left out here]"


@pytest.mark.parametrize(
    ("output", "masked"),
    [
        (f"it is {KEY[:15]}", f"it is {MARK}"),
        (f"it is {KEY[:15]}\n", f"it is {MARK}\n"),
        (f"{KEY[9:]} it was", f"{MARK} it was"),
        (f"a {KEY[:10]}\n{LEFT_OUT}\n{KEY[12:]} b", f"a {MARK}\n{LEFT_OUT}\n{MARK} b"),
        (f"a {KEY.encode().hex()[:21]}\n{LEFT_OUT}\nb", f"a {MARK}\n{LEFT_OUT}\nb"),
        (f"a {KEY} b\n{LEFT_OUT}\n", f"a {MARK} b\n{LEFT_OUT}\n"),
        ("the key-012", "the key-012"),
        ("", ""),
    ],
)
def test_a_secret_that_was_cut_is_masked(output: str, masked: str) -> None:
    assert Mask([KEY]).of_output(output, MARK) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"wrong key {KEY}.", "wrong key ***."),
        (f"wrong key {KEY[:12]}", "wrong key ***"),
        (f"wrong key ...{KEY[-9:]}!", "wrong key ***!"),
        (f"wrong key {KEY[5:15]}.", "wrong key ***."),
        ("wrong key key-0***********ghij.", "wrong key ***."),
        ("wrong key 'key-0...ghij'", "wrong key '***'"),
        ("wrong key key-…", "wrong key ***"),
        ("wrong key ending in •••ghij", "wrong key ending in ***"),
        ("no such model: gpt-5... see https://keys.example/", None),
        ("wrong key: 0123456", None),
        ("", None),
    ],
)
def test_parts_are_masked_in_errors(text: str, masked: str | None) -> None:
    assert Mask([KEY]).parts(text, "***") == (text if masked is None else masked)


def test_base64_of_a_key_is_masked_in_part() -> None:
    assert Mask([KEY]).parts("Basic a2V5LTAxMjM0NTY3ODlhYm", "***") == "Basic ***"


@pytest.mark.parametrize(
    "unit", ["a", "ab", "key-0123", f"{KEY[:-1]} ", " ", "\n", "=", "*", ".a", "..a"]
)
@pytest.mark.slow
def test_masking_is_linear(unit: str) -> None:
    """What is not would take hours, not a second."""
    mask = Mask([KEY, "a" * 30, "ab" * 20])
    text = unit * (100_000 // len(unit))
    secret = f" {KEY} "
    assert mask.of_output(text + secret, MARK).endswith(f" {MARK} ")
    assert mask.parts(text + secret, MARK).endswith(f" {MARK} ")
