"""What pygls is made to do otherwise: that it is all listed, and that each reason still holds."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from typing import Any

import pytest
from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.workspace import TextDocument, Workspace

from aish_lsp.lsp.overrides import REASONS, AishProtocol, Document, Documents
from aish_lsp.lsp.server import AishServer

OURS: dict[type, type] = {
    AishProtocol: LanguageServerProtocol,
    Document: TextDocument,
    Documents: Workspace,
    AishServer: LanguageServer,
}

#: The methods of pygls' as they were when the reasons were last looked at. Where one has another
#: text, see whether its reason in ``REASONS`` is gone; then write the new one down here.
KNOWN = {
    "LanguageServerProtocol._execute_handler": "d08c9ac9995fc571",
    "LanguageServerProtocol.notify": "039d9533e9600fae",
    "LanguageServerProtocol.send_request": "0e4491683e0fa479",
    "LanguageServerProtocol.lsp_workspace__execute_command": "b8471858fcb02f5d",
    "LanguageServerProtocol.lsp_work_done_progress_cancel": "973f4beb1dc03d21",
    "LanguageServerProtocol.lsp_initialize": "25d45da16abef004",
    "LanguageServerProtocol.lsp_shutdown": "86ec7ca1055cb177",
    "LanguageServerProtocol.lsp_exit": "229d16e062e3b9d4",
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


def test_each_override_has_its_reason() -> None:
    found = {theirs.__name__: overridden(ours, theirs) for ours, theirs in OURS.items()}
    assert {name: names for name, names in found.items() if names} == {
        name: set(reasons) for name, reasons in REASONS.items()
    }


@pytest.mark.parametrize(
    ("theirs", "name"),
    [(theirs, name) for theirs in OURS.values() for name in REASONS.get(theirs.__name__, ())],
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


async def test_pygls_keeps_what_has_ended() -> None:
    protocol = LanguageServer("test", "0", converter_factory=get_converter).protocol

    async def inner() -> None:
        pass

    def outer() -> Any:
        yield inner, (), None

    handler: Any = outer
    protocol._execute_handler("1", handler, lambda done: done.result())
    while not all(future.done() for future in protocol._request_futures.values()):
        await asyncio.sleep(0)
    assert protocol._request_futures


def test_pygls_knows_no_token_of_the_clients() -> None:
    protocol = LanguageServer("test", "0", converter_factory=get_converter).protocol
    given = types.WorkDoneProgressCancelParams("ours")
    assert list(protocol.lsp_work_done_progress_cancel(given)) == []
    assert not protocol.progress.tokens


def test_pygls_ends_the_process_in_the_loop() -> None:
    protocol = LanguageServer("test", "0", converter_factory=get_converter).protocol
    with pytest.raises(SystemExit):
        list(protocol.lsp_exit())


def test_pygls_takes_no_malformed_root() -> None:
    protocol = LanguageServer("test", "0", converter_factory=get_converter).protocol
    root = "file://[x/"
    params = types.InitializeParams(types.ClientCapabilities(), root_uri=root)
    with pytest.raises(ValueError, match="Invalid"):
        list(protocol.lsp_initialize(params))
