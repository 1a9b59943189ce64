"""What git does in the profile ``work`` is kept; what runs later is not."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import test_work_profile
from test_work_profile import work

from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.files import data_dir
from aish_lsp.shell.confinement.support import Confinement

pytestmark = test_work_profile.pytestmark

ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "n",
    "GIT_AUTHOR_EMAIL": "e@x.test",
    "GIT_AUTHOR_DATE": "2001-02-03T04:05:06Z",
    "GIT_COMMITTER_NAME": "n",
    "GIT_COMMITTER_EMAIL": "e@x.test",
    "GIT_COMMITTER_DATE": "2001-02-03T04:05:06Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
}

WORLD = """
git init -q -b main remote && cd remote
echo 1 > f && git add . && git commit -qm one && git tag v1 && git branch old && cd ..
git init -q -b main library && cd library
echo l > l && git add . && git commit -qm library && cd ..
git clone -q ./remote tree && cd tree
git -c protocol.file.allow=always submodule --quiet add ../library sub && git commit -qm sub
for n in a b c; do echo $n > $n; git add $n; git commit -qm $n; done
git branch topic/one HEAD~1 && git branch topic/two && git pack-refs --all && git branch loose
git switch -qc other HEAD~2 && echo o > o && git add o && git commit -qm o && git switch -q main
git worktree add -q linked -b linked
git init -q -b main nested && cd nested && echo n > n && git add . && git commit -qm n && cd ..
printf 'linked\\nnested\\n' >> .git/info/exclude
mkdir -p deep/folder && echo '{}' > deep/package.json && git add deep && git commit -qm deep
cd ../remote && echo 2 > f && git commit -qam two && git tag v2 && cd ../tree
git status > /dev/null
"""


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def made_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    shell(WORLD, folder)
    return folder


@pytest.fixture
def world(made_world: Path, tmp_path: Path) -> Path:
    return copied(made_world, tmp_path / "world")


def copied(made_world: Path, to: Path) -> Path:
    shutil.copytree(made_world, to, symlinks=True)
    for link in (*to.glob("tree/linked/.git"), *to.glob("tree/.git/worktrees/*/gitdir")):
        link.write_text(link.read_text().replace(str(made_world), str(to)))
    shell("git status; git -C linked status; git -C sub status; git -C nested status", to / "tree")
    return to


def shell(text: str, folder: Path, *, check: bool = True) -> str:
    done = subprocess.run(
        ["bash", "-ec" if check else "-c", text],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def state(world: Path) -> dict[str, object]:
    """Return all that git holds: each file's bytes, but for objects and the index what they say."""
    found: dict[str, object] = {}
    for git in (world / "tree/.git", world / "tree/nested/.git"):
        homes = [git, *git.glob("modules/*"), *git.glob("worktrees/*")]
        for home in homes:
            found[f"{home.relative_to(world)} index"] = shell(
                f"GIT_DIR={home} git ls-files --stage", home
            )
            objects = "git cat-file --batch-all-objects --batch-check"
            found[f"{home.relative_to(world)} objects"] = shell(f"GIT_DIR={home} {objects}", home)
        for path in sorted(git.rglob("*")):
            parts = path.relative_to(git).parts
            derived = {"objects", "index", "AUTO_MERGE", "REBASE_HEAD", "gc.log"} & {*parts}
            if path.is_file() and not derived and parts[-1] != "gitdir" and parts[:1] != ("info",):
                found[str(path.relative_to(world))] = path.read_bytes()
    for path in sorted((world / "tree").rglob("*")):
        if ".git" not in path.parts and path.is_file():
            found[str(path.relative_to(world))] = path.read_bytes()
    return found


GITS_WORK = [
    "echo x > new; git add new; git commit -qm new",
    "echo x >> a; git commit -qam more; git commit -q --amend -m less",
    "git add -A; git rm -q --cached b; git mv a moved",
    "git switch -q other; git switch -qc made; git switch -q main",
    "git checkout -q HEAD~1; git checkout -q -; git checkout -q --detach",
    "git merge -q --no-edit other",
    "git merge -q --ff-only topic/two; git merge -q topic/one",
    "echo clash > o; git add o; git commit -qm clash; git merge -q other",
    "echo x >> a; git stash -q; echo y >> b; git stash -q; git stash pop -q; git stash list",
    "git fetch -q; git fetch -q --prune; git merge -q --no-edit origin/main",
    "git pull -q --no-rebase --no-edit",
    "git tag t; git tag -am note u HEAD~1; git tag -d v1",
    "git branch x; git branch -D -q topic/one; git branch -d -q topic/two; git branch topic",
    "git branch -D loose; git branch loose/deeper; git branch -m other renamed/to",
    "git rebase -q HEAD~2 --onto other",
    "git reset -q --hard HEAD~1; git reset -q --soft ORIG_HEAD; git cherry-pick other",
    "git revert --no-edit HEAD~1; git commit --allow-empty -qm empty",
    "git gc -q; git commit -q --allow-empty -m after",
    "git pack-refs --all; git repack -adq; git prune",
    "git update-index --chmod=+x a; git commit -qm mode",
    "git -C sub commit -q --allow-empty -m inside; git add sub; git commit -qm module",
    "git -C nested commit -q --allow-empty -m nested",
    "git -C linked commit -q --allow-empty -m linked",
    "cd deep; git add .; git commit -q --allow-empty -m deep",
]


@pytest.mark.parametrize("text", GITS_WORK)
async def test_what_git_does_is_kept(
    confinement: Confinement, made_world: Path, world: Path, tmp_path: Path, text: str
) -> None:
    free = copied(made_world, tmp_path / "free")
    shell(text, free / "tree", check=False)
    result = await work(confinement, text, world / "tree", layered=True)
    wanted = state(free)
    assert "nothing that git did" not in result.output, result.output
    # Settings are not taken over, and are told.
    config = {name: value for name, value in wanted.items() if name.endswith("/config")}
    kept = {name: value for name, value in state(world).items() if name not in config}
    assert kept == {name: value for name, value in wanted.items() if name not in config}
    changed = config != {name: (made_world / name).read_bytes() for name in config}
    assert ("which is not kept" in result.output) == changed, result.output
    shell("git fsck --strict", world / "tree")


async def test_in_a_linked_work_tree(
    confinement: Confinement, made_world: Path, world: Path, tmp_path: Path
) -> None:
    text = "echo x > new; git add new; git commit -qm new; git branch more; git stash list"
    free = copied(made_world, tmp_path / "free")
    shell(text, free / "tree/linked")
    result = await work(confinement, text, world / "tree/linked", layered=True)
    assert "aish" not in result.output
    assert state(world) == state(free)
    # The other work tree's own are not taken over.
    text = "git --git-dir ../.git update-ref --no-deref HEAD linked"
    before = (world / "tree/.git/HEAD").read_bytes()
    result = await work(confinement, text, world / "tree/linked", layered=True)
    assert "which is not kept: HEAD" in result.output
    assert (world / "tree/.git/HEAD").read_bytes() == before


async def test_nothing_is_left_in_the_git_folder_or_in_ours(
    confinement: Confinement, world: Path
) -> None:
    before = sorted(world.rglob("*"))
    await work(confinement, "git status; ls .git", world / "tree", layered=True)
    await work(confinement, "git commit", world / "tree")
    assert sorted(world.rglob("*")) == before
    assert not list((data_dir() / "layers").iterdir())


class Trick(NamedTuple):
    """What a program does so that a plain command of the user runs ``evil`` later.

    ``fires``: it works with this version of git where nobody hinders it.
    """

    text: str
    then: str = "git status"
    fires: bool = True


def _in_config(folder: str, then: str = "git status") -> Iterator[Trick]:
    yield Trick(f"printf '[core]\\nfsmonitor = {{evil}}\\n' >> {folder}/config", then)
    yield Trick(f"GIT_DIR={folder} git config core.fsmonitor {{evil}}", then)
    text = f"cat {folder}/config > c; printf '[core]\\nfsmonitor = {{evil}}\\n' >> c; mv c {folder}"
    yield Trick(f"{text}/config", then)


_SUB_GIT = "git init -q d && git -C d config core.fsmonitor {evil} && git -C d config core.bare no"
_FORGED = "GIT_DIR=$PWD/d/.git git --work-tree $PWD/d commit -q --allow-empty -m x"
#: A repository whose objects, refs and settings are in another folder, which is none.
_SPLIT = (
    "mkdir -p docs d/objects d/refs; echo 'ref: refs/heads/m' > docs/HEAD;"
    " echo ../d > docs/commondir; printf '[core]\\nrepositoryformatversion = 0\\n' > d/config;"
)
TRICKS = [
    Trick(
        f"{_SPLIT} git config -f d/config extensions.worktreeConfig true;"
        " git config -f docs/config.worktree core.worktree $PWD/docs;"
        " git config -f docs/config.worktree core.fsmonitor {evil}",
        "git -C docs status",
    ),
    Trick(
        f"{_SPLIT} git config -f d/config remote.origin.url $PWD;"
        " git config -f d/config remote.origin.uploadpack {evil}",
        "git -C docs fetch",
    ),
    *_in_config(".git"),
    *_in_config(".git/modules/sub", "git status"),
    *_in_config("nested/.git", "git -C nested status"),
    Trick("cp -r .git g; GIT_DIR=g git config core.fsmonitor {evil}; echo ../g > .git/commondir"),
    Trick(
        "git config extensions.worktreeConfig true;"
        " printf '[core]\\nfsmonitor = {evil}\\n' > .git/config.worktree"
    ),
    Trick("cp {evil} .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout", "git checkout"),
    Trick("cp {evil} .git/hooks/reference-transaction", "git fetch"),
    Trick(
        "git config core.hooksPath hooks; mkdir hooks; cp {evil} hooks/post-checkout",
        "git checkout",
    ),
    Trick(
        "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes;"
        " git config filter.x.clean {evil}; touch a",
        "git diff",
    ),
    Trick(f"{_SUB_GIT}; rm sub/.git; mv d/.git sub/.git"),
    Trick(f"{_SUB_GIT}; rm -rf sub; mv d sub"),
    Trick(f"{_SUB_GIT}; echo gitdir: ../d/.git > sub/.git"),
    Trick(f"{_SUB_GIT}; mv .git h; echo gitdir: d/.git > .git"),
    Trick(f"{_SUB_GIT}; rm -rf .git; ln -s d/.git .git"),
    Trick(
        f"{_SUB_GIT}; {_FORGED};"
        " git update-index --add --cacheinfo 160000,$(git -C d rev-parse HEAD),d"
    ),
    Trick(f"{_SUB_GIT}; {_FORGED}; git add d"),
    Trick(f"{_SUB_GIT}; mkdir deep/e; mv d/.git deep/e/.git", "git -C deep/e status"),
    Trick(
        f"{_SUB_GIT}; git -C d config core.worktree .; mkdir e; mv d/.git/* e", "git -C e status"
    ),
    Trick(
        f"{_SUB_GIT}; mkdir -p node_modules/e; mv d node_modules/e",
        "git -C node_modules/e/d status",
    ),
    Trick(
        "mkdir .git/rebase-merge; echo main > .git/rebase-merge/head-name;"
        " git rev-parse HEAD > .git/rebase-merge/onto; cp .git/rebase-merge/onto"
        " .git/rebase-merge/orig-head; touch .git/rebase-merge/interactive;"
        " echo exec {evil} > .git/rebase-merge/git-rebase-todo; touch .git/rebase-merge/done;"
        " echo 1 > .git/rebase-merge/msgnum; echo 1 > .git/rebase-merge/end",
        "git rebase --continue",
    ),
    Trick(
        "git remote set-url origin 'ext::{evil}'; git config protocol.ext.allow always", "git fetch"
    ),
    Trick("git config remote.origin.uploadpack {evil}", "git fetch"),
    Trick("git config alias.log '!{evil}'; git config alias.st '!{evil}'", "git st"),
    Trick("git config pager.log {evil}; git config core.pager {evil}", "git log", fires=False),
    Trick("git config diff.external {evil}; echo x >> a", "git diff"),
    Trick("git config include.path ../inc; printf '[core]\\nfsmonitor = {evil}\\n' > inc"),
    Trick(
        "git config gpg.program {evil}; git config log.showSignature yes", "git log", fires=False
    ),
    Trick("git config submodule.sub.update '!{evil}'", "git submodule update --force"),
    Trick(
        "echo '[core]' > .git/modules/sub/config; echo fsmonitor={evil} >> .git/modules/sub/config"
    ),
    Trick("printf 'ref: refs/../../evil' > .git/HEAD", "git log", fires=False),
    Trick("rm .git/HEAD; ln -s ../evil .git/HEAD", "git log", fires=False),
    Trick("echo $PWD/other/objects > .git/objects/info/alternates", "git log", fires=False),
    Trick("ln -s ../../outside .git/refs/heads/link", "git log", fires=False),
    Trick("mkfifo .git/refs/heads/fifo .git/FETCH_HEAD.x", "git log -1 main", fires=False),
    Trick("printf 'DIRC\\0\\0\\0\\2' > .git/index", "git log", fires=False),
    Trick("git update-index --split-index", "git log", fires=False),
    Trick("git replace HEAD~1 HEAD~2", "git log", fires=False),
    Trick("git update-ref 'refs/heads/$(id)' HEAD", "git branch", fires=False),
    Trick("git update-ref refs/heads/-x HEAD", "git branch", fires=False),
]


def _evil(world: Path) -> Path:
    """Make, in the tree, what must not run; return what it makes where no confined command can."""
    canary = world.parent / "canary"
    evil = world / "tree/evil"
    evil.write_text(f"#!/bin/sh\ntouch {canary}\n")
    evil.chmod(0o755)
    return canary


@pytest.mark.parametrize("trick", [one for one in TRICKS if one.fires], ids=lambda one: one.text)
def test_a_trick_works_where_nobody_hinders_it(world: Path, trick: Trick) -> None:
    canary = _evil(world)
    shell(trick.text.format(evil=world / "tree/evil"), world / "tree", check=False)
    said = shell(trick.then, world / "tree", check=False)
    assert canary.exists(), said


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("trick", TRICKS, ids=lambda one: one.text)
async def test_a_trick_comes_to_nothing(
    confinement: Confinement, world: Path, trick: Trick, layered: bool
) -> None:
    canary = _evil(world)
    text = trick.text.format(evil=world / "tree/evil")
    await work(confinement, text, world / "tree", layered=layered)
    for then in (
        *(trick.then, "git status", "git log", "git fetch", "git checkout", "git diff"),
        *("git -C sub status", "git -C nested status", "git -C linked status"),
        *("git submodule status", "git commit --allow-empty -m x"),
    ):
        shell(then, world / "tree", check=False)
        assert not canary.exists(), then
    shell("git log -1; git fsck", world / "tree")


FORGED_OBJECT = """
mkdir -p .git/objects/00; cp $(ls .git/objects/??/* | tail -n 1) .git/objects/00/$(printf %038d 1)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("git update-ref refs/heads/-x HEAD; git branch kept", "is no good name for a ref"),
        ("git branch kept; echo zz > .git/HEAD", "HEAD holds what it should not"),
        ("git branch kept; rm .git/HEAD; ln -s config .git/HEAD", "is not a regular file"),
        ("git branch kept; rm .git/index", "index is gone"),
        ("git branch kept; echo x > .git/index", "git cannot read the index"),
        ("git branch kept; git update-index --split-index", "git cannot read the index"),
        (f"git branch kept; echo {'1' * 40} > .git/refs/heads/none", "a commit is incomplete"),
        (f"git branch kept; echo {'1' * 40} refs/-x >> .git/packed-refs", "holds what it should"),
        (f"git branch kept; {FORGED_OBJECT}", f"the object {1:040} is damaged"),
        ("git branch kept; echo x > .git/objects/pack/pack-11.pack", "is damaged"),
        ("git branch kept; git rebase -q -x false HEAD~1", "is not finished"),
        ("git branch kept; git rev-parse HEAD > .git/MERGE_AUTOSTASH", "is not finished"),
        ("git branch kept; sleep 60", "since it was stopped"),
    ],
)
async def test_nothing_of_what_is_odd_is_kept(
    confinement: Confinement, world: Path, text: str, reason: str
) -> None:
    before = state(world)
    timeout = 3 if "sleep" in text else 90
    result = await work(confinement, text, world / "tree", timeout, layered=True)
    assert reason in result.output
    after = state(world)
    objects = {name for name in before if name.endswith(" objects")}
    assert {name: after[name] for name in after if name not in objects} == {
        name: before[name] for name in before if name not in objects
    }
    assert not list((world / "tree/.git").rglob("*.lock"))


@pytest.mark.parametrize(
    "instead",
    [
        "ln -s ../outside nested",
        "mkdir nested; ln -s ../../outside/.git nested/.git",
        "mkdir nested; cp -r moved/.git nested",
        "mkdir -p nested/.git",
        "true",
    ],
)
async def test_nothing_is_written_to_what_takes_the_place_of_a_moved_git_folder(
    confinement: Confinement, world: Path, instead: str
) -> None:
    shutil.copytree(world / "tree/nested", world / "outside")
    before = {path: path.is_file() and path.read_bytes() for path in world.rglob("outside/**/*")}
    text = f"git -C nested branch evil; mv nested moved; {instead}"
    result = await work(confinement, text, world / "tree", layered=True)
    assert "nested/.git was kept, since it has been moved" in result.output
    assert before == {
        path: path.is_file() and path.read_bytes() for path in world.rglob("outside/**/*")
    }
    assert "evil" not in shell("git -C moved branch", world / "tree")


def index_with(name: bytes, world: Path) -> bytes:
    """Return an index that names a file that git would not let into one."""
    same_length = "x" * len(name)
    shell(f"git update-index --add --cacheinfo 100644,$(git hash-object -w a),{same_length}", world)
    content = (world / ".git/index").read_bytes()[:-20].replace(same_length.encode(), name)
    return content + hashlib.sha1(content).digest()


@pytest.mark.parametrize("name", [b".git/hooks/post-checkout", b"../outside", b"a/.GIT/config"])
async def test_an_index_that_leads_elsewhere_is_not_kept(
    confinement: Confinement, made_world: Path, world: Path, tmp_path: Path, name: bytes
) -> None:
    (world / "tree/forged").write_bytes(
        index_with(name, copied(made_world, tmp_path / "c") / "tree")
    )
    before = (world / "tree/.git/index").read_bytes()
    result = await work(confinement, "cp forged .git/index", world / "tree", layered=True)
    assert f"the index names {name.decode()}" in result.output
    assert (world / "tree/.git/index").read_bytes() == before


async def test_what_somebody_else_did_meanwhile_stays(
    confinement: Confinement, world: Path
) -> None:
    tree = world / "tree"
    running = asyncio.create_task(
        work(
            confinement,
            "git commit -q --allow-empty -m goal; touch ready; while test ! -e go; do :; done",
            tree,
            layered=True,
        )
    )
    while not (tree / "ready").exists():
        await asyncio.sleep(0.01)
    shell("git status; git commit -q --allow-empty -m user", tree)
    (tree / "go").touch()
    assert "has been changed by somebody else in the meantime" in (await running).output
    assert "user" in shell("git log -1 --format=%s", tree)
    # That somebody looked at the status does not count.
    (tree / "ready").unlink()
    (tree / "go").unlink()
    running = asyncio.create_task(
        work(
            confinement,
            "echo new > a; git add a; touch ready; while test ! -e go; do :; done",
            tree,
            layered=True,
        )
    )
    while not (tree / "ready").exists():
        await asyncio.sleep(0.01)
    shell("touch b; git status", tree)
    (tree / "go").touch()
    assert "aish" not in (await running).output
    assert "M  a" in shell("git status --short", tree)


@pytest.mark.parametrize("where", ["../elsewhere", "inside"])
async def test_a_git_folder_that_is_a_link(
    confinement: Confinement, world: Path, where: str
) -> None:
    tree = world / "nested"
    shutil.copytree(world / "tree/nested", tree)
    (tree / ".git").rename(tree / where)
    (tree / ".git").symlink_to(where)
    result = await work(confinement, "git commit -q --allow-empty -m x", tree, layered=True)
    assert (result.exit_code, result.output) == (0, "")
    assert shell("git log -1 --format=%s", tree) == "x\n"
    for text in (f"echo x >> {where}/config", "rm .git", "mv n .git", f"touch {where}/commondir"):
        result = await work(confinement, text, tree)
        assert result.exit_code != 0, text


async def test_git_folders_of_other_kinds(confinement: Confinement, world: Path) -> None:
    for text in ("mkdir deep/r && git clone -q --bare . deep/r", "git init -q deep/s"):
        result = await work(confinement, text, world / "tree")
        assert "put aside" in result.output
    shell("git clone -q --bare nested deep/bare", world / "tree")
    for layered in (False, True):
        text = "git -C deep/bare config core.fsmonitor x"
        await work(confinement, text, world / "tree", layered=layered)
        assert "fsmonitor" not in (world / "tree/deep/bare/config").read_text()
    # A folder of a work tree, opened by itself.
    text = "touch new; git add new; git commit -qm new"
    result = await work(confinement, text, world / "tree/deep", layered=True)
    assert (result.exit_code, result.output) == (0, "")
    assert "deep/new" in shell("git show --stat", world / "tree")
    # None at all.
    shutil.rmtree(world / "tree/.git")
    result = await work(confinement, "git init -q", world / "tree", layered=True)
    assert ".git is put aside" in result.output


async def test_a_git_folder_of_which_nothing_could_be_kept(
    confinement: Confinement, world: Path
) -> None:
    (world / "tree/.git/reftable").mkdir()
    why_not = await confinement.why_no_work(world / "tree", layered=True)
    assert "that cannot be taken over" in why_not
    with pytest.raises(Denied, match="that cannot be taken over"):
        await work(confinement, "git status", world / "tree", layered=True)
    (world / "tree/.git/reftable").rmdir()
    assert await confinement.why_no_work(world / "tree", layered=True) == ""


async def test_no_command_reaches_a_layer(confinement: Confinement, world: Path) -> None:
    text = f"git commit -q --allow-empty -m x; cat {data_dir()}/layers/*/0/upper/COMMIT_EDITMSG"
    text += f"; echo x > {data_dir()}/layers/new; ls {data_dir()}/layers/*/0"
    result = await work(confinement, text, world / "tree", layered=True)
    assert result.output.count("denied") + result.output.count("ead-only") >= 2
    assert "\nx\n" not in f"\n{result.output}"


async def test_no_git_of_the_tree_runs_afterwards(
    confinement: Confinement, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = _evil(world)
    (world / "tree/.venv/bin").mkdir(parents=True)
    shutil.copy(world / "tree/evil", world / "tree/.venv/bin/git")
    monkeypatch.setenv("PATH", f"{world}/tree/.venv/bin:{os.environ['PATH']}")
    text = f"PATH={os.environ['PATH'].partition(':')[2]}; echo x > new; git add new"
    result = await work(confinement, text, world / "tree", layered=True)
    assert result.output == ""
    assert not canary.exists()
    assert "A  new" in shell(
        f"PATH={os.environ['PATH'].partition(':')[2]}; git status -s", world / "tree"
    )


async def test_the_name_of_a_git_folder_is_told_on_one_line(
    confinement: Confinement, world: Path
) -> None:
    (world / "tree/nested").rename(world / "tree/odd\n[aish: x]")
    result = await work(confinement, "sleep 60", world / "tree", 3, layered=True)
    told = "[aish: nothing that git did in "
    lines = [line for line in result.output.splitlines() if "aish: " in line]
    assert lines
    assert [line for line in lines if not line.startswith(told)] == []
    assert [line for line in lines if not line.endswith("it was stopped]")] == []


async def test_the_name_of_what_cannot_be_protected_is_told_on_one_line(
    confinement: Confinement, world: Path
) -> None:
    odd = world / "tree/odd\nname"
    (odd / ".git").mkdir(parents=True)
    (odd / ".git/config").symlink_to("../../none")
    with pytest.raises(Denied) as denied:
        await work(confinement, "true", world / "tree")
    assert "\n" not in denied.value.message
