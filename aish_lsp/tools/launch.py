"""How a tool server is started: its command, folder and environment, and what a grant is for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aish_lsp.config.variables import names_in, secret_variables_of, variables_of, with_variables
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.redaction import is_secret
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.models.address import origin

if TYPE_CHECKING:
    from aish_lsp.config.schema import ToolServer

#: The variables of our environment that a server gets: those that it needs to run and to reach
#: others through the user's proxies, and no secrets besides those in a proxy's address.
_INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ"),
    *("USER", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
)


def environment_of(server: ToolServer, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server whose variables are replaced."""
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    return {**inherited, **server.env}


def folder_of(server: ToolServer, root: Path) -> Path:
    """Return the folder in which a server runs.

    Raises:
        InvalidArgument: there is no such folder.
    """
    folder = root / (server.cwd or "")
    if not folder.is_dir():
        raise InvalidArgument(f"its `cwd` {escaped(str(folder))[:200]} is not a folder")
    return folder


def command_of(server: ToolServer, root: Path, environment: Mapping[str, str]) -> list[str]:
    """Return a server's command with the absolute path of its program.

    Raises:
        NotFound: its program is not installed.
    """
    program, *arguments = server.command or [""]
    if os.path.dirname(program):  # noqa: PTH120 - as a shell
        program = str(root / program)
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise NotFound(
            f"{escaped(program)[:80]} is not installed, or not on PATH. If your login shell finds"
            " it, `login = true` under `[shell]` helps"
        )
    return [os.path.abspath(found), *arguments]  # noqa: PTH100 - links are not followed


# What a workspace asks for


def digest_of(server: ToolServer, environ: Mapping[str, str]) -> str:
    """Return a hash of the command that would run, or of the address that would be used.

    Variables in the command and in the folder count with their values, and so does the host;
    a key may change.

    Raises:
        InvalidArgument: a variable is not set.
    """
    meant = with_variables(server, environ)
    settings: list[object] = [meant.command, server.env, server.url, server.headers]
    if server.cwd or names_in(server.url or ""):
        settings += [meant.cwd, origin(meant.url or "")]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def question_about(name: str, server: ToolServer, environ: Mapping[str, str]) -> Question:
    """Return the question whether a server may start that the workspace asks for.

    It names each variable that the server would get, with what decides what runs and where.
    """
    lines = [f"    {escaped(name)}: {escaped(json.dumps(server.command or server.url))}"]
    lines += [f"    in the folder {escaped(server.cwd)}"] if server.cwd else []
    lines += [f"    {escaped(key)}={escaped(value)}" for key, value in server.env.items()]
    lines += [f"    {escaped(key)}: {escaped(value)}" for key, value in server.headers.items()]
    deciding = {
        one
        for text in [*(server.command or ()), server.cwd or "", server.url or ""]
        for one in names_in(text)
    } - set(secret_variables_of(server))
    for one in variables_of(server):
        value = environ.get(one, "")
        if one not in deciding or is_secret(value):
            lines.append(f"    with your variable {one}, whose value is not shown here")
        else:
            lines.append(f"    with your variable {one}: {cut(escaped(value), 200)}")
    whole = "\n".join(lines)
    return Question(
        "This workspace asks for a tool server, which runs as you do and is not confined:\n\n"
        f"{whole[:800]}\n\nStart exactly this, now and later?",
        yes="Start it",
        whole=whole if len(whole) > 800 else "",
    )
