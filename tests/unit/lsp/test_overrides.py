"""What pygls is made to do otherwise: that it is all known, and that each reason still holds."""

from __future__ import annotations

import hashlib
import inspect
from typing import Any

import pytest
from pygls.workspace import TextDocument, Workspace

from aish_lsp.lsp.overrides import Document, Documents

OURS: dict[type, type] = {
    Document: TextDocument,
    Documents: Workspace,
}

#: The methods of pygls' as they were when the reasons were last looked at. Where one has another
#: text, see whether the reason to override it is gone; then write the new one down here.
KNOWN = {
    "TextDocument.lines": "5c8b82a9fe998f7e",
    "Workspace._create_text_document": "2811348670bdc571",
}


def overridden(ours: type, theirs: type) -> set[str]:
    """Return the names in a class of ours, and in those between, that pygls has, too."""
    between = [cls for cls in ours.__mro__ if cls.__module__.startswith("aish_lsp.")]
    names = {name for cls in between for name in vars(cls) if not name.startswith("__")}
    return {name for name in names if inspect.isroutine(_found(theirs, name))}


def _found(cls: type, name: str) -> Any:
    """Return a method of a class; of a property what it calls."""
    member = inspect.getattr_static(cls, name, None)
    return member.fget if isinstance(member, property) else member


def test_each_override_is_known() -> None:
    found = {
        f"{theirs.__name__}.{name}"
        for ours, theirs in OURS.items()
        for name in overridden(ours, theirs)
    }
    assert found == set(KNOWN)


@pytest.mark.parametrize(
    ("theirs", "name"),
    [(theirs, name) for ours, theirs in OURS.items() for name in sorted(overridden(ours, theirs))],
)
def test_what_is_overridden_has_not_changed_upstream(theirs: type, name: str) -> None:
    text = inspect.getsource(_found(theirs, name))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert digest == KNOWN.get(f"{theirs.__name__}.{name}"), f"pygls has another {name}"


# That the worst of it is still so: where one of these fails, pygls has mended it.


def test_pygls_ends_lines_where_lsp_does_not() -> None:
    text = "one\ftwo\u2028three\n"
    assert len(TextDocument("file:///x", text).lines) == 3
    assert len(Document("file:///x", text).lines) == 1


def test_pygls_takes_no_malformed_root() -> None:
    with pytest.raises(ValueError, match="Invalid"):
        Workspace("file://[x/")
