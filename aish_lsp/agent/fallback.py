"""Who answers where a model is down: ``routing.fallback`` in its order, the offline model last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.models.catalog import OFFLINE
from aish_lsp.models.overflow import overflow_of
from aish_lsp.models.retrying import cause

if TYPE_CHECKING:
    from aish_lsp.config.schema import Config, Preset

#: The offline model as it steps in: it has no window, and nothing is to be evicted for its sake.
_OFFLINE: Final = replace(OFFLINE, context_window=1 << 30, token_budget=1 << 29)


class Succession:
    """The models of one question, one after the other, and why each of them did not answer.

    Without ``routing.fallback`` nobody follows: a user with one model is to learn that it is down,
    and not to wonder at what the offline one says.

    Attributes:
        current: who is asked now; at first ``first``.
    """

    def __init__(self, first: Preset, config: Config) -> None:
        self.current = first
        names = config.routing.fallback and [*config.routing.fallback, OFFLINE.name]
        self._waiting = [
            config.models.get(name, _OFFLINE) for name in dict.fromkeys(names) if name != first.name
        ]
        self._failures: list[tuple[Preset, AishError]] = []

    def advance(self, error: AishError) -> bool:
        """Go on to who follows, after ``error``; return whether anybody does.

        A refusal of the first model (its key, the request, the cost) is for the user to see to, and
        nobody follows. One who was to step in and is refused is passed over.
        """
        passes = bool(self._failures) or (
            isinstance(error, BackendUnavailable) and overflow_of(error) is None
        )
        self._failures.append((self.current, error))
        if not passes or not self._waiting:
            return False
        self.current = self._waiting.pop(0)
        return True

    @property
    def error(self) -> AishError:
        """What the user is told where nobody answered: all reasons, or the only one."""
        (_, first), *more = self._failures
        if not more:
            return first
        said = [f"{preset.name}: {cause(error)}" for preset, error in self._failures]
        failures = [{"model": preset.name, **error.to_wire()} for preset, error in self._failures]
        return BackendUnavailable(" ".join(["No model answers.", *said]), failures=failures)
