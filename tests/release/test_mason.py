"""The package for Mason's registry, by the rules of that registry."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from aish_lsp import __version__

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCHEMA = json.loads((HERE / "mason.schema.json").read_text())
PACKAGE = yaml.safe_load((ROOT / "editors" / "mason" / "package.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: What the file lacks as long as the project has no public address.
COMPLETE = {"homepage": "https://example.org/"} | PACKAGE


def problems(package: dict[str, Any]) -> list[str]:
    """Return where a package breaks the rules, and how."""
    found = Draft202012Validator(SCHEMA).iter_errors(package)
    return sorted(f"{error.json_path}: {error.message}" for error in found)


def test_only_a_homepage_is_missing() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert problems(COMPLETE) == []
    if "homepage" not in PACKAGE:
        assert problems(PACKAGE) == ["$: 'homepage' is a required property"]


def test_it_says_what_the_project_says() -> None:
    assert PACKAGE["name"] == PROJECT["name"]
    assert PACKAGE["description"] == PROJECT["description"]
    assert PACKAGE["licenses"] == [PROJECT["license"]]
    assert PACKAGE["source"]["id"] == f"pkg:pypi/{PROJECT['name']}@{__version__}"
    assert PACKAGE["bin"] == {name: f"pypi:{name}" for name in PROJECT["scripts"]}
    lspconfig = PACKAGE["neovim"]["lspconfig"]
    assert (ROOT / "editors" / "nvim-lspconfig" / f"{lspconfig}.lua").exists()


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"licenses": []}, "$.licenses"),
        ({"licenses": ["mit"]}, "$.licenses[0]"),
        ({"categories": ["Server"]}, "$.categories[0]"),
        ({"languages": "any"}, "$.languages"),
        ({"homepage": "example.org"}, "$.homepage"),
        ({"source": {"id": "pkg:pypi/aish-lsp"}}, "$.source.id"),
        ({"source": {}}, "$.source"),
        ({"bin": {"aish lsp": "pypi:aish-lsp"}}, "$.bin"),
        ({"bin": {"aish-lsp": "bin/aish-lsp"}}, "$.bin['aish-lsp']"),
        ({"version": "0.1.0"}, "$"),
    ],
)
def test_what_breaks_a_rule_is_found(changed: dict[str, Any], place: str) -> None:
    [problem] = problems(COMPLETE | changed)
    assert problem.startswith(f"{place}: ")
