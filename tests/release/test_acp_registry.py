"""The entry for the registry of the Agent Client Protocol, by the rules of that registry."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

from aish_lsp import __version__

ROOT = Path(__file__).resolve().parents[2]
ENTRY = json.loads((ROOT / "editors" / "acp" / "agent.json").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_entry_says_what_the_project_says() -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert ENTRY["version"] == __version__
    assert ENTRY["description"] == PROJECT["description"]
    assert ENTRY["license"] == PROJECT["license"]
    package = ENTRY["distribution"]["uvx"]["package"]
    assert package == f"{PROJECT['name']}[acp]=={__version__}"
    assert "acp" in PROJECT["optional-dependencies"]
    assert ENTRY["distribution"]["uvx"]["args"] == ["acp"]
    # uvx runs the command that has the package's name.
    assert PROJECT["name"] in PROJECT["scripts"]


def test_the_icon_is_square_and_takes_the_color_of_its_surroundings() -> None:
    icon = ET.parse(ROOT / "editors" / "acp" / "icon.svg").getroot()
    assert (icon.get("width"), icon.get("height")) == ("16", "16")
    assert icon.get("viewBox") == "0 0 16 16"
    colors = {one.get(name) for one in icon.iter() for name in ("fill", "stroke")}
    assert colors == {"currentColor", None}
