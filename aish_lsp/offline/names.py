"""How likely a word of a question is the name of something: of a service, a branch, a package."""

from __future__ import annotations

from typing import Final

from aish_lsp.offline.table import Slot
from aish_lsp.offline.tokens import Token
from aish_lsp.offline.words import words

#: How much it counts against the name of something that an article stands before it, "the car",
#: and that nothing says that it is one.
_ARTICLE: Final = 3.0
#: The same of an everyday word for what is mostly announced or known, and of one for a program.
_UNLIKELY_NAME: Final = 1.2
_UNKNOWN_NAME: Final = 0.5

#: Kinds whose values are mostly said to be such, and else are known.
_MOSTLY_ANNOUNCED: Final = frozenset(("branch", "command", "user", "variable", "group"))
_ARTICLES: Final = frozenset(("a", "an", "the", "my", "some", "your", "his", "her", "our", "this"))
_SAYS_A_NAME: Final = frozenset(
    [
        *("called", "named", "name", "as", "by", "from", "of", "group", "program", "tool"),
        *("command", "daemon", "package", "library", "module", "app", "server", "word", "string"),
    ]
)
#: From this length on, what ends with -ing is something that is done: "smoking".
_LONG: Final = 6


def strangeness(kind: str, token: Token) -> float:
    """Return what counts against ``token`` as a name: it is an everyday word, "the car"."""
    bare = token.text.lower()
    named = {token.behind, token.after} & {kind, *_SAYS_A_NAME}
    if token.quoted or named or not token.text.isalpha() or not token.text.islower():
        return 0.0
    if bare in words().names or (token.branch and kind in ("branch", "revision")):
        return 0.0
    if token.behind in _ARTICLES and kind not in ("text", "pattern"):
        return _ARTICLE
    if kind in _MOSTLY_ANNOUNCED or (len(bare) >= _LONG and bare.endswith("ing")):
        return _UNLIKELY_NAME
    return _UNKNOWN_NAME if kind in ("service", "process") else 0.0


def neighbors(slot: Slot, token: Token) -> float:
    """Return whether ``token`` stands beside the same words as the slot does in its phrasing."""
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
