"""The VS Code extension without VS Code: its lint, types and unit tests, and its package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.config.keys import NAME, all_keys
from aish_lsp.lsp.reference import schema

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"

#: Bytes of the chat's script, minified.
LARGEST = 160_000


def npm(*words: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npm", *words], cwd=EXTENSION, capture_output=True, text=True, timeout=seconds, check=False
    )


@pytest.fixture(scope="module", name="packages")
def fixture_packages() -> None:
    """The packages that the extension is made with, as its lock file names them."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("Node.js is not installed: the extension is neither tested nor packaged")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.removeprefix("v").split(".")[0]) < 20:
        pytest.skip(f"Node.js 20 or later is needed for the extension, this is {version.strip()}")
    if (EXTENSION / "node_modules" / ".package-lock.json").exists():
        return
    done = npm("ci")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"npm cannot fetch the extension's packages, it is not tested: {last}")


def test_each_setting_of_the_server_shows_the_default_that_is_in_force() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    settings: dict[str, Any] = {}
    for section in manifest["contributes"]["configuration"]:
        settings |= section["properties"]
    keys = [key for key in all_keys() if NAME not in key.path]
    for key in keys:
        words = ".".join(key.path).split("_")
        shown = settings.pop("aish." + words[0] + "".join(word.capitalize() for word in words[1:]))
        assert shown["default"] == key.default
    assert len(keys) > 40
    assert settings.pop("aish.tools.servers")["default"] == {}
    # What is left is the extension's own.
    assert all(name.startswith(("aish.chat.", "aish.server.")) for name in settings)


def test_each_command_of_the_manifest_is_one_of_the_extension_or_the_server() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    named = {command["command"] for command in manifest["commands"]}
    sources = "".join(path.read_text() for path in (EXTENSION / "src").rglob("*.ts"))
    own = {name for name in named if f'"{name}"' in sources.replace(f'"{name}": {{ params', "")}
    assert named - own <= schema()["commands"].keys()
    menus = {entry["command"] for menu in manifest["menus"].values() for entry in menu}
    assert menus <= named
    assert {key["command"] for key in manifest["keybindings"]} <= named


@pytest.mark.usefixtures("packages")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", ["check", "test"])
def test_lint_types_and_unit_tests_pass(script: str) -> None:
    done = npm("run", "--silent", script)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.skipif(
    os.environ.get("TESTS_FULL") != "1",
    reason="runs with AISH_FULL=1; `./dev release` packs the extension too, and installs it",
)
@pytest.mark.usefixtures("packages")
@pytest.mark.timeout(600)
def test_the_package_holds_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    made = tmp_path / "aish.vsix"
    done = npm("run", "--silent", "package", "--", "--out", str(made))
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(made) as archive:
        sizes = {
            one.filename.removeprefix("extension/"): one.file_size for one in archive.infolist()
        }
    assert sizes["dist/chat.js"] < LARGEST
    assert {
        "dist/extension.js",
        "dist/context.js",
        "dist/highlight.js",
        "dist/chat.css",
        "media/aish.svg",
    } <= sizes.keys()
    kinds = (".js", ".css", ".json", ".md", ".svg", ".png", ".xml", ".vsixmanifest", ".whl", ".txt")
    assert all(name.endswith(kinds) for name in sizes), sizes
    assert not any(name.startswith(("src", "test", "node_modules")) for name in sizes)
