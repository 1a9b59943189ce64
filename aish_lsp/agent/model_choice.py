"""Which model answers in a session: the one named, the one in use, or the one for the class.

A question is classified by the rules in ``routing.toml``. They look for English words, and for
patterns of any language: fences, stack traces, paths, commands.

If the model is down, those of ``routing.fallback`` are asked in order, and the offline one last.

``open_model`` returns the adapter for a provider's protocol.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aish_lsp.context.usage import is_local
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.models.catalog import OFFLINE, Chosen, configured
from aish_lsp.models.providers import protocol
from aish_lsp.models.refusals import overflow_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aish_lsp.agent.services import Services
    from aish_lsp.config.schema import Config, Preset, Provider, QuestionClass
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.request import Model

#: How many characters at the beginning and at the end of a question are examined. A text pasted
#: between them may be of any length.
_ENDS: Final = 500

#: The offline model as a fallback: it has no window, so nothing needs to be evicted for it.
_OFFLINE: Final = replace(OFFLINE, context_window=1 << 30, token_budget=1 << 29)


@dataclass(frozen=True, slots=True)
class Classified:
    """The class of a question, and why, worded to follow "the question"."""

    class_: QuestionClass
    why: str


_OTHERWISE: Final = Classified("chat", "matches none of the other classes")


class ModelChoice:
    """Chooses the models of one session, whose commands run in ``folder``.

    Attributes:
        question_class: the class of the last question, which decides the base prompt.
    """

    def __init__(self, services: Services, folder: Path, config: Callable[[], Config]) -> None:
        self.question_class: QuestionClass | None = None
        self._services = services
        self._folder = folder
        self._config = config
        self._used: str | None = None
        self._last_preset: Preset | None = None
        self._models: dict[str, Model] = {}

    def copy(self) -> ModelChoice:
        """Return a choice for another session, in which the same model answers at first."""
        other = ModelChoice(self._services, self._folder, self._config)
        other._used, other._last_preset = self._used, self._last_preset
        other._models = self._models
        return other

    @property
    def active(self) -> Preset:
        """The model that answers next, unless there is another one for the question's class.

        Before the first question, models that are not configured have not been searched for.
        """
        config, last = self._config(), self._last_preset
        if last is not None:
            # Its configuration may have changed.
            return config.models.get(last.name, last)
        chosen = configured(config)
        return chosen.preset if chosen else OFFLINE

    @property
    def wording(self) -> str:
        """The text that replaces the base prompt for the last question's class; empty for none."""
        prompts = self._config().routing.system_prompts
        return prompts.get(self.question_class, "") if self.question_class else ""

    async def use(self, name: str) -> str:
        """Answer with this model from now on, whatever the question; return its name.

        Raises:
            NotFound: there is no such model; the message suggests similar names.
            Denied: it needs a key that the user did not agree to use.
        """
        chosen = await self._ask_catalog(name)
        self._used = chosen.preset.name
        self._last_preset = chosen.preset
        return self._used

    async def choose(self, name: str | None) -> Chosen:
        """Return the model that is named, else the one in use, else any that is available.

        Raises:
            NotFound, Denied: as ``use``.
        """
        chosen = await self._ask_catalog(name or self._used)
        if name is None:
            self._last_preset = chosen.preset
        return chosen

    async def route(self, question: str, name: str | None) -> tuple[Chosen, QuestionClass]:
        """Return the model for a question, and the question's class.

        The order is: ``name``, for this question only; the model of ``use``; that of the class.

        Raises:
            NotFound, Denied: as ``use``.
        """
        kind = classify(question)
        self.question_class = kind.class_
        of_class = self._config().routing.classes.get(kind.class_)
        if name or self._used or not of_class:
            return await self.choose(name), kind.class_
        chosen = await self._ask_catalog(of_class)
        why = f"routing.classes.{kind.class_}, as the question {kind.why}"
        return replace(chosen, why=why), kind.class_

    def is_guarded(self, preset: Preset) -> bool:
        """Return whether a reply of ``preset`` is stopped if it keeps repeating itself."""
        guard = self._config().suggestions.repetition_guard
        return guard == "all" or (guard == "local" and is_local(preset))

    def open(self, preset: Preset) -> Model:
        """Return the adapter for ``preset``."""
        if preset.provider not in self._models:
            self._models[preset.provider] = open_model(
                preset.provider, self._services.http, self._services.keys, self._offline
            )
        return self._models[preset.provider]

    def _offline(self) -> Model:
        from aish_lsp.offline import OfflineModel  # noqa: PLC0415 - loaded when first used

        return OfflineModel(self._folder)

    async def _ask_catalog(self, name: str | None) -> Chosen:
        return await self._services.catalog.choose(self._config(), name, self._services.ask_user)


@cache
def rules() -> tuple[tuple[Classified, re.Pattern[str]], ...]:
    """Return each class with the pattern that assigns it; patterns expect lower case."""
    table = tomllib.loads(Path(__file__).with_name("routing.toml").read_text("utf-8"))
    parsed = []
    for rule in table["rules"]:
        patterns = list(rule.get("shapes", ()))
        if "words" in rule:
            patterns.append(rf"\b(?:{'|'.join(rule['words'])})\b")
        pattern = "|".join(patterns)
        for name in ("commands", "words_too", "suffixes"):
            pattern = pattern.replace(name.upper(), "|".join(table[name]))
        classified = Classified(rule["class"], rule["why"])
        parsed.append((classified, re.compile(pattern, re.MULTILINE)))
    return tuple(parsed)


def classify(question: str) -> Classified:
    """Return the class of a question, by the first rule that applies."""
    if len(question) > 2 * _ENDS:
        question = f"{question[:_ENDS]}\n{question[-_ENDS:]}"
    lower = question.lower()
    return next((kind for kind, pattern in rules() if pattern.search(lower)), _OTHERWISE)


def addressed(question: str, names: Iterable[str]) -> tuple[str | None, str]:
    """Return the model that ``@NAME ...`` names at the beginning, and the question without it.

    ``@`` is part of the question unless it is followed by one of ``names``, a blank and a question.
    """
    if not question.startswith("@"):
        return None, question
    for name in names:
        rest = question.removeprefix(f"@{name}")
        if name and rest[:1].isspace() and rest.strip():
            return name, rest.lstrip()
    return None, question


class FallbackChain:
    """The models that are asked a question, one after the other, and why each did not answer.

    Without ``routing.fallback`` no other model is asked: a user with only one model should learn
    that it is down, instead of getting an unexpected answer from the offline model.

    Attributes:
        current: the model that is asked now, initially ``first``.
    """

    def __init__(self, first: Preset, config: Config) -> None:
        self.current = first
        names = config.routing.fallback and [*config.routing.fallback, OFFLINE.name]
        self._waiting = [
            config.models.get(name, _OFFLINE) for name in dict.fromkeys(names) if name != first.name
        ]
        self._failures: list[tuple[Preset, AishError]] = []

    def advance(self, error: AishError) -> bool:
        """Go on to the next model after ``error``; return whether there is one.

        If the first model was reached and refuses (the key, the request, the cost), the user has to
        act, and no other model is asked. A later model that refuses is skipped.
        """
        may_advance = bool(self._failures) or (
            isinstance(error, BackendUnavailable) and overflow_of(error) is None
        )
        self._failures.append((self.current, error))
        if not may_advance or not self._waiting:
            return False
        self.current = self._waiting.pop(0)
        return True

    @property
    def error(self) -> AishError:
        """The error for the user if no model answered: it has all reasons, or is the only one."""
        (_, first), *more = self._failures
        if not more:
            return first
        reasons = [f"{preset.name}: {error.cause}" for preset, error in self._failures]
        failures = [{"model": preset.name, **error.to_wire()} for preset, error in self._failures]
        return BackendUnavailable(" ".join(["No model answers.", *reasons]), failures=failures)


def open_model(
    provider: Provider,
    http: HttpClient,
    environ: Mapping[str, str],
    offline: Callable[[], Model],
) -> Model:
    """Return the adapter for ``provider``'s protocol, which serves all presets of that provider.

    Args:
        provider: the wire protocol.
        http: sends the requests.
        environ: where keys are looked up.
        offline: opens the model that needs no server.
    """
    return offline() if provider == "offline" else protocol(provider)(http, environ)
