"""Estimating tokens if no tokenizer is available (seed: aish-phase8-tokenization).

A text's characters are mapped to classes, and the occurrences of some classes and neighbors are
counted: words, digits, marks, line ends, indents, and the characters of each script. Each of
these is worth part of a token; how much is fitted to real tokenizers, by family
(``token_constants.json``, written by ``tools/fit_tokens``; ``docs/tokens.md`` has the errors).

It only uses ``bytes.translate`` and ``bytes.count``: a few passes in C for any text.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from itertools import starmap, zip_longest
from operator import add, mul
from pathlib import Path
from typing import Final

_CONSTANTS = json.loads(Path(__file__).with_name("token_constants.json").read_text("utf-8"))

#: The weight of each feature in tokens, by family: ``PLAIN_FEATURES`` and ``SCRIPT_FEATURES``.
PLAIN: dict[str, list[float]] = _CONSTANTS["plain"]
SCRIPTS: dict[str, list[float]] = _CONSTANTS["scripts"]

#: The most by which the real count exceeds the estimate, as a share of it, in 99 of 100 texts.
P99: dict[str, float] = _CONSTANTS["p99"]

#: The family of an unknown model.
GENERAL = "general"

#: Characters that are examined at once: memory stays bounded, and the cache is used well.
_CHUNK = 1 << 16

#: In a ruler, sixteen of the same mark are about one token.
_RULERS = [(mark * 16, mark) for mark in (b"-", b"=", b"*", b"#", b"_", b".", b"~")]

#: Characters of the longest tokens.
_LONGEST = 128

#: The class of a character that is not ASCII, by the highest first byte that it may have in UTF-8.
_CLASSES = (
    (0xC2, "x"),  # the marks of Latin-1
    (0xCA, "e"),  # Latin letters with accents
    (0xCF, "i"),  # Greek
    (0xD3, "c"),  # Cyrillic
    (0xDF, "i"),  # Armenian, Hebrew, Arabic
    (0xE0, "d"),  # Indic scripts, Thai
    (0xE1, "v"),  # Vietnamese
    (0xE2, "s"),  # symbols
    (0xE3, "k"),  # kana, and marks of Chinese
    (0xE9, "h"),  # han
    (0xED, "o"),  # hangul
    (0xEF, "w"),  # wide forms
    (0xFF, "f"),  # emoji
)
#: Marks that occur in few words and operators.
_ODD_MARKS = "$%@^~&|\\"

#: Continuation bytes of UTF-8.
_CONTINUATIONS = bytes(range(0x80, 0xC0))


def _class_of(byte: int) -> str:
    """Return the class of a character that begins with ``byte``."""
    if byte > 0x7F:
        return next(name for last, name in _CLASSES if byte <= last)
    char = chr(byte)
    if char.isalnum():
        return "0" if char.isdigit() else "a" if char.islower() else "A"
    if char in "\r\n":
        return "\n"
    if char in " \t":
        return " "
    if not char.isprintable():
        return "x"
    return "$" if char in _ODD_MARKS else "."


def _word_class_of(byte: int) -> str:
    """Return what replaces a class when words are counted: its alphabet's letter, or a blank."""
    char = chr(byte)
    if char in "aAev":
        return "a"
    return char if char in "0chi" else " "


_TO_CLASSES = "".join(map(_class_of, range(256))).encode()
_TO_WORDS = "".join(map(_word_class_of, range(256))).encode()
_TO_CONSONANTS = bytes(
    ord("q" if 97 <= byte <= 122 and chr(byte) not in "aeiouy" else " ") for byte in range(256)
)
#: A capital of Russian is D0 and a byte from 90 to AF.
_TO_CYRILLIC_CAPITALS = bytes(
    ord("A" if byte == 0xD0 else "B" if 0x90 <= byte <= 0xAF else " ") for byte in range(256)
)


def count(text: str, family: str = GENERAL) -> int:
    """Return about how many tokens ``text`` is; 0 for an empty text.

    Args:
        text: any text, even one with lone surrogates.
        family: the tokenizer's family, as ``family_of`` returns it.

    Raises:
        KeyError: there is no such family.
    """
    total = weigh(features(text), family)
    # No vocabulary has a token for a whole page of blanks.
    return max(math.ceil(total), math.ceil(len(text) / _LONGEST))


def weigh(counted: list[int], family: str) -> float:
    """Return the tokens that counted features are worth, not rounded.

    Raises:
        KeyError: there is no such family.
    """
    worth = PLAIN[family] + SCRIPTS[family]
    return math.fsum(map(mul, counted, worth))


def features(text: str) -> list[int]:
    """Return what is counted in ``text``: ``PLAIN_FEATURES``, then ``SCRIPT_FEATURES``.

    The latter are left out of a text that is all ASCII.
    """
    total: list[int] = []
    for begin in range(0, len(text), _CHUNK):
        counted = _features(text[begin : begin + _CHUNK])
        total = list(starmap(add, zip_longest(total, counted.values(), fillvalue=0)))
    return total


def _features(text: str) -> dict[str, int]:
    """Return what is counted in a text, in the order of the constants."""
    data = text.encode("utf-8", "surrogatepass")
    for ruler, mark in _RULERS:
        data = data.replace(ruler, mark)
    classes = data.translate(_TO_CLASSES, _CONTINUATIONS)
    # The blank makes a word at the very beginning count too.
    words = b" " + classes.translate(_TO_WORDS)
    shape, word = classes.count, words.count
    odd = shape(b"$")
    counted = {
        "word": word(b" a"),  # begins: a run of Latin letters
        "ten": word(b"aaaaaaaaaa"),  # letters of one word, once for each ten in a row
        "capital": shape(b"A"),  # letters
        # Of three small consonants in a row: names cut short, random text.
        "cluster": data.translate(_TO_CONSONANTS).count(b"qqq"),
        "number": word(b" 0") + word(b"a0"),  # begins
        "digit": shape(b"0"),
        "mark": shape(b".") + odd,  # any of ASCII that is not a letter, digit or blank
        "tail": shape(b"a."),  # a mark behind a small letter
        "head": shape(b" ."),  # a mark behind a blank
        "odd": odd,  # one of the marks that few words and operators are made of
        "line": shape(b"\n"),  # ends
        "tab": data.count(b"\t"),
        "gap": shape(b"  "),  # two blanks in a row
        "rest": shape(b"x"),  # control characters, and the marks of Latin-1
    }
    if text.isascii():
        return counted
    cyrillic = shape(b"c")
    capitals = data.translate(_TO_CYRILLIC_CAPITALS).count(b"AB") if cyrillic else 0
    return counted | {
        "accent": shape(b"e"),  # a Latin letter with one
        "vietnamese": shape(b"v"),  # a letter with two
        "cyrillic": cyrillic,  # letters
        "cyr. word": word(b" c"),  # begins
        "cyr. capital": capitals,  # letters
        "alphabet": shape(b"i"),  # letters of Greek, Arabic, Hebrew, Armenian
        "alph. word": word(b" i"),  # begins
        "indic": shape(b"d"),  # letters and signs of Hindi, Bengali, Tamil, Thai, ...
        "han": shape(b"h"),  # characters
        "han run": word(b" h"),  # begins
        "kana": shape(b"k"),  # and the marks of Chinese and Japanese
        "hangul": shape(b"o"),  # syllables
        "symbol": shape(b"s"),  # arrows, boxes, dashes, quotation marks
        "wide": shape(b"w"),  # forms, and other rare characters
        "emoji": shape(b"f"),
    }


#: What is counted of any text, and besides that of one that is not all ASCII.
PLAIN_FEATURES: Final = tuple(_features(""))
SCRIPT_FEATURES: Final = tuple(_features("\u00e9"))[len(PLAIN_FEATURES) :]


# The family of a model's tokenizer, by the model's name.


@cache
def _families() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the table of families, each with the pattern of its models' names."""
    lines = Path(__file__).with_name("token_families.txt").read_text("utf-8").splitlines()
    rows = (line.split() for line in lines if line and not line.startswith("#"))
    return tuple((family, re.compile(pattern)) for family, pattern in rows)


def family_of(model: str) -> str:
    """Return the family of a model's tokenizer; the general one if its name does not say.

    Args:
        model: the name that the endpoint is asked for, with or without a maker before it or a
            size after it: ``meta-llama/Llama-3.1-8B-Instruct``, ``gemma3:12b``.
    """
    name = model.lower().replace("_", "-")
    return next((family for family, pattern in _families() if pattern.search(name)), GENERAL)


def p99_error(family: str) -> float:
    """Return the most by which the count exceeds the estimate, as a share, in 99 of 100 texts.

    ``count(text, family) * (1 + p99_error(family))`` is hardly ever less than the real count.

    Raises:
        KeyError: there is no such family.
    """
    return P99[family]
