"""What a model or an account does not take of a Responses request, learned from its refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.models.adapters.loose import as_dict, as_list, as_text

if TYPE_CHECKING:
    from aish_lsp.foundation.errors import BackendRejected

# Optional fields, and the words by which a refusal names them: models that do not reason have no
# encrypted content, and accounts that are not verified get no summaries.
_FIELDS: Final = {
    "include": re.compile(r"encrypted|\binclude\b", re.IGNORECASE),
    "summary": re.compile(r"summar", re.IGNORECASE),
}

# Reasoning cannot be read again by another account's key, nor behind a proxy by another provider.
_REASONING: Final = re.compile(
    r"encrypted content .*could not be|of type 'reasoning'|\brs_\w", re.IGNORECASE | re.DOTALL
)
_UNREADABLE: Final = "invalid_encrypted_content"

# An error within the stream carries no status.
_MALFORMED: Final = frozenset({400, 404, 422, None})


@dataclass(frozen=True, slots=True)
class Refused:
    """Optional ``fields``, and earlier ``reasoning`` by its encrypted content."""

    fields: frozenset[str] = frozenset()
    reasoning: frozenset[str] = frozenset()

    def __or__(self, other: Refused) -> Refused:
        return Refused(self.fields | other.fields, self.reasoning | other.reasoning)


NOTHING: Final = Refused()


def refused_by(error: BackendRejected, body: Mapping[str, Any]) -> Refused:
    """Return what of ``body`` is optional and refused by ``error``; nothing for other reasons."""
    if error.data.get("status") not in _MALFORMED:
        return NOTHING
    words = str(error.data.get("provider_message"))
    items = [as_dict(item) for item in as_list(body.get("input"))]
    reasoning = frozenset(
        as_text(item.get("encrypted_content")) for item in items if item.get("type") == "reasoning"
    )
    if reasoning and (error.data.get("code") == _UNREADABLE or _REASONING.search(words)):
        return Refused(reasoning=reasoning)
    sent = {*body, *as_dict(body.get("reasoning"))}
    named = (field for field, said in _FIELDS.items() if field in sent and said.search(words))
    field = next(named, None)
    return Refused(frozenset() if field is None else frozenset({field}))
