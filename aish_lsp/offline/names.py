"""How likely a word of a question is the name of something: of a service, a branch, a package."""

from __future__ import annotations

from typing import Final

from aish_lsp.offline.deeds import LOOKS
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.table import Intent, Phrasing, Slot
from aish_lsp.offline.tokens import Token, is_name
from aish_lsp.offline.words import group, words

#: What counts against taking a word for a name if an article precedes it, "the car", and nothing
#: says that it is one.
_ARTICLE: Final = 3.0
#: The same for a word of the table, and for an amount: "10M" is not a branch.
_KNOWN_WORD: Final = 0.9
_AMOUNT: Final = 2.9
_AMOUNTS: Final = frozenset(("first", "sum", "size", "span", "number"))
#: The same for an everyday word as a name that would usually be announced or known, and as the name
#: of a service or process.
_UNLIKELY_NAME: Final = 1.2
_UNKNOWN_NAME: Final = 0.5

#: Kinds whose names are usually announced ("the branch x") or known.
_MOSTLY_ANNOUNCED: Final = frozenset(("branch", "command", "user", "variable", "group"))
#: From this length on, words with such endings are activities or ideas: "smoking", "injection".
_LONG: Final = 6
_NO_NAME_ENDS: Final = ("ing", "tion", "sion", "ment", "ness", "ism", "ity")

_THE: Final = frozenset(("the", "my", "our"))
_SURELY_PATHS: Final = frozenset(["called", "named", "mkdir", "touch"])
#: Kinds whose names people make up.
_OWN_NAMES: Final = frozenset(("branch", "tag", "remote", "container"))
#: Kinds whose names are usually known ones: "nginx", although the table also has that word.
CALLED: Final = frozenset(("package", "service", "process"))
#: Kinds whose values may be more than a name.
SENTENCES: Final = ("text", "pattern", "name", "command")
#: Kinds whose values are searched for or written.
WORDED: Final = ("text", "pattern")


def doubtfulness(kind: str, token: Token, *, alone: bool) -> float:
    """Return what counts against ``token`` as a value without a shape: it may mean something else.

    ``alone`` says that the phrasing has no word that announces it.
    """
    if token.kinds.keys() & _AMOUNTS and not token.quoted:
        return _AMOUNT
    known = token.term in ranking().weights or bool(token.kinds.keys() & {"file", "folder"})
    if token.quoted or kind in (token.behind, token.after):
        known = False
    elif token.lower in group("names"):
        known = known and not alone and kind not in CALLED
    return (_KNOWN_WORD if known else 0.0) + _strangeness(kind, token)


def _strangeness(kind: str, token: Token) -> float:
    """Return what counts against ``token`` as a name if it is an everyday word: "the car"."""
    bare = token.text.lower()
    named = {token.behind, token.after} & {kind, *group("says_a_name")}
    if token.quoted or named or not token.text.isalpha() or not token.text.islower():
        return 0.0
    if bare in group("names") or (token.branch and kind in ("branch", "revision")):
        return 0.0
    if token.behind in group("articles") and kind not in WORDED:
        return _ARTICLE
    if kind in _MOSTLY_ANNOUNCED or (len(bare) >= _LONG and bare.endswith(_NO_NAME_ENDS)):
        return _UNLIKELY_NAME
    return _UNKNOWN_NAME if kind in ("service", "process") else 0.0


def neighbors(slot: Slot, token: Token) -> float:
    """Return how far the words beside ``token`` are those beside the slot, from 0 to 1.5."""
    same = 0.0
    if slot.before and same_word(slot.before, token.before):
        same += 1
    if slot.after and same_word(slot.after, token.after):
        same += 0.5
    return same


def same_word(one: str, other: str) -> bool:
    """Return whether two words are the same, or mean the same."""
    if one == other:
        return True
    term = words().term(one)
    return bool(term) and term == words().term(other)


def is_verb(token: Token) -> bool:
    """Return whether a word that begins a question says what is to be done: "see the logs"."""
    if token.quoted or token.kinds or token.branch:
        return False
    named = token.lower in group("names")
    return token.term in LOOKS or (token.term in words().deeds and not named)


def fit(slot: Slot, token: Token) -> float:
    """Return how well a word fits as the slot's value; below 1 it does not fit."""
    said = token.quoted or token.behind in ("called", "named")
    if not said and (token.term == slot.kind or token.lower in group("never")):
        return 0.0
    if slot.kind in _OWN_NAMES and token.lower in group("unnamed_programs"):
        return 0.0
    plain = slot.kind in SENTENCES
    if not token.quoted and (not token.term and not token.kinds):
        return 0.0
    bare = token.text.lstrip("$") if slot.kind == "variable" else token.text
    if not plain and not is_name(bare):
        return 0.0
    score = 2.0 if token.quoted or (token.branch and slot.kind == "branch") else 0.0
    if slot.kind == "command" and token.text.startswith(("./", "~/", "/")):
        score += 1.0
    score += 2.0 * neighbors(slot, token) + 2.0 * (slot.kind in token.kinds)
    if not plain and slot.kind in (token.behind, token.after):
        score += 1.5
    if not token.quoted and token.term not in ranking().weights and not token.kinds:
        score += 0.5 if plain else 1.0
    elif slot.kind in CALLED and token.lower in group("names"):
        score += 1.0
    return score


def may_be_path(slot: Slot, token: Token, *, last: bool) -> bool:
    """Return whether an ordinary word is meant as a file; ``last``: it ends the question."""
    if slot.kind not in ("file", "folder", "path") or token.kinds or token.lower in group("never"):
        return False
    unknown = token.quoted or (bool(token.term) and token.term not in ranking().weights)
    if token.after in group("folders") and token.behind in _THE and unknown:
        return slot.kind != "file"  # "the results folder", which does not exist yet
    if last and (
        _is_where_it_goes(slot, token) or (token.behind in group("folders") and token.term)
    ):
        return True
    if "without" == token.before == slot.before and not token.text.isalpha():
        return True
    if token.lower == "current" and token.behind in _SURELY_PATHS | {"symlink", "link", "ln", "-s"}:
        return True
    announced = {token.before, token.behind} & group("announces_paths")
    return bool(announced) and (unknown or bool({token.before, token.behind} & _SURELY_PATHS))


def _is_where_it_goes(slot: Slot, token: Token) -> bool:
    """Return whether the last word is a destination and not a format, as in "data.json to csv"."""
    goes = token.behind in ("to", "into", "as") and slot.before == token.behind
    return goes and words().extensions.get(token.lower) != token.lower


def is_surely_a_name(phrasing: Phrasing, token: Token) -> bool:
    """Return whether a word is surely a name, for a phrasing that has only slots."""
    plain = token.text.isalpha() and token.text.islower()
    said_before = any(slot.before in (token.before, token.behind) for slot in phrasing.slots)
    return said_before and (token.quoted or not plain or token.text in group("names"))


def may_be_several(slot: Slot, token: Token, intent: Intent) -> bool:
    """Return whether a value that begins with ``token`` may be several words: "make test"."""
    if token.quoted:
        return False
    if slot.kind != "command":
        return slot.kind in WORDED
    commands = (command for way in intent.ways for command in way.run)
    runs = any(
        f"{{{slot.name}|raw}}" in command or f"={{{slot.name}}}" in command for command in commands
    )
    return runs and token.lower in group("names")
