"""Variables in the table of a tool server: which there are, and what they become."""

from __future__ import annotations

import pytest

from aish_lsp.config.schema import ToolServer
from aish_lsp.config.sources import from_client
from aish_lsp.config.variables import secret_variables_of, variables_of, with_variables
from aish_lsp.foundation.errors import InvalidArgument

ENVIRON = {"A": "one", "B": "two", "EMPTY": "", "NESTED": "${A} ~"}


def test_variables_and_the_home_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    server = ToolServer(
        command=["~/bin/${A}", "--at=${A}/${env:B}", "~", "a~b", "", "$${A}", "$A", "${A-x}"],
        env={"X": "~/${B}", "Y": "${NESTED}"},
        headers={"Z": "Bearer ${A} ~"},
        cwd="~/work",
    )
    meant = with_variables(server, ENVIRON)
    assert meant.command == [
        *("/home/me/bin/one", "--at=one/two", "/home/me", "a~b", "", "${A}", "$A", "${A-x}"),
    ]
    # What a variable holds is not read again.
    assert meant.env == {"X": "/home/me/two", "Y": "${A} ~"}
    assert meant.headers == {"Z": "Bearer one ~"}
    assert meant.cwd == "/home/me/work"
    assert with_variables(ToolServer(url="http://x/~a"), {}).url == "http://x/~a"


@pytest.mark.parametrize("name", ["GONE", "EMPTY"])
@pytest.mark.parametrize(
    ("key", "server"),
    [
        ("command", ToolServer(command=["x", "${NAME}"])),
        ("env", ToolServer(command=["x"], env={"A": "${NAME}"})),
        ("cwd", ToolServer(command=["x"], cwd="${NAME}")),
        ("url", ToolServer(url="http://${NAME}/")),
        ("headers", ToolServer(url="http://x/", headers={"A": "${NAME}"})),
    ],
)
def test_a_variable_that_is_not_set_is_named(name: str, key: str, server: ToolServer) -> None:
    with pytest.raises(InvalidArgument) as caught:
        with_variables(_named(server, name), ENVIRON)
    assert caught.value.message == (
        f"the variable {name} of its `{key}` is not set in aish's environment"
    )


def _named(server: ToolServer, name: str) -> ToolServer:
    def put(text: str) -> str:
        return text.replace("NAME", name)

    return ToolServer(
        command=[*map(put, server.command)] if server.command else None,
        url=put(server.url) if server.url else None,
        env={key: put(text) for key, text in server.env.items()},
        headers={key: put(text) for key, text in server.headers.items()},
        cwd=put(server.cwd) if server.cwd else None,
    )


def test_all_variables_are_known_and_which_of_them_are_secret() -> None:
    server = ToolServer(
        command=["${TOOLS}/x", "--token", "${FIRST}", "--key=${env:SECOND}", "--port", "${PORT}"],
        env={"GITHUB_TOKEN": "${THIRD}", "PATH": "${HOME}/bin"},
        headers={"Authorization": "Bearer ${FOURTH}", "X-Project": "${PROJECT}"},
        url="https://${HOST}/s/${FIFTH}/mcp?apikey=${SIXTH}",
    )
    assert variables_of(server) == [
        *("TOOLS", "FIRST", "SECOND", "PORT", "THIRD", "HOME", "FOURTH", "PROJECT", "HOST"),
        *("FIFTH", "SIXTH"),
    ]
    secret = ["FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH", "SIXTH"]
    assert secret_variables_of(server) == secret


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("https://x/mcp?api_key=abcdef0123456789", True),
        ("https://user:word@x/mcp", True),
        ("https://${HOST}/mcp?key=ghp_abcdefghijklmnopqrstuvwxyz0123456789", True),
        ("https://x/mcp?api_key=${KEY}", False),
        ("https://${USER}:${WORD}@x/mcp", False),
        ("${URL}", False),
        ("https://x:${PORT}/", False),
    ],
)
def test_a_key_in_an_address_is_refused_and_a_variable_is_not(url: str, is_refused: bool) -> None:
    layer = from_client({"tools": {"servers": {"s": {"url": url}}}}, "editor")
    assert [problem.path for problem in layer.problems] == (
        ["tools.servers.s.url"] if is_refused else []
    )
    # A tool server has none of a model's keys.
    assert all("api_key" not in problem.message for problem in layer.problems)
    assert all("write ${NAME}" in problem.message for problem in layer.problems)
