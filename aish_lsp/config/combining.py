"""Layers of configuration into one, and where each of its values came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aish_lsp.config.keys import leaves, lookup
from aish_lsp.config.overlay import WHOLE
from aish_lsp.config.rules import consistent
from aish_lsp.config.schema import Config, RiskRule, WorkspaceRule
from aish_lsp.config.sources import Layer
from aish_lsp.foundation.validate import Problem, structure
from aish_lsp.foundation.wording import KeyPath, dotted

#: The origin of a value that no source names.
DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers that count: the workspace's, the user's own (weakest first), the editor's."""

    overlay: Layer
    own: Sequence[Layer]
    settings: Layer


def user_values(own: Sequence[Layer]) -> dict[str, Any]:
    """Return the plain values in force from the defaults and the user's own layers."""
    values: Mapping[str, Any] = dataclasses.asdict(Config())
    for layer in own:
        values = _merged(values, layer.data)
    return dict(values)


def combine(stack: Stack) -> tuple[Config, list[Problem], dict[str, str]]:
    """Return the configuration, what does not hold together, and the origin of each value."""
    own: Mapping[str, Any] = {}
    for layer in stack.own:
        own = _merged(own, layer.data)
    data = _merged(stack.overlay.data, own, whole=WHOLE)
    data = _merged(data, stack.settings.data, whole=WHOLE)
    good, wrong = consistent(data)
    problems = [Problem(dotted(path), reason, _origin(stack, path)) for path, reason in wrong]
    config = structure(good, Config, camel_case=False)
    models = {name: replace(preset, name=name) for name, preset in config.models.items()}
    rules = [*_rules(own), *_workspace_rules(stack.overlay), *_workspace_rules(stack.settings)]
    config = replace(config, models=models, safety=replace(config.safety, rules=rules))
    return config, problems, dict(_origins(stack, good, config))


def _rules(data: Mapping[str, Any], cls: type[RiskRule] = RiskRule) -> list[RiskRule]:
    _, rules = lookup(data, ("safety", "rules"))
    return [cls(**rule) for rule in rules or []]


def _workspace_rules(layer: Layer) -> list[RiskRule]:
    """Return a workspace's rules beside the user's, not in their place: they only make stricter."""
    return _rules(layer.data, WorkspaceRule)


def _merged(
    weaker: Mapping[str, Any],
    stronger: Mapping[str, Any],
    whole: tuple[tuple[str, ...], ...] = (),
    place: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return tables merged key by key; entries of the tables ``whole`` are not mixed.

    The stronger's keys come first: the first model that is configured is the user's own.
    """
    merged = {**stronger, **{key: value for key, value in weaker.items() if key not in stronger}}
    for key in weaker.keys() & stronger.keys():
        below, above = weaker[key], stronger[key]
        if isinstance(below, Mapping) and isinstance(above, Mapping) and place not in whole:
            merged[key] = _merged(below, above, whole, (*place, key))
    return merged


def _origins(stack: Stack, data: Mapping[str, Any], config: Config) -> Iterator[tuple[str, str]]:
    for path, _ in leaves(dataclasses.asdict(config)):
        there, _ = lookup(data, path)
        yield dotted(path), _origin(stack, path) if there else DEFAULT


def _origin(stack: Stack, path: KeyPath) -> str:
    """Return where the value at ``path`` came from."""
    keys = tuple(part for part in path if isinstance(part, str))
    unit = next((keys[: len(table) + 1] for table in WHOLE if keys[: len(table)] == table), None)
    for group in ([stack.settings], [*reversed(stack.own)], [stack.overlay]):
        for layer in group:
            if lookup(layer.data, keys)[0]:
                return layer.locate(dotted(keys))
        if unit and any(lookup(layer.data, unit)[0] for layer in group):
            break
    return DEFAULT
