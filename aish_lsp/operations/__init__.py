"""What a user can ask for: each thing once, whoever asks and in whatever spelling.

It is in one of the families that are named here; what is in none of them is in no face.
"""

from __future__ import annotations

from aish_lsp.operations import ask, context, memory, models, run, sessions, tools, trust, undo
from aish_lsp.operations import operation as added

_FAMILIES = (ask, run, models, memory, context, sessions, tools, trust, undo)
_ORDER = [family.__name__ for family in _FAMILIES]

#: All there are, by name, a family after the other, in the order of the reference.
OPERATIONS = {
    one.name: one
    for one in sorted(added.OPERATIONS.values(), key=lambda one: _ORDER.index(one.run.__module__))
}
