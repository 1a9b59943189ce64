"""What is known of tokens, whoever counted them: one memory of counts, and what a template adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping


class NotACountError(ValueError):
    """The reply to a question for tokens holds no number that can be true."""


@dataclass(frozen=True, slots=True)
class TemplateOverhead:
    """Tokens that a chat template adds: to a request, to a message of each role, to a tool call.

    What precedes the first message and what opens the reply is in ``request``. Only sums can be
    learned of some: ``request`` and ``system``, which are in every request, and ``tool`` and
    ``call``, which come in pairs. There ``system`` and ``tool`` are taken to be as ``user``.
    """

    request: int
    system: int
    user: int
    assistant: int
    tool: int
    call: int


class TokenCounts:
    """What texts and messages were counted at, and by whom.

    It stands beside what it is about and keeps none of it alive: texts go by ``text_key``,
    messages by their serial numbers. Beyond ``most`` counts it begins anew.
    """

    def __init__(self, most: int = 1 << 17) -> None:
        self._most = most
        self._held = 0
        self._by: dict[Hashable, dict[Hashable, int]] = {}

    def by(self, who: Hashable) -> Mapping[Hashable, int]:
        """Return what ``who`` has counted so far."""
        return self._by.get(who, {})

    def keep(self, who: Hashable, what: Hashable, tokens: int) -> None:
        """Remember that ``who`` counted ``tokens`` of ``what``."""
        if self._held >= self._most:
            self.clear()
        self._by.setdefault(who, {})[what] = tokens
        self._held += 1

    def clear(self) -> None:
        """Forget all."""
        self._by.clear()
        self._held = 0


def text_key(text: str) -> Hashable:
    """Return what stands for a text.

    Python keeps a text's hash with the text, and its secret key leaves nobody a way to make two
    texts collide.
    """
    return hash(text), len(text)


#: The counts of this process.
COUNTS: Final = TokenCounts()
