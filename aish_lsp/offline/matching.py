"""What a question asks for: the intent whose phrasing explains it best, and the values in it.

ranking.py proposes phrasings; overlay.py lays each over the question. Unlike a score of BM25, the
confidence is comparable between questions. It is a probability, by multinomial logistic regression
over the candidate intents and "none of them": the evidence for and against an intent is summed with
the weights of confidence.toml, which tests/offline/learn.py learned. So a second intent that is as
likely lowers the confidence in the first.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from aish_lsp.offline.deeds import (
    agrees,
    changes,
    deeds_of,
    is_asked,
    is_asked_for,
    is_only_asked,
    is_request,
    misfits,
    named,
    only_asks,
    risk_of,
    ways_with,
)
from aish_lsp.offline.overlay import Match, Overlay
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.table import FREE, kind_of, said
from aish_lsp.offline.tokens import Token
from aish_lsp.offline.words import data, group, pattern, words

#: From this confidence on, an intent is the answer; docs/offline.md has the figures.
THRESHOLD: Final = 0.55

#: From this confidence on, it is one of at most two that may be meant.
PERHAPS: Final = 0.25

#: How many phrasings are looked at closely.
_CANDIDATES: Final = 90

#: The confidence in a phrasing that has all the words of the question, and no others.
_SURE: Final = 0.95
#: The same for one that has values as well, if the question has none.
_LIKELY: Final = 0.65
#: Evidence of words and values that only the question or only the phrasing has.
_OVER: Final = ("spoken", "told", "unknown", "missing", "unfilled", "rambling", "no such branch")
#: The likeness from which a question is a phrasing word for word.
_WORD_FOR_WORD: Final = 0.99
#: The same if no word of either says what is wanted: "what are you".
_SAME_PHRASE: Final = 0.75
#: The least likeness of a phrasing with the same words if a value is a mere name.
_ALIKE: Final = 0.3
#: The same if its command loses something: "go into src right away" is not "away with src".
_ALMOST_THE_SAME: Final = 0.5
#: How many words mean the same in any order.
_FEW: Final = 2
_UNFIT: Final = frozenset(("the opposite", "not asked to", "asked to be told"))

#: Deeds that may give a branch a new name.
_NAMES_ANEW: Final = frozenset(("make", "change", "start"))

#: From this weight on a word may be a name; what counts against a phrasing with no place for one.
_RARE: Final = 2.0
_NO_PLACE: Final = 0.15

#: An intent is doubtful if the words that it does not know have more weight than this (with those
#: that only it has, if it can lose something); or than that, and it explains less than this part of
#: the question: of the rounds' answers, most are wrong then.
_MOST_UNEXPLAINED: Final = 4.0
_UNEXPLAINED: Final = 2.0
_EXPLAINS_MOST: Final = 0.68
#: The highest confidence in a doubtful one.
DOUBTFUL: Final = 0.5

#: How many intents are judged by all the evidence.
_JUDGED: Final = 16


def understood(tokens: Sequence[Token], question: str) -> list[Match]:
    """Return what the question may mean, each intent once, the surest first."""
    known = ranking().table
    words_said = {token.term for token in tokens} | {token.lower for token in tokens}
    same = ranking().worded(said(token.text) for token in tokens)
    if same is not None and is_asked_for(known.intents[same], words_said):
        match = Match(known.intents[same], {}, 1.0)
        return [_of_programs(_named(tokens), match) or match]
    if not is_request(question):
        return []
    found = [one for one in _likely(tokens, question) if is_asked_for(one.intent, words_said)]
    restricts = pattern("restricting").search
    if restricts(_QUOTED.sub("", question)):
        # A clause that is not understood is not passed over.
        found = [one for one in found if restricts(" ".join(one.wording))]
        if tokens[0].term == "delete":  # "delete all lines except those with x" keeps these.
            found = [one for one in found if changes(one.intent)]
    return [one for one in found if _heeds(one, tokens, question)]


#: What is said of a text, and is no part of one without quotes.
_SAYS_WHICH: Final = frozenset(("first", "last", "next", "every", "each", "anycase"))


def _heeds(match: Match, tokens: Sequence[Token], question: str) -> bool:
    """Return whether what changes something has all words of the question that limit a change."""
    only_looks = risk_of(match.intent) != "destructive" and only_asks(question)
    if match.intent.topic or only_looks or not changes(match.intent):
        return True
    values = " ".join(match.values.values()).split()
    heard = [one for one in tokens if one.text not in values or one.behind == "every"]
    said = [one.lower for one in heard if not one.aside]
    limits = pattern("qualifying").finditer(" ".join(said))
    if "it" in said and any(kind_of(slot) == "glob" for slot in match.values):
        return False  # "make a list of all logs and delete it" deletes the list.
    if _mistakes(match, tokens):
        return False
    if not (limiting := {word for one in limits for word in one[0].split()}):
        return True
    phrasings = ranking().phrasings_of(match.intent.number)
    known = {word for phrasing in phrasings for word in phrasing.wording} - group("denying")
    return limiting <= known.union(match.wording)


_ENDING: Final = re.compile(r"\.[a-z]{1,4}")


def _mistakes(match: Match, tokens: Sequence[Token]) -> bool:
    """Return whether a value of a change is no such value, or only one of two that may be meant."""
    values = " ".join(match.values.values()).split()
    if any(one.behind == "or" and one.kinds and one.text in values for one in tokens):
        return True  # "delete a.txt or b.txt" does not mean both.
    folders = {one.text for one in tokens if "folder" in one.kinds and one.behind == "delete"}
    of_kinds = {one.text for one in tokens if _ENDING.fullmatch(one.text) and one.after == "files"}
    how = {one.lower for one in tokens if not one.quoted} & _SAYS_WHICH
    for slot, value in match.values.items():
        if kind_of(slot) == "package" and value in folders:
            return True  # "delete build" uninstalls nothing.
        if kind_of(slot) in ("file", "path") and value in of_kinds:
            return True  # "the .o files" are not a file of that name.
        several = value.lower().split() if kind_of(slot) in ("text", "pattern") else []
        if len(several) > 1 and how.intersection(several):
            return True  # "the last 2 lines" are not those with "last 2".
    return False


_QUOTED: Final = re.compile(r"([\"'`])(?:(?!\1).)*\1")


def _likely(tokens: Sequence[Token], question: str) -> list[Match]:
    """Return what the words of the question may mean, the surest first."""
    plainly = _asked_plainly(tokens, question)
    plainly = plainly and _of_programs(_named(tokens), plainly)
    if plainly is not None and plainly.confidence > _LIKELY:
        return [plainly]
    best = candidates(tokens)
    # "just" says nothing, or is the runner of a recipe that this project does not have.
    telling = [token for token in tokens if token.lower != "just"]
    if len(telling) == 1 and telling[0].term and not telling[0].kinds:
        # A single word that is not a phrasing says too little, except for a task.
        best = [match for match in best if match.intent.topic]
    found = _fit(best, tokens, question)
    if plainly is None or (found and _is_surer(found[0])):
        return found
    return [plainly, *found]


def _is_surer(match: Match) -> bool:
    """Return whether ``match`` is surer than the plain reading of the question, without values.

    It is not if a value may be an ordinary word: "output to file".
    """
    doubtful = match.evidence["doubt"] > 0
    return match.confidence >= (_SURE if doubtful else THRESHOLD) or (
        match.confidence >= THRESHOLD and _is_word_for_word(match)
    )


def _wholeness(match: Match) -> tuple[float, ...]:
    """Return the sort key of phrasings that have all of the question's words."""
    found = match.evidence
    return -found["named"], match.confidence, match.strength


def are_names(values: Mapping[str, str]) -> bool:
    """Return whether all values that look like any word are known to be names: "htop"."""
    return all(
        value.lower() in group("names") for slot, value in values.items() if kind_of(slot) in FREE
    )


def _asked_plainly(tokens: Sequence[Token], question: str) -> Match | None:
    """Return what a question asks for that has the words of a phrasing, but not its values.

    "delete a folder", "list processes": what is missing becomes a placeholder. A word that is also
    the name of something here, "run tests", is taken for a word if the phrasing has no slots.
    """
    said = [token for token in tokens if token.is_telling]
    said = [token for token in said if token.lower not in group("some")]
    terms = {token.term for token in said}
    if not terms or "" in terms or any(token.quoted for token in said):
        return None  # A file may be mentioned by an everyday word: "lint @tests".
    if len(terms) == 1 and any(token.lower in group("pronouns") for token in tokens):
        return None  # "delete it": what was spoken of before
    known = ranking().table
    named = any(token.kinds for token in said)
    asks = only_asks(question)
    short = len(terms) == 1 and (
        said[0] is not tokens[0]
        or not (terms & (words().deeds.keys() | group("tools")) or said[0].lower in group("names"))
    )
    asked = [token.lower for token in tokens]
    two = not group("some").isdisjoint(asked)
    one_of_many = bool({"a", "an"} & set(asked))
    best: dict[tuple[float, ...], Match] = {}
    for number in ranking().saying_just(terms):
        phrasing = known.phrasings[number]
        if (phrasing.slots and (named or short)) or (two and len(phrasing.slots) != 2):
            continue
        if _turning(phrasing.wording) != _turning(asked):
            continue
        intent = known.intents[phrasing.intent]
        if asks and risk_of(intent) != "safe" and not is_asked(intent.number):
            continue
        same = sum(_singular(word) in map(_singular, phrasing.wording) for word in asked)
        called = len(terms - set(phrasing.terms))
        so_called = any(words().term(slot.kind) in terms for slot in phrasing.slots)
        left_out = max(0, len({slot.kind for slot in phrasing.slots}) - max(called, 1))
        if "all" in phrasing.terms and "all" not in terms and risk_of(intent) == "destructive":
            continue
        likeness = Overlay(phrasing, intent, tokens).match().evidence["likeness"]
        if len(terms) > _FEW and likeness < _ALIKE:
            continue  # "commit with the message fix typo" does not fix a typo in a message
        begins = bool(phrasing.terms) and phrasing.terms[0] == said[0].term
        fits = (
            called > 0 if one_of_many else len(phrasing.slots) == 2 if two else not phrasing.slots
        )
        order = (-left_out, fits, begins, so_called, same, likeness)
        sure = 1.0 if not phrasing.slots or (one_of_many and called) else _LIKELY
        best.setdefault(order, Match(intent, {}, sure, wording=tuple(phrasing.wording)))
    return best[max(best)] if best else None


def _singular(word: str) -> str:
    return word.removesuffix("s")


def _turning(wording: Iterable[str]) -> set[str]:
    """Return the words that change the sense of the others: "not", and "merged" of a branch."""
    return {word for word in wording if word in group("denying") or word.endswith("ed")}


def candidates(tokens: Sequence[Token]) -> list[Match]:
    """Return what may be meant, each intent once with its best phrasing, the best first."""
    known = ranking().table
    # The name of a file may be a word of the table: "install what package.json lists".
    terms = [token.term or token.lower for token in tokens if token.term or token.kinds]
    terms += (f"{{{kind}}}" for token in tokens for kind in _kinds(token))
    best: dict[int, Match] = {}
    framed = ranking().framed([(said(one.text), _looks_like_a_value(one)) for one in tokens])
    for number in dict.fromkeys((*ranking().nearest(terms, _CANDIDATES), *framed)):
        phrasing = known.phrasings[number]
        match = Overlay(phrasing, known.intents[phrasing.intent], tokens).match()
        other = best.get(phrasing.intent)
        if other is None or _explains(match) > _explains(other):
            best[phrasing.intent] = match
    return sorted(best.values(), key=_order, reverse=True)


def _looks_like_a_value(token: Token) -> bool:
    return token.quoted or bool(token.kinds)


def _explains(match: Match) -> tuple[float, float]:
    """Return the sort key of an intent's phrasings: for a rare word, one with a slot is better."""
    found = match.evidence
    left = found["rarest"] > _RARE and not (found["named"] or found["typed"])
    return match.confidence - _NO_PLACE * left, match.strength


def _kinds(token: Token) -> set[str]:
    """Return the kinds of slot that may take ``token``."""
    kinds = set(token.kinds)
    if "extension" in kinds:
        kinds.add("glob")
    if token.branch:
        kinds.add("branch")
    return kinds


def _fit(matches: list[Match], tokens: Sequence[Token], question: str) -> list[Match]:
    """Return the likeliest of ``matches``, each with its probability, the surest first."""
    judged = list(evidence(matches, tokens, question))
    likely = probabilities(
        [match.evidence for match in judged], [_effect(match) for match in judged]
    )
    for match, one in zip(judged, likely, strict=True):
        match.evidence["likely"] = one
    judged = [
        replace(match, confidence=min(one, DOUBTFUL) if _passes_over(match) else one)
        for match, one in zip(judged, likely, strict=True)
    ]
    judged.sort(key=_order, reverse=True)
    asked = [token.lower for token in tokens]
    same = next(
        (
            match
            for match in judged
            if _is_word_for_word(match) and (match is judged[0] or not match.evidence["named"])
        ),
        None,
    )
    if same is not None:
        judged.remove(same)
        sure = max(same.confidence, same.evidence["overlay"])
        if same.evidence["matched"] and same.evidence["typed"]:
            sure = max(sure, _SURE)
        return [replace(same, confidence=sure), *judged]
    whole = [match for match in judged if _is_whole(match, asked)]
    if whole:
        best = max(whole, key=_wholeness)
        judged.remove(best)
        judged.insert(0, replace(best, confidence=max(best.confidence, _SURE)))
    return judged


def _passes_over(match: Match) -> bool:
    """Return whether ``match`` explains too little of the question to be what is meant."""
    found = match.evidence
    differs = found["unknown"] + found["missing"] * (risk_of(match.intent) == "destructive")
    explains_little = found["coverage"] < _EXPLAINS_MOST and found["unknown"] > _UNEXPLAINED
    return match.ignored or differs > _MOST_UNEXPLAINED or explains_little


def _is_word_for_word(match: Match) -> bool:
    """Return whether a phrasing is the question, and no value is left out."""
    found = match.evidence
    return found["likeness"] > _WORD_FOR_WORD and not match.ignored


def _is_whole(match: Match, asked: Iterable[str]) -> bool:
    """Return whether a phrasing and the question have the same words and values, and no more."""
    found = match.evidence
    return (
        not match.ignored
        and not any(found[name] for name in _OVER)
        and (found["matched"] or found["typed"] or found["likeness"] > _SAME_PHRASE)
        and (not found["named"] or found["likeness"] > _ALIKE)
        and (
            risk_of(match.intent) != "destructive"
            or max(found["likeness"], found["like"]) > _ALMOST_THE_SAME
        )
        and (not found["doubt"] or are_names(match.values))
        and not _UNFIT & found.keys()
        and _turning(match.wording) == _turning(asked)
    )


def evidence(matches: list[Match], tokens: Sequence[Token], question: str) -> Iterator[Match]:
    """Yield the likeliest of ``matches``, each with all the evidence for it and against it."""
    asked = [token for token in tokens if not token.aside]
    terms = [token.term for token in asked if token.term]
    said = {*terms, *(token.lower for token in asked)} - {""}
    asks = only_asks(question)
    content = [t.term for t in asked if t.term and not t.kinds]
    branches = {token.text for token in tokens if token.branch}
    files = {
        t.kinds["file"]
        for t in tokens
        if "file" in t.kinds and "." in t.text and "extension" not in t.kinds
    }
    for match in map(partial(_of_programs, _named(tokens)), matches[:_JUDGED]):
        if match is None:
            continue
        values = "\n".join(match.values.values())
        passed_over = match.ignored or (files and not any(file in values for file in files))
        if passed_over and risk_of(match.intent) == "destructive":
            continue  # What may lose something has to be for just the files that are named.
        found = dict(match.evidence)
        number = match.intent.number
        found["like"], found["lacks"] = ranking().intended(number, content)
        taken = {words().term(value.lower()) for value in match.values.values()}
        found["other tool"] = float(
            any(
                term in group("tools") - taken and ranking().share(number, term) is None
                for term in content
            )
        )
        found["off topic"] = float(
            any(t in words().beyond and not ranking().share(number, t) for t in content)
        )
        strangers = sum(
            kind_of(slot) == "branch" and value not in branches | group("names")
            for slot, value in match.values.items()
        )
        if strangers > 1 and not group("of_git") & set(content):
            continue  # "the difference between TCP and UDP"
        found["no such branch"] = (
            0.0 if deeds_of(match.intent.number) & _NAMES_ANEW else float(strangers)
        )
        first = next(iter(terms), "")
        against = {*misfits(match.intent, said, first, asks=asks, ignored=match.ignored)}
        if "another deed first" in against or (asks and is_only_asked(match.intent, question)):
            continue  # What is to be deleted is not to be listed, and what is asked is not done.
        found.update(dict.fromkeys(against, 1.0))
        yield replace(match, evidence=found)


def _named(tokens: Iterable[Token]) -> frozenset[str]:
    """Return the programs that a question names."""
    return named(token.lower for token in tokens)


def _of_programs(programs: frozenset[str], match: Match) -> Match | None:
    """Return ``match`` with the ways of ``programs``, not counting values; None if it has none."""
    values = {value.lower() for value in match.values.values()}
    wanted = [one for one in programs if not any(one in value.split() for value in values)]
    if any(
        not agrees(match.intent, one)
        and not ranking().share(match.intent.number, words().term(one))
        for one in wanted
    ):
        return None
    return replace(match, ways=ways_with(match.intent, wanted)) if wanted else match


def _effect(match: Match) -> object:
    """Return what a match does: those with the same commands count as one."""
    return match.intent.ways or match.intent.topic, tuple(sorted(match.values.items()))


def _order(match: Match) -> tuple[float, float]:
    return match.confidence, match.strength


def weights() -> dict[str, float]:
    """Return how much each kind of evidence counts."""
    known: dict[str, float] = data("confidence")["weights"]
    return known


def score(evidence: Mapping[str, float]) -> float:
    """Return the sum of the evidence for an intent; at 0 it is as likely as "none of them"."""
    known = weights()
    return known["always"] + sum(known.get(name, 0.0) * one for name, one in evidence.items())


def probabilities(
    evidence: Sequence[Mapping[str, float]], effects: Sequence[Hashable]
) -> list[float]:
    """Return how likely it is that each intent is meant, rather than another or none.

    Intents with the same effect share their probability: the likeliest of them gets all of it, the
    others less, in proportion.
    """
    powers = [math.exp(min(30.0, score(one))) for one in evidence]
    whole = 1.0 + sum(powers)
    together: defaultdict[Hashable, float] = defaultdict(float)
    best: defaultdict[Hashable, float] = defaultdict(float)
    for effect, power in zip(effects, powers, strict=True):
        together[effect] += power
        best[effect] = max(best[effect], power)
    return [
        together[effect] / whole * (power / best[effect])
        for effect, power in zip(effects, powers, strict=True)
    ]
