"""The project's picture kept up to date, through the real server and real files."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client, RpcError

CREATED, CHANGED, DELETED = 1, 2, 3


@pytest.fixture
def repository(folder: Path) -> Path:
    """Return a git repository with a file, and files that it ignores."""
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("")
    (folder / ".gitignore").write_text("*.log\n")
    if shutil.which("git") is None:
        pytest.skip("needs git")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@pytest.fixture
async def watching(repository: Path) -> AsyncIterator[Client]:
    """Return a client that watches files and has seen the picture."""
    async with Client() as client:
        await client.initialize(repository)
        assert (await shown(client))["files"] == 2
        await client.wait_for(lambda: registrations(client), "a registration")
        # What is asked after the answer to the registration finds it taken in.
        assert (await shown(client))["files"] == 2
        yield client


async def shown(client: Client, command: str = "show", **params: Any) -> Any:
    return await client.command_result(f"aish.project.{command}", params)


def registrations(client: Client) -> list[Any]:
    return [
        registration
        for params in client.asked("client/registerCapability")
        for registration in params["registrations"]
        if registration["method"] == "workspace/didChangeWatchedFiles"
    ]


async def tell(client: Client, *changes: tuple[str | Path, int]) -> None:
    events = [
        {"uri": place.as_uri() if isinstance(place, Path) else place, "type": kind}
        for place, kind in changes
    ]
    await client.notify("workspace/didChangeWatchedFiles", {"changes": events})


async def test_a_client_is_asked_to_watch_and_believed(watching: Client, repository: Path) -> None:
    [registration] = registrations(watching)
    globs = [watcher["globPattern"] for watcher in registration["registerOptions"]["watchers"]]
    assert globs == ["**/*", "**/.gitignore"]

    assert (await shown(watching, depth=1))["files"] == 2
    new = repository / "src" / "new.py"
    new.write_text("")
    # A client that watches is believed: nobody looks into a folder that is not open in the tree.
    assert (await shown(watching))["files"] == 2
    await tell(watching, (new, CREATED))
    assert (await shown(watching))["block"] == "./\n  src/ … 2 files\n  .gitignore"
    picture = await shown(watching, depth=2)
    assert picture["block"] == "./\n  src/\n    app.py\n    new.py\n  .gitignore"
    (repository / "noise.log").write_text("")
    await tell(watching, (repository / "noise.log", CREATED))
    assert await shown(watching) == picture
    new.unlink()
    await tell(watching, (new, DELETED))
    assert (await shown(watching))["files"] == 2


async def test_what_the_tree_shows_is_looked_at_without_a_word(
    watching: Client, repository: Path
) -> None:
    (repository / "src" / "new.py").write_text("")
    (repository / "top.py").write_text("")
    (repository / "noise.log").write_text("")
    picture = await shown(watching)
    assert picture["files"] == 4
    assert "new.py" in picture["block"]
    assert "top.py" in picture["block"]
    (repository / "src" / "app.py").unlink()
    assert (await shown(watching))["files"] == 3


async def test_an_ignore_file_changes_all(watching: Client, repository: Path) -> None:
    (repository / "noise.log").write_text("")
    (repository / ".gitignore").write_text("src/\n")
    await tell(watching, (repository / ".gitignore", CHANGED))
    assert (await shown(watching))["block"] == "./\n  .gitignore\n  noise.log"


async def test_refresh_looks_at_all_that_nobody_told(watching: Client, repository: Path) -> None:
    assert (await shown(watching, depth=1))["files"] == 2
    (repository / "src" / "new.py").write_text("")
    assert (await shown(watching))["files"] == 2
    assert (await shown(watching, "refresh"))["files"] == 3
    nothing = {"block": "", "files": 0, "truncated": False}
    assert (await shown(watching, "off")) == nothing
    (repository / "src" / "other.py").write_text("")
    await tell(watching, (repository / "src" / "other.py", CREATED))
    assert (await shown(watching)) == nothing
    assert (await shown(watching, "on"))["files"] == 4


async def test_the_chat_can_refresh_it_too(watching: Client, repository: Path) -> None:
    assert (await shown(watching, depth=1))["files"] == 2
    (repository / "src" / "new.py").write_text("")
    await watching.command_result("aish.chat.send", {"prompt": ":tree"})
    assert (await shown(watching))["files"] == 2
    await watching.command_result("aish.chat.send", {"prompt": ":tree refresh"})
    for _ in range(500):
        if (await shown(watching))["files"] == 3:
            return
        await asyncio.sleep(0.02)
    pytest.fail("it was not refreshed")


async def test_what_git_adds_is_seen_without_a_word(watching: Client, repository: Path) -> None:
    (repository / "kept.log").write_text("")
    await tell(watching, (repository / "kept.log", CREATED))
    assert (await shown(watching))["files"] == 2
    subprocess.run(["git", "add", "-f", "kept.log"], cwd=repository, check=True)
    assert (await shown(watching))["files"] == 3


async def test_a_new_file_that_the_editor_saves_is_known(
    watching: Client, repository: Path
) -> None:
    assert watching.capabilities["textDocumentSync"]["save"]
    one = repository / "one.py"
    one.write_text("")
    await watching.notify("textDocument/didSave", {"textDocument": {"uri": one.as_uri()}})
    assert "one.py" in (await shown(watching))["block"]


@pytest.mark.parametrize("refuses", [True, False])
async def test_without_a_watching_client_we_look_ourselves(repository: Path, refuses: bool) -> None:
    async with Client() as client:
        if refuses:

            def refuse(_: Any) -> Any:
                raise RpcError(-32601, "no such thing here")

            client.answers["client/registerCapability"] = refuse
        await client.initialize(repository, capabilities=CAPABILITIES if refuses else {})
        assert (await shown(client))["files"] == 2
        (repository / "new.py").write_text("")
        assert (await shown(client))["files"] == 3
        (repository / ".gitignore").write_text("new.py\n")
        assert (await shown(client))["files"] == 2
        assert len(registrations(client)) == refuses


async def test_events_that_make_no_sense_change_nothing(
    watching: Client, repository: Path, tmp_path: Path
) -> None:
    before = await shown(watching)
    (tmp_path / "outside.py").write_text("")
    await tell(
        watching,
        (tmp_path / "outside.py", CREATED),
        ((repository / "..").as_uri() + "/outside.py", CREATED),
        (repository.as_uri() + "/src/../../outside.py", CREATED),
        (repository.as_uri() + "-beside/x.py", CREATED),
        ("untitled:Untitled-1", CREATED),
        ("http://example.invalid/a.py", DELETED),
        ("file://elsewhere/x.py", DELETED),
        ("file:", CREATED),
        ("", CREATED),
        (repository.as_uri() + "/a%00b", CREATED),
        (repository.as_uri() + "/a%0Ab", DELETED),
        (repository.as_uri() + "/%ff", DELETED),
        (repository.as_uri() + "/" + "x" * 5000, DELETED),
        (repository, CHANGED),
    )
    for params in (
        None,
        {},
        {"changes": None},
        {"changes": [{"uri": 1, "type": CREATED}]},
        {"changes": [{"type": CREATED}]},
        {"changes": [{"uri": repository.as_uri(), "type": "x"}]},
    ):
        await watching.notify("workspace/didChangeWatchedFiles", params)
    assert await shown(watching) == before


async def test_thousands_of_events_at_once(watching: Client, repository: Path) -> None:
    (repository / "many").mkdir()
    for number in range(3000):
        (repository / "many" / f"{number}.py").write_text("")
    await tell(watching, *((repository / "many" / f"{n}.py", CREATED) for n in range(3000)))
    picture = await shown(watching)
    assert picture["files"] == 3002
    assert "\n  many/ … 3000 files" in picture["block"]
    shutil.rmtree(repository / "many")
    await tell(watching, (repository / "many", DELETED))
    assert (await shown(watching))["files"] == 2


async def test_a_root_that_goes_and_comes_back(watching: Client, repository: Path) -> None:
    away = repository.with_name("away")
    repository.rename(away)
    assert (await shown(watching)) == {"block": "", "files": 0, "truncated": False}
    repository.write_text("a file now")
    assert (await shown(watching))["block"] == ""
    repository.unlink()
    away.rename(repository)
    assert (await shown(watching))["files"] == 2


async def test_a_long_scan_is_shown_and_can_be_stopped(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git that takes its time: the scan is shown, and stopped by the user."""
    slow = tmp_path / "slow"
    slow.mkdir()
    real = shutil.which("git")
    (slow / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *"ls-files -z -o"*) exec sleep 60;; esac\nexec {real} "$@"\n'
    )
    (slow / "git").chmod(0o755)
    subprocess.run([str(real), "add", "."], cwd=repository, check=True)
    monkeypatch.setenv("PATH", f"{slow}{os.pathsep}{os.environ['PATH']}")
    async with Client(env={"PATH": os.environ["PATH"]}) as client:
        await client.initialize(repository)
        _, answer = await client.begin(
            "workspace/executeCommand", {"command": "aish.project.show", "arguments": []}
        )
        await client.wait_for(lambda: client.progress, "progress")
        [(token, values)] = client.progress.items()
        assert values[0]["title"] == "aish looks at the project"
        assert values[0]["cancellable"]
        await client.wait_for(lambda: len(values) > 1, "a report")
        assert values[1] == {"kind": "report", "message": "2 files"}
        await client.notify("window/workDoneProgress/cancel", {"token": token})
        picture = await client.within(answer, "the picture")
        assert (picture["files"], picture["truncated"]) == (2, True)
        await client.wait_for(lambda: values[-1]["kind"] == "end", "the end")
        # The user has said that it takes too long: it is not done again unasked.
        assert await shown(client) == picture
        assert len(client.progress) == 1
