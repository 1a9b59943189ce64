"""A confined program tries all that it must not be able to do, and is refused each."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machine import needs, without_namespaces, without_programs

from aish_lsp.foundation.errors import Denied, NotFound
from aish_lsp.foundation.files import data_dir, private_dir
from aish_lsp.shell.confinement import child, seccomp
from aish_lsp.shell.confinement import support as support_module
from aish_lsp.shell.confinement.places import secret_places
from aish_lsp.shell.confinement.support import Confinement, shared_folder
from aish_lsp.shell.runner import RunResult, run_command

ATTEMPTS = Path(__file__).with_name("confined_attempts.py")

linux = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")


async def ignore(_stream: str, _delta: str) -> None:
    """A listener that takes whatever comes."""


async def confined(
    confinement: Confinement, text: str, cwd: Path, *, root: Path | None = None
) -> RunResult:
    with await confinement.sandbox(root or cwd) as sandbox:
        return await run_command(
            text,
            cwd=cwd,
            shell="bash",
            timeout=60,
            env=os.environ,
            on_output=ignore,
            sandbox=sandbox,
        )


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process that is no child of a confined command's."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def terminal() -> Iterator[str]:
    """A terminal that somebody else has open."""
    master, slave = pty.openpty()
    yield os.ttyname(slave)
    os.close(master)
    os.close(slave)


def state(folder: Path) -> dict[str, object]:
    """Return all that is known of what lies in a folder."""
    found: dict[str, object] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        attributes = os.listxattr(path, follow_symlinks=False)
        times = status.st_mtime_ns, status.st_ctime_ns
        owner = status.st_uid, status.st_gid, status.st_nlink
        found[str(path)] = status.st_mode, content, attributes, times, owner
    return found


@linux
@pytest.mark.parametrize("abi", ["7", "5", "3", "2", "1"])
async def test_everything_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    confinement: Confinement,
    stranger: int,
    terminal: str,
    abi: str,
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", abi)
    folder = tmp_path / "work"
    (folder / "empty").mkdir(parents=True)
    victim = folder / "victim"
    victim.write_text("#!/bin/sh\necho untouched\n")
    secret = Path(tempfile.mkdtemp(dir=private_dir(data_dir()))) / "secret"
    secret.write_text("#!/bin/sh\necho secret\n")
    secret.chmod(0o700)
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "socket"))
        before = state(folder)
        arguments = [sys.executable, ATTEMPTS, victim, folder, secret, stranger, terminal]
        result = await confined(confinement, shlex.join(map(str, arguments)), folder)
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(1)
    os.close(reader)
    assert result.exit_code == 0, result.output
    tried = json.loads(result.output)
    assert [name for name, error in tried.items() if error is None] == []
    assert [name for name, error in tried.items() if "broken" in (error or "")] == []
    assert state(folder) == before
    assert len(tried) > 100
    # The tool that tries is able to: unconfined much of it goes through.


@linux
def test_the_attempts_are_real(tmp_path: Path, stranger: int, terminal: str) -> None:
    """Unconfined they go through: nothing but the confinement refuses them."""
    folder = tmp_path / "work"
    (folder / "empty").mkdir(parents=True)
    victim = folder / "victim"
    victim.write_text("untouched\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "socket"))
        arguments = [victim, folder, "/etc/passwd", stranger, terminal]
        done = subprocess.run(
            [sys.executable, ATTEMPTS, "--harmless", *map(str, arguments)],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
    tried = json.loads(done.stdout)
    may_be_missing = {"setxattr", "FS_IOC_SETFLAGS"}  # Not every file system has them.
    refused = {name for name, error in tried.items() if error is not None}
    assert refused <= may_be_missing
    assert len(tried) > 20


@linux
@pytest.mark.parametrize(
    "text",
    [
        "cat <<E\nhere $((1 + 1))\nE",
        "cat <<< here",
        "diff <(echo a) <(echo a) && echo same",
        "echo hidden 2>/dev/null >/dev/null; echo shown",
        "echo to stdout > /dev/stdout; echo to stderr > /dev/stderr",
        "seq 200000 | sort -S 1M -r | head -n 1",
        'f=$(mktemp) && echo made > "$f" && cat "$f" && rm "$f"',
        "sleep 5 & kill $!; wait $!; echo $?",
        "timeout 5 ls",
        "ulimit -n >/dev/null; nice -n 5 ls; nohup ls 2>/dev/null",
        "ls -la >/dev/null; stat -c %n . ; df -h . | wc -l; ps -o pid= -p $$ | wc -l",
        "git status --short; git log --oneline 2>&1 | wc -l; git diff | wc -l",
        "find . -name '*.txt' -newer . ; cat file.txt | tr a-z A-Z; wc -c < file.txt",
        "id -u; date +%Y; uname -s; nproc",
        "ls /proc/self/fd | wc -l",
    ],
)
async def test_everyday_commands_do_not_notice(
    tmp_path: Path, confinement: Confinement, text: str
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "file.txt").write_text("text\n")

    free = await run_command(
        text, cwd=tmp_path, shell="bash", timeout=60, env=os.environ, on_output=ignore
    )
    held = await confined(confinement, text, tmp_path)
    assert (held.exit_code, held.output) == (free.exit_code, free.output)
    assert not held.refused


#: It has a sleeper of its own session, and then tries to kill the supervisor by its group.
MUTINY = """
import os, signal, sys, time
sleeper = os.fork()
if sleeper == 0:
    os.setsid()
    time.sleep(600)
print(sleeper, flush=True)
parent = int(sys.argv[1])
try:
    os.setpgid(0, parent)
except OSError as error:
    sys.exit(f"refused: {error}")
os.kill(0, signal.SIGKILL)
"""


@linux
@pytest.mark.parametrize("abi", ["7", "5", "1"])
async def test_the_supervisor_cannot_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confinement: Confinement, abi: str
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", abi)
    text = f"{shlex.join([sys.executable, '-c', MUTINY])} $PPID"
    result = await confined(confinement, text, tmp_path)
    assert result.finish_reason == "stop"
    assert "refused" in result.output
    sleeper = int(result.output.split()[0])
    assert not Path(f"/proc/{sleeper}").exists()


@linux
async def test_a_refusal_is_noticed(tmp_path: Path, confinement: Confinement) -> None:
    result = await confined(confinement, "touch new; true", tmp_path)
    assert (result.exit_code, result.refused) == (0, True)
    assert not (tmp_path / "new").exists()


@linux
@pytest.mark.parametrize(
    "words",
    [
        "open x: permission denied",  # Go
        "dial tcp: lookup x: operation not permitted",
        "PermissionError: [Errno 13] Permission denied: 'x'",
        "Error: EACCES: permission denied, open 'x'",
        "Error: getaddrinfo EAI_AGAIN example.com",
    ],
)
async def test_a_refusal_is_noticed_in_the_words_of_any_language(
    tmp_path: Path, confinement: Confinement, words: str
) -> None:
    assert (await confined(confinement, f"echo {shlex.quote(words)} >&2", tmp_path)).refused


@linux
async def test_the_temporary_folder_goes_with_the_command(
    tmp_path: Path, confinement: Confinement
) -> None:
    text = (
        'mkdir -p "$TMPDIR/a/b"; echo x > "$TMPDIR/a/b/c"; ln -s / "$TMPDIR/root"; echo "$TMPDIR"'
    )
    result = await confined(confinement, text, tmp_path)
    folder = Path(result.output.strip())
    assert folder.parent.is_dir()
    assert not folder.exists()
    assert Path("/etc/passwd").exists()


@linux
@pytest.mark.parametrize(
    "text",
    [
        # Deeper than a recursion goes.
        'mkdir -p "$TMPDIR/$(printf "a/%.0s" {1..1900})"',
        'cd "$TMPDIR"; d=$(printf "dddddddd/%.0s" {1..200}); mkdir -p $d; cd -P $d; mkdir -p $d',
        # What may not be listed, or not be written.
        '(umask 444; mkdir "$TMPDIR/d"; echo x > "$TMPDIR/d/file"; mkdir "$TMPDIR/d/e")',
        '(umask 777; mkdir "$TMPDIR/d"); mkdir -p "$TMPDIR/x/y"; (umask 777; mkdir "$TMPDIR/x/z")',
        'ln -s / "$TMPDIR/root"; mkfifo "$TMPDIR/fifo"; mkdir "$TMPDIR/d"; ln -s .. "$TMPDIR/d/up"',
    ],
)
async def test_the_temporary_folder_goes_however_it_was_left(
    tmp_path: Path, confinement: Confinement, text: str
) -> None:
    result = await confined(confinement, f'{text}; echo "$TMPDIR"', tmp_path)
    folder = Path(result.output.strip())
    assert folder.parent.is_dir()
    assert list(folder.parent.iterdir()) == []


@linux
@pytest.mark.parametrize("abi", ["7", "5", "2", "1"])
async def test_a_temporary_folder_is_one_command_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confinement: Confinement, abi: str
) -> None:
    """Nothing is left for the next command, and nothing done to what runs beside it."""
    monkeypatch.setenv("AISH_LANDLOCK_ABI", abi)
    with await confinement.sandbox(tmp_path) as other:
        beside = shlex.quote(str(other.temporary))
        text = (
            # In one pipe, as two are read in any order.
            'exec 2>&1; echo x > "$TMPDIR/../left"; '
            f'echo x > {beside}/put; rmdir {beside}; mkdir "$TMPDIR/d"'
            f' && echo mine > "$TMPDIR/own" && mv "$TMPDIR/own" {beside}; cat "$TMPDIR/own"'
        )
        result = await confined(confinement, text, tmp_path)
        assert result.output.count("Permission denied") >= 3
        assert result.output.endswith("mine\n")
        assert list(other.temporary.parent.iterdir()) == [other.temporary]
        assert list(other.temporary.iterdir()) == []


@linux
async def test_files_are_moved_within_the_temporary_folder(
    tmp_path: Path, confinement: Confinement
) -> None:
    text = 'cd "$TMPDIR" && mkdir a b && echo x > a/f && mv a/f b/f && ln b/f a/g && cat a/g'
    result = await confined(confinement, text, tmp_path)
    assert result.output == "x\n"


@linux
async def test_the_temporary_folder_goes_also_where_nothing_was_started(
    tmp_path: Path, confinement: Confinement
) -> None:
    with await confinement.sandbox(tmp_path) as sandbox, pytest.raises(NotFound):
        await run_command(
            ":",
            cwd=tmp_path,
            shell="no-such-shell",
            timeout=60,
            env=os.environ,
            on_output=ignore,
            sandbox=sandbox,
        )
    assert not sandbox.temporary.exists()


@linux
async def test_a_workspace_of_any_name(tmp_path: Path, confinement: Confinement) -> None:
    folder = tmp_path / os.fsdecode(b'new\nline \xff " quote')
    folder.mkdir()
    (folder / "file").write_text("text\n")
    result = await confined(confinement, "cat file; touch new", folder)
    assert result.output.startswith("text\n")
    assert not (folder / "new").exists()


@linux
async def test_where_the_kernel_has_none_it_is_not_to_be_had(
    monkeypatch: pytest.MonkeyPatch, confinement: Confinement
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", "0")
    support = await confinement.support()
    assert not support.available
    assert "Landlock" in support.detail
    async with asyncio.timeout(10):
        with pytest.raises(Denied, match="Landlock"):
            await confinement.sandbox(None)


@linux
@pytest.mark.parametrize("abi", ["1", "3", "7"])
async def test_the_probe_finds_that_it_holds(
    monkeypatch: pytest.MonkeyPatch, confinement: Confinement, abi: str
) -> None:
    monkeypatch.setenv("AISH_LANDLOCK_ABI", abi)
    support = await confinement.support()
    assert support.available, support.detail


@linux
async def test_a_filter_that_lets_something_through_is_found_out(
    monkeypatch: pytest.MonkeyPatch, confinement: Confinement
) -> None:
    """The probe is what decides, not what we believe of the kernel."""
    allow_all = seccomp.program(7)[-8:]
    monkeypatch.setattr(seccomp, "program", lambda _abi: allow_all)
    support = await confinement.support()
    assert not support.available
    assert "change a file's mode" in support.detail
    assert "open a connection" in support.detail


@linux
async def test_a_probe_that_cannot_run_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, confinement: Confinement
) -> None:
    monkeypatch.setattr(support_module, "_PROBE", Path("/no-such-probe.py"))
    support = await confinement.support()
    assert not support.available
    assert "an everyday command fails" in support.detail
    assert "no-such-probe" in support.detail


@linux
async def test_a_probe_that_takes_too_long_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, confinement: Confinement
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(support_module, "_PROBE_SECONDS", 0.001)
        support = await confinement.support()
    assert not support.available
    assert "could not be tried" in support.detail
    # The machine was busy; it need not be for ever.
    assert await confinement.support() is support
    monkeypatch.setattr(support_module, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(support_module, "_PROBE_SECONDS", 120.0)
    assert (await confinement.support()).available


@linux
async def test_a_secret_stays_closed_in_a_workspace_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("key\n")
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "netrc").write_text("key\n")
    (home / ".netrc").symlink_to("dotfiles/netrc")
    (home / ".gitconfig").write_text("[user]\n")
    confinement = Confinement({**os.environ, "HOME": str(home)})
    text = "ls .ssh; cat .gitconfig; cat .ssh/id .netrc dotfiles/netrc"
    result = await confined(confinement, text, home)
    assert result.output.startswith("id\n[user]\n")
    assert "key" not in result.output
    # What was not there when it began, and what changes meanwhile.
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text("key\n")
    (home / ".config").mkdir()
    (home / "later").write_text("plain\n")
    result = await confined(confinement, "cat later .aws/credentials", home)
    assert result.output.startswith("plain\n")
    assert "key" not in result.output
    (home / ".config" / "gh").mkdir()
    (home / ".config" / "gh" / "hosts.yml").write_text("key\n")
    result = await confined(confinement, "cat .config/gh/hosts.yml", home)
    assert "key" not in result.output
    # A workspace that lies in a secret place is readable; what lies beside it is not.
    (home / ".ssh" / "work").mkdir()
    (home / ".ssh" / "work" / "notes").write_text("notes\n")
    result = await confined(confinement, "cat notes ../id", home / ".ssh" / "work")
    assert result.output.startswith("notes\n")
    assert "key" not in result.output
    await confinement.aclose()


@linux
async def test_links_lead_to_no_secret(tmp_path: Path) -> None:
    """What keeps its dotfiles elsewhere (GNU stow and its like) keeps them as closed."""
    home, kept = tmp_path / "home", tmp_path / "dotfiles"
    (home / ".aws").mkdir(parents=True)
    kept.mkdir()
    for name in ("aws", "history", "later", "last", "plain"):
        (kept / name).write_text(f"{name} text\n")
    (home / ".aws" / "credentials").symlink_to(kept / "aws")
    (home / ".bash_history").symlink_to(kept / "history")
    confinement = Confinement({**os.environ, "HOME": str(home)})
    text = f"cd {kept} && cat aws history plain; cat {home}/.aws/credentials {home}/.bash_history"
    result = await confined(confinement, text, tmp_path)
    assert [line for line in result.output.splitlines() if "text" in line] == ["plain text"]
    # Links that come while the server runs, the second in a folder that was there.
    (home / ".netrc").symlink_to(kept / "later")
    (home / ".aws" / "config").symlink_to(kept / "last")
    result = await confined(confinement, f"cd {kept} && cat later last plain", tmp_path)
    assert [line for line in result.output.splitlines() if "text" in line] == ["plain text"]
    # And what links lead to that are no place of secrets: nothing is closed for them.
    (home / ".ssh").symlink_to("/")
    (home / ".gnupg").symlink_to(home)
    result = await confined(confinement, f"cat {kept}/plain", tmp_path)
    assert result.output == "plain text\n"
    await confinement.aclose()


@linux
async def test_a_home_in_a_folder_that_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on machines of many users, where nobody sees whom else there is."""
    homes = tmp_path / "homes"
    root = homes / "me" / "project"
    (homes / "me" / ".ssh").mkdir(parents=True)
    root.mkdir()
    for path in (root / "file", homes / "me" / "file", homes / "me" / ".ssh" / "id"):
        path.write_text(f"{path.name} text\n")
    scan = os.scandir

    def scandir(path: str) -> object:
        if path == str(homes):  # Root may list all.
            raise PermissionError
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    confinement = Confinement({**os.environ, "HOME": str(homes / "me")})
    result = await confined(confinement, "cat file ../file ../.ssh/id", root)
    assert result.output.startswith("file text\nfile text\n")
    assert "id text" not in result.output
    await confinement.aclose()


MOUNTED = """
import asyncio, os, subprocess, sys
from pathlib import Path
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.confinement.support import shared_folder
from aish_lsp.shell.runner import run_command

async def ignore(*_): pass

async def main(top):
    home, work = top / "home", top / "work"
    for folder in (home / ".ssh" / "keys", work, top / "all", top / "keys", top / "plain"):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id").write_text("secret\\n")
    (home / ".ssh" / "keys" / "id").write_text("secret\\n")
    (home / "file").write_text("open\\n")
    for source, point in ((home, "all"), (home / ".ssh" / "keys", "keys"), (work, "plain")):
        subprocess.run(["mount", "--bind", source, top / point], check=True)
    (work / "file").write_text("open\\n")
    confinement = Confinement({**os.environ, "HOME": str(home)})
    text = "cd ..; cat all/file plain/file home/file; cat all/.ssh/id all/.ssh/keys/id keys/id"
    with await confinement.sandbox(work) as sandbox:
        result = await run_command(
            text,
            cwd=work,
            shell="sh",
            timeout=60,
            env=os.environ,
            on_output=ignore,
            sandbox=sandbox,
        )
    print(result.output, end="")

asyncio.run(main(Path(sys.argv[1])))
"""


@needs(without_programs("unshare") or without_namespaces())
def test_a_secret_that_is_mounted_elsewhere_too(tmp_path: Path) -> None:
    alone = ["unshare", "-Urm", "--propagation", "private"]
    done = subprocess.run(
        [*alone, sys.executable, "-c", MOUNTED, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[:3] == ["open"] * 3
    assert "secret" not in done.stdout
    assert done.stdout.count("Permission denied") == 3


@linux
async def test_a_user_without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that was started with any number for its user."""
    monkeypatch.setattr(os, "geteuid", lambda: 987654)
    closed = secret_places({"HOME": str(tmp_path)})
    assert closed.contains(tmp_path / ".ssh" / "id")


def test_on_macos_a_command_writes_its_own_folder_alone(tmp_path: Path) -> None:
    confinement = Confinement({"HOME": "/home/a b"})
    sandbox = confinement._sandbox_of_macos(tmp_path, tmp_path)
    assert sandbox.temporary.parent == tmp_path
    profile = sandbox.prefix[-1]
    assert profile.count("allow file-write*") == 1
    assert f'(allow file-write* (subpath "{sandbox.temporary}"))' in profile
    assert '(subpath "/home/a b/.ssh")' in profile


def test_a_home_that_no_profile_can_name_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no sandbox profile can name"):
        Confinement({"HOME": "/home/a\nb"})._sandbox_of_macos(tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []


@linux
async def test_what_is_cancelled_meanwhile_leaves_nothing(
    tmp_path: Path, confinement: Confinement
) -> None:
    with await confinement.sandbox(tmp_path) as sandbox:
        shared = sandbox.temporary.parent
    before = len(list(Path("/proc/self/fd").iterdir()))
    making = [asyncio.create_task(confinement.sandbox(tmp_path)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in making:
        task.cancel()
    await asyncio.gather(*making, return_exceptions=True)
    with await confinement.sandbox(tmp_path) as sandbox:  # It waits for those before it.
        assert list(shared.iterdir()) == [sandbox.temporary]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


_SERVER = """
import asyncio, os
from pathlib import Path
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.confinement.support import shared_folder
from aish_lsp.shell.runner import run_command

async def show(_stream, delta):
    print(delta, end="", flush=True)

async def main():
    with await Confinement(os.environ).sandbox(Path.cwd()) as sandbox:
        text = 'echo x > "$TMPDIR/file"; echo "$TMPDIR"; sleep 600'
        await run_command(text, cwd=Path.cwd(), shell="sh", timeout=600, env=os.environ,
            on_output=show, sandbox=sandbox)

asyncio.run(main())
"""


@linux
def test_a_killed_server_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither by its end nor by those of others: their folders lie in the same one, which stays."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "work").mkdir()
    environ = {**os.environ, "TMPDIR": str(temporary)}
    folders = set()
    for _ in range(3):
        command = [sys.executable, "-c", _SERVER]
        server = subprocess.Popen(
            command, cwd=tmp_path / "work", env=environ, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        folder = Path(server.stdout.readline().strip())
        assert (folder / "file").read_text() == "x\n"
        server.kill()
        server.communicate()
        while folder.exists():  # The supervisor sees the end of its pipe.
            time.sleep(0.01)
        folders.add(folder.parent)
    assert len(folders) == 1
    assert list(temporary.iterdir()) == list(folders)
    assert list(folders.pop().iterdir()) == []


@linux
async def test_what_was_left_long_ago_goes_at_the_next_start(
    tmp_path: Path, confinement: Confinement
) -> None:
    shared, _ = shared_folder()
    now = time.time()
    for folder in (shared, shared.parent):
        for name, age in (("aish-probe-old", 90_000), ("aish-probe-new", 3_000)):
            (folder / name / "inner").mkdir(parents=True)
            (folder / name).chmod(0o700)
            os.utime(folder / name, (now - age, now - age))
    await confined(confinement, "true", tmp_path)
    assert [path.name for path in shared.iterdir()] == ["aish-probe-new"]
    assert {path.name for path in shared.parent.iterdir()} == {shared.name, "aish-probe-new"}


@linux
async def test_a_folder_that_others_can_write_is_not_used(
    tmp_path: Path, confinement: Confinement
) -> None:
    shared, _ = shared_folder()
    shared.chmod(0o777)
    shared.with_name("elsewhere").mkdir()
    for _ in range(2):
        result = await confined(confinement, 'echo x > "$TMPDIR/x" && echo "$TMPDIR"', tmp_path)
        folder = Path(result.output.strip()).parent
        assert folder != shared
        assert folder.stat().st_mode & 0o077 == 0
    assert len(list(shared.parent.iterdir())) == 3
    shared.rmdir()
    shared.symlink_to(shared.with_name("elsewhere"))
    assert shared_folder()[0] != shared


@linux
async def test_a_folder_that_was_made_anew_is_written(
    tmp_path: Path, confinement: Confinement
) -> None:
    """The rulesets are made for the one that was there: somebody tidied it up meanwhile."""
    text = 'echo x > "$TMPDIR/x" && cat "$TMPDIR/x"'
    for _ in range(2):
        assert (await confined(confinement, text, tmp_path)).output == "x\n"
        shared, _ = shared_folder()
        shared.rmdir()
        shared_folder()


@linux
async def test_many_at_once(tmp_path: Path, confinement: Confinement) -> None:
    """Each has a sandbox of its own, although rulesets are made anew meanwhile."""

    for number in range(12):
        (tmp_path / f"file{number}").write_text(f"{number}\n")
    texts = [f"cat file{number}; touch new" for number in range(12)]
    results = await asyncio.gather(*(confined(confinement, text, tmp_path) for text in texts))
    for number, result in enumerate(results):
        assert result.output.startswith(f"{number}\n"), result
        assert result.refused
    assert not (tmp_path / "new").exists()


@linux
def test_a_link_in_place_of_a_folder_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that outlived its command could put it there between two steps."""
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.mkdir(mode=0o750)
    (folder / "closed").mkdir(parents=True)
    opened = os.open

    def open_closed(path: Any, flags: int, *rest: Any, **by: Any) -> int:
        if path == "closed" and not (folder / "closed").is_symlink():
            (folder / "closed").rmdir()
            (folder / "closed").symlink_to(victim)
            raise PermissionError
        return opened(path, flags, *rest, **by)

    monkeypatch.setattr(os, "open", open_closed)
    # As it is for a folder that holds something.
    monkeypatch.setattr(child, "_is_removed", lambda *_: False)
    child.remove(folder)
    assert victim.stat().st_mode & 0o777 == 0o750
