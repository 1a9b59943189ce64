"""The configuration in force, from all sources, with their problems and requests for grants.

From the weakest: the defaults, the workspace's ``.aish.toml``, the user's ``config.toml``, the
environment, ``initializationOptions``, and the ``workspace/configuration`` section ``aish``. The
workspace's file and the last may be a stranger's: without a grant, only harmless keys count.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from aish_lsp.config.keys import USERS_ALONE, WHOLE, leaves, lookup, part
from aish_lsp.config.schema import Config, RiskRule, WorkspaceRule
from aish_lsp.config.sources import (
    Layer,
    checked,
    consistent,
    from_client,
    from_environment,
    from_file,
    from_workspace,
)
from aish_lsp.foundation.files import config_file, stamp_of
from aish_lsp.foundation.text import KeyPath, dotted
from aish_lsp.foundation.validate import Problem, structure, without

if TYPE_CHECKING:
    from aish_lsp.config.schema import Config
    from aish_lsp.config.trust import TrustStore

Source: TypeAlias = Literal["initializationOptions", "workspace/configuration"]
What: TypeAlias = Literal["overlay", "settings"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a workspace's own configuration asks for beyond what is harmless.

    ``what``, ``name`` and ``hash`` are those of the grant; ``asked`` holds the keys and values.
    """

    what: What
    name: str
    asked: tuple[tuple[str, Any], ...]
    hash: str
    granted: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, what was left out of it, and where each of its values came from.

    ``workspace_servers`` are the tool servers that the user has not configured: each wants a grant.
    """

    config: Config
    problems: tuple[Problem, ...]
    origins: Mapping[str, str]
    requests: tuple[Request, ...]
    workspace_servers: frozenset[str] = frozenset()


#: What a client says of itself under ``initializationOptions.aish``, beside its settings.
_DECLARATIONS: Final = frozenset({"status", "approve", "lookup", "terminal"})

_USERS_ALONE: Final = "only your own config.toml, or the editor's initializationOptions, can set it"


class Configuration:
    """The configuration of one folder (or, with ``root`` None, of the user) as it is in force.

    A source that becomes invalid keeps its last valid contents; of one that was never valid, the
    valid keys count. Reading blocks briefly.

    Attributes:
        loaded: the configuration in force with its problems, origins and requests.
    """

    def __init__(
        self, root: Path | None, trust: TrustStore, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._root = root
        self._trust = trust
        self._environment = from_environment(environ)
        self._file = _Kept()
        self._overlay = _Kept()
        self._clients: dict[Source, _Kept] = {
            "initializationOptions": _Kept(),
            "workspace/configuration": _Kept(),
        }
        self._told: set[str] = set()
        self._read_files()
        self.loaded = self._load()

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.loaded.config

    @property
    def trusted(self) -> bool:
        """Whether all that the workspace asks for is granted."""
        return all(request.granted for request in self.loaded.requests)

    def initialize(self, options: object) -> None:
        """Take the settings under ``aish`` in ``initializationOptions``.

        What a client declares there about its abilities is not a setting.
        """
        section = options.get("aish") if isinstance(options, Mapping) else None
        if isinstance(section, Mapping):
            section = {key: value for key, value in section.items() if key not in _DECLARATIONS}
        self.update("initializationOptions", section)

    def update(self, source: Source, data: object) -> None:
        """Take the section ``aish`` from the editor, with keys as in ``config.toml``.

        None is an empty section. The settings count at once, but a running turn keeps those it
        began with.
        """
        self._clients[source].take(from_client({} if data is None else data, source))
        self.loaded = self._load()

    def reload(self) -> list[str]:
        """Read what changed on disk, grants included; return the problems not reported yet."""
        self._read_files()
        self.loaded = self._load()
        told = [str(problem) for problem in self.loaded.problems]
        told += [_waiting(request) for request in self.loaded.requests if not request.granted]
        new = [text for text in told if text not in self._told]
        self._told = set(told)
        return new

    def grant(self, shown: Iterable[Request]) -> None:
        """Grant the ``shown`` requests, even if the workspace asks for something else by now.

        Raises:
            StoreUnavailable, Busy: see ``TrustStore.grant``.
        """
        if self._root is not None:
            for request in shown:
                self._trust.grant(self._root, request.what, request.name, request.hash)
        self.loaded = self._load()

    def revoke(self) -> int:
        """Revoke the workspace's grants; return how many there were.

        Raises:
            StoreUnavailable, Busy: see ``TrustStore.grant``.
        """
        count = 0 if self._root is None else self._trust.revoke(self._root)
        self.loaded = self._load()
        return count

    def _read_files(self) -> None:
        file = config_file()
        if self._file.changed(file):
            self._file.take(from_file(file))
        if self._root is not None and self._overlay.changed(self._root / ".aish.toml"):
            self._overlay.take(from_workspace(self._root))

    def _load(self) -> Loaded:
        client, settings = self._clients.values()
        own = (self._file.layer, self._environment, client.layer)
        base = user_values(own)
        overlay, asked, refused = self._trusted_part(
            "overlay", ".aish.toml", self._overlay.layer, base
        )
        edited, also, more_refused = self._trusted_part("settings", "aish", settings.layer, base)
        config, wrong, origins = combine(overlay, own, edited)
        problems = [*self._overlay.problems, *self._file.problems, *self._environment.problems]
        problems += [*client.problems, *settings.problems, *wrong, *refused, *more_refused]
        if (trouble := self._trust.trouble()) is not None:
            problems.append(Problem("", trouble))
        strangers = _servers(edited) | (_servers(overlay) - frozenset().union(*map(_servers, own)))
        return Loaded(config, tuple(problems), origins, (*asked, *also), strangers)

    def _trusted_part(
        self, what: What, name: str, layer: Layer, base: Mapping[str, Any]
    ) -> tuple[Layer, list[Request], list[Problem]]:
        """Return what counts of a workspace's layer, its request, and keys that it may not set."""
        # With no folder open there is no workspace that the settings could come from.
        if self._root is None:
            return layer, [], []
        keys = [key for key in USERS_ALONE if lookup(layer.data, key)[0]]
        problems = [Problem(dotted(key), _USERS_ALONE, layer.locate(dotted(key))) for key in keys]
        data: Any = without(layer.data, keys)
        harmless, asked, contents = part(data, base)
        if not asked:
            return replace(layer, data=harmless), [], problems
        granted = self._trust.granted(self._root, what, name, contents)
        request = Request(what, name, asked, contents, granted)
        return replace(layer, data=data if granted else harmless), [request], problems


def _servers(layer: Layer) -> frozenset[str]:
    """Return the names of a layer's tool servers."""
    _, servers = lookup(layer.data, ("tools", "servers"))
    return frozenset(servers or ())


class _Kept:
    """A source as it was when it was last valid, and what is wrong with it now."""

    def __init__(self) -> None:
        self.layer = checked({}, str)
        self.problems: tuple[Problem, ...] = ()
        self._good = False
        self._seen: tuple[int, ...] | None = ()

    def changed(self, path: Path) -> bool:
        """Return whether the file has changed since the last call."""
        try:
            status = path.stat()
        except (OSError, ValueError):
            seen = None
        else:
            seen = (*stamp_of(status), status.st_mode)
        changed = seen != self._seen
        self._seen = seen
        return changed

    def take(self, layer: Layer) -> None:
        """Take the source as it is now."""
        self.problems = layer.problems
        if not layer.problems:
            self._good = True
        elif self._good:
            stays = Problem("", "the settings from before stay in force", layer.locate(""))
            self.problems = (*layer.problems, stays)
            return
        self.layer = layer


def _waiting(request: Request) -> str:
    keys = ", ".join(key for key, _ in request.asked[:5])
    more = f" and {len(request.asked) - 5} more" if len(request.asked) > 5 else ""
    source = "editor settings" if request.what == "settings" else request.name
    sets = f"This workspace's {source} sets {keys}{more}"
    return f"{sets}, which has no effect until you grant it: `:trust` shows it."


# Layers of configuration into one, and where each of its values came from.

#: The origin of a value that no source names.
DEFAULT: Final = "default"


def user_values(own: Sequence[Layer]) -> dict[str, Any]:
    """Return the plain values in force from the defaults and the user's own layers."""
    values: Mapping[str, Any] = dataclasses.asdict(Config())
    for layer in own:
        values = _merged(values, layer.data)
    return dict(values)


def combine(
    overlay: Layer, own: Sequence[Layer], settings: Layer
) -> tuple[Config, list[Problem], dict[str, str]]:
    """Return the configuration, its inconsistencies, and the origin of each value.

    Args:
        overlay: what counts of the workspace's file.
        own: the user's own layers, weakest first.
        settings: what counts of the editor's settings.
    """
    users: Mapping[str, Any] = {}
    for layer in own:
        users = _merged(users, layer.data)
    data = _merged(overlay.data, users, whole=WHOLE)
    data = _merged(data, settings.data, whole=WHOLE)
    sources = [[settings], [*reversed(own)], [overlay]]
    good, wrong = consistent(data)
    problems = [Problem(dotted(path), reason, _origin(sources, path)) for path, reason in wrong]
    config = structure(good, Config, camel_case=False)
    models = {name: replace(preset, name=name) for name, preset in config.models.items()}
    rules = [*_rules(users), *_workspace_rules(overlay), *_workspace_rules(settings)]
    config = replace(config, models=models, safety=replace(config.safety, rules=rules))
    origins = {
        dotted(path): _origin(sources, path) if lookup(good, path)[0] else DEFAULT
        for path, _ in leaves(dataclasses.asdict(config))
    }
    return config, problems, origins


def _rules(data: Mapping[str, Any], cls: type[RiskRule] = RiskRule) -> list[RiskRule]:
    _, rules = lookup(data, ("safety", "rules"))
    return [cls(**rule) for rule in rules or []]


def _workspace_rules(layer: Layer) -> list[RiskRule]:
    """Return a workspace's rules, which add to the user's and can only be stricter."""
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


def _origin(sources: Iterable[Sequence[Layer]], path: KeyPath) -> str:
    """Return where the value at ``path`` came from; ``sources`` are in order, strongest first."""
    keys = tuple(part for part in path if isinstance(part, str))
    unit = next((keys[: len(table) + 1] for table in WHOLE if keys[: len(table)] == table), None)
    for group in sources:
        for layer in group:
            if lookup(layer.data, keys)[0]:
                return layer.locate(dotted(keys))
        if unit and any(lookup(layer.data, unit)[0] for layer in group):
            break
    return DEFAULT
