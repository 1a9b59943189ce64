"""The table of files that decide what runs later: whoever asks it gets the same answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.shell.protected import protected_by, rows
from aish_lsp.shell.risk import classify
from aish_lsp.shell.risk.paths import why_protected

NAMES = [name.replace("*", "x") for row in rows() for name in row.names]


def test_a_row_counts_everywhere_for_everybody() -> None:
    for name in NAMES:
        row = protected_by(name)
        assert row is not None, name
        for spelled in (name, f"a/b/{name}", f"{name}/x/y", name.upper(), f"./{name}", f"{name}."):
            assert protected_by(spelled) == row, spelled
            assert why_protected(spelled), spelled
        verdict = classify(f"echo x > sub/{name}", "bash", confined=True)
        assert verdict.risk == "destructive", name
        assert any(row.reader in reason for reason in verdict.reasons), name


@pytest.mark.parametrize("folder", ["node_modules", ".venv", "target", "a/target/b"])
def test_in_dependencies_only_git_counts(folder: str) -> None:
    found = {name for name in NAMES if protected_by(f"{folder}/{name}")}
    assert found == {".git"}
    # Of a file that is named from outside, nobody knows whose dependencies these are.
    assert protected_by(f"/home/user/{folder}/.vscode/tasks.json")


@pytest.mark.parametrize(
    "name",
    [
        *("Makefile", "conftest.py", ".gitignore", ".gitattributes", ".env", "src/git"),
        *("x.vscode", ".config/other", ".cargo/audit.toml", "vscode/tasks.json"),
        *(".github/workflows/ci.yml"),
    ],
)
def test_a_projects_own_work_is_free(name: str) -> None:
    assert protected_by(name) is None


@pytest.mark.parametrize(
    ("link", "leads_to", "names"),
    [
        (".envrc", "d/x", ["d/x", "d/../d/x", "l/x"]),
        (".vscode", "d", ["d", "d/x", "d/new/y"]),
        (".vscode/tasks.json", "../d/x", ["d/x"]),
        (".git/hooks/pre-commit", "../../d/x", ["d/x"]),
        (".git/hooks", "../d", ["d/x", "d/new"]),
        (".vscode/tasks.json", "../d/new", ["d/new"]),
    ],
)
def test_what_a_link_leads_to_counts_in_its_work_tree(
    tmp_path: Path, link: str, leads_to: str, names: list[str]
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    (tmp_path / "l").symlink_to("d")
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(leads_to)
    reason = why_protected(str(tmp_path / link), tmp_path)
    assert reason
    for name in names:
        assert why_protected(str(tmp_path / name), tmp_path) == reason, name
    for name in ("e", "d2/x", "x"):
        assert why_protected(str(tmp_path / name), tmp_path) is None, name


def test_what_nobody_sees_is_ignored() -> None:
    assert protected_by(".g\u200cit/config") == protected_by(".git")
    assert protected_by(".VSCODE./tasks.json") == protected_by(".vscode")
    assert protected_by("a/../.git/config") == protected_by(".git")
    assert protected_by("a\n/.envrc") == protected_by(".envrc")


def test_the_table_has_each_name_once() -> None:
    names = [name.lower() for row in rows() for name in row.names]
    assert sorted(names) == sorted(set(names))
