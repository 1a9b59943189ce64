"""The configuration in force, merged from all sources, with problems and requests for grants.

From weakest to strongest: the defaults, the workspace's ``.aish.toml``, the user's ``config.toml``,
the environment, ``initializationOptions``, and the ``workspace/configuration`` section ``aish``.
The workspace's file and the last source may come from a stranger: without a grant, only their
harmless keys apply.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from aish_lsp.config.keys import USERS_ALONE, WHOLE, Asked, leaves, lookup, part
from aish_lsp.config.schema import Config, RiskRule, WorkspaceRule
from aish_lsp.config.sources import (
    SettingsLayer,
    checked,
    consistent,
    from_client,
    from_environment,
    from_file,
    from_workspace,
)
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import config_file, stamp_of
from aish_lsp.foundation.text import KeyPath, clipped, dotted
from aish_lsp.foundation.validate import FieldProblem, structure, without

if TYPE_CHECKING:
    from aish_lsp.config.trust import TrustStore

Source: TypeAlias = Literal["initializationOptions", "workspace/configuration", "session/new"]
What: TypeAlias = Literal["overlay", "settings"]


@dataclass(frozen=True, slots=True)
class TrustRequest:
    """What one source of settings asks for; ``hash`` names exactly that."""

    what: What
    name: str
    asked: tuple[Asked, ...]
    hash: str
    granted: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, its problems, and the origin of each value.

    ``workspace_servers`` are the tool servers that the user did not configure: each needs a grant.
    """

    config: Config
    problems: tuple[FieldProblem, ...]
    origins: Mapping[str, str]
    requests: tuple[TrustRequest, ...]
    workspace_servers: frozenset[str] = frozenset()


#: What a client declares under ``initializationOptions.aish``, in addition to settings.
_DECLARATIONS: Final = frozenset({"status", "approve", "files", "keys", "lookup", "terminal"})

#: The maximum characters of a key in a notice: a stranger may have chosen it.
_LONGEST_KEY: Final = 100

_USERS_ALONE: Final = "only your own config.toml, or the editor's initializationOptions, can set it"


class Configuration:
    """The configuration in force for one folder, or for the user if ``root`` is None.

    A source that becomes invalid keeps its last valid contents; if it was never valid, its valid
    keys apply. Reading blocks briefly.

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
            "session/new": _Kept(),
        }
        self._reported: set[str] = set()
        self._read_files()
        self.loaded = self._load()

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.loaded.config

    @property
    def trusted(self) -> bool:
        """Whether everything that the workspace asks for is granted."""
        return all(request.granted for request in self.loaded.requests)

    def initialize(self, options: object) -> None:
        """Take the settings under ``aish`` in ``initializationOptions``.

        The capabilities that a client declares there are not settings.
        """
        section = options.get("aish") if isinstance(options, Mapping) else None
        if isinstance(section, Mapping):
            section = {key: value for key, value in section.items() if key not in _DECLARATIONS}
        self.update("initializationOptions", section)

    def update(self, source: Source, data: object) -> None:
        """Take the section ``aish`` from the editor, with keys as in ``config.toml``.

        None is an empty section. The settings apply at once, but a running turn keeps those it
        started with.
        """
        self._clients[source].take(from_client({} if data is None else data, source))
        self.loaded = self._load()

    def reload(self) -> list[str]:
        """Read what changed on disk, including grants; return the problems not reported yet."""
        self._read_files()
        self.loaded = self._load()
        reports = [str(problem) for problem in self.loaded.problems]
        reports += [_waiting(request) for request in self.loaded.requests if not request.granted]
        new = [text for text in reports if text not in self._reported]
        self._reported = set(reports)
        return new

    def grant(self, shown: Iterable[TrustRequest]) -> None:
        """Grant the ``shown`` requests, even if the workspace now asks for something else.

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
        client, settings, session = self._clients.values()
        own = (self._file.layer, self._environment, client.layer, session.layer)
        base = user_values(own)
        overlay, asked, refused = self._trusted_part(
            "overlay", ".aish.toml", self._overlay.layer, base
        )
        edited, also, more_refused = self._trusted_part("settings", "aish", settings.layer, base)
        config, wrong, origins = combine(overlay, own, edited)
        problems = [*self._overlay.problems, *self._file.problems, *self._environment.problems]
        problems += [
            *client.problems,
            *settings.problems,
            *session.problems,
            *wrong,
            *refused,
            *more_refused,
        ]
        if (trouble := self._trust.trouble()) is not None:
            problems.append(FieldProblem("", trouble))
        strangers = _servers(overlay) - frozenset().union(*map(_servers, own))
        # What an agent's client names may come from the workspace, too.
        strangers |= _servers(edited) | _servers(session.layer)
        return Loaded(config, tuple(problems), origins, (*asked, *also), strangers)

    def _trusted_part(
        self, what: What, name: str, layer: SettingsLayer, base: Mapping[str, Any]
    ) -> tuple[SettingsLayer, list[TrustRequest], list[FieldProblem]]:
        """Return the part of a workspace's layer that applies, its request, and its problems."""
        # Without an open folder, the settings cannot come from a workspace.
        if self._root is None:
            return layer, [], []
        keys = [key for key in USERS_ALONE if lookup(layer.data, key)[0]]
        problems = [
            FieldProblem(dotted(key), _USERS_ALONE, layer.locate(dotted(key))) for key in keys
        ]
        data: Any = without(layer.data, keys)
        harmless, asked, contents = part(data, base)
        if not asked:
            return replace(layer, data=harmless), [], problems
        granted = self._trust.granted(self._root, what, name, contents)
        request = TrustRequest(what, name, asked, contents, granted)
        return replace(layer, data=data if granted else harmless), [request], problems


def _servers(layer: SettingsLayer) -> frozenset[str]:
    """Return the names of a layer's tool servers."""
    _, servers = lookup(layer.data, ("tools", "servers"))
    return frozenset(servers or ())


class _Kept:
    """The last valid contents of a source, and what is wrong with the current ones."""

    def __init__(self) -> None:
        self.layer = checked({}, str)
        self.problems: tuple[FieldProblem, ...] = ()
        self._was_valid = False
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

    def take(self, layer: SettingsLayer) -> None:
        """Take the current contents of the source."""
        self.problems = layer.problems
        if not layer.problems:
            self._was_valid = True
        elif self._was_valid:
            stays = FieldProblem("", "the previous settings stay in force", layer.locate(""))
            self.problems = (*layer.problems, stays)
            return
        self.layer = layer


def _waiting(request: TrustRequest) -> str:
    keys = ", ".join(clipped(one.key, _LONGEST_KEY) for one in request.asked[:5])
    more = f" and {len(request.asked) - 5} more" if len(request.asked) > 5 else ""
    source = "editor settings set" if request.what == "settings" else f"{request.name} sets"
    return (
        f"This workspace's {source} {keys}{more}, which has no effect until you grant it:"
        " `:trust` shows it."
    )


# Merging layers, and the origin of each value.

#: The origin of a value that no source sets.
DEFAULT: Final = "default"


def user_values(own: Sequence[SettingsLayer]) -> dict[str, Any]:
    """Return the plain values in force from the defaults and the user's own layers."""
    values: Mapping[str, Any] = dataclasses.asdict(Config())
    for layer in own:
        values = _merged(values, layer.data)
    return dict(values)


def combine(
    overlay: SettingsLayer, own: Sequence[SettingsLayer], settings: SettingsLayer
) -> tuple[Config, list[FieldProblem], dict[str, str]]:
    """Return the configuration, its inconsistencies, and the origin of each value.

    Args:
        overlay: the part of the workspace's file that applies.
        own: the user's own layers, weakest first.
        settings: the part of the editor's settings that applies.
    """
    users: Mapping[str, Any] = {}
    for layer in own:
        users = _merged(users, layer.data)
    data = _merged(overlay.data, users, whole=WHOLE)
    data = _merged(data, settings.data, whole=WHOLE)
    sources = [[settings], [*reversed(own)], [overlay]]
    good, wrong = consistent(data)
    problems = [
        FieldProblem(dotted(path), reason, _origin(sources, path)) for path, reason in wrong
    ]
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


def _workspace_rules(layer: SettingsLayer) -> list[RiskRule]:
    """Return a workspace's rules, which are added to the user's and can only be stricter."""
    return _rules(layer.data, WorkspaceRule)


def _merged(
    weaker: Mapping[str, Any],
    stronger: Mapping[str, Any],
    whole: tuple[tuple[str, ...], ...] = (),
    place: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return tables merged key by key; entries of the tables in ``whole`` are not mixed.

    The keys of ``stronger`` come first, so that the first model is the user's own.
    """
    merged = {**stronger, **{key: value for key, value in weaker.items() if key not in stronger}}
    for key in weaker.keys() & stronger.keys():
        below, above = weaker[key], stronger[key]
        if isinstance(below, Mapping) and isinstance(above, Mapping) and place not in whole:
            merged[key] = _merged(below, above, whole, (*place, key))
    return merged


def _origin(sources: Iterable[Sequence[SettingsLayer]], path: KeyPath) -> str:
    """Return the origin of the value at ``path``; ``sources`` are ordered, strongest first."""
    keys = tuple(part for part in path if isinstance(part, str))
    unit = next((keys[: len(table) + 1] for table in WHOLE if keys[: len(table)] == table), None)
    for group in sources:
        for layer in group:
            if lookup(layer.data, keys)[0]:
                return layer.locate(dotted(keys))
        if unit and any(lookup(layer.data, unit)[0] for layer in group):
            break
    return DEFAULT
