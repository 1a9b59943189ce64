"""In the profile ``work`` nothing is left in the tree that decides what runs later."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import test_work_profile
from test_work_profile import work

from aish_lsp.foundation.errors import Denied
from aish_lsp.foundation.files import workspace_dir
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.protected import protected_by, rows

pytestmark = test_work_profile.pytestmark

NAMES = [
    (name.replace("*", "x"), row.placeholder and "*" not in name)
    for row in rows()
    for name in row.names
    if name != ".git"
]
#: Writes each file that it is told, and prints the names of those that it could write.
WRITER = """
import os, sys
for name in sys.stdin.read().split():
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w") as file:
            file.write("evil")
        print(name)
    except OSError:
        pass
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "package.json").write_text("{}\n")
    (folder / "writer.py").write_text(WRITER)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def files(tree: Path) -> dict[str, str]:
    found = (path for path in tree.rglob("*") if ".git" not in path.relative_to(tree).parts)
    return {str(path.relative_to(tree)): path.read_text() for path in found if path.is_file()}


async def written(confinement: Confinement, tree: Path, names: list[str]) -> tuple[set[str], str]:
    """Return what a program that tries to write all of ``names`` can write, and its output."""
    (tree / "names").write_text("\n".join(names))
    result = await work(confinement, f"{shlex.quote(sys.executable)} writer.py < names", tree)
    assert result.exit_code == 0, result.output
    return set(result.output.split("\n")) & set(names), result.output


async def test_what_is_there_stays_at_every_depth(confinement: Confinement, tree: Path) -> None:
    names = [f"{folder}{name}" for name, _ in NAMES for folder in ("", "package/", "a/b/")]
    for name in names:
        # A file, or a file in a folder.
        path = tree / name if Path(name).suffix else tree / name / "inside"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    before = files(tree)
    tried = [name if Path(name).suffix else f"{name}/inside" for name in names]
    could, output = await written(confinement, tree, tried)
    assert could == set()
    assert "put aside" not in output
    (tree / "names").unlink()
    assert files(tree) == before


async def test_what_is_not_there_is_not_left(confinement: Confinement, tree: Path) -> None:
    names = {f"{folder}{name}": held for name, held in NAMES for folder in ("", "package/")}
    names |= {f"a/b/{name}": False for name, _ in NAMES}
    before = sorted([*tree.rglob("*"), tree / "names", tree / "a", tree / "a/b"])
    could, output = await written(confinement, tree, list(names))
    # `.ssh` is tried as a file: it is one where nothing holds it.
    assert could == {name for name, held in names.items() if not held}
    aside = next((workspace_dir(tree) / "aside").iterdir())
    assert str(aside) in output
    assert {str(path.relative_to(aside)) for path in aside.rglob("*") if path.is_file()} == could
    left = sorted(path for path in tree.rglob("*") if path not in before)
    # The folders above those of several parts may be anybody's.
    assert [path for path in left if path.is_file() or protected_by(str(path))] == []
    assert set(before) <= set(tree.rglob("*"))


@pytest.mark.parametrize(
    "text",
    [
        "mkdir -p a/.vscode && echo x > a/.vscode/tasks.json",
        "mkdir b && echo x > b/.ENVRC",
        "ln -s ../file .idea.d && mkdir c && ln -s ../file c/.vimrc",
        "mkdir -p build/d && echo x > build/d/x.code-workspace",
        "mkdir d && touch d/.envrc && chmod 000 d/.envrc && chmod 500 d",
        "mv package moved && mkdir package && echo {} > package/package.json && : > package/.npmrc",
        "mkdir -p e/.cargo && echo x > e/.cargo/config.toml && chmod 000 e",
    ],
)
async def test_what_is_made_anywhere_is_put_aside(
    confinement: Confinement, tree: Path, text: str
) -> None:
    (tree / ".gitignore").write_text("build\n")
    (tree / "file").write_text("file\n")
    result = await work(confinement, text, tree)
    assert result.exit_code == 0, result.output
    assert "is put aside: it decides what runs" in result.output
    subprocess.run(["chmod", "-R", "u+rwX", tree], check=True)
    names = (path.relative_to(tree) for path in tree.rglob("*"))
    assert [name for name in names if protected_by(str(name)) and ".git" not in name.parts] == []


async def test_dependencies_may_hold_anything_but_repositories(
    confinement: Confinement, tree: Path
) -> None:
    text = (
        "mkdir -p node_modules/x/.vscode && touch node_modules/x/.npmrc"
        " && git init -q node_modules/x"
    )
    result = await work(confinement, text, tree)
    assert "node_modules/x/.git is put aside" in result.output
    assert {path.name for path in (tree / "node_modules/x").iterdir()} == {".vscode", ".npmrc"}


async def test_what_was_there_may_be_moved_with_its_folder(
    confinement: Confinement, tree: Path
) -> None:
    (tree / "a" / ".vscode").mkdir(parents=True)
    (tree / "a" / ".vscode" / "tasks.json").write_text("mine")
    result = await work(confinement, "mv a b && mv package packed", tree)
    assert (result.exit_code, result.output) == (0, "")
    assert (tree / "b/.vscode/tasks.json").read_text() == "mine"
    assert [path.name for path in (tree / "packed").iterdir()] == ["package.json"]


async def test_a_folder_that_a_command_emptied_goes_with_its_placeholders(
    confinement: Confinement, tree: Path
) -> None:
    (tree / "x" / "y").mkdir(parents=True)
    (tree / "package").rename(tree / "x" / "y" / "package")
    await work(confinement, "rm -r x", tree)
    assert not (tree / "x").exists()


async def test_a_file_that_is_changed_by_another_name_is_put_aside(
    confinement: Confinement, tree: Path
) -> None:
    (tree / ".envrc").write_text("mine\n")
    os.link(tree / ".envrc", tree / "other")
    result = await work(confinement, "echo evil >> other", tree)
    assert ".envrc is put aside" in result.output
    assert not (tree / ".envrc").exists()


SERVER = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

async def ignore(_stream, _delta):
    pass

async def main():
    root = Path(sys.argv[1])
    with await Confinement(os.environ).work_sandbox(root) as sandbox:
        await run_command(sys.argv[2], cwd=root, shell="sh", timeout=None, env=os.environ,
                          on_output=ignore, sandbox=sandbox)

asyncio.run(main())
"""


async def test_it_is_put_aside_even_if_the_server_is_killed(tree: Path) -> None:
    text = "mkdir -p a/.vscode; touch a/.vscode/tasks.json ready; sleep 1000"
    server = subprocess.Popen([sys.executable, "-c", SERVER, tree, text])
    try:
        while not (tree / "ready").exists():
            assert server.poll() is None
            await asyncio.sleep(0.01)
        assert (tree / ".envrc").is_dir()
    finally:
        server.kill()
        server.wait()
    while (tree / "a" / ".vscode").exists() or (tree / ".envrc").exists():
        await asyncio.sleep(0.01)
    aside = next((workspace_dir(tree) / "aside").iterdir())
    assert (aside / "a/.vscode/tasks.json").exists()


@pytest.mark.skipif(
    Path("/dev/shm").stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev,
    reason="there is only one disk",
)
async def test_it_is_put_aside_onto_another_disk(
    confinement: Confinement, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "fake").mkdir()
    (tree / "fake" / "cp").write_text("#!/bin/sh\ntouch $0.ran\n")
    (tree / "fake" / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tree}/fake:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as data:
        monkeypatch.setenv("AISH_DATA_DIR", data)
        text = (
            f"{shlex.quote(sys.executable)} -c 'import os\n"
            'os.mkdir(".claude" + "x"); os.rename(".claudex", "deep"); os.chdir("deep")\n'
            'os.mkdir(".idea"); os.symlink("/etc", ".idea/link"); os.chdir(".idea")\n'
            'for _ in range(DEPTH): os.mkdir(40 * "d"); os.chdir(40 * "d")\n\''
        )
        result = await work(confinement, text.replace("DEPTH", "20"), tree)
        assert "deep/.idea is put aside" in result.output
        assert sorted((tree / "deep").iterdir()) == []
        aside = next((workspace_dir(tree) / "aside").iterdir())
        assert (aside / "deep/.idea/link").is_symlink()
        assert (aside / "deep/.idea" / ("d" * 40)).is_dir()
        (tree / "deep").rmdir()
        # Nobody can copy this, or go there.
        result = await work(confinement, text.replace("DEPTH", "300"), tree)
        assert "cannot be moved: deep/.idea.put-aside" in result.output
        assert [path.name for path in (tree / "deep").iterdir()] == [".idea.put-aside"]
    assert not (tree / "fake/cp.ran").exists()


async def test_what_cannot_be_put_aside_is_told(
    confinement: Confinement, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as data:
        monkeypatch.setenv("AISH_DATA_DIR", data)
        (workspace_dir(tree)).mkdir(parents=True)
        (workspace_dir(tree) / "aside").write_text("in the way")
        result = await work(confinement, "mkdir d; touch d/.envrc", tree)
    assert "decides what runs cannot be moved: d/.envrc.put-aside" in result.output
    assert (tree / "d" / ".envrc.put-aside").exists()
    assert not (tree / "d" / ".envrc").exists()


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ("ln -s d/x .vscode", "echo evil > d/x/f"),
        ("ln -s d/x .vscode", "mv d e; mkdir -p d/x; echo evil > d/x/f"),
        ("ln -s $PWD/d/x .vscode", "mv d/x e; mkdir -p d/x; echo evil > d/x/f"),
        ("ln -s d l; ln -s l/x .vscode", "rm l; mkdir -p l/x; echo evil > l/x/f"),
        ("ln -s x/../x d/l; ln -s d/l .vscode", "mv d e; mkdir -p d/l; echo evil > d/l/f"),
        ("mkdir .vscode; ln -s ../d/x/f .vscode", "echo evil > d/x/f"),
        ("mkdir .vscode; ln -s ../d/x/f .vscode", "mv d e; mkdir -p d/x; echo evil > d/x/f"),
        ("mkdir .vscode; ln -s ../d/x .vscode/y", "touch d/x/evil"),
        ("mkdir a/.vscode; ln -s ../../d/x a/.vscode/y", "mv a d; mkdir -p d/d/x; : > d/d/x/evil"),
        ("ln -s ../../d/x/f .git/hooks/pre-commit", "echo evil > d/x/f"),
        ("rm -r .git/hooks; ln -s ../d/x .git/hooks", "touch d/x/evil"),
        ("mv .git/hooks h; ln -s ../h .git/hooks; ln -s ../d/x/f h/y", "echo evil > d/x/f"),
    ],
)
@pytest.mark.parametrize("layered", [False, True])
async def test_what_links_lead_to_stays(
    confinement: Confinement, tree: Path, links: str, text: str, layered: bool
) -> None:
    def held() -> dict[str, str]:
        decides = [name for at in (".vscode", "*/.vscode", "d/*/.vscode") for name in tree.glob(at)]
        # As those see it that read it, who follow links.
        found = (os.walk(at, followlinks=True) for at in (*decides, tree / ".git/hooks"))
        walked = (Path(at, name) for walk in found for at, _, files in walk for name in files)
        return {str(path): path.read_text() for path in walked}

    (tree / "d" / "x").mkdir(parents=True)
    (tree / "d" / "x" / "f").write_text("mine")
    (tree / "a").mkdir()
    subprocess.run(["bash", "-ec", links], cwd=tree, check=True)
    before = held()
    assert "mine" in before.values()
    await work(confinement, text, tree, layered=layered)
    assert held() == before


async def test_a_link_that_leads_nowhere_in_the_tree_yet_is_not_worked_by(
    confinement: Confinement, tree: Path
) -> None:
    (tree / ".vscode").mkdir()
    (tree / ".vscode" / "inside").symlink_to("nothing")
    (tree / ".vscode" / "outside").symlink_to("../../nothing")
    (tree / ".vscode" / "loop").symlink_to("loop")
    await work(confinement, "true", tree)
    (tree / ".vscode" / "tasks.json").symlink_to("../nothing")
    with pytest.raises(Denied, match="where there is nothing that could be protected"):
        await work(confinement, "true", tree)


async def test_what_we_run_from_stays(
    confinement: Confinement, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "tools" / ".venv" / "lib").mkdir(parents=True)
    (tree / "tools" / ".venv" / "lib" / "ours.py").write_text("ours")
    monkeypatch.setattr(sys, "prefix", str(tree / "tools" / ".venv"))
    result = await work(confinement, "echo evil > tools/.venv/lib/ours.py", tree)
    assert "Read-only file system" in result.output
    await work(
        confinement, "mv tools t; mkdir -p tools/.venv/lib; cp file tools/.venv/lib/ours.py", tree
    )
    assert (tree / "tools" / ".venv" / "lib" / "ours.py").read_text() == "ours"
