"""What ``uri``, ``range`` and ``diagnostics`` of a question mean: text of the editor or a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from aish_lsp.context.attached.reading import LARGEST
from aish_lsp.context.attached.selection import Document, Point, clamped, language_of, selection
from aish_lsp.context.messages import Attached
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.text import one_line, with_line_feeds
from aish_lsp.lsp.uris import is_uri, path_of
from aish_lsp.project.safe_read import read_head

if TYPE_CHECKING:
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.lsp.open_documents import OpenDocuments
    from aish_lsp.operations.ask import AskParams, Position, Problem

#: Problems that go with one question, and characters of each.
_MOST_PROBLEMS: Final = 20
_PROBLEM: Final = 1000

_SEVERITIES: Final = {1: "error", 2: "warning", 3: "information", 4: "hint"}


@dataclass(frozen=True, slots=True)
class Selected:
    """What is selected: the document, what goes with the question, and the place."""

    uri: str
    attached: tuple[Attached, ...]
    start: Point
    end: Point
    document: Document


async def selected(
    documents: OpenDocuments, workspace: Workspace, params: AskParams
) -> Selected | None:
    """Return what a question's fields select; None where they name no range.

    Raises:
        InvalidArgument: there is no such document or place, or nothing stands there.
    """
    if params.range is None:
        if params.diagnostics:
            raise InvalidArgument("Problems need the range that they are about.", path="range")
        return None
    if params.uri is None:
        raise InvalidArgument("A range needs the uri of its document.", path="uri")
    uri, document = await _document(documents, workspace, params.uri)
    lines = document.lines
    start, end = sorted(
        _point(documents, lines, place) for place in (params.range.start, params.range.end)
    )
    if start.line >= len(lines):
        raise InvalidArgument(
            f"The range begins at line {start.line + 1}, and {document.path} has {len(lines)}.",
            path="range.start",
        )
    # Not here: a document may be long, and others are served meanwhile.
    attached = await asyncio.to_thread(selection, document, start, end)
    if not attached and not params.diagnostics:
        raise InvalidArgument(f"Only blanks are selected in {document.path}.", path="range")
    attached += _problems(document, params.diagnostics)
    return Selected(uri, tuple(attached), clamped(lines, start), clamped(lines, end), document)


def path_in(workspace: Workspace, uri: str) -> str:
    """Return how a document is called: by its path in the workspace, else by its name alone."""
    path = path_of(uri)
    if path is None:
        named = unquote(urlsplit(uri).path) if is_uri(uri) else ""
        return PurePosixPath(named).name or "a document"
    if workspace.root is not None and (inside := _inside(workspace.root, path)):
        return inside
    return path.name


def _inside(root: Path, path: Path) -> str:
    """Return a path relative to a folder, by the real paths of both; empty where it is not in."""
    real, real_root = Path(os.path.realpath(path)), os.path.realpath(root)
    return real.relative_to(real_root).as_posix() if real.is_relative_to(real_root) else ""


async def _document(
    documents: OpenDocuments, workspace: Workspace, uri: str
) -> tuple[str, Document]:
    """Return the editor's document, with the URI as it spells it, else the workspace's file."""
    name = path_in(workspace, uri)
    path = path_of(uri)
    opened = documents.opened(uri)
    if opened is None and path is not None:
        opened = documents.of_file(path)
    if opened is not None:
        return opened.uri, Document(name, opened.text, opened.language or language_of(name))
    if path is None:
        raise InvalidArgument(f"{uri[:200]} is not open in the editor.", path="uri")
    root = workspace.root
    inside = await asyncio.to_thread(_inside, root, path) if root else ""
    if root is None or not inside:
        message = f"{name} is not open in the editor, and does not lie in the workspace."
        raise InvalidArgument(message, path="uri")
    head = await asyncio.to_thread(read_head, root, inside, LARGEST, secret=True)
    if head is None or not head[1]:
        why = "is binary or cannot be read" if head is None else f"is over {LARGEST >> 20} MiB"
        raise InvalidArgument(f"{name} is not open in the editor, and {why}.", path="uri")
    return uri, Document(name, with_line_feeds(head[0]), language_of(name))


def _point(documents: OpenDocuments, lines: Sequence[str], place: Position) -> Point:
    """Return a client's position in characters; behind the text it stays what it is."""
    if place.line >= len(lines):
        return Point(place.line, 0)
    line = lines[place.line]
    return Point(place.line, documents.characters(line, place.character))


def _problems(document: Document, problems: Sequence[Problem]) -> list[Attached]:
    """Return what an editor complains of, as one text."""
    if not problems:
        return []
    said = [_problem(problem) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        said.append(f"[... {len(problems) - _MOST_PROBLEMS} more ...]")
    return [Attached("problems", document.path, "\n".join(said))]


def _problem(problem: Problem) -> str:
    """Return a diagnostic on one line: ``line 3: error: no such name (pyflakes F821)``."""
    severity = _SEVERITIES.get(problem.severity or 0, "problem")
    source = " ".join(str(part) for part in (problem.source, problem.code) if part is not None)
    told = f"line {problem.range.start.line + 1}: {severity}: {one_line(problem.message)}"
    return f"{told[:_PROBLEM]}{f' ({one_line(source)[:100]})' if source else ''}"
