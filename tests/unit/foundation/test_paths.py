from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from aish_lsp.foundation.files import config_file, data_dir, workspace_dir, workspace_key


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home in which nothing is moved."""
    for name in ("AISH_DATA_DIR", "AISH_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_without_settings_our_files_lie_in_the_users_folders(home: Path) -> None:
    assert data_dir().is_relative_to(home)
    assert data_dir().name == "aish"
    assert config_file().is_relative_to(home)
    assert config_file().parts[-2:] == ("aish", "config.toml")
    assert not list(home.iterdir())


def test_the_environment_moves_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISH_DATA_DIR", "~/d")
    monkeypatch.setenv("AISH_CONFIG", str(home / "c.toml"))
    assert data_dir() == home / "d"
    assert config_file() == home / "c.toml"
    assert workspace_dir(home) == home / "d" / "workspaces" / workspace_key(home)


def test_an_empty_variable_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISH_DATA_DIR", "")
    monkeypatch.setenv("AISH_CONFIG", "")
    assert data_dir().name == "aish"
    assert config_file().name == "config.toml"
    assert config_file().is_relative_to(home)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("shop", "shop"),
        ("My Shop (v2)", "my-shop-v2"),
        ("..hidden", "hidden"),
        ("项目", "root"),
        ("a" * 60, "a" * 40),
        ("a" * 39 + " b", "a" * 39),
        ("a\nb", "a-b"),
    ],
)
def test_a_key_is_a_slug_and_a_hash(tmp_path: Path, name: str, slug: str) -> None:
    key = workspace_key(tmp_path / name)
    assert re.fullmatch(re.escape(slug) + "-[0-9a-f]{12}", key)


def test_the_root_and_undecodable_names_have_keys(tmp_path: Path) -> None:
    assert workspace_key(Path("/")).startswith("root-")
    assert workspace_key(tmp_path / os.fsdecode(b"caf\xe9")).startswith("caf-")


def test_a_key_is_of_the_real_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    key = workspace_key(real)
    assert workspace_key(link) == key
    assert workspace_key(tmp_path / "x" / ".." / "real") == key
    monkeypatch.chdir(tmp_path)
    assert workspace_key(Path("real")) == key


def test_folders_of_one_name_have_keys_of_their_own(tmp_path: Path) -> None:
    keys = {workspace_key(tmp_path / parent / "shop") for parent in ("a", "b", "c")}
    assert len(keys) == 3


def test_the_home_of_an_unknown_user_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISH_DATA_DIR", "~no.such.user/d")
    monkeypatch.setenv("AISH_CONFIG", "~no.such.user/c.toml")
    assert data_dir() == Path("~no.such.user/d")
    assert config_file() == Path("~no.such.user/c.toml")
