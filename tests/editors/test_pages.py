"""The parts of the editors' pages that need no editor to be checked."""

from __future__ import annotations

import json
import re
import tomllib

from editor_parts import PAGES, blocks

from aish_lsp.lsp.protocol import COMMANDS

#: The settings of the VS Code extension, the server's aside.
SETTINGS = {
    name
    for section in json.loads(
        (PAGES.parents[1] / "editors/vscode/package.json").read_text(encoding="utf-8")
    )["contributes"]["configuration"]
    for name in section["properties"]
}


def test_pages_name_only_commands_that_exist() -> None:
    for page in PAGES.glob("*.md"):
        named = set(re.findall(r"\baish(?:\.[a-zA-Z]+)+\b", page.read_text(encoding="utf-8")))
        own = SETTINGS if page.name == "vscode.md" else set()
        assert named <= COMMANDS.keys() | own, page.name


def test_the_configuration_of_helix_is_toml() -> None:
    languages, keys = (tomllib.loads(block) for block in blocks("helix.md", "toml"))
    assert languages["language-server"]["aish"] == {"command": "aish-lsp"}
    assert all(entry["language-servers"][-1] == "aish" for entry in languages["language"])
    assert all(key.startswith(":") for key in keys["keys"]["normal"]["space"]["i"].values())


def test_the_settings_of_kate_and_sublime_are_json() -> None:
    [kate] = (json.loads(block) for block in blocks("kate.md", "json"))
    assert kate["servers"]["aish"]["command"] == ["aish-lsp"]
    settings, commands = (json.loads(block) for block in blocks("sublime.md", "json"))
    assert settings["clients"]["aish"]["command"] == ["aish-lsp"]
    named = {item["args"]["command_name"] for item in commands}
    assert named <= COMMANDS.keys()


def test_the_extension_of_zed_names_the_server() -> None:
    extension, package = (tomllib.loads(block) for block in blocks("zed.md", "toml"))
    assert list(extension["language_servers"]) == [extension["id"]] == ["aish"]
    assert package["lib"]["crate-type"] == ["cdylib"]
