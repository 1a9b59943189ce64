"""The tool servers (MCP) that a client names, as our configuration has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from acp import schema

from aish_lsp.foundation.text import shown


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
