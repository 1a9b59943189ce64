"""What is built is the same each time, is put down whole, and is tried as a user gets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import building
import pytest
import trying

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "release"

EPOCH = 1_700_000_000


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What is copied of this checkout."""
    building.copy_files(ROOT, tmp_path / "tree")
    return tmp_path / "tree"


@pytest.mark.slow
def test_only_what_git_would_take_is_copied(tree: Path) -> None:
    assert (tree / "aish_lsp" / "__init__.py").exists()
    assert os.access(tree / "dev", os.X_OK)
    names = {path.name for path in tree.rglob("*")}
    assert names.isdisjoint({".git", ".venv", "__pycache__", "node_modules", "dist"})


@pytest.mark.slow
def test_two_builds_give_the_same_bytes(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    building.install_backend(tree, tmp_path / "backend")
    other = tmp_path / "elsewhere" / "a tree"
    shutil.copytree(tree, other)
    for path in other.rglob("*"):
        # As after a checkout by somebody with other habits, at another time.
        path.chmod(0o700 if path.is_dir() or os.access(path, os.X_OK) else 0o600)
        os.utime(path, (EPOCH + 5000, EPOCH + 5000))
    folders: list[Path] = []
    for source, zone in ((tree, "America/New_York"), (other, "Asia/Tokyo")):
        monkeypatch.setenv("TZ", zone)
        out = tmp_path / f"out {len(folders)}"
        out.mkdir()
        building.build_packages(source, tmp_path / "backend", out, EPOCH)
        building.build_plugins(source, out, "0.1.0", EPOCH)
        folders.append(out)
    assert len(list(folders[0].iterdir())) == 5
    assert building.differing(*folders) == []


def test_a_byte_that_differs_is_seen(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, text in ((one, "a"), (other, "b")):
        folder.mkdir()
        (folder / "same").write_text("same")
        (folder / "text").write_text(text)
    (one / "alone").write_text("")
    assert building.differing(one, other) == ["alone", "text"]


def test_a_plugin_is_packed_for_a_package_folder(tmp_path: Path) -> None:
    packed = tmp_path / "aish.nvim.tar.gz"
    plugin = ROOT / "editors" / "nvim"
    packed.write_bytes(building.archive(plugin, ROOT / "LICENSE", "aish.nvim", EPOCH))
    trying.unpack(packed, tmp_path / "start")
    [unpacked] = (tmp_path / "start").iterdir()
    assert unpacked.name == "aish.nvim"
    files = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    ours = {path.relative_to(plugin) for path in plugin.rglob("*") if path.is_file()}
    assert files == {path for path in ours if not path.name.startswith(".")} | {Path("LICENSE")}
    for name in files - {Path("LICENSE")}:
        assert (unpacked / name).read_bytes() == (plugin / name).read_bytes()
    with tarfile.open(packed) as archive:
        assert {(entry.mtime, entry.uid, entry.mode) for entry in archive} == {(EPOCH, 0, 0o644)}


def test_what_an_earlier_release_left_goes_and_nothing_else(tmp_path: Path) -> None:
    out, first, second = (tmp_path / name for name in ("out", "first", "second"))
    for folder, name in ((first, "aish-1.el"), (second, "aish-2.el")):
        folder.mkdir()
        (folder / name).write_text(name)
    building.publish(first, out)
    (out / "mine").write_text("mine")
    building.publish(second, out)
    assert {path.name for path in out.iterdir()} == {"SHA256SUMS", "aish-2.el", "mine"}
    listed = f"{building.digest(second / 'aish-2.el')}  aish-2.el\n"
    assert (out / "SHA256SUMS").read_text() == listed


@pytest.mark.parametrize(
    "chat",
    [
        "## You\n\nhow do I list files\n",
        "## You\n\nhow do I list files\n\n## aish\n\nCMD: ls -la\n",
        "## You\n\nhow do I list files\n\n## aish\n\n> Stopped.\n\n## You\n",
        "",
    ],
)
def test_a_chat_without_a_whole_reply_is_no_success(tmp_path: Path, chat: str) -> None:
    user = trying.Home.make(tmp_path, Path("/nowhere"))
    (user.work / ".aish").mkdir()
    (user.work / ".aish" / "chat.md").write_text(chat)
    with pytest.raises(trying.TrialError, match="no reply in the chat"):
        user.check_chat()
    (user.work / ".aish" / "chat.md").write_text(
        "## You\n\nhow do I list files\n\n## aish\n\nCMD: ls -la\n\n## You\n"
    )
    user.check_chat()


@pytest.mark.slow
def test_a_user_has_nothing_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    user = trying.Home.make(tmp_path, Path("/nowhere"))
    seen = user.run("env").splitlines()
    assert {line.partition("=")[0] for line in seen} - {"_", "PWD", "SHLVL"} == {
        "AISH_DISCOVERY",
        "HOME",
        "LC_ALL",
        "PATH",
        "TERM",
    }
    assert list(user.home.iterdir()) == []
    with pytest.raises(trying.TrialError, match="exit 3"):
        user.run("sh", "-c", "exit 3")


def test_an_extension_that_cannot_be_built_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "editors" / "vscode"
    for path in (programs, folder):
        path.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(programs))
    assert building.no_extension(tmp_path) == "there is no editors/vscode in this checkout"
    (folder / "package.json").write_text("{}")
    assert building.no_extension(tmp_path) == "it needs Node and npm"
    for name, told in (("npm", "10.0.0"), ("node", "v18.20.1")):
        (programs / name).write_text(f"#!/bin/sh\necho {told}\n")
        (programs / name).chmod(0o755)
    why = building.no_extension(tmp_path)
    assert why == "it needs Node 20 or later, and this is v18.20.1"
    (programs / "node").write_text("#!/bin/sh\necho v20.1.0\n")
    assert building.no_extension(tmp_path) is None


@pytest.mark.parametrize(
    ("held", "version", "problem"),
    [
        ({"a.whl": b"wheel"}, "1.0", None),
        ({"a.whl": b"another"}, "1.0", "not the wheel"),
        ({"a.whl": b"wheel", "b.whl": b"older"}, "1.0", "not the wheel"),
        ({}, "1.0", "not the wheel"),
        ({"a.whl": b"wheel"}, "1.1", "package.json says 1.1"),
    ],
)
def test_an_extension_has_the_wheel_of_its_release(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held: dict[str, bytes],
    version: str,
    problem: str | None,
) -> None:
    monkeypatch.delenv("CODE_SERVER", raising=False)
    wheel, vsix = tmp_path / "a.whl", tmp_path / "aish.vsix"
    wheel.write_bytes(b"wheel")
    manifest = {"publisher": "p", "name": "aish", "version": version, "main": "./dist/main.js"}
    with zipfile.ZipFile(vsix, "w") as archive:
        archive.writestr("extension/package.json", json.dumps(manifest))
        archive.writestr("extension/dist/main.js", "")
        for name, data in held.items():
            archive.writestr(f"extension/wheel/{name}", data)
    user = trying.Home.make(tmp_path / "user", Path("/nowhere"))
    if problem is None:
        assert "wheel inside" in trying.try_extension(vsix, wheel, "1.0", user)
    else:
        with pytest.raises(trying.TrialError, match=problem):
            trying.try_extension(vsix, wheel, "1.0", user)


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("TESTS_FULL") != "1",
    reason="runs with AISH_FULL=1, and `./dev release` is the same",
)
@pytest.mark.timeout(1800)
def test_all_of_it_is_built_and_works(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, TOOL, "--dirty", "--out", out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["artifact", "bytes", "sha256", "tried", "how", "result"]
    listed = (out / "SHA256SUMS").read_text().splitlines()
    for line in listed:
        digest, name = line.split()
        assert building.digest(out / name) == digest
        [row] = [row for row in rows if row.startswith(f"{name} ")]
        assert digest[:12] in row
        assert row.endswith("ok") or "  skipped: " in row, row
    # These need nothing that might not be here.
    assert [row.split()[-1] for row in rows if row.startswith("aish_lsp-")] == ["ok", "ok"]
