"""Environment variables in settings: ``${NAME}`` in the table of a tool server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.redaction import is_secret_name, is_secret_variable

if TYPE_CHECKING:
    from aish_lsp.config.schema import ToolServer

#: A variable, as aish and others (``env:``) write it; with a second ``$`` in front, it is text.
VARIABLE: Final = re.compile(r"(\$?)\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(text: str) -> list[str]:
    """Return the names of the variables in ``text``."""
    return [match[2] for match in VARIABLE.finditer(text) if not match[1]]


def _texts(server: ToolServer) -> Iterator[tuple[str, str, str]]:
    """Yield the key, what stands before or names the text, and each text with variables."""
    before = ""
    for part in server.command or ():
        yield "command", before, part
        before = part
    for name, text in server.env.items():
        yield "env", name, text
    for name, text in server.headers.items():
        yield "headers", name, text
    yield "url", "", server.url or ""
    yield "cwd", "", server.cwd or ""


def variables_of(server: ToolServer) -> list[str]:
    """Return the names of the variables that a server's table has, in their order."""
    return list(dict.fromkeys(name for *_, text in _texts(server) for name in names_in(text)))


def secret_variables_of(server: ToolServer) -> list[str]:
    """Return the names of those variables that hold a secret, by where they stand."""
    return [
        name
        for key, about, text in _texts(server)
        for name in names_in(text)
        # In an argument or an address, what stands before the value names it.
        if is_secret_variable(name)
        or is_secret_name(about.strip("-"))
        or is_secret_name(text[: text.find(name)].removesuffix("env:").rstrip("${=: "))
        # Some services have the key in the path of the address.
        or (key == "url" and re.search(r"://[^/?]+[/?].*" + name, text))
    ]


def with_variables(server: ToolServer, environ: Mapping[str, str]) -> ToolServer:
    """Return a server's table with its variables, and ``~`` for the user's home, replaced.

    Raises:
        InvalidArgument: a variable is not set; the message names it.
    """

    def put(key: str, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1]:
                return match[0][1:]
            if variable := environ.get(match[2]):
                return variable
            raise InvalidArgument(
                f"the variable {match[2]} of its `{key}` is not set in aish's environment"
            )

        # Not in what a variable holds: that is not ours to read.
        if key not in ("url", "headers"):
            text = os.path.expanduser(text)  # noqa: PTH111 - as a shell
        return VARIABLE.sub(value, text)

    url = put("url", server.url) if server.url else None
    if url and not _is_address(url):
        raise InvalidArgument("its `url` is no http or https address with its variables replaced")
    return replace(
        server,
        command=[put("command", part) for part in server.command] if server.command else None,
        env={name: put("env", text) for name, text in server.env.items()},
        headers={name: put("headers", text) for name, text in server.headers.items()},
        url=url,
        cwd=put("cwd", server.cwd) if server.cwd else None,
    )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
