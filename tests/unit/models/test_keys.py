"""Keys from the environment and from commands, never shown."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models import keys
from aish_lsp.models.keys import key_of, resolve_key
from aish_lsp.models.providers import protocol


def printing(text: str, then: str = "") -> list[str]:
    """Return a command that prints ``text``; no two tests share one."""
    return [sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); {then}"]


async def test_no_setting_no_key() -> None:
    assert await resolve_key(Preset(), {"OPENAI_API_KEY": "sk"}) is None


async def test_from_the_environment() -> None:
    assert await resolve_key(Preset(api_key_env="K"), {"K": " sk-1\n"}) == "sk-1"


@pytest.mark.parametrize("environ", [{}, {"K": ""}, {"K": "  "}])
async def test_a_variable_that_is_not_set(environ: dict[str, str]) -> None:
    with pytest.raises(BackendRejected, match=r"K is not set.*'mine'"):
        await resolve_key(Preset(name="mine", api_key_env="K"), environ)


@pytest.mark.parametrize("key", ["sk-geheim\nsk-2", "sk-geheim sk-2", "sk-gehéim", "sk-geheim\x00"])
async def test_what_is_no_key_is_not_shown(key: str) -> None:
    with pytest.raises(BackendRejected, match="K holds something that is not a key") as caught:
        await resolve_key(Preset(api_key_env="K"), {"K": key})
    assert "geh" not in str(caught.value)


async def test_from_a_command_without_a_shell(tmp_path: Path) -> None:
    command = printing("$HOME;sk-2\nsecond line\n")
    assert await resolve_key(Preset(api_key_command=command), {}) == "$HOME;sk-2"


async def test_a_command_is_asked_once_until_its_key_is_refused(tmp_path: Path) -> None:
    count = tmp_path / "count"
    then = f"f = open({str(count)!r}, 'a'); f.write('x'); f.close()"
    preset = Preset(api_key_command=printing("sk-3", then))
    for _ in range(2):
        assert await resolve_key(preset, {}) == "sk-3"
    assert count.read_text() == "x"
    for status, asked in ((500, "x"), (401, "xx"), (403, "xxx")):
        with pytest.raises(BackendRejected), key_of(preset):
            raise BackendRejected("no", status=status)
        assert await resolve_key(preset, {}) == "sk-3"
        assert count.read_text() == asked
    with pytest.raises(BackendRejected), key_of(Preset()):
        raise BackendRejected("no", status=401)


async def test_a_key_printed_after_another_question_was_refused_is_kept(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    preset = Preset(api_key_command=["sh", "-c", f"echo >> {runs}; wc -l < {runs}"])
    assert await resolve_key(preset, {}) == "1"
    refused = BackendRejected("no", status=401)
    slower = key_of(preset)
    slower.__enter__()
    with pytest.raises(BackendRejected), key_of(preset):
        raise refused
    assert await resolve_key(preset, {}) == "2"
    assert not slower.__exit__(BackendRejected, refused, None)
    assert await resolve_key(preset, {}) == "2"


async def test_questions_at_the_same_time_run_a_command_once(tmp_path: Path) -> None:
    """A password manager asks its user each time."""
    runs = tmp_path / "runs"
    preset = Preset(api_key_command=["sh", "-c", f"echo >> {runs}; echo sk-5"])
    assert await asyncio.gather(*(resolve_key(preset, {}) for _ in range(3))) == ["sk-5"] * 3
    assert len(runs.read_text()) == 1


async def headers_of(preset: Preset, environ: dict[str, str]) -> dict[str, str]:
    return await protocol(preset.provider).headers(preset, environ)


async def test_the_key_stands_in_the_header_that_the_provider_reads() -> None:
    own = {"x-own": "1"}
    preset = Preset(provider="gemini", api_key_env="K", extra_headers=own)
    assert await headers_of(preset, {"K": "sk-4"}) == {"x-goog-api-key": "sk-4"} | own
    cloud = replace(preset, endpoint="https://aiplatform.googleapis.com/v1/projects/p/x")
    assert await headers_of(cloud, {"K": "sk-4"}) == {"Authorization": "Bearer sk-4"} | own
    assert await headers_of(replace(preset, api_key_env=None), {}) == own


@pytest.mark.parametrize(
    ("extra", "headers"),
    [
        ({}, {"x-api-key": "sk-6", "anthropic-version": "2023-06-01"}),
        (
            {"authorization": "Bearer proxy", "Anthropic-Version": "2030-01-01"},
            {"authorization": "Bearer proxy", "Anthropic-Version": "2030-01-01"},
        ),
        ({"X-API-Key": "own"}, {"anthropic-version": "2023-06-01", "X-API-Key": "own"}),
    ],
)
async def test_anthropics_headers_and_a_proxys_own(
    extra: dict[str, str], headers: dict[str, str]
) -> None:
    preset = Preset(provider="anthropic", api_key_env="K", extra_headers=extra)
    assert await headers_of(preset, {"K": "sk-6"} if not extra else {}) == headers


async def test_ollamas_cloud_reads_the_key_where_others_have_it() -> None:
    preset = Preset(provider="anthropic", api_key_env="K", endpoint="https://ollama.com")
    headers = {"Authorization": "Bearer sk-6", "anthropic-version": "2023-06-01"}
    assert await headers_of(preset, {"K": "sk-6"}) == headers


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/no/such/program"], "cannot be run: No such file"),
        (["echo", "a\0b"], "cannot be run: embedded null byte"),
        (["echo", "\ud83d"], "cannot be run: 'utf-8' codec"),
        (printing("sk-secret", "sys.exit(3)"), "exit code 3"),
        (printing(""), "gave nothing"),
        (printing("sk secret"), "not a key"),
    ],
)
async def test_commands_that_fail(command: list[str], message: str) -> None:
    with pytest.raises(BackendRejected, match=message) as caught:
        await resolve_key(Preset(api_key_command=command), {})
    assert "secret" not in str(caught.value)


async def test_a_command_that_failed_is_not_run_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question asks for the key several times; the user is to wait, or be asked, once."""
    runs = tmp_path / "runs"
    preset = Preset(api_key_command=["sh", "-c", f"echo >> {runs}; exit 3"])
    for _ in range(3):
        with pytest.raises(BackendRejected, match="exit code 3"):
            await resolve_key(preset, {})
    assert len(runs.read_text()) == 1
    monkeypatch.setattr(keys, "_failed", {})
    with pytest.raises(BackendRejected, match="exit code 3"):
        await resolve_key(preset, {})
    assert len(runs.read_text()) == 2


async def test_a_command_that_does_not_end_is_killed() -> None:
    command = printing("sk", "import time; time.sleep(60)")
    begin = time.monotonic()
    with pytest.raises(BackendRejected, match=r"did not end within 0\.3 s"):
        await resolve_key(Preset(api_key_command=command), {}, timeout_s=0.3)
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("key", "extra", "headers"),
    [
        (None, {}, {}),
        ("k", {}, {"Authorization": "Bearer k"}),
        ("k", {"X": "y"}, {"Authorization": "Bearer k", "X": "y"}),
        ("k", {"authorization": "Basic z"}, {"authorization": "Basic z"}),
    ],
)
async def test_headers(key: str | None, extra: dict[str, str], headers: dict[str, Any]) -> None:
    preset = Preset(api_key_env="K" if key else None, extra_headers=extra)
    assert await headers_of(preset, {"K": key or ""}) == headers


async def test_a_command_that_hangs_is_ended_with_its_children() -> None:
    begun = time.monotonic()
    with pytest.raises(BackendRejected, match="did not end"):
        await resolve_key(
            Preset(api_key_command=["sh", "-c", "sleep 60; echo key"]), {}, timeout_s=0.2
        )
    assert time.monotonic() - begun < 30
