"""Keys that setup was given: in ``keys.env``, and in the system's keyring."""

from __future__ import annotations

import stat
from importlib.util import find_spec
from pathlib import Path

import pytest
from machine import needs

from aish_lsp.config.schema import Preset
from aish_lsp.foundation.errors import BackendRejected, StoreUnavailable
from aish_lsp.foundation.files import keys_file
from aish_lsp.models import keys
from aish_lsp.models.keys import Keys, key_of, resolve_key
from aish_lsp.shell.confinement.places import secret_places

pytestmark = pytest.mark.usefixtures("own_files")

KEYRING = "" if find_spec("keyring") else "needs the package keyring"

#: A keyring whose keys are files; ``trouble`` is what it does first.
BACKEND = """
import pathlib, time
from keyring.backend import KeyringBackend

class Keyring(KeyringBackend):
    priority = 1
    folder = pathlib.Path(__file__).parent
    def get_password(self, service, name):
        file = self.folder / f"{service}.{name}"
        return file.read_text() if file.exists() else None
    def set_password(self, service, name, password):
        TROUBLE
        (self.folder / f"{service}.{name}").write_text(password)
    def delete_password(self, service, name):
        (self.folder / f"{service}.{name}").unlink()
"""


@pytest.fixture
def without_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "find_spec", lambda _: None)


def use_keyring(monkeypatch: pytest.MonkeyPatch, folder: Path, trouble: str = "pass") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "own_keyring.py").write_text(BACKEND.replace("TROUBLE", trouble))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "own_keyring.Keyring")


@pytest.mark.usefixtures("without_keyring")
@pytest.mark.parametrize(
    "pasted", ["sk-1", "  sk-1\r\n", "\n\nsk-1\n", "'sk-1'", "export K=sk-1\n", 'K = "sk-1"']
)
async def test_a_pasted_key_without_a_keyring_is_stored_trimmed_for_its_owner_alone(
    pasted: str,
) -> None:
    given = Keys({})
    given.give("K", pasted)
    assert given["K"] == "sk-1"
    assert await given.store("K") == str(keys_file())
    assert keys_file().read_text() == "K=sk-1\n"
    assert stat.S_IMODE(keys_file().stat().st_mode) == 0o600
    assert secret_places({}).contains(keys_file().resolve())
    assert await resolve_key(Preset(api_key_env="K"), Keys({})) == "sk-1"


@pytest.mark.parametrize("pasted", ["sk-1 sk-2", "sk-1\nsk-2", "K=", '""', "schlüssel"])
def test_a_paste_that_is_not_a_key_is_refused_without_being_shown(pasted: str) -> None:
    given = Keys({})
    with pytest.raises(BackendRejected, match="What you typed") as caught:
        given.give("K", pasted)
    assert "sk" not in caught.value.message
    assert "K" not in given


def test_a_changed_file_is_read_again_and_the_environment_comes_first() -> None:
    found = Keys({"A": "mine", "B": " "})
    assert (found["A"], found["B"], found.get("C")) == ("mine", " ", None)
    keys_file().write_text("# mine\n\nA=a\nexport B = 'b'\nC=c\n")
    assert (found["A"], found["B"], found["C"]) == ("mine", "b", "c")
    assert found.stored == {"a", "b", "c"}
    keys_file().write_text("C=changed\n")
    assert (found["C"], found["B"]) == ("changed", " ")
    keys_file().unlink()
    assert "C" not in found


def test_a_line_that_is_not_a_key_is_named_and_not_shown() -> None:
    keys_file().write_text("A=a\nsk-secret\nB=two words\n")
    found = Keys({})
    assert dict(found) == {"A": "a"}
    second, third = found.drain_warnings()
    assert "Line 2 of" in second
    assert "Line 3 of" in third
    assert "secret" not in second
    keys_file().write_bytes(b"\xff\xfe")
    assert dict(found) == {}
    assert "is not UTF-8" in found.drain_warnings()[0]


@pytest.mark.usefixtures("without_keyring")
async def test_what_else_is_in_the_file_is_kept_when_a_key_is_stored() -> None:
    keys_file().write_text("# of mine\nA=a\nK=old\nodd\n")
    given = Keys({})
    given.give("K", "new")
    await given.store("K")
    assert keys_file().read_text() == "# of mine\nA=a\nodd\nK=new\n"
    keys_file().write_bytes(b"\xff")
    with pytest.raises(StoreUnavailable):
        await given.store("K")
    assert keys_file().read_bytes() == b"\xff"


@pytest.mark.slow
@needs(KEYRING)
async def test_a_keyring_that_answers_has_the_key_and_the_file_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keyring(monkeypatch, tmp_path / "ring")
    keys_file().write_text("RING=old\n")
    given = Keys({})
    given.give("RING", "sk-ring")
    assert await given.store("RING") == "the system's keyring"
    assert keys_file().read_text() == ""
    preset = Preset(name="mine", api_key_env="RING")
    assert await resolve_key(preset, Keys({})) == "sk-ring"
    assert "sk-ring" in keys.printed_keys()
    assert await resolve_key(preset, {"RING": "environment"}) == "environment"
    (tmp_path / "ring" / "aish-lsp.RING").write_text("sk-new")
    with pytest.raises(BackendRejected), key_of(preset):
        raise BackendRejected("no", status=401)
    assert await resolve_key(preset, Keys({})) == "sk-new"


@pytest.mark.slow
@needs(KEYRING)
@pytest.mark.parametrize("trouble", ["time.sleep(600)", "return", "raise OSError"])
async def test_a_keyring_that_hangs_or_takes_nothing_leaves_the_key_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    use_keyring(monkeypatch, tmp_path / "ring", trouble)
    monkeypatch.setattr(keys, "KEYRING_TIMEOUT", 2.0)
    given = Keys({})
    given.give("HUNG", "sk-file")
    assert await given.store("HUNG") == str(keys_file())
    assert await resolve_key(Preset(api_key_env="HUNG"), Keys({})) == "sk-file"
