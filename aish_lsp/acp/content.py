"""What a client sends with a prompt: its text, the files it names, and texts of its own.

The tool servers (MCP) that it names for a session are here too, as our configuration has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from acp import schema

from aish_lsp.context.mentions import mention_of
from aish_lsp.context.messages import Attached
from aish_lsp.context.selection import language_of
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import escaped, shown, with_line_feeds
from aish_lsp.foundation.uris import path_of

#: The lines that a link to a part of a file names, in the forms that clients use.
_LINES: Final = re.compile(r"L?(\d{1,9})(?:[-:]L?(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Content:
    """A prompt: the user's text, the texts sent along, and what could not be used."""

    text: str
    attached: tuple[Attached, ...]
    notices: tuple[str, ...]


def content_of(blocks: Sequence[Any], root: Path) -> Content:
    """Return what the blocks of a prompt say.

    A link to a file of the workspace becomes its mention, ``@path``, which is then read and sent
    like one that the user typed.
    """
    text: list[str] = []
    attached: list[Attached] = []
    notices: list[str] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                text.append(block.text)
            case schema.ResourceContentBlock():
                # In brackets, so that it is never read as a command.
                text.append(_mention(block.uri, root) or f"<{escaped(block.uri)}>")
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as one):
                attached.append(_attached(one, root))
            case schema.EmbeddedResourceContentBlock(resource=one):
                notices.append(f"{escaped(one.uri)[:200]} is not text and was not sent.")
            case _:
                kind = "An image" if isinstance(block, schema.ImageContentBlock) else "A recording"
                notices.append(f"{kind} was left out: aish sends text alone.")
    return Content(with_line_feeds("".join(text)), tuple(attached), tuple(notices))


def _file(uri: str) -> tuple[Path, int, int] | None:
    """Return the file that a URI means, and its lines, 0 for all; None if it means no file."""
    path = path_of(uri)
    if path is None:
        return None
    lines = _LINES.fullmatch(urlsplit(uri).fragment)
    first = int(lines[1]) if lines else 0
    last = int(lines[2] or first) if lines else 0
    return path, first, last


def _mention(uri: str, root: Path) -> str | None:
    """Return how a question names a file of the workspace; None if the URI is of no such file."""
    file = _file(uri)
    if file is None or not file[0].is_relative_to(root):
        return None
    path, first, last = file
    return mention_of(path.relative_to(root).as_posix(), first, last)


def _attached(resource: schema.TextResourceContents, root: Path) -> Attached:
    """Return a text as it is sent along with a question."""
    text = with_line_feeds(resource.text)
    file = _file(resource.uri)
    if file is None:
        return Attached("file", escaped(resource.uri), text)
    path, first, last = file
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else os.fspath(path)
    return Attached("file", escaped(name), text, language_of(name), first, last)


def named_servers(named: Iterable[Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of each server by its name, and what to tell of those left out."""
    servers: dict[str, Any] = {}
    left_out: list[str] = []
    for one in named:
        match one:
            case schema.McpServerStdio():
                servers[one.name] = {
                    "command": [_literal(part) for part in (one.command, *one.args)],
                    "env": {pair.name: _literal(pair.value) for pair in one.env},
                }
            case schema.HttpMcpServer():
                servers[one.name] = {
                    "url": _literal(one.url),
                    "headers": {pair.name: _literal(pair.value) for pair in one.headers},
                }
            case _:
                left_out.append(
                    f"The tool server {shown(one.name)} was left out: only commands and HTTP are"
                    " supported."
                )
    return servers, left_out


def _literal(text: str) -> str:
    """Return a text in which our configuration replaces no variable."""
    return text.replace("${", "$${")
