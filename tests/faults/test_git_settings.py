"""What the user's own settings of git name in a work tree, no command of ``work`` can change."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import test_work_profile
from test_work_profile import work

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.protected import names_in_tree, protected_in
from aish_lsp.shell.risk import paths

pytestmark = test_work_profile.pytestmark

EVIL = "#!/bin/sh\ntouch {canary}\n"
#: What the user has set, the file of the tree that this names, what of it makes the next command
#: run something, and that command.
SETTINGS = [
    ("core.fsmonitor", "{tree}/tools/watch", "tools/watch", EVIL, "git status"),
    ("core.fsmonitor", "tools/watch", "tools/watch", EVIL, "git status"),
    ("core.fsmonitor", "sh watch.sh", "watch.sh", EVIL, "git status"),
    ("core.hooksPath", "tools/hooks", "tools/hooks/reference-transaction", EVIL, "git tag -f b"),
    ("core.hooksPath", "hooks", "hooks/reference-transaction", EVIL, "git tag -f b"),
    ("core.hooksPath", "tools/odd", "tools/odd/post-commit", EVIL, "git commit --allow-empty -m x"),
    (
        "include.path",
        "{tree}/tools/more.conf",
        "tools/more.conf",
        "[core]\nfsmonitor = touch {canary};\n",
        "git status",
    ),
    (
        "includeIf.gitdir:{tree}/.path",
        "{tree}/more.conf",
        "more.conf",
        "[core]\nfsmonitor = touch {canary};\n",
        "git status",
    ),
    ("diff.external", "./tools/differ", "tools/differ", EVIL, "git diff"),
    (
        "filter.x.clean",
        "sh tools/clean.sh",
        "tools/clean.sh",
        EVIL,
        "git hash-object --path=a.x a.x",
    ),
    ("alias.st", "!sh tools/st.sh", "tools/st.sh", EVIL, "git st"),
    (
        "gpg.ssh.defaultKeyCommand",
        "sh tools/key.sh",
        "tools/key.sh",
        EVIL,
        "git -c gpg.format=ssh commit -S --allow-empty -m x",
    ),
    ("core.sshCommand", "env A=1 sh {tree}/ssh.sh", "ssh.sh", EVIL, "git fetch ssh://a.invalid/b"),
]


def git(tree: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = a\nemail = a@b.c\n[commit]\ngpgSign = no\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.fspath(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(folder, "init", "-q")
    (folder / ".gitattributes").write_text("*.x filter=x\n")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "a.txt").write_text("two\n")
    (folder / "a.x").write_text("x\n")
    return folder


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("scope", ["--global", "--local"])
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: f"{one[0]}={one[1]}")
async def test_work_cannot_write_what_a_setting_of_git_names(
    confinement: Confinement,
    tree: Path,
    setting: tuple[str, str, str, str, str],
    scope: str,
    is_there: bool,
) -> None:
    key, value, name, text, then = setting
    if scope == "--local" and key.startswith("include"):
        key = "include.path"
        value = f"../{name}"
    canary = tree.parent / "canary"
    place = tree / name
    if is_there:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        place.chmod(0o755)
    git(tree, "config", scope, key.format(tree=tree), value.format(tree=tree))
    script = tree.parent / "evil"
    script.write_text(text.format(canary=canary))
    script.chmod(0o755)
    write = (
        f"mkdir -p {place.parent}; cp {script} {place}; mv {place.parent} {tree}/moved;"
        f" mkdir -p {place.parent}; cp {script} {place}; chmod +x {place}"
    )
    await work(confinement, write, tree)
    subprocess.run(then, shell=True, cwd=tree, capture_output=True, check=False)
    assert not canary.exists()
    assert protected_in(place, tree) is not None
    # Where nobody hinders it, it does run.
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text.format(canary=canary))
    place.chmod(0o755)
    subprocess.run(then, shell=True, cwd=tree, capture_output=True, check=False)
    assert canary.exists()


@pytest.mark.parametrize(
    "key", ["submodule.s.update", "uploadpack.packObjectsHook", "sendemail.smtpServer"]
)
def test_names_in_tree_has_what_any_command_of_git_runs(tree: Path, key: str) -> None:
    git(tree, "config", key, "!tools/run" if key.endswith("update") else f"{tree}/tools/run")
    assert {name.lstrip("/") for name in names_in_tree(tree)} == {"tools/run"}


def test_names_in_tree_leaves_out_folders_programs_and_what_is_elsewhere(tree: Path) -> None:
    (tree / "src").mkdir()
    (tree / "vim").write_text("")
    for key, value in (
        ("alias.build", "!cd src && make"),
        ("alias.st", "status"),
        ("core.editor", "vim -f"),
        ("core.pager", "less -R"),
        ("include.path", "~/elsewhere"),
        ("init.defaultBranch", "src"),
        ("core.hooksPath", os.fspath(tree)),
        ("user.name", "a.txt"),
    ):
        git(tree, "config", key, value)
    assert names_in_tree(tree) == set()


def test_a_folder_of_hooks_protects_no_other_folders_of_that_name(tree: Path) -> None:
    git(tree, "config", "core.hooksPath", "hooks")
    link = tree.with_name("link")
    link.symlink_to(tree)
    for root in (tree, link):
        assert protected_in(root / "hooks/use", root) is not None
        assert protected_in(root / "src/hooks/useThing.ts", root) is None
        assert protected_in(root / "sub/hooks/pre-commit", root) is not None


def test_why_protected_names_what_a_setting_includes_in_a_tree_in_the_home(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_HOME", re.compile(re.escape(os.fspath(tree.parent))))
    git(tree, "config", "include.path", "../more.conf")
    assert paths.normal(str(tree / "more.conf")) == "~/tree/more.conf"
    assert paths.why_protected(str(tree / "more.conf"), tree) is not None
    assert paths.why_protected(str(tree / "other.conf"), tree) is None
