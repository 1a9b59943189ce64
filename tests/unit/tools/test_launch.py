"""How a tool server is started, and what the grant of a workspace's server is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aish_lsp.config.schema import ToolServer
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.tools.servers import digest_of, question_about
from aish_lsp.tools.transports import environment_of, folder_of

ENVIRON = {
    "PATH": "/bin",
    "OPENAI_API_KEY": "sk-secret",
    "HTTPS_PROXY": "http://proxy:3128",
    "no_proxy": "localhost",
    "SSL_CERT_FILE": "/certs.pem",
    "NODE_EXTRA_CA_CERTS": "/more.pem",
}


def test_a_server_gets_the_proxies_and_certificates_and_no_secrets() -> None:
    server = ToolServer(command=["x"], env={"SSL_CERT_FILE": "/own.pem"})
    assert environment_of(server, ENVIRON) == {
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "localhost",
        "SSL_CERT_FILE": "/own.pem",
        "NODE_EXTRA_CA_CERTS": "/more.pem",
    }


def test_a_folder_is_that_of_the_workspace_or_the_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").touch()
    assert folder_of(ToolServer(command=["x"]), tmp_path) == tmp_path
    assert folder_of(ToolServer(command=["x"], cwd="sub"), tmp_path) == tmp_path / "sub"
    assert folder_of(ToolServer(command=["x"], cwd="/"), tmp_path) == Path("/")
    for name in ("gone", "file"):
        with pytest.raises(InvalidArgument, match=f"its `cwd` .*{name} is not a folder"):
            folder_of(ToolServer(command=["x"], cwd=name), tmp_path)


SERVER = ToolServer(
    command=["${TOOLS}/serve", "--to", "${TARGET}"], env={"TOKEN": "${MY_TOKEN}"}, cwd="${TOOLS}"
)
GIVEN = {"TOOLS": "/opt", "TARGET": "db", "MY_TOKEN": "first"}
REMOTE = ToolServer(url="https://${HOST}/mcp", headers={"Authorization": "${MY_TOKEN}"})


@pytest.mark.parametrize(
    ("server", "changed", "is_granted"),
    [
        (SERVER, {"MY_TOKEN": "second"}, True),
        (SERVER, {"TARGET": "other"}, False),
        (SERVER, {"TOOLS": "/tmp/evil"}, False),
        (REMOTE, {"MY_TOKEN": "second"}, True),
        (REMOTE, {"HOST": "evil.example"}, False),
    ],
)
def test_a_grant_is_for_what_runs_and_where_and_not_for_a_keys_value(
    server: ToolServer, changed: dict[str, str], is_granted: bool
) -> None:
    given = {**GIVEN, "HOST": "tools.example"}
    assert (digest_of(server, given) == digest_of(server, {**given, **changed})) is is_granted


@pytest.mark.parametrize(
    "other",
    [
        replace(SERVER, command=["/opt/serve", "--to", "elsewhere"]),
        replace(SERVER, cwd=None),
        replace(SERVER, env={"TOKEN": "${OPENAI_API_KEY}"}),
        replace(SERVER, env={**SERVER.env, "LD_PRELOAD": "x.so"}),
    ],
)
def test_a_grant_is_for_one_table(other: ToolServer) -> None:
    given = {**ENVIRON, **GIVEN}
    assert digest_of(SERVER, given) != digest_of(other, given)


def test_a_server_with_a_variable_that_is_not_set_has_nothing_to_grant() -> None:
    with pytest.raises(InvalidArgument, match="TOOLS"):
        digest_of(SERVER, {})


def test_the_question_names_each_variable_and_shows_no_keys_value() -> None:
    given = {**GIVEN, "MY_TOKEN": "tok-123456"}
    asked = question_about("s", SERVER, given).message
    assert '    s: ["${TOOLS}/serve", "--to", "${TARGET}"]\n' in asked
    assert "    in the folder ${TOOLS}\n" in asked
    assert "    TOKEN=${MY_TOKEN}\n" in asked
    assert "    with your variable TOOLS: /opt\n" in asked
    assert "    with your variable TARGET: db\n" in asked
    assert "    with your variable MY_TOKEN, whose value is not shown here\n" in asked
    assert "tok-123456" not in asked


def test_a_key_in_an_argument_is_not_shown_either() -> None:
    key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    server = ToolServer(command=["serve", "--token", "${ONE}", "${TWO}"])
    asked = question_about("s", server, {"ONE": "hidden-1", "TWO": key}).message
    assert "hidden-1" not in asked
    assert key not in asked
    assert asked.count("whose value is not shown here") == 2
