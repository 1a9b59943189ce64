"""All operations, a family after the other. What is in none of these modules is in no face."""

from __future__ import annotations

from aish_lsp.operations import (
    ask,
    context,
    memory,
    models,
    norris,
    run,
    sessions,
    tools,
    trust,
    undo,
)
from aish_lsp.operations import operation as added

_FAMILIES = (ask, run, norris, models, memory, context, sessions, tools, trust, undo)
_ORDER = [family.__name__ for family in _FAMILIES]

#: All there are, by name, in the order of the reference.
OPERATIONS = {
    one.name: one
    for one in sorted(added.OPERATIONS.values(), key=lambda one: _ORDER.index(one.run.__module__))
}
