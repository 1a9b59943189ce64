from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish_lsp.config.trust import TrustStore
from aish_lsp.foundation.errors import StoreUnavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "trust.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "wörk space"
    folder.mkdir()
    return folder


def grants(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(path.read_text())["grants"]
    return found


def test_without_a_file_nothing_is_granted(path: Path, root: Path) -> None:
    store = TrustStore(path)
    assert not store.granted(root, "overlay", ".aish.toml", "h")
    assert store.answer("provider", "OpenAI", "api.openai.com") is None
    assert store.trouble() is None
    assert store.revoke(root) == 0
    assert not path.exists()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_grants_count_however_an_editor_has_saved_them(
    path: Path, root: Path, encoding: str
) -> None:
    TrustStore(path).grant(root, "server", "git", "h1")
    path.write_text(path.read_text(), encoding=encoding)
    store = TrustStore(path)
    assert store.trouble() is None
    store.grant(root, "server", "other", "h2")
    assert list(store.times(root, "server")) == ["git", "other"]


def test_a_grant_is_for_workspace_kind_name_and_contents(
    path: Path, root: Path, tmp_path: Path
) -> None:
    store = TrustStore(path)
    store.grant(root, "server", "git", "h1")
    for reader in (store, TrustStore(path)):
        assert reader.granted(root, "server", "git", "h1")
        assert not reader.granted(root, "server", "git", "h2")
        assert not reader.granted(root, "server", "other", "h1")
        assert not reader.granted(root, "overlay", "git", "h1")
        assert not reader.granted(tmp_path, "server", "git", "h1")


def test_a_new_grant_takes_the_place_of_the_old(path: Path, root: Path) -> None:
    store = TrustStore(path)
    store.grant(root, "overlay", "a", "h1")
    store.grant(root, "overlay", "a", "h2")
    assert not store.granted(root, "overlay", "a", "h1")
    assert store.granted(root, "overlay", "a", "h2")
    assert len(grants(path)) == 1


def test_the_file_is_as_the_format_says(path: Path, root: Path) -> None:
    store = TrustStore(path)
    store.grant(root, "overlay", ".aish.toml", "h")
    store.keep_answer("provider", "OpenAI", "api.openai.com", granted=False)
    document = json.loads(path.read_text())
    assert document["version"] == 1
    overlay, provider = document["grants"]
    assert overlay.pop("at").endswith("Z")
    assert overlay == {
        "workspace": root.as_uri(),
        "what": "overlay",
        "name": ".aish.toml",
        "hash": "h",
    }
    assert (provider["workspace"], provider["what"], provider["answer"]) == (
        None,
        "provider",
        "denied",
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_revoke_all_of_a_kind_or_one(path: Path, root: Path, tmp_path: Path) -> None:
    store = TrustStore(path)
    store.grant(tmp_path, "overlay", "a", "h")
    for name in ("a", "b", "c"):
        store.grant(root, "server", name, "h")
    store.grant(root, "overlay", "a", "h")
    assert store.revoke(root, "server", "a") == 1
    assert not store.granted(root, "server", "a", "h")
    assert store.granted(root, "server", "b", "h")
    assert store.revoke(root, "server") == 2
    assert store.granted(root, "overlay", "a", "h")
    assert store.revoke(root) == 1
    assert store.granted(tmp_path, "overlay", "a", "h")


def test_the_answer_for_a_provider_is_for_its_host(path: Path) -> None:
    store = TrustStore(path)
    store.keep_answer("provider", "OpenAI", "api.openai.com", granted=True)
    assert store.answer("provider", "OpenAI", "api.openai.com") is True
    assert store.answer("provider", "OpenAI", "evil.example") is None
    assert store.answer("provider", "Other", "api.openai.com") is None
    store.keep_answer("provider", "OpenAI", "api.openai.com", granted=False)
    assert store.answer("provider", "OpenAI", "api.openai.com") is False


def test_another_processs_change_counts_at_once(path: Path, root: Path) -> None:
    one, two = TrustStore(path), TrustStore(path)
    one.grant(root, "overlay", "a", "h")
    assert two.granted(root, "overlay", "a", "h")
    two.revoke(root)
    assert not one.granted(root, "overlay", "a", "h")


def test_many_writers_lose_nothing(path: Path, root: Path) -> None:
    def grant(number: int) -> None:
        TrustStore(path).grant(root, "server", str(number), "h")

    threads = [threading.Thread(target=grant, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {grant["name"] for grant in grants(path)} == {str(number) for number in range(8)}


def test_unknown_fields_and_entries_are_kept(path: Path, root: Path) -> None:
    path.parent.mkdir()
    strange = [{"what": "future", "x": 1}, "text", 5]
    path.write_text(json.dumps({"version": 1, "grants": strange, "more": {"a": 1}}))
    store = TrustStore(path)
    store.grant(root, "overlay", "a", "h")
    store.revoke(root)
    assert json.loads(path.read_text()) == {"version": 1, "grants": strange, "more": {"a": 1}}


def test_a_newer_file_is_not_touched(path: Path, root: Path) -> None:
    path.parent.mkdir()
    text = json.dumps(
        {
            "version": 2,
            "grants": [{"workspace": root.as_uri(), "what": "overlay", "name": "a", "hash": "h"}],
        }
    )
    path.write_text(text)
    store = TrustStore(path)
    assert not store.granted(root, "overlay", "a", "h")
    assert "newer version" in (store.trouble() or "")
    for change in (
        lambda: store.grant(root, "overlay", "a", "h"),
        lambda: store.revoke(root),
        lambda: store.keep_answer("provider", "a", "b", granted=True),
    ):
        with pytest.raises(StoreUnavailable, match="newer version"):
            change()
    assert path.read_text() == text
    assert [entry.name for entry in path.parent.iterdir() if "damaged" in entry.name] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"grants": []}',
        '{"version": true, "grants": []}',
        '{"version": "1", "grants": []}',
        '{"version": 1, "grants": {}}',
        '{"version": 1}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_damaged_file_grants_nothing_and_is_put_aside_by_the_next_write(
    path: Path, root: Path, text: str
) -> None:
    path.parent.mkdir()
    path.write_text(text, errors="surrogateescape")
    store = TrustStore(path)
    assert not store.granted(root, "overlay", "a", "h")
    assert "damaged" in (store.trouble() or "")
    store.grant(root, "overlay", "a", "h")
    assert store.granted(root, "overlay", "a", "h")
    assert store.trouble() is None
    (aside,) = path.parent.glob("trust.json.damaged-*")
    assert aside.read_text(errors="surrogateescape") == text


def test_a_pipe_in_place_of_the_file_is_not_waited_for(path: Path, root: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)
    store = TrustStore(path)
    assert not store.granted(root, "overlay", "a", "h")
    assert "a pipe or a device" in (store.trouble() or "")
    with pytest.raises(StoreUnavailable, match="a pipe or a device"):
        store.grant(root, "overlay", "a", "h")


def test_a_directory_in_place_of_the_file(path: Path, root: Path) -> None:
    path.mkdir(parents=True)
    store = TrustStore(path)
    assert not store.granted(root, "overlay", "a", "h")
    assert "cannot read" in (store.trouble() or "")
    with pytest.raises(StoreUnavailable, match="Is a directory"):
        store.grant(root, "overlay", "a", "h")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes every file")
def test_a_folder_that_cannot_be_written(path: Path, root: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with pytest.raises(StoreUnavailable):
        TrustStore(path).grant(root, "overlay", "a", "h")


FIELDS = ("version", "grants", "workspace", "what", "name", "hash", "answer")

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(FIELDS, inner),
        )
    ),
)


@settings(deadline=None, max_examples=60)
@given(document=anything, entry=anything)
@pytest.mark.slow
def test_no_garbage_is_ever_a_grant(
    tmp_path_factory: pytest.TempPathFactory, document: object, entry: object
) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = folder / "trust.json"
    for content in (document, {"version": 1, "grants": [entry]}, {"version": 1, "grants": entry}):
        path.write_text(json.dumps(content))
        store = TrustStore(path)
        assert not store.granted(folder, "overlay", "a", "h")
        assert store.answer("provider", "a", "b") is None
        store.trouble()
