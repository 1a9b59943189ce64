"""The commands of ``workspace/executeCommand``: what each takes, and who answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.validate import structure
from aish_lsp.foundation.wire import to_wire
from aish_lsp.foundation.wording import nearest, shown
from aish_lsp.lsp.call import Call

Handler: TypeAlias = Callable[[Call, Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command's contract.

    Attributes:
        name: as the client sends it: ``aish.ask``.
        params: the dataclass that its argument becomes; its fields are camelCase on the wire.
        result: the fields of its result, for the documentation.
        doc: one sentence for the documentation.
    """

    name: str
    params: type
    result: str
    doc: str


class CommandTable:
    """The commands that are answered here, out of those that are specified."""

    def __init__(self, specs: Mapping[str, CommandSpec]) -> None:
        self._specs = specs
        self._handlers: dict[str, Handler] = {}

    @property
    def names(self) -> list[str]:
        """The bound commands, in the order in which they were bound."""
        return list(self._handlers)

    def bind(self, name: str, handler: Handler) -> None:
        """Let ``handler`` answer the command ``name``.

        Raises:
            ValueError: it is not specified, or bound already.
        """
        if name not in self._specs:
            raise ValueError(f"{name} has no CommandSpec")
        if name in self._handlers:
            raise ValueError(f"{name} is bound twice")
        self._handlers[name] = handler

    async def execute(self, call: Call, name: str, arguments: Sequence[Any] | None) -> Any:
        """Run a command with what the client sent; return its result as plain JSON data.

        Raises:
            NotFound: no such command is bound.
            InvalidArgument: the arguments do not fit it.
        """
        handler = self._handlers.get(name)
        if handler is None:
            message = f"no command {shown(name)}; {nearest(name, self.names)}"
            raise NotFound(message)
        params: object = structure(
            _argument(name, arguments), self._specs[name].params, camel_case=True
        )
        return to_wire(await handler(call, params))


def _argument(name: str, arguments: Sequence[Any] | None) -> Any:
    """Return the one object that a command takes; none is an empty one."""
    if not arguments or (len(arguments) == 1 and arguments[0] is None):
        return {}
    if len(arguments) > 1 or not isinstance(arguments[0], dict):
        message = f"{name} takes one JSON object as its only argument, or none"
        raise InvalidArgument(message, path="arguments")
    return arguments[0]
