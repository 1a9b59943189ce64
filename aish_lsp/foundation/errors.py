"""The errors that a user sees, each with a kind, a JSON-RPC code and a message to act on.

AishError
 ├─ InvalidArgument        -32602   an argument of a command is wrong
 ├─ BackendUnavailable      1001    no answer: refused, timed out, overloaded, interrupted
 ├─ BackendRejected         1002    the provider said no: key, model, malformed request
 ├─ OverBudget              1003    nothing is left to evict and the request is too large
 ├─ CostCap                 1004    the request would cross the session's cap
 ├─ Denied                  1006    the user said no or could not be asked
 ├─ Busy                    1007    a lock or a turn is in use elsewhere
 ├─ StoreUnavailable        1008    a file of ours cannot be read or written
 └─ NotFound                1009    no such command, session, item, model
"""

from __future__ import annotations

from typing import Any, ClassVar


class AishError(Exception):
    """An error that a user can act on.

    Attributes:
        message: one or two sentences that say what is wrong and what to do.
        data: further fields for the error's ``data`` object, in addition to ``kind``.
    """

    kind: ClassVar[str] = "error"
    code: ClassVar[int] = -32603

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    @property
    def cause(self) -> str:
        """The message without the advice to ask again, for when that happens anyway."""
        return self.message.removesuffix(" Ask again.")

    def to_wire(self) -> dict[str, Any]:
        """Return ``{"kind", "message"}``, the form that an ``end`` event carries."""
        return {"kind": self.kind, "message": self.message}


class InvalidArgument(AishError):
    """An argument is wrong; ``data["path"]`` names the bad field."""

    kind = "invalidArgument"
    code = -32602


class BackendUnavailable(AishError):
    """A model server did not answer, or its answer was cut off."""

    kind = "backendUnavailable"
    code = 1001


class BackendRejected(AishError):
    """A model server refused the request; the message quotes the provider."""

    kind = "backendRejected"
    code = 1002


class OverBudget(AishError):
    """The request exceeds the budget, and nothing is left to evict."""

    kind = "overBudget"
    code = 1003


class CostCap(AishError):
    """The request would exceed ``cost.cap_at_dollars``."""

    kind = "costCap"
    code = 1004


class Denied(AishError):
    """The user said no, or could not be asked."""

    kind = "denied"
    code = 1006


class Busy(AishError):
    """Something is in use by another process or another turn."""

    kind = "busy"
    code = 1007


class StoreUnavailable(AishError):
    """A file of ours cannot be read or written, or is from a newer version."""

    kind = "storeUnavailable"
    code = 1008


class NotFound(AishError):
    """There is no such thing; the message names the closest matches, if any."""

    kind = "notFound"
    code = 1009
