"""Nothing outlives its stop, not even processes that are gone before anybody can find them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from machine import (
    ORDINARY,
    as_ordinary_user,
    needs,
    without_landlock,
    without_namespaces,
    without_ordinary_user,
    without_own_proc,
    without_programs,
)
from marked import Marked
from test_shell_processes import ESCAPED, FAMILIES
from test_work_profile import work

from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds what has hopped")
in_work = needs(without_namespaces())

COUNT = 20
HOPPING = Path(__file__).with_name("hopping.py")


class Hopping:
    """Processes that hop: what starts them in a folder, and whether they do so still."""

    def __init__(self, folder: Path, count: int = COUNT) -> None:
        self.count = count
        self.beats = folder / "beats"
        shutil.copy(HOPPING, folder)
        words = [sys.executable, "-I", "-S", HOPPING.name, self.beats.name, str(count)]
        self.text = shlex.join(words)

    def read(self) -> bytes:
        """Return the last sign of life of each."""
        return self.beats.read_bytes() if self.beats.exists() else b""

    async def until_all_hop(self) -> None:
        """Wait until each of them has hopped."""
        while len(set(memoryview(self.read()).cast("d"))) < self.count:
            await asyncio.sleep(0.05)

    async def assert_over(self) -> None:
        """Assert that none gives a sign of life for ten times as long as they are silent."""
        before = self.read()
        assert before
        await asyncio.sleep(1)
        assert self.read() == before


@pytest.fixture
def marked() -> Iterator[Marked]:
    """Processes that are found by their number, and end with the test."""
    processes = Marked()
    yield processes
    processes.kill()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty work tree."""
    folder = tmp_path / "tree"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@in_work
async def test_stop_ends_what_hops(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    task = asyncio.create_task(work(confinement, f"{hopping.text}; sleep 600", tree))
    await hopping.until_all_hop()
    task.cancel()
    result = await task
    assert (result.finish_reason, result.output) == ("cancelled", "")
    await hopping.assert_over()
    # What stood for files that were missing was kept until then.
    assert not (tree / ".envrc").exists()


@in_work
async def test_a_time_out_ends_what_hops(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    text = f"{hopping.text}; sleep 600"
    task = asyncio.create_task(work(confinement, text, tree, timeout=4))
    await hopping.until_all_hop()
    assert (await task).finish_reason == "timeout"
    await hopping.assert_over()


@in_work
async def test_what_hops_ends_with_the_command(confinement: Confinement, tree: Path) -> None:
    hopping = Hopping(tree)
    result = await work(confinement, f"{hopping.text}; sleep 2", tree)
    assert (result.exit_code, result.finish_reason) == (0, "stop")
    assert "left running" in result.output
    await hopping.assert_over()


SERVER = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

async def ignore(*_):
    pass

async def main():
    root = Path.cwd()
    with await Confinement(os.environ).work_sandbox(root) as sandbox:
        await run_command(
            sys.argv[1], cwd=root, shell="sh", timeout=None, env=os.environ,
            on_output=ignore, sandbox=sandbox,
        )

asyncio.run(main())
"""


@in_work
@pytest.mark.parametrize("killed", ["server", "supervisor", "both", "first of the namespace"])
async def test_a_kill_ends_what_hops(tree: Path, killed: str) -> None:
    hopping = Hopping(tree)
    command = [sys.executable, "-c", SERVER, f"{hopping.text}; sleep 600"]
    with subprocess.Popen(command, cwd=tree) as server:
        try:
            await hopping.until_all_hop()
            [supervisor] = supervisors(server.pid)
            [first] = supervisors(supervisor)
            victims = {"server": [server.pid], "supervisor": [supervisor]}
            victims |= {"both": [server.pid, supervisor], "first of the namespace": [first]}
            for pid in victims[killed]:
                os.kill(pid, signal.SIGKILL)
            # It is reaped when all in its namespace are.
            while Path("/proc", str(first)).exists():
                await asyncio.sleep(0.01)
        finally:
            server.kill()
    await hopping.assert_over()


@in_work
@pytest.mark.parametrize(
    ("text", "count"),
    [pytest.param(*family, id=name) for name, family in (FAMILIES | ESCAPED).items()],
)
async def test_stop_ends_every_family(
    confinement: Confinement, tree: Path, marked: Marked, text: str, count: int
) -> None:
    task = asyncio.create_task(work(confinement, text.format(sleep=marked.sleep), tree))
    await marked.until(count)
    task.cancel()
    assert (await task).finish_reason == "cancelled"
    assert marked.alive() == []


@in_work
async def test_a_stop_at_any_moment_of_the_start(
    confinement: Confinement, tree: Path, marked: Marked
) -> None:
    for milliseconds in range(0, 60, 3):
        task = asyncio.create_task(work(confinement, f"touch made; {marked.sleep}", tree))
        await asyncio.sleep(milliseconds / 1000)
        task.cancel()
        with suppress(asyncio.CancelledError):  # Before there was a sandbox.
            assert (await task).finish_reason == "cancelled"
        assert marked.alive() == []
        assert {path.name for path in tree.iterdir()} <= {".git", "made"}


@in_work
async def test_a_kill_at_any_moment_of_the_start(tree: Path, marked: Marked) -> None:
    for milliseconds in range(0, 60, 6):
        command = [sys.executable, "-c", SERVER, marked.sleep]
        with subprocess.Popen(command, cwd=tree) as server:
            while not (started := supervisors(server.pid)):
                assert server.poll() is None
            await asyncio.sleep(milliseconds / 1000)
            for pid in (server.pid, *started):
                os.kill(pid, signal.SIGKILL)
        await marked.until_gone()


def supervisors(pid: int) -> list[int]:
    """Return the process ids of the supervisors that a server has started."""
    command = ["pgrep", "-P", str(pid), "-f", "supervisor.py"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


async def ignore(_stream: str, _delta: str) -> None:
    """Take whatever comes."""


@pytest.fixture
def crowd() -> Iterator[None]:
    """As many processes as a desktop has: they make it slow to search all for one's own."""
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(500)]
    yield
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("profile", ["free", "safe"])
async def test_without_a_namespace_they_are_frozen_and_killed(
    confinement: Confinement, tree: Path, profile: str
) -> None:
    hopping = Hopping(tree, 10)
    if profile == "safe":
        # What runs confined writes only its own temporary folder, which goes when it is over.
        hopping.text = f'cp {HOPPING.name} "$TMPDIR" && cd "$TMPDIR" && {hopping.text}'
    sandbox = await confinement.sandbox(tree) if profile == "safe" else None
    with sandbox or nullcontext():
        task = asyncio.create_task(
            run_command(
                f"{hopping.text}; sleep 600",
                cwd=tree,
                shell="sh",
                timeout=None,
                env=os.environ,
                on_output=ignore,
                sandbox=sandbox,
            )
        )
        if sandbox is not None:
            hopping.beats = sandbox.temporary / "beats"
        await hopping.until_all_hop()
        # It is still there when the file is gone.
        signs = os.open(hopping.beats, os.O_RDONLY)
        task.cancel()
        result = await task
    assert (result.finish_reason, result.output) == ("cancelled", "")
    try:
        before = os.pread(signs, 8 * hopping.count, 0)
        await asyncio.sleep(1)
        assert os.pread(signs, 8 * hopping.count, 0) == before
    finally:
        os.close(signs)


#: Runs as root who may not kill what belongs to others: as a user who has started `sudo`.
WITHOUT_KILL = ("setpriv", "--bounding-set=-kill", "--inh-caps=-kill")
OF_ANOTHER_USER = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.shell.runner import run_command

async def show(_stream, delta):
    print(delta, end="", flush=True)

async def main():
    task = asyncio.create_task(run_command(
        f"setpriv --reuid 65534 --clear-groups {sys.argv[1]}", cwd=Path("/"), shell="sh",
        timeout=2 if sys.argv[2] == "timeout" else None, env=os.environ, on_output=show,
    ))
    if sys.argv[2] == "cancelled":
        await asyncio.to_thread(input)
        task.cancel()
    result = await task
    print(result.finish_reason)
    print(result.output, end="")

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of another user")
@needs(without_programs("setpriv"))
@pytest.mark.parametrize("end", ["timeout", "cancelled"])
async def test_what_could_not_be_ended_is_told(end: str, marked: Marked) -> None:
    server = subprocess.Popen(
        [*WITHOUT_KILL, sys.executable, "-c", OF_ANOTHER_USER, marked.sleep, end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        # The server, the supervisor, and the shell, which may have become what it started.
        await marked.until(3)
        printed = (await asyncio.to_thread(server.communicate, "\n"))[0]
        [left] = marked.alive()
        note = f"[aish: could not be ended: pid {left} (sleep)]\n"
        assert printed == f"{note}{end}\n{note}"
    finally:
        server.kill()
        server.wait()


#: Prints what a command in `work` printed, or why it was not run.
WORKING = """
import asyncio, os, sys
from pathlib import Path
from aish_lsp.foundation.errors import Denied
from aish_lsp.shell.confinement.support import Confinement
from aish_lsp.shell.runner import run_command

async def ignore(*_):
    pass

async def main():
    root = Path.cwd()
    with await Confinement(os.environ).work_sandbox(root) as sandbox:
        result = await run_command(
            sys.argv[1], cwd=root, shell="bash", timeout=60, env=os.environ,
            on_output=ignore, sandbox=sandbox,
        )
    print(result.output, end="")

try:
    asyncio.run(main())
except Denied as error:
    print(error.message)
"""


def worked(text: str, tree: Path, start: Sequence[str]) -> str:
    """Return what a command printed in `work`; ``start`` is what its server is started by."""
    homes = {name: str(tree.parent) for name in ("HOME", "TMPDIR", "AISH_DATA_DIR")}
    done = subprocess.run(
        [*start, "-c", WORKING, text],
        cwd=tree,
        env={**os.environ, **homes, "HOME": str(tree.parent / "home")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def machine_where(script: str) -> list[str]:
    """Return the beginning of a command that runs Python on a machine that a script has changed."""
    return ["unshare", "-Urm", "sh", "-c", f'{script} && exec "$@"', "sh", sys.executable]


LIMITS = "/proc/sys/user"
#: Leaves a daemon, and tells how many numbers it has, whether they are small, and its limit.
LEFT = """
(setsid sleep 600 <&- >&- 2>&- &)
echo $(grep NSpid /proc/self/status | wc -w) $([ $$ -lt 9 ] && echo own) \
    $([ "$(ulimit -u)" = 8192 ] && echo limited)
touch made
"""


@needs(without_programs("unshare") or without_own_proc())
@pytest.mark.parametrize(
    ("script", "printed"),
    [
        pytest.param("true", "2 own", id="all of it"),
        pytest.param("mount -t tmpfs none /proc/sys", "3 own limited", id="a masked /proc"),
        pytest.param(f"echo 0 > {LIMITS}/max_pid_namespaces", "2 limited", id="no PID namespaces"),
    ],
)
def test_what_is_not_to_be_had_is_done_without(tree: Path, script: str, printed: str) -> None:
    note = "[aish: the processes that the command left running were ended]"
    assert worked(LEFT, tree, machine_where(script)) == f"{printed}\n{note}\n"
    assert sorted(path.name for path in tree.iterdir()) == [".git", "made"]


@needs(without_programs("unshare") or without_own_proc())
@pytest.mark.parametrize("kind", ["user", "mnt", "net"])
def test_without_namespaces_nothing_is_run(tree: Path, kind: str) -> None:
    start = machine_where(f"echo 0 > {LIMITS}/max_{kind}_namespaces")
    said = worked("touch made", tree, start)
    assert "could not be confined: there are no namespaces for it" in said
    assert list(tree.iterdir()) == [tree / ".git"]


@needs(without_programs("unshare") or without_own_proc() or without_landlock())
@pytest.mark.parametrize(
    ("script", "state", "said"),
    [
        pytest.param("true", "ok", "is ended as a whole", id="all of it"),
        pytest.param(f"echo 0 > {LIMITS}/max_pid_namespaces", "ok", "is searched for", id="no PID"),
        pytest.param(f"echo 0 > {LIMITS}/max_user_namespaces", "missing", "the limit", id="none"),
    ],
)
def test_the_doctor_says_what_holds(tmp_path: Path, script: str, state: str, said: str) -> None:
    homes = {name: str(tmp_path) for name in ("HOME", "AISH_DATA_DIR")}
    done = subprocess.run(
        [*machine_where(script), "-m", "aish_lsp", "doctor", "--json"],
        cwd=tmp_path,
        env={**os.environ, **homes},
        stdout=subprocess.PIPE,
        check=False,
    )
    [finding] = [one for one in json.loads(done.stdout) if one["what"] == "goals"]
    assert finding["state"] == state
    assert said in finding["found"]


@needs(without_namespaces())
def test_the_limit_is_that_of_the_namespace(tree: Path) -> None:
    outside = Path("/proc/sys/kernel/pid_max")
    before = outside.read_text()
    inside = worked("cat /proc/sys/kernel/pid_max; ulimit -u", tree, [sys.executable])
    assert "8192" in inside.split()
    assert outside.read_text() == before


@pytest.fixture
def open_tree() -> Iterator[Path]:
    """A work tree of an ordinary user, where that user can get at it."""
    with tempfile.TemporaryDirectory() as above:
        tree = Path(above, "tree")
        tree.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", above], check=True)
        yield tree


@needs(without_ordinary_user() or without_programs("unshare", "prlimit") or without_own_proc())
def test_an_ordinary_user_has_no_more_processes_than_the_limit(open_tree: Path) -> None:
    """Where the namespace has no limit of its own, since it is hidden."""
    # Once inside, since outside the user's other processes count, too.
    inside = 'mount -t tmpfs none /proc/sys && exec prlimit --nproc=60 "$@"'
    few = ["unshare", "-Urm", "sh", "-c", inside, "sh"]
    *user, python = as_ordinary_user()
    said = worked("for i in $(seq 200); do sleep 600 & done", open_tree, [*user, *few, python])
    assert "Resource temporarily unavailable" in said


@needs(without_ordinary_user() or without_own_proc())
def test_an_ordinary_user_works_in_a_namespace(open_tree: Path) -> None:
    text = "touch made && echo /proc/[0-9]* $$; kill -9 1 2>&-; echo still here"
    assert worked(text, open_tree, as_ordinary_user()) == "/proc/1 /proc/2 2\nstill here\n"
    assert (open_tree / "made").exists()


@needs(without_ordinary_user() or without_own_proc())
@pytest.mark.parametrize(
    "text",
    [
        "mkdir d && touch d/.envrc && chmod 311 d",
        "mkdir -p d/e && touch d/e/.envrc && chmod 111 d/e d",
        "mkdir -p d && touch d/.envrc && chmod 555 d; mkdir e && touch e/.envrc",
    ],
)
def test_no_mode_of_a_folder_keeps_a_file_from_being_put_aside(open_tree: Path, text: str) -> None:
    """Of an ordinary user, since root can list and change any folder."""
    assert "is put aside: it decides what runs" in worked(text, open_tree, as_ordinary_user())
    assert list(open_tree.rglob(".envrc")) == []
