"""What a user can ask for: every operation, defined once for all front ends.

A module of operations is available in the front ends only if it is listed here.
"""

from __future__ import annotations

from aish_lsp.operations import (
    about,
    approvals,
    ask,
    connecting,
    context,
    memory,
    models,
    run,
    sessions,
    tools,
    trust,
    undo,
)
from aish_lsp.operations import operation as added

_FAMILIES = (
    ask,
    run,
    approvals,
    models,
    connecting,
    memory,
    context,
    sessions,
    tools,
    trust,
    undo,
    about,
)
_ORDER = [family.__name__ for family in _FAMILIES]

#: All operations by name, family by family, in the order of the reference.
OPERATIONS = {
    one.name: one
    for one in sorted(added.OPERATIONS.values(), key=lambda one: _ORDER.index(one.run.__module__))
}
