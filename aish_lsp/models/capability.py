"""Whether a server counts tokens for us: it does, it is busy, or it never will (context.md)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from aish_lsp.foundation.errors import AishError
from aish_lsp.models.tokenize_api import is_busy

logger = logging.getLogger(__name__)

#: Seconds without a question to a server that is busy: at first, and at most.
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0

_DENIED = frozenset({401, 403})


class Pause:
    """A time without questions, each twice as long as the last until something was answered.

    ``clock`` tells seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = -math.inf
        self._next = FIRST_PAUSE

    @property
    def lasts(self) -> bool:
        """Whether nothing is to be asked."""
        return self._clock() < self._end

    def begin(self) -> None:
        """Begin a pause; one that lasts is not prolonged by what was under way before it."""
        if not self.lasts:
            self._end = self._clock() + self._next
            self._next = min(2 * self._next, LONGEST_PAUSE)

    def reset(self) -> None:
        """Have the next pause be a short one."""
        self._next = FIRST_PAUSE


class Capability:
    """What is known of one way to have the tokens of a model counted.

    Args:
        model: the preset's name, for the user.
        clock: tells seconds.

    Attributes:
        lasting: false once it is known that it is of no use.
        pause: while it lasts, nothing is to be asked.
    """

    def __init__(self, model: str, clock: Callable[[], float]) -> None:
        self.lasting = True
        self.pause = Pause(clock)
        self._model = model
        self._notices: list[str] = []

    @property
    def may_ask(self) -> bool:
        """Whether there is somebody to ask now."""
        return self.lasting and not self.pause.lasts

    def failed(self, error: AishError) -> None:
        """Take in that a question failed: wait, or never ask again."""
        if is_busy(error):
            self.pause.begin()
            return
        if self.lasting and error.data.get("status") in _DENIED:
            self._notices.append(
                f"Tokens are only estimated for model {self._model!r}: {error.message} "
                "To do without the server's counts, set `tokenize.use_endpoint` to false."
            )
        self.give_up(error.message)

    def distrust(self, counted: int, actual: int) -> None:
        """Ask no more: of a request it said ``counted`` tokens and the model ``actual``."""
        if self.lasting:
            self._notices.append(
                f"Tokens are only estimated for model {self._model!r}: of the last request "
                f"its server's tokenizer counted {counted:,} and the model {actual:,}."
            )
            self.give_up("it counts differently from the model")

    def give_up(self, reason: str) -> None:
        """Never ask again."""
        self.lasting = False
        logger.info("the server of model %r does not count for us: %s", self._model, reason)

    def take_notices(self) -> list[str]:
        """Return what the user should be told; nothing is returned twice."""
        notices, self._notices = self._notices, []
        return notices
