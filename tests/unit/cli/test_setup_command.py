"""``aish-lsp setup`` at a real terminal, and without one."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import stat
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command_line import at_terminal, run_main
from fault_server import FaultServer, Peer, Request, chunk_of, unused_port

from aish_lsp.cli import setup
from aish_lsp.cli.command import open_workspace
from aish_lsp.models import endpoint, fetching
from aish_lsp.models.endpoint import LOCAL_PORTS

#: A keyring that takes nothing.
FAILING = "keyring.backends.fail.Keyring"


async def served(request: Request, peer: Peer) -> None:
    """Serve two models, and say hello."""
    if not request.path.endswith("/chat/completions"):
        models = [{"id": name, "owned_by": "vllm", "max_model_len": 8192} for name in ("a", "b")]
        await peer.reply({"data": models})
        return
    if request.json["model"] == "a":
        await peer.reply({"error": {"message": "out of memory"}}, "400 Bad Request")
        return
    await peer.head()
    await peer.event(chunk_of("Hello\x1b[2J there."))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "AISH_DATA_DIR": str(tmp_path / "data"),
        "AISH_CONFIG": str(tmp_path / "config.toml"),
        "AISH_DISCOVERY": "off",
        "SOME_KEY": "hunter2-hunter2",
    }


async def terminal(
    environment: dict[str, str], answers: dict[str, str], code: int, cwd: Path
) -> str:
    arguments = ["setup", "--workspace", str(cwd)]
    said: str = await asyncio.to_thread(at_terminal, environment, arguments, answers, code=code)
    return said


@pytest.mark.slow
async def test_a_server_is_set_up_by_its_address_and_asked(
    environment: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("# mine\n[context]\nmax_turns = 10\n")
    async with FaultServer(served) as server:
        answers = {
            "Which one should answer?": "1\n",
            "Its address": f"{server.url}\n",
            "that holds its key": "SOME_KEY\n",
            "Which of its models?": "3\n",
            "Which one, then?": "2\n",
            "A name for it in config.toml [local]": "\n",
            "Write it? [Y/n]": "\n",
        }
        said = await terminal(environment, answers, 0, tmp_path)
        [asked] = [one for one in server.requests if one.path.endswith("/chat/completions")]
    assert "Hello\\x1b[2J there." in said
    assert "It works." in said
    assert str(tmp_path) not in asked.body.decode()
    assert config.read_text() == (
        "# mine\n[context]\nmax_turns = 10\n\n[models.local]\n"
        f'endpoint = "{server.url}"\nmodel = "b"\napi_key_env = "SOME_KEY"\n'
    )
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [data for data in kept if b"hunter2" in data]


async def test_enter_alone_ends_without_a_key(environment: dict[str, str], tmp_path: Path) -> None:
    answers = {
        "Which one should answer?": "4\n",
        "Paste the key": "\n",
        "Which one, then? [3]": "\n",
        "Nothing needed to be written.": "",
    }
    await terminal(environment, answers, 0, tmp_path)
    assert not (tmp_path / "config.toml").exists()


@pytest.mark.slow
async def test_the_key_that_a_server_wants_is_pasted(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async def guarded(request: Request, peer: Peer) -> None:
        if request.headers.get("authorization") == "Bearer pasted-key-of-mine":
            await served(request, peer)
        else:
            await peer.reply({"error": {"message": "no key"}}, "401 Unauthorized")

    config = tmp_path / "config.toml"
    async with FaultServer(guarded) as server:
        answers = {
            "Which one should answer?": "1\n",
            "Its address": f"{server.url}\n",
            "that holds its key": "\n",
            "The server wants a key.": "",
            "Paste the key": "pasted-key-of-mine\n",
            "Which of its models?": "2\n",
            "A name for it": "\n",
            "Write it?": "\n",
        }
        said = await terminal(
            {**environment, "PYTHON_KEYRING_BACKEND": FAILING}, answers, 0, tmp_path
        )
    assert "It works." in said
    assert "pasted-key" not in said
    assert "pasted-key" not in config.read_text()
    assert "pasted-key-of-mine" in (tmp_path / "keys.env").read_text()


@pytest.mark.slow
async def test_a_model_that_does_not_answer_stays_configured_and_is_told(
    environment: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[models.first]\nprovider = "offline"\n')
    async with FaultServer(served) as server:
        answers = {
            "Which one should answer?": "1\n",
            "Its address": f"{server.url}\n",
            "that holds its key": "\n",
            "Which of its models?": "a\n",
            "A name for it in config.toml [local]": "first\n",
            "Another name [local]": "second\n",
            "in place of first? [Y/n]": "y\n",
            "Write it? [Y/n]": "y\n",
        }
        said = await terminal(environment, answers, 1, tmp_path)
    assert "out of memory" in " ".join(said.split())
    assert "second is configured, but did not answer" in said
    assert config.read_text().startswith('default_model = "second"\n\n[models.first]\n')


@pytest.mark.slow
async def test_a_model_that_the_server_does_not_list_is_taken_only_if_typed_again(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with FaultServer(served) as server:
        answers = {
            "Which one should answer?": "1\n",
            "Its address": f"{server.url}\n",
            "that holds its key": "\n",
            "Which of its models?": "bb\n",
            'does not list "bb"; did you mean "b"?': "",
            "Which one, then?": "bb\n",
            "How many?": "\n",
            "A name for it": "\n",
            "Write it?": "\n",
        }
        assert "It works." in await terminal(environment, answers, 0, tmp_path)
    assert 'model = "bb"\n' in (tmp_path / "config.toml").read_text()


@pytest.mark.slow
async def test_a_no_an_end_and_a_key_in_a_variables_place_write_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with FaultServer(served) as server:
        address = {
            "Which one should answer?": "1\n",
            "Its address": f"{server.url}\n",
        }
        no = address | {"its key": "\n", "models?": "\n", "toml [local]": "\n", "Write it?": "n\n"}
        assert "Nothing was written." in await terminal(environment, no, 1, tmp_path)
        end = address | {"its key": "hunter2\n", "Which one, then?": "\x04"}
        assert "Nothing was written." in await terminal(environment, end, 1, tmp_path)
    assert "offline model" in await terminal(environment, {"answer?": "3\n"}, 0, tmp_path)
    assert not (tmp_path / "config.toml").exists()


@pytest.mark.parametrize(("has_engine", "default"), [(True, 2), (False, 4)])
async def test_enter_is_a_small_model_where_nothing_is_found_or_else_a_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, has_engine: bool, default: int
) -> None:
    engines = tmp_path / "engines"
    engines.mkdir()
    if has_engine:
        (engines / "llama-server").write_text("#!/bin/sh\n")
        (engines / "llama-server").chmod(0o755)
    monkeypatch.setenv("PATH", str(engines))
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{unused_port()}")
    monkeypatch.setattr(fetching, "find_spec", lambda _name: None)
    asked: list[str] = []

    async def read_line(question: str) -> None:
        asked.append(question)

    monkeypatch.setattr(setup, "read_line", read_line)
    async with open_workspace(argparse.Namespace(workspace=tmp_path)) as workspace:
        with pytest.raises(setup._Stopped):
            await setup._choose(workspace, [])
    assert asked == [f"Which one should answer? [{default}] "]


@pytest.mark.slow
async def test_a_provider_without_a_key_says_where_to_get_one_and_no_key_writes_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    asking = {key: value for key, value in environment.items() if key != "MISTRAL_API_KEY"}
    answers = {
        "Mistral, mistral-small-latest": "",
        "one should answer?": "9\n",
        "Paste the key": "\n",
        "one, then?": "3\n",
    }
    said = await terminal(asking, answers, 0, tmp_path)
    assert "Mistral: get a key at https://console.mistral.ai/api-keys" in said
    assert not (tmp_path / "config.toml").exists()
    assert not (tmp_path / "keys.env").exists()


@pytest.mark.slow
async def test_a_pasted_key_is_not_shown_and_another_one_is_asked_for_where_it_is_refused(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The provider is reached through a proxy, which is ours and speaks no TLS."""
    asking = {key: value for key, value in environment.items() if key != "OPENAI_API_KEY"}

    async def locked(request: Request, peer: Peer) -> None:
        if request.headers.get("authorization") == "Bearer sk-right":
            await served(request, peer)
        else:
            await peer.reply({"error": {"message": "Incorrect API key"}}, "401 Unauthorized")

    providers = Path(endpoint.__file__).with_name("providers.toml").read_text()
    async with FaultServer(locked) as server:
        (tmp_path / "site").mkdir()
        changed = providers.replace("https://api.openai.com/v1", f"{server.url}/v1")
        (tmp_path / "providers.toml").write_text(changed)
        (tmp_path / "site" / "sitecustomize.py").write_text(
            "from pathlib import Path\nread = Path.read_text\n"
            "Path.read_text = lambda self, *a, **k: read("
            f"Path({str(tmp_path)!r}, self.name) if self.name == 'providers.toml' else self,"
            " *a, **k)\n"
        )
        answers = {
            "should answer?": "4\n",
            "Paste the key": " sk-wrong\r\n",
            "Which model?": "b\n",
            "A name for it": "cloud\n",
            "Write it?": "y\n",
            "Paste another key": "sk-right\n",
        }
        asking |= {"PYTHONPATH": str(tmp_path / "site"), "PYTHON_KEYRING_BACKEND": FAILING}
        said = await terminal(asking, answers, 0, tmp_path)
    assert "sk-wrong" not in said
    assert "sk-right" not in said
    assert "It works." in said
    keys = tmp_path / "keys.env"
    assert keys.read_text() == "OPENAI_API_KEY=sk-right\n"
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert "sk-" not in (tmp_path / "config.toml").read_text()


@pytest.mark.slow
async def test_the_window_that_a_server_does_not_tell_is_asked_for(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async def silent(request: Request, peer: Peer) -> None:
        if request.path.endswith("/chat/completions"):
            await served(request, peer)
        else:
            await peer.reply({"data": [{"id": "b"}]})

    async with FaultServer(silent) as server:
        answers = {
            "Which one should answer?": "1\n",
            "Its address": f"{server.url.removeprefix('http://')}\n",
            "that holds its key": "\n",
            "Which model? [b]": "\n",
            "How many?": "many\n",
            "How many, then?": "32,768\n",
            "A name for it": "\n",
            "Write it?": "\n",
        }
        assert "It works." in await terminal(environment, answers, 0, tmp_path)
    assert "context_window = 32768\n" in (tmp_path / "config.toml").read_text()


def test_without_a_terminal_it_says_what_to_do(
    environment: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*arguments: str, **env: str) -> CompletedProcess[str]:
        return run_main(capsys, "setup", *arguments, environment=environment | env)

    monkeypatch.chdir(tmp_path)
    done = run()
    assert (done.returncode, done.stdout) == (1, "Nothing was found.\n")
    assert "run it in a terminal" in done.stderr
    assert "export OPENAI_API_KEY=YOUR-KEY" in done.stderr
    done = run(AISH_DISCOVERY="", GROQ_API_KEY="k" * 20)
    assert done.returncode == 1
    assert "api.groq.com, with the key in GROQ_API_KEY" in done.stdout
    assert "run it in a terminal" in done.stderr
    found = json.loads(run("--json", AISH_DISCOVERY="", GROQ_API_KEY="k" * 20).stdout)["found"]
    assert "GROQ_API_KEY" in [one["preset"]["apiKeyEnv"] for one in found]
    assert len(found) <= len(LOCAL_PORTS) + 1
    assert not (tmp_path / "config.toml").exists()
