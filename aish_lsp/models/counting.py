"""What is known about tokens, whoever counted them: one memory of counts, and a template's share.

The budget needs this at the start of every session, whether or not a server's tokenizer, which
takes longer to load, is ever asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping


class NotACountError(ValueError):
    """The reply to a question for a token count contains no number that can be true."""


@dataclass(frozen=True, slots=True)
class TemplateOverhead:
    """Tokens that a chat template adds: to a request, to a message of each role, to a tool call.

    ``request`` includes what precedes the first message and what opens the reply. For some parts
    only the sum can be learned: ``request`` and ``system``, which are in every request, and
    ``tool`` and ``call``, which come in pairs. In these cases ``system`` and ``tool`` are assumed
    to equal ``user``.
    """

    request: int
    system: int
    user: int
    assistant: int
    tool: int
    call: int


class TokenCounts:
    """How many tokens each text and each message has, and who counted them.

    Nothing that was counted is kept alive: ``text_key`` stands for a text, its serial number for a
    message. Once there are ``most`` counts, the older half is forgotten.
    """

    def __init__(self, most: int = 1 << 17) -> None:
        self._most = most
        self._held = 0
        self._by: dict[Hashable, dict[Hashable, int]] = {}

    def by(self, who: Hashable) -> Mapping[Hashable, int]:
        """Return what ``who`` has counted so far."""
        return self._by.get(who, {})

    def keep(self, who: Hashable, what: Hashable, tokens: int) -> None:
        """Remember that ``who`` counted ``tokens`` in ``what``."""
        if self._held >= self._most:
            self._forget_half()
        self._by.setdefault(who, {})[what] = tokens
        self._held += 1

    def clear(self) -> None:
        """Forget everything."""
        self._by.clear()
        self._held = 0

    def _forget_half(self) -> None:
        """Forget the older half of what each has counted: a plan under way needs what is new."""
        for who, counts in list(self._by.items()):
            for what in list(islice(counts, (len(counts) + 1) // 2)):
                del counts[what]
            if not counts:
                del self._by[who]
        self._held = sum(map(len, self._by.values()))


def text_key(text: str) -> Hashable:
    """Return what stands for a text in a memory of counts.

    Python stores a text's hash with the text, and hashes it with a secret key, so that nobody can
    make two texts collide.
    """
    return hash(text), len(text)


#: The counts of this process.
COUNTS: Final = TokenCounts()
