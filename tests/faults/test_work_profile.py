"""A command of the profile ``work`` changes the work tree, and nothing else."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from machine import needs, without_namespaces

from aish_lsp.foundation.errors import Denied
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import RunResult, run_command

pytestmark = needs(without_namespaces())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with a commit, beside it a file that is not its own."""
    folder = tmp_path / "tree"
    (folder / ".vscode").mkdir(parents=True)
    (folder / ".vscode" / "settings.json").write_text("{}\n")
    (folder / "file").write_text("text\n")
    (tmp_path / "beside").write_text("beside\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@x.test")
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True)
    return folder


async def work(
    confinement: Confinement,
    text: str,
    folder: Path,
    timeout: float = 90,
    *,
    layered: bool = False,
) -> RunResult:
    async def ignore(_stream: str, _delta: str) -> None:
        pass

    with await confinement.work_sandbox(folder, layered=layered) as sandbox:
        return await run_command(
            text,
            cwd=folder,
            shell="bash",
            timeout=timeout,
            env=os.environ,
            on_output=ignore,
            sandbox=sandbox,
        )


SERVER = """
import socket, threading
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
threading.Thread(target=lambda: server.accept()[0].sendall(b"served")).start()
print(socket.create_connection(server.getsockname()).recv(10).decode())
"""
POOL = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(abs, [-1, 2]))
"""


@pytest.mark.parametrize(
    "text",
    [
        "cp -p file copy && test file -ot copy -o ! file -nt copy",
        "touch new && chmod +x new && test -x new && touch -d 2001-01-01 new",
        "mkdir -p a/b && mv file a/b/ && ln -s b a/link && ln a/b/file a/hard && rm -r a",
        "tar cf t.tar file && rm file && tar xf t.tar && cat file",
        f"{shlex.quote(sys.executable)} -c {shlex.quote(POOL)}",
        f"{shlex.quote(sys.executable)} -c {shlex.quote(SERVER)}",
        'echo x > "$TMPDIR/x" && echo y > /dev/shm/y && cat "$TMPDIR/x" /dev/shm/y',
        'test -z "$(git status --short)"',
    ],
)
async def test_work_goes_on(confinement: Confinement, tree: Path, text: str) -> None:
    result = await work(confinement, text, tree)
    assert result.exit_code == 0, result.output


async def test_a_virtual_environment_is_made(confinement: Confinement, tree: Path) -> None:
    text = (
        f"{shlex.quote(sys.executable)} -m venv --without-pip venv && venv/bin/python -c 'print(1)'"
    )
    result = await work(confinement, text, tree)
    assert (result.exit_code, result.output) == (0, "1\n")


@pytest.mark.parametrize(
    "text",
    [
        "echo x >> .git/config",
        "git config core.fsmonitor ./x",
        "echo x > .git/config.worktree",
        "mkdir -p .git/info && echo x > .git/info/attributes",
        "echo x > .git/hooks/pre-commit",
        "rm -rf .git/hooks",
        "mv .git moved",
        f'{shlex.quote(sys.executable)} -c \'import os; os.rename(".git/info", "moved")\'',
        "rm -f .git/config",
        "ln -sf /bin/true .git/hooks/pre-commit",
        "chmod 777 .git/config",
        "touch .git/config",
        "echo x > .vscode/settings.json",
        "rm -rf .vscode; test ! -e .vscode",
        "mv .vscode moved",
        "echo x > .envrc",
        "echo x > .aish.toml",
        "echo x > .exrc",
        "echo x > .nvim.lua",
        "echo x > .dir-locals.el",
        "mkdir .idea/x",
        "mkdir .zed/x",
        "mkdir .aish/x",
        "rmdir .envrc",
        "rm -r .idea",
        "echo x > ../beside",
        "touch ../new",
        "chmod 777 ../beside",
        "touch ../beside",
        "rm ../beside",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /",
        "umount .git/config",
        "unshare -m true",
        "kill -0 $PPID",
        "echo x > /proc/sys/kernel/core_pattern",
    ],
)
async def test_the_rest_stays(confinement: Confinement, tree: Path, text: str) -> None:
    def everything() -> dict[Path, object]:
        found: dict[Path, object] = {}
        for path in sorted(tree.parent.rglob("*")):
            if ".git/objects" in str(path):
                continue
            status = path.lstat()
            found[path] = status.st_mode, path.is_file() and path.read_bytes()
        return found

    before = everything()
    result = await work(confinement, text, tree)
    assert result.exit_code != 0, result.output
    assert everything() == before


SETUID = """
import os
def attempt(work):
    try:
        work()
    except PermissionError:
        pass
flags = os.O_CREAT | os.O_WRONLY
attempt(lambda: os.chmod("a", 0o4755))
attempt(lambda: os.fchmod(os.open("b", flags), 0o6755))
attempt(lambda: os.close(os.open("c", flags, 0o4755)))
attempt(lambda: os.mknod("d", 0o104755))
attempt(lambda: os.link(f"/proc/self/fd/{os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)}", "e"))
os.chmod("f", 0o755)
os.mkdir("g")
os.chmod("g", 0o2755)
"""


async def test_nothing_is_made_that_others_can_run_as_the_user(
    confinement: Confinement, tree: Path
) -> None:
    for name in "af":
        (tree / name).touch()
    result = await work(confinement, f"{sys.executable} -c {shlex.quote(SETUID)}", tree)
    assert (result.exit_code, result.output) == (0, "")
    modes = {path.name: path.stat().st_mode for path in tree.iterdir()}
    assert [name for name, mode in modes.items() if mode & stat.S_ISUID] == []
    assert modes["f"] & 0o777 == 0o755
    assert modes["g"] & stat.S_ISGID


async def test_the_services_of_the_machine_are_not_reached(
    confinement: Confinement, tree: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        text = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
        result = await work(confinement, text, tree)
        assert "Connection refused" in result.output
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    result = await work(confinement, "cat < /dev/tcp/192.0.2.1/80", tree)
    assert "unreachable" in result.output


async def test_a_tree_in_which_nothing_can_be_made(
    confinement: Confinement, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tree.rglob("*"))
    sandbox = await confinement.work_sandbox(tree)
    assert sandbox.work is not None
    too_long = os.fsencode(tree / (255 * "x" + "x"))
    sandbox.work["missing"] = [os.fsencode(tree / ".envrc"), too_long]

    async def made(_root: Path, **_options: object) -> object:
        return sandbox

    monkeypatch.setattr(confinement, "work_sandbox", made)
    with pytest.raises(Denied, match="could not be confined"):
        await work(confinement, "touch made", tree)
    assert sorted(tree.rglob("*")) == before


async def test_a_tree_of_many_modules(confinement: Confinement, tree: Path) -> None:
    for number in range(300):
        (tree / ".git" / "modules" / f"module-{number:0100}" / "objects").mkdir(parents=True)
    result = await work(confinement, "echo done", tree)
    assert result.output == "done\n"


async def test_one_command_at_a_time_works_in_a_tree(confinement: Confinement, tree: Path) -> None:
    """The first to end would remove what stands for missing files, and what protects them."""
    sandbox = await confinement.work_sandbox(tree)
    with sandbox, pytest.raises(Denied, match="another command is at work"):
        await work(confinement, "true", tree)
    assert (await work(confinement, "true", tree)).exit_code == 0


async def test_what_a_killed_command_left_goes_with_the_next(
    confinement: Confinement, tree: Path
) -> None:
    for name in (".envrc", ".aish.toml"):
        (tree / name).mkdir(mode=0o700)
    result = await work(confinement, "echo x > .envrc/x", tree)
    assert "Read-only file system" in result.output
    assert not (tree / ".envrc").exists()
    assert not (tree / ".aish.toml").exists()


async def test_a_link_and_what_it_leads_to_stay(
    confinement: Confinement, tree: Path, tmp_path: Path
) -> None:
    (tree / "settings").mkdir()
    (tree / "settings" / "real").write_text("real\n")
    (tree / "settings" / "second").symlink_to("real")
    (tree / ".envrc").symlink_to("settings/second")
    (tree / ".exrc").symlink_to(tmp_path / "elsewhere")
    for text in (
        "echo x > .envrc",
        "ln -sf file .envrc",
        "rm .envrc",
        "mv file settings/second",
        "echo x > settings/real",
        "mv file .exrc",
        "echo x > .exrc",
    ):
        result = await work(confinement, text, tree)
        assert result.exit_code != 0, text
    assert (tree / ".envrc").readlink() == Path("settings/second")
    assert (tree / ".envrc").read_text() == "real\n"
    assert (tree / ".exrc").readlink() == tmp_path / "elsewhere"


async def test_what_cannot_be_protected_is_not_worked_on(
    confinement: Confinement, tree: Path
) -> None:
    (tree / ".envrc").symlink_to("to-be-made")
    with pytest.raises(Denied, match="symbolic link"):
        await work(confinement, "true", tree)
    (tree / ".envrc").unlink()
    (tree / ".bundle").symlink_to("file")
    with pytest.raises(Denied, match="symbolic link"):
        await work(confinement, "true", tree)


async def test_a_tree_that_holds_secret_places_is_not_worked_on(tree: Path) -> None:
    confinement = Confinement({**os.environ, "HOME": str(tree)})
    with pytest.raises(Denied, match="secret places"):
        await work(confinement, "true", tree)


async def test_where_namespaces_are_forbidden_it_is_denied(
    confinement: Confinement, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a confined command there are none: what it starts must not run unconfined instead."""
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "sys.path[:] = sys.argv[2].split(':')\n"
        "from aish_lsp.shell.confinement.support import Confinement\n"
        "from aish_lsp.shell.runner import run_command\n"
        "async def ignore(*_): pass\n"
        "async def main():\n"
        "    root = Path(os.environ['TMPDIR'], 'tree'); root.mkdir()\n"
        "    with await Confinement(os.environ).work_sandbox(root) as sandbox:\n"
        "        await run_command('touch made', cwd=root, shell='sh', timeout=9,\n"
        "            env=os.environ, on_output=ignore, sandbox=sandbox)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)\n"
        "print(os.listdir(os.environ['TMPDIR'] + '/tree'))\n"
    )
    arguments = [sys.executable, "-c", code, "-", ":".join(sys.path)]

    async def ignore(_stream: str, _delta: str) -> None:
        pass

    with await confinement.sandbox(tree) as sandbox:
        result = await run_command(
            shlex.join(arguments),
            cwd=tree,
            shell="bash",
            timeout=60,
            env=os.environ,
            on_output=ignore,
            sandbox=sandbox,
        )
    assert result.output == "Denied\n[]\n"
