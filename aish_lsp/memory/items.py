"""What is remembered: an item, its kinds, and when two items say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.redaction import find_secret

Kind: TypeAlias = Literal["fact", "pref", "context"]
Scope: TypeAlias = Literal["workspace", "user"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

_END_PUNCTUATION: Final = ".,;:!?…。、！？ "  # noqa: RUF001 - those of Chinese and Japanese too


class MemoryItem(NamedTuple):
    """One item (aish-phase4-memory, section 4). Of a tuple, 100,000 are made in no time.

    ``id`` counts within its scope. ``ts`` is UTC, in the form of ``clock.TIMESTAMP``. ``source``
    says who added it, and from which session.
    """

    id: int
    ts: str
    kind: Kind
    content: str
    tags: tuple[str, ...] = ()
    source: Mapping[str, Any] | None = None
    scope: Scope = "workspace"


#: The key by which items sort; reversed, the newest comes first.
NEWEST_LAST: Final = attrgetter("ts", "id")


def normalized(content: str) -> str:
    """Return ``content`` without case, spacing and end punctuation: equal ones say the same."""
    text = " ".join(content.split()).casefold()
    return text.rstrip(_END_PUNCTUATION) or text


def item_fields(
    kind: Kind, content: str, tags: Sequence[str], source: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return an item's line without its id and time; what it does not have is left out."""
    fields: dict[str, Any] = {"kind": kind, "content": content}
    if tags:
        fields["tags"] = list(tags)
    if source is not None:
        fields["source"] = dict(source)
    return fields


def tombstone(item_id: int) -> dict[str, Any]:
    """Return the line, without its id and time, that hides an item."""
    return {"kind": "forget", "target": item_id}


def check_labels(kind: str, tags: Sequence[str]) -> None:
    """Raise InvalidArgument for a kind that there is not, or a tag that is not a text."""
    if kind not in KINDS:
        msg = f"A memory's kind is one of {', '.join(KINDS)}, not {kind!r}."
        raise InvalidArgument(msg, path="kind")
    if not all(isinstance(tag, str) and tag.strip() for tag in tags):
        raise InvalidArgument("A tag cannot be empty.", path="tags")


def check_content(content: str, *, force: bool) -> None:
    """Raise InvalidArgument where ``content`` is nothing to remember."""
    if not isinstance(content, str) or not content.strip():
        raise InvalidArgument("There is nothing to remember: the text is empty.", path="content")
    try:
        content.encode()
    except UnicodeEncodeError:
        msg = "The text holds half of a surrogate pair, which is not a character."
        raise InvalidArgument(msg, path="content") from None
    secret = None if force else find_secret(content)
    if secret is not None:
        msg = (
            f"This looks like it holds {secret}. What is remembered lies in a plain file and is"
            " sent to the model. Leave the secret out, or add it with force."
        )
        raise InvalidArgument(msg, path="content")
