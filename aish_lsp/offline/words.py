"""Words as they are compared: in lower case, stemmed, and one for each group of synonyms.

The stemmer removes plural endings, -ing and -ed, in the manner of the first steps of
M. F. Porter, "An algorithm for suffix stripping", Program 14 (1980).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_VOWEL = re.compile(r"[aeiouy]")
_KEEPS_ITS_S = ("ss", "us", "is", "as", "os")


class Words:
    """The contents of words.toml.

    Attributes:
        light: terms that say little if a phrasing does not have them.
        beyond: terms from programming, general knowledge and daily life, which no command answers.
        canonical: for each stem, the word that stands for its group of synonyms.
        phrases: for one word, the pattern of those that mean it; compiled when a text has any.
        any_phrase: a pattern that matches if any of them does; most phrasings have none.
        extensions: the extension of the files of a language or format.
        deeds: for each term, the kinds of action that it names.
        kinds: other words for the value of a slot, besides the slot's own name.
        takes: the kinds that a slot takes besides, or in preference to, its own.
        placeholders: what replaces a missing value, if not the slot's name.
        groups: lists of words, by their purpose.
        shapes: how a value of a kind looks.
        patterns: what questions say.
        actions: what may be asked of what was listed.
        numbers: words for numbers.
        seconds: words for spans of time.
        programs_of: for each program that a question may name, those whose commands it means.
        interpreters: the program that starts a file, by its extension.
        lead_in, trailer: what comes before and after a question without adding anything.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.canonical: dict[str, str] = {}
        for name, synonyms in data["synonyms"].items():
            for word in (name, *synonyms.split()):
                self.canonical[word] = self.canonical[stem(word)] = name
        self.light = frozenset(map(self._canonical, data["light"].split()))
        self.beyond = frozenset(map(self._canonical, data["beyond"].split()))
        self.phrases: dict[str, str] = data["phrases"]
        self.any_phrase = _whole_words("|".join(data["phrases"].values()))
        self.extensions: dict[str, str] = {
            word: extension
            for extension, listed in data["extensions"].items()
            for word in listed.split()
        }
        self.deeds: dict[str, tuple[str, ...]] = {}
        for kind, verbs in data["deeds"].items():
            for term in map(self._canonical, verbs.split()):
                self.deeds[term] = (*self.deeds.get(term, ()), kind)
        self.kinds: dict[str, str] = data["kinds"]
        self.takes = {kind: tuple(kinds.split()) for kind, kinds in data["takes"].items()}
        self.placeholders: dict[str, str] = data["placeholders"]
        listed = {**data["groups"], **_read("commands")["groups"]}
        self.groups = {name: frozenset(words.split()) for name, words in listed.items()}
        flags = re.IGNORECASE | re.VERBOSE
        self.patterns = {name: re.compile(text, flags) for name, text in data["patterns"].items()}
        self.actions = {
            name: re.compile(text, re.IGNORECASE) for name, text in data["actions"].items()
        }
        self.shapes = {name: re.compile(shape) for name, shape in data["shapes"].items()}
        self.numbers: dict[str, int] = data["numbers"]
        self.seconds: dict[str, int] = data["seconds"]
        others = {name: frozenset(said.split()) for name, said in data["programs_of"].items()}
        self.programs_of = {name: frozenset([name]) for name in self.groups["of_own_name"]} | others
        self.interpreters: dict[str, str] = data["interpreters"]
        said = _read("requests")
        self.lead_in = re.compile(rf"^\W*(?:{said['lead_in']})(?!\w)[\s,:]*", flags)
        self.trailer = re.compile(rf"(?<![\s,(])[\s,(]+(?:{said['trailer']})[\s.!?)]*$", flags)

    def _canonical(self, word: str) -> str:
        return self.canonical.get(word) or self.canonical.get(stem(word), stem(word))

    def bare(self, text: str) -> str:
        """Return ``text`` without politeness: "could you please ... for me, thanks"."""
        while (shorter := self.trailer.sub("", self.lead_in.sub("", text.strip()))) != text:
            if not shorter:
                break
            text = shorter
        return text

    def term(self, word: str) -> str:
        """Return the term that ``word`` is compared by; empty for a stop word."""
        if word in self.groups["stop"]:
            return ""
        known = self.canonical.get(word)
        if known is not None:
            return known
        stemmed = stem(word)
        return self.canonical.get(stemmed, stemmed)

    def plain(self, text: str) -> str:
        """Return ``text`` with each known phrase replaced by the one word that it means."""
        if not self.any_phrase.search(text):
            return text
        for word, said in self.phrases.items():
            text = _whole_words(said).sub(word, text)
        return text


@cache
def words() -> Words:
    """Return the words, which are read when first needed."""
    return Words(_read("words"))


@cache
def data(name: str) -> dict[str, Any]:
    """Return the contents of a TOML file of this folder, which is read when first needed."""
    return _read(name)


def _read(name: str) -> dict[str, Any]:
    path = Path(__file__).with_name(f"{name}.toml")
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:  # It names the line.
        raise ValueError(f"{path.name}: {error}") from error


def spelled_out(text: str, parts: Mapping[str, str]) -> str:
    """Return an expression with what each @NAME in it stands for."""
    return re.sub("@([A-Z]+)", lambda name: spelled_out(parts[name[1]], parts), text)


def group(name: str) -> frozenset[str]:
    """Return the list of words that words.toml or commands.toml keeps under ``name``."""
    return words().groups[name]


def pattern(name: str) -> re.Pattern[str]:
    """Return the expression for what questions say that words.toml keeps under ``name``."""
    return words().patterns[name]


def is_like(shape: str, text: str) -> bool:
    """Return whether all of ``text`` has one of the shapes of words.toml."""
    return words().shapes[shape].fullmatch(text) is not None


@cache
def _whole_words(pattern: str) -> re.Pattern[str]:
    # A part of a name is not a word: ".venv", "src/trash-can.txt".
    return re.compile(rf"(?<![\w/.-])(?:{pattern})(?![\w/]|[.-]\w)", re.IGNORECASE)


def stem(word: str) -> str:
    """Return ``word`` without its plural ending, -ing or -ed."""
    word = word.removesuffix("'s").removesuffix("'")
    if len(word) <= 3:
        return word
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes", "ases", "uses")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(_KEEPS_ITS_S):
        word = word[:-1]
    if word.endswith("ied"):
        return f"{word[:-3]}y"
    for ending in ("ing", "ed"):
        begin = word.removesuffix(ending)
        if begin != word and len(begin) > 1 and _VOWEL.search(begin):
            word = _undoubled(begin)
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _undoubled(word: str) -> str:
    """Return ``word`` with a doubled final consonant made single: "runn"."""
    doubled = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeioulsz"
    return word[:-1] if doubled else word


def is_foreign(text: str) -> bool:
    """Return whether ``text`` is in a language other than English, and not merely unknown."""
    letters = [character for character in text if character.isalpha()]
    beyond_latin = sum(ord(character) > 0x24F for character in letters)
    if letters and beyond_latin > len(letters) / 2:
        return True
    found = [word.lower() for word in re.findall(r"[^\W\d_]+", text)]
    foreign = sum(word in group("foreign") for word in found)
    english = sum(word in group("stop") and word not in group("foreign") for word in found)
    return foreign >= 2 and foreign > english
