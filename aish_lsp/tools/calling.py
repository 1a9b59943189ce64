"""What a turn and the tools say to each other: a call, its result, and who brings tools."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.request import ToolSchema

#: What providers take as a tool's name, and characters of it.
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64


#: How a call ended.
ResultStatus: TypeAlias = Literal["done", "failed", "denied"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call, as the model is told it."""

    text: str
    status: ResultStatus = "done"


@dataclass(frozen=True, slots=True)
class Around:
    """What a call is made in.

    Attributes:
        emit: passes on what happens meanwhile.
        warn: tells the user something.
        group: what the changes that it makes are undone together with.
        limit: characters that its result may have.
    """

    emit: Emit
    warn: Callable[[str], Awaitable[None]]
    group: str
    limit: int


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``reads`` says that it changes nothing, so that several may be called at once."""

    schema: ToolSchema
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as a person is shown it; ``tokens`` are those of its schema, an estimate.

    ``allowed``: its calls go on without a question that is asked about each.
    """

    name: str
    description: str
    tokens: int
    on: bool
    allowed: bool


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """How a tool server is: ``off`` before it was needed, ``starting``, ``ready``, ``failed``.

    ``granted``: it may start; ``error``: why it failed, or what of it cannot be used.
    """

    state: str
    granted: bool
    error: str = ""


class Provider(Protocol):
    """Somebody who brings tools: we ourselves, or a tool server.

    Attributes:
        name: the server's name, ``aish`` for ours.
    """

    name: str

    @property
    def status(self) -> ServerStatus:
        """How it is now."""
        ...

    def allows(self, name: str, /) -> bool:
        """Return whether a call of one of them goes on without a question about each."""
        ...

    def tools(self) -> tuple[Tool, ...]:
        """Return what it has now, each by the name that the model calls it by."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], around: Around, /) -> ToolResult:
        """Call one of them; it asks the user where that is due. It may be cancelled.

        Raises:
            AishError: it failed; the message tells the model why.
        """
        ...


def offered_name(server: str, name: str) -> str:
    """Return ``SERVER__NAME``, of characters that providers take, and no longer than they do."""
    whole = _NOT_IN_NAMES.sub("_", f"{server}__{name}")
    if len(whole) <= _LONGEST_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: _LONGEST_NAME - 9]}_{digest}"
