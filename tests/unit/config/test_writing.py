"""Adding a model to ``config.toml``: what stands there stays."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Preset
from aish_lsp.config.writing import add_model, lines_of, table_of
from aish_lsp.foundation.errors import InvalidArgument, StoreUnavailable

LOCAL = Preset(name="local", endpoint="http://127.0.0.1:8080", model="m")

OLD = """\
# My models.
default_model = "old"  # for now

[models.old] # the first
endpoint = 'http://127.0.0.1:9000'   # aligned
unknown = 1

[context]
max_turns = 10
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "config.toml"


def test_a_file_is_made_for_the_user_alone(path: Path) -> None:
    add_model(path, LOCAL, default=False)
    assert path.read_text() == ('[models.local]\nendpoint = "http://127.0.0.1:8080"\nmodel = "m"\n')
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_comments_order_and_unknown_keys_stay(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(OLD)
    path.chmod(0o644)
    add_model(path, LOCAL, default=True)
    text = path.read_text()
    assert text == OLD.replace('"old"  #', '"local"  #') + "\n" + lines_of(LOCAL, default=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'default_model = "local"\n\n[models.local]\n'),
        ("[context]\nmax_turns = 1", 'default_model = "local"\n\n[context]\nmax_turns = 1\n\n'),
        (
            '[tools]\n[tools.servers.x]\ncommand = ["""\ndefault_model = "a"\n"""]\n',
            'default_model = "local"\n\n[tools]\n',
        ),
        ("default_model = 'a'\r\n", 'default_model = "local"\r\n\r\n[models.local]\r\n'),
        ("models.a.model = 'x'\n", "default_model = \"local\"\n\nmodels.a.model = 'x'\n\n[models."),
    ],
)
def test_the_default_is_set_in_its_place_or_on_top(path: Path, before: str, after: str) -> None:
    path.parent.mkdir()
    path.write_bytes(before.encode())
    add_model(path, LOCAL, default=True)
    assert path.read_bytes().decode().startswith(after)


@pytest.mark.parametrize(
    "text",
    [
        'models = { a = { model = "m" } }\n',
        'default_model = """a"""\n',
        "[[models]]\n",
        "models = 3\n",
    ],
)
def test_what_only_the_user_can_add_to_is_left_alone_with_the_lines_to_add(
    path: Path, text: str
) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=r"\[models\.local\]"):
        add_model(path, LOCAL, default=True)
    assert path.read_text() == text


def test_a_broken_file_and_a_taken_name_are_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("[broken\n")
    with pytest.raises(StoreUnavailable, match="not touched"):
        add_model(path, LOCAL, default=False)
    path.write_text(OLD)
    with pytest.raises(InvalidArgument, match="already"):
        add_model(path, Preset(name="old", endpoint="http://x"), default=False)
    assert path.read_text() == OLD


@pytest.mark.parametrize(
    "preset",
    [
        Preset(name="a", endpoint="https://api.example.com", api_key_env="sk-ant-" + "a1" * 20),
        Preset(name="a", endpoint="https://api.example.com", model="sk-ant-" + "a1" * 20),
        Preset(name="a", endpoint="nowhere"),
        Preset(name="offline", endpoint="http://127.0.0.1:1"),
    ],
)
def test_no_key_is_written_nor_what_would_not_count(path: Path, preset: Preset) -> None:
    with pytest.raises(InvalidArgument) as refused:
        add_model(path, preset, default=True)
    assert "sk-ant" not in refused.value.message
    assert not path.exists()


def test_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    (tmp_path / "dotfiles").write_text(OLD)
    path.symlink_to(tmp_path / "dotfiles")
    add_model(path, LOCAL, default=False)
    assert path.is_symlink()
    assert "[models.local]" in (tmp_path / "dotfiles").read_text()


def test_a_provider_of_its_own_needs_neither_address_nor_variable() -> None:
    preset = Preset(name="claude", provider="anthropic", model="m")
    assert table_of(preset) == {"provider": "anthropic", "model": "m"}
    other = Preset(name="claude", provider="anthropic", model="m", api_key_env="MINE")
    assert table_of(other)["api_key_env"] == "MINE"


_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


@given(name=_TEXTS, model=_TEXTS, before=st.sampled_from(["", OLD, "# only\n", "a.b = 1\n"]))
def test_whatever_the_names_the_file_says_them_and_all_else_stays(
    tmp_path_factory: pytest.TempPathFactory, name: str, model: str, before: str
) -> None:
    path = tmp_path_factory.mktemp("home") / "config.toml"
    path.write_text(before)
    preset = Preset(name=name, endpoint="http://127.0.0.1:1", model=model)
    try:
        add_model(path, preset, default=True)
    except InvalidArgument:
        assert path.read_text() == before
        return
    data, old = tomllib.loads(path.read_text()), tomllib.loads(before)
    assert data.pop("default_model") == name
    assert data["models"].pop(name) == {"endpoint": preset.endpoint, "model": model}
    old.pop("default_model", None)
    assert data == {"models": {}} | old
    for line in before.splitlines():
        assert line in path.read_text() or line.startswith("default_model")
