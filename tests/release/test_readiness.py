"""What is refused before anything is built."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import readiness

ROOT = Path(__file__).resolve().parents[2]

#: What a checkout needs for its versions to be looked at.
FILES = {
    "pyproject.toml": '[tool.hatch.version]\npath = "aish_lsp/__init__.py"\n',
    "aish_lsp/__init__.py": '__version__ = "0.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-01\n\n- New.\n",
    "editors/emacs/aish.el": ";;; aish.el --- A\n\n;; Version: 0.2.0\n",
    "editors/mason/package.yaml": (
        "---\nhomepage: https://example.org\nsource:\n  id: pkg:pypi/aish-lsp@0.2.0\n"
    ),
    "editors/vscode/package.json": json.dumps({"version": "0.2.0"}),
    "editors/vscode/package-lock.json": json.dumps({"version": "0.2.0"}),
}

GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run([*GIT, "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    subprocess.run([*GIT, "add", "-A"], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-qm", "Change"], cwd=root, check=True)


@pytest.mark.slow
def test_a_clean_checkout_with_one_version_is_ready(checkout: Path) -> None:
    assert readiness.check(checkout, dirty=False) == []
    assert set(readiness.versions(checkout)) == set(FILES) - {"aish_lsp/__init__.py"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CHANGELOG.md", "new file"])
def test_what_is_not_committed_is_refused(checkout: Path, name: str) -> None:
    with (checkout / name).open("a") as file:
        file.write("\n")
    with pytest.raises(readiness.NotReadyError, match=f"not committed: .*{name}"):
        readiness.check(checkout, dirty=False)
    [note] = readiness.check(checkout, dirty=True)
    assert note.endswith("this is no release")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FILES) - {"pyproject.toml"}))
def test_a_version_that_differs_is_refused(checkout: Path, name: str) -> None:
    (checkout / name).write_text(FILES[name].replace("0.2.0", "0.1.9"))
    commit(checkout)
    for dirty in (False, True):
        with pytest.raises(readiness.NotReadyError, match=r"the version differs: .*0\.1\.9"):
            readiness.check(checkout, dirty=dirty)


@pytest.mark.slow
def test_changes_that_no_version_has_are_refused_behind_a_release(checkout: Path) -> None:
    text = FILES["CHANGELOG.md"].replace("## Unreleased\n", "## Unreleased\n\n- More.\n")
    (checkout / "CHANGELOG.md").write_text(text)
    commit(checkout)
    with pytest.raises(readiness.NotReadyError, match=r"CHANGELOG\.md says Unreleased"):
        readiness.check(checkout, dirty=False)


@pytest.mark.slow
def test_what_is_not_yet_named_is_noted(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- New.\n")
    (checkout / "editors/mason/package.yaml").write_text("  id: pkg:pypi/aish-lsp@0.2.0\n")
    commit(checkout)
    notes = readiness.check(checkout, dirty=False)
    assert [note.partition(":")[0] for note in notes] == [
        "editors/mason/package.yaml",
        "CHANGELOG.md",
    ]


def test_this_checkout_has_one_version() -> None:
    assert len(set(readiness.versions(ROOT).values())) == 1


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("# C\n", None),
        ("# C\n\n## Unreleased\n\n- A\n", None),
        ("# C\n\n## [Unreleased]\n\n- A\n", None),
        ("# C\n\n## [1.2.0] - 2026-01-01\n\n- A\n", "1.2.0"),
        ("# C\n\n## Unreleased\n\n## 1.2.0\n\n- A\n\n## 1.1.0\n\n- B\n", "1.2.0"),
        ("# C\n\n## Unreleased\n\n- A\n\n## 1.2.0\n\n- B\n", "Unreleased"),
    ],
)
def test_the_version_of_a_changelog(text: str, version: str | None) -> None:
    assert readiness.changelog_version(text) == version
