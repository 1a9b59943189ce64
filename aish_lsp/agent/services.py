"""What all workspaces of a process share: access to models, the user's grants, the environment."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from contextlib import suppress
from dataclasses import field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.config.schema import OWN_ENDPOINTS
from aish_lsp.context.calibration import Calibration
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError
from aish_lsp.foundation.files import data_dir
from aish_lsp.foundation.jsonl import SharedFile
from aish_lsp.foundation.locks import locked
from aish_lsp.foundation.ports import Buffers, LookUp, nobody, not_open
from aish_lsp.models.address import host
from aish_lsp.models.catalog import Catalog
from aish_lsp.models.providers import protocol
from aish_lsp.shell.environment import login_environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from aish_lsp.config.schema import Preset, Tokenize
    from aish_lsp.config.trust import TrustStore
    from aish_lsp.foundation.ports import (
        AskUser,
        Choose,
        EditOpen,
        OpenText,
        ReadTerminal,
        Settled,
    )
    from aish_lsp.models.http import HttpClient
    from aish_lsp.models.keys import Keys
    from aish_lsp.models.tokenizer import EndpointTokenizer, RequestCounter
    from aish_lsp.shell.confinement.support import Confinement
    from aish_lsp.shell.runner import RunResult
    from aish_lsp.tools.toolbox import Toolbox

    #: Runs a program with its arguments, in a folder, for so many seconds at most, in a terminal of
    #: the front end; returns None if it has none.
    RunInTerminal: TypeAlias = Callable[[Sequence[str], Path, float], Awaitable[RunResult | None]]


@dataclass(frozen=True, slots=True)
class _Counting:
    """The token counters of a preset, as it was configured when they were made."""

    preset: Preset
    timeout_s: float
    tokenizer: EndpointTokenizer | None
    requests: RequestCounter


def _no_tools(session: Any) -> Toolbox:
    """Return an empty toolbox, for front ends that provide no tools."""
    from aish_lsp.tools.toolbox import Toolbox  # noqa: PLC0415 - loaded when first used

    return Toolbox((), lambda: session.workspace.config.tools, nobody)


@dataclasses.dataclass(eq=False, repr=False)
class Services:
    """The shared parts. Each is opened, probed or imported when it is first used."""

    ask_user: AskUser = nobody
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    open_text: OpenText = nobody
    choose: Choose = nobody
    _: dataclasses.KW_ONLY
    edit_open: EditOpen = not_open
    buffers: Buffers = field(default_factory=Buffers)
    look_up: LookUp = field(default_factory=LookUp)
    read_terminal: ReadTerminal = nobody
    tools_of: Callable[[Any], Toolbox] = _no_tools
    run_in_terminal: RunInTerminal = nobody
    #: A front end with settings sets it.
    settled: Settled = nobody

    def __post_init__(self) -> None:
        """Begin without anything that was learned or opened."""
        self._saving: asyncio.Task[None] | None = None
        self._login: asyncio.Task[dict[str, str]] | None = None
        # By protocol, endpoint and model.
        self._counting: dict[tuple[str, str, str], _Counting] = {}

    @cached_property
    def http(self) -> HttpClient:
        """The client for model servers."""
        from aish_lsp.models.http import HttpClient  # noqa: PLC0415 - httpx waits for a question

        # Looked up later: the catalog itself needs this client.
        return HttpClient(lambda place: self.catalog.may_show_key(place))  # noqa: PLW0108

    @cached_property
    def trust(self) -> TrustStore:
        """The grants of the user."""
        from aish_lsp.config.trust import TrustStore, trust_file  # noqa: PLC0415 - not at start

        return TrustStore(trust_file())

    @cached_property
    def keys(self) -> Keys:
        """The environment, with the keys that were stored."""
        from aish_lsp.models.keys import Keys  # noqa: PLC0415 - not at start

        return Keys(self.environ)

    @cached_property
    def catalog(self) -> Catalog:
        """The known models."""
        return Catalog(self.http, self.trust, self.keys)

    @cached_property
    def calibration(self) -> Calibration:
        """How the real token counts of models compare with our estimates."""
        return Calibration(data_dir() / "calibration.json")

    @cached_property
    def told(self) -> ToldFacts:
        """What the user was told about models, and when."""
        return ToldFacts(data_dir() / "told.json")

    @cached_property
    def confinement(self) -> Confinement:
        """The confinement of commands."""
        from aish_lsp.shell.confinement.support import Confinement  # noqa: PLC0415 - not at start

        return Confinement(self.environ)

    async def login_environment(self) -> dict[str, str]:
        """Return the environment of the user's login shell, which is started only once.

        Raises:
            StoreUnavailable: it could not be read.
        """
        if self._login is None:
            self._login = asyncio.create_task(login_environment(self.environ))
        return await asyncio.shield(self._login)

    def keep_calibration(self) -> None:
        """Save what was learned, in the background."""
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self.calibration.save(), name="keep calibration")

    def tokenizer(self, preset: Preset, tokenize: Tokenize) -> EndpointTokenizer | None:
        """Return the tokenizer of the model's own server; None if it should not be asked."""
        counting = self._counting_for(preset, tokenize).tokenizer if tokenize.use_endpoint else None
        return counting if counting is not None and counting.capable else None

    def request_counter(self, preset: Preset, tokenize: Tokenize) -> RequestCounter | None:
        """Return the counter of whole requests; None if the server should not be asked."""
        counter = self._counting_for(preset, tokenize).requests if tokenize.use_endpoint else None
        return counter if counter is not None and counter.capable else None

    def _counting_for(self, preset: Preset, tokenize: Tokenize) -> _Counting:
        from aish_lsp.models.tokenizer import (  # noqa: PLC0415 - not needed by default
            EndpointTokenizer,
            RequestCounter,
        )

        timeout_s = tokenize.timeout_ms / 1000
        key = preset.provider, preset.endpoint, preset.model
        counting = self._counting.get(key)
        # A server that refused one key may answer with another.
        if counting is not None and (counting.preset, counting.timeout_s) == (preset, timeout_s):
            return counting
        tokenizer = None
        if protocol(preset.provider).has_tokenizer and not _is_providers_own(preset):
            tokenizer = EndpointTokenizer(self.http, preset, self.keys, timeout_s=timeout_s)
        requests = RequestCounter(preset.name, timeout_s=timeout_s)
        self._counting[key] = _Counting(preset, timeout_s, tokenizer, requests)
        return self._counting[key]

    def distrust_tokenizer(self, preset: Preset, counted: int, actual: int) -> None:
        """Stop asking a tokenizer that counted very differently from the model itself."""
        counting = self._counting.get((preset.provider, preset.endpoint, preset.model))
        if counting is not None and counting.tokenizer is not None:
            counting.tokenizer.distrust(counted, actual)

    def drain_warnings(self) -> list[str]:
        """Return new warnings from these parts for the user, each once."""
        parts = (self.http, self.catalog, self.keys, self.calibration)
        return [warning for part in parts for warning in part.drain_warnings()]

    def drain_counting_notices(self) -> list[str]:
        """Return new notices on how the models' servers count tokens."""
        notices: list[str] = []
        for counting in self._counting.values():
            for counter in (counting.tokenizer, counting.requests):
                if counter is not None:
                    notices += counter.take_notices()
        return notices

    async def aclose(self) -> None:
        """Save what was learned, and close all connections."""
        if self._login is not None:
            self._login.cancel()
            await asyncio.gather(self._login, return_exceptions=True)
        try:
            if self._saving is not None:
                await asyncio.wait([self._saving])
                await self.calibration.save()
        finally:
            # Only what was used has been opened.
            if "confinement" in vars(self):
                await self.confinement.aclose()
            if "http" in vars(self):
                await self.http.aclose()


def _is_providers_own(preset: Preset) -> bool:
    """Return whether the endpoint is a provider's own, which has no separate tokenizer."""
    return host(preset.endpoint) in {host(endpoint) for endpoint, _ in OWN_ENDPOINTS.values()}


# What the user was told about models and their servers: each fact once a day, in all editors. Such
# a fact is true of a setup, not of one question. ``aish-lsp doctor`` says it at any time.

#: The days for which the doctor says what was noticed.
_KEPT: Final = 14

#: Seconds to wait for another process: if in doubt, the user is told twice.
_PATIENCE: Final = 0.5

_LARGEST: Final = 1 << 20

#: What changes from one time to the next in what is otherwise the same message.
_NUMBERS: Final = re.compile(r"(?<=[ =])\d[\d,]*(?!\w|\.\d)")


class ToldFacts:
    """The file ``path``, with the day on which each fact was last told. All methods block."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path, "told", dict, _LARGEST)
        self._today: dict[str, date] = {}

    def is_news(self, fact: str, *, lasts: bool = True) -> bool:
        """Return whether ``fact`` was not told today, and remember that it is now.

        With ``lasts``, it is among the ``recent`` ones: nobody can find it out at any time.

        Its numbers make no difference. If the file cannot be written, this holds for the
        process alone.
        """
        key, today = _NUMBERS.sub("N", fact), _today()
        if self._today.get(key) == today:
            return False
        self._today[key] = today
        with suppress(AishError), locked(self._file.path, _PATIENCE):
            document = self._file.read_to_write(self._file.empty())
            told = _recent(document["told"])
            known = told.get(key)
            if known is not None and known["at"] == today.isoformat():
                return False
            told[key] = {"at": today.isoformat(), "fact": fact if lasts else ""}
            self._file.write({**document, "told": told})
        return True

    def recent(self) -> list[tuple[str, str]]:
        """Return what was told in the last days, each with its day, the oldest first."""
        with suppress(AishError, ValueError):
            told = _recent(self._file.read()["told"]).values()
            return sorted((known["at"], known["fact"]) for known in told if known["fact"])
        return []


def _today() -> date:
    return datetime.now().astimezone().date()


def _recent(told: dict[object, object]) -> dict[str, dict[str, str]]:
    """Return the sound entries that are not too old."""
    oldest = (_today() - timedelta(_KEPT)).isoformat()
    return {
        str(key): {"at": at, "fact": fact}
        for key, known in told.items()
        if isinstance(known, dict)
        and isinstance(at := known.get("at"), str)
        and isinstance(fact := known.get("fact"), str)
        and at >= oldest
    }
