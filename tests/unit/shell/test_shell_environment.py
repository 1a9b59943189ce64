from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.shell import environment
from aish_lsp.shell.environment import (
    command_environment,
    login_environment,
    program_not_found,
    reading_environment,
    secret_values,
)


def test_our_keys_are_withheld_and_the_rest_is_kept() -> None:
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
        "MY_KEY": "mine",
        "OPENAI_API_KEY": "o",
        "ANTHROPIC_API_KEY": "",
        "MY_OTHER": "kept",
    }
    env = command_environment(environ, {"MY_KEY", "NOT_SET"})
    assert {name: env.get(name) for name in environ} == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
        "MY_KEY": None,
        "OPENAI_API_KEY": None,
        "ANTHROPIC_API_KEY": None,
        "MY_OTHER": "kept",
    }


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("MY_KEY", "mine-0123456789", {"mine-0123456789"}),
        ("OPENAI_API_KEY", "k-0123456789", {"k-0123456789"}),
        ("DB_PASSWORD", "hunter2", {"hunter2"}),
        ("PGPASSWORD", "correct horse battery staple", {"correct horse battery staple"}),
        ("MYSQL_PWD", "trustno1", {"trustno1"}),
        ("github_token", " abcdefghij\n", {"abcdefghij"}),
        ("STRIPE_SECRET", "xyzzyxyzzy", {"xyzzyxyzzy"}),
        ("NPM_CONFIG__AUTH", "bmFtZTpwYXNz", {"bmFtZTpwYXNz"}),
        (
            "DATABASE_URL",
            "postgres://app:p%40ss-word(1)@db/app",
            {"p%40ss-word(1)", "p@ss-word(1)"},
        ),
        ("ANYTHING", "amqp://u:hunter22@mq", {"hunter22"}),
        ("CONNECTION", "Server=db;Password=hunter22;", {"hunter22"}),
        ("SENTRY_DSN", "https://0123456789abcdef@sentry.example/1", {"0123456789abcdef"}),
        ("PWD", "/home/somebody/project", set()),
        ("OLDPWD", "/home/somebody/project", set()),
        ("SSH_AUTH_SOCK", "/tmp/ssh-1234567/agent.1", set()),
        ("DEPLOY_KEY_PATH", "/somewhere/deploy_key", set()),
        ("DB_PASSWORD_FILE", "/run/secrets/database", set()),
        ("HOST_PWD", "/usr", set()),
        ("GIT_ASKPASS", "/usr/lib/git-core/askpass", set()),
        ("TOKENIZERS_PARALLELISM", "parallelism", set()),
        ("MAX_TOKENS", "200000000", set()),
        ("SECRET_NAME", "prod/database/main", set()),
        ("MONKEY", "chimpanzee", set()),
        ("EDITOR", "emacsclient", set()),
        ("USE_TOKEN", "true", set()),
        ("DB_PASSWORD", "1", set()),
        ("DB_PASSWORD", "root", set()),
        ("DB_PASSWORD", "Postgres", set()),
        ("API_KEY", "ollama", set()),
        ("API_KEY", "", set()),
    ],
)
def test_secrets_are_known_by_their_names_or_forms(
    name: str, value: str, secrets: set[str]
) -> None:
    assert secret_values({name: value}, {"MY_KEY"}) == secrets


def test_a_service_account_is_taken_apart() -> None:
    label = "PRIVATE " + "KEY-----"
    key = f"-----BEGIN {label}\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END {label}\n"
    account = json.dumps({"type": "service_account", "project_id": "project", "private_key": key})
    found = secret_values({"GOOGLE_CREDENTIALS": account}, ())
    assert {account, key} <= found
    assert not {"service_account", "project"} & found


def test_nothing_waits_for_a_terminal_or_prints_colors() -> None:
    env = command_environment({"TERM": "xterm", "PAGER": "less", "FORCE_COLOR": "1"}, ())
    assert env["TERM"] == "dumb"
    assert env["PAGER"] == env["GIT_PAGER"] == "cat"
    assert env["GIT_TERMINAL_PROMPT"] == "0"
    assert env["NO_COLOR"] == "1"
    assert "FORCE_COLOR" not in env


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A virtual environment that we seem to run from."""
    folder = tmp_path / "own"
    (folder / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    return folder


def test_an_active_virtual_environment_is_kept(own: Path) -> None:
    environ = {"PATH": f"{own}/bin:/bin", "VIRTUAL_ENV": str(own)}
    assert command_environment(environ, ()).items() >= environ.items()


def test_our_own_virtual_environment_is_not_passed_off_as_the_users(own: Path) -> None:
    link = own.parent / "link"
    link.symlink_to(own)
    environ = {"PATH": f"{own}/bin:/theirs/bin:{link}/bin:/bin:", "VIRTUAL_ENV": "/theirs"}
    env = command_environment(environ, ())
    assert env["PATH"] == "/theirs/bin:/bin:"
    assert env["VIRTUAL_ENV"] == "/theirs"


def test_without_a_path_there_is_none(own: Path) -> None:
    assert "PATH" not in command_environment({}, ())


def test_outside_of_a_virtual_environment_the_path_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert command_environment({"PATH": "/usr/bin:/bin"}, ())["PATH"] == "/usr/bin:/bin"


def test_what_only_reads_gets_no_secrets() -> None:
    given = {
        "PATH": "/home/token=abc123def456/bin",
        "DB_PASSWORD": "hunter22-and-more",
        "DATABASE_URL": "postgres://user:hunter22@host/db",
        "DB": "mysql://user:s3cret-pw@host/db",
        "LANG": "C",
        "TOKEN_FILE": "/run/token",
        "ROOT_PASSWORD": "root",
    }
    assert reading_environment(given, with_secrets=True).items() >= given.items()
    env = reading_environment(given)
    assert {name: env[name] for name in given} == {
        **given,
        "DB_PASSWORD": "[secret]",
        "DATABASE_URL": "postgres://user:[secret]@host/db",
        "DB": "mysql://user:[secret]@host/db",
    }


@pytest.mark.slow
async def test_a_login_shells_environment_is_what_its_start_up_files_set(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text(
        "echo welcome; export TOOLS='/opt/a b' LINES_OF='one\ntwo'; cd /; . ~/.bashrc\n"
    )
    (tmp_path / ".bashrc").write_text("export INTERACTIVE=$-\n")
    own = {"HOME": str(tmp_path), "SHELL": "/bin/bash", "PATH": "/usr/bin:/bin", "KEPT": "yes"}
    env = await login_environment(own)
    assert (env["TOOLS"], env["LINES_OF"], env["KEPT"]) == ("/opt/a b", "one\ntwo", "yes")
    assert "i" in env["INTERACTIVE"]
    assert "PWD" not in env


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "profile", "reason"),
    [
        ("/nowhere/sh", "", "No such file"),
        ("/bin/bash", "exit 1", "did not report"),
        ("/bin/bash", "sleep 600", "had not started"),
    ],
)
async def test_a_login_shell_that_does_not_start_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, profile: str, reason: str
) -> None:
    monkeypatch.setattr(environment, "_LOGIN_SECONDS", 1.0 if "sleep" in profile else 60.0)
    (tmp_path / ".bash_profile").write_text(f"{profile}\n")
    own = {"HOME": str(tmp_path), "SHELL": shell, "PATH": "/usr/bin:/bin"}
    with pytest.raises(StoreUnavailable, match=reason):
        await login_environment(own)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("bash: line 1: rg: command not found\n", "rg"),
        ("sh: 1: rg: not found\n", "rg"),
        ("zsh:1: command not found: rg\n", "rg"),
        ("fish: Unknown command: rg\n", "rg"),
        ("bash: Zeile 1: rg: Befehl nicht gefunden.\n", "rg"),
        ("bash: ligne 1 : rg : commande introuvable\n", "rg"),
        ("bash: \u884c 1: rg: \u672a\u627e\u5230\u547d\u4ee4\n", "rg"),
        ("/usr/bin/env: \u2018rg\u2019: No such file or directory\n", "rg"),
        ("nohup: failed to run command 'rg': No such file or directory\n", "rg"),
        ("xargs: rg: No such file or directory\n", "rg"),
        ("bash: line 1: ./rg: No such file or directory\n", ""),
        ("make: *** [Makefile:2: x] Error 127\n", ""),
        ("", ""),
    ],
)
def test_the_program_that_was_not_found(said: str, name: str) -> None:
    assert program_not_found(said) == name
