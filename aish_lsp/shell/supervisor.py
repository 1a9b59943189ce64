"""Runs one command and ends everything that it started: a stand-alone script.

    python -I -S -X utf8 supervisor.py STATUS PLAN SHELL ARGUMENT...

Nothing is ever written to its stdin; the end of that pipe means that the server wants the command
ended, or is gone itself, whatever killed it. To the file descriptor STATUS it writes lines:

    started PID       the shell runs, in a session and a process group of this number
    failed ERRNO      the shell could not be started
    unconfined ERRNO  the shell was not started, since it could not be confined
    exit CODE         the shell exited ...
    signal NUMBER     ... or was killed
    left              the shell is gone, and processes that it started still run; they are ended now
    ended             nothing is left, or what is left cannot be killed

and it exits. From the file descriptor PLAN it reads how the command is confined, marshalled:
``temporary``, a folder that is removed with the command, and ``rulesets`` and ``program`` if the
kernel is to confine it. ``passed`` are descriptors that the command must not get; ``stdin``, if
given, is one that it reads. PLAN is ``-`` if none of these is needed.

On Linux it is a subreaper: whatever leaves the process group is still its descendant.
Elsewhere, a process that leaves the group is not ended.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # The module typing would add to the start-up time.
    from collections.abc import Callable
    from typing import Any, NoReturn

#: Seconds that processes may outlive their shell: `>(tee log)` still writes when the shell is gone.
LINGER_SECONDS = 0.5
#: Seconds between TERM and KILL.
TERM_SECONDS = 2.0
#: Seconds after KILL before processes that cannot be killed (another user's, or stuck in the
#: kernel) are left.
KILL_SECONDS = 5.0
#: Seconds between two rounds of KILL, for what was forked meanwhile.
KILL_ROUND_SECONDS = 0.02

_PR_SET_CHILD_SUBREAPER = 36


def main(status: int, plan: dict[str, Any], command: list[str]) -> None:
    """Run ``command`` by ``plan`` and end it, reporting to the file descriptor ``status``."""
    os.set_inheritable(status, False)
    subreaper = _become_subreaper()
    requests = _Requests()
    requests.wait(0)
    if not requests.end and _prepare(status, plan):
        shell = _start(command, status, plan)
        # Only the command keeps the pipes open, so that the server sees their end when it is gone.
        os.close(1)
        os.close(2)
        if "stdin" in plan:
            os.close(plan["stdin"])
        _supervise(_Processes(shell, status, subreaper), requests, status)
    _tidy_up(plan)
    _report(status, "ended")


def _prepare(status: int, plan: dict[str, Any]) -> bool:
    """Make the protected places that the work tree lacks; return whether that succeeded."""
    if plan.get("work"):
        try:
            plan["made"] = plan["child"].make_placeholders(plan["work"])
        except OSError as error:
            _report(status, f"unconfined {error.errno}")
            return False
    return True


def _supervise(processes: _Processes, requests: _Requests, status: int) -> None:
    """Wait for the shell's end or a request, then end what is left."""
    while processes.reap() and processes.shell_runs and not requests.end:
        requests.wait(None)
    if not requests.end:
        _wait_for_end(processes, requests, LINGER_SECONDS)
        if processes.reap() and not requests.end:
            _report(status, "left")
    if not processes.reap():
        return
    processes.signal(signal.SIGTERM)
    processes.signal(signal.SIGCONT)  # A stopped process would not act on SIGTERM.
    _wait_for_end(processes, requests, TERM_SECONDS)
    give_up = time.monotonic() + KILL_SECONDS
    while processes.reap() and time.monotonic() < give_up:
        processes.signal(signal.SIGKILL)
        requests.wait(KILL_ROUND_SECONDS)


def _wait_for_end(processes: _Processes, requests: _Requests, seconds: float) -> None:
    """Wait until none of the processes is left, or ``seconds`` are over."""
    deadline = time.monotonic() + seconds
    while processes.reap() and (left := deadline - time.monotonic()) > 0:
        requests.wait(left)


class _Requests:
    """What wakes the supervisor: the end of stdin, a signal, or the end of a child.

    ``end`` is set when the command is to be ended.
    """

    def __init__(self) -> None:
        self.end = False
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        self._watched = [0, self._woken]
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.end = True

    def wait(self, seconds: float | None) -> None:
        """Return when something happened, or after ``seconds``."""
        readable, _, _ = select.select(self._watched, [], [], seconds)
        if self._woken in readable:
            os.read(self._woken, 4096)
        if 0 in readable:
            self.end = True
            self._watched.remove(0)


class _Processes:
    """The shell and all that it started; ``shell_runs`` is true until the shell is reaped."""

    def __init__(self, shell: int, status: int, subreaper: bool) -> None:
        self.shell_runs = True
        self._shell = shell
        self._status = status
        self._subreaper = subreaper

    def reap(self) -> bool:
        """Reap the children that ended; return whether any process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                # A subreaper without children has no descendants at all.
                return not self._subreaper and self._group_exists()
            if pid == 0:
                return True
            if pid == self._shell:
                self.shell_runs = False
                code = os.waitstatus_to_exitcode(status)
                _report(self._status, f"exit {code}" if code >= 0 else f"signal {-code}")

    def signal(self, number: int) -> None:
        """Send a signal to all of the processes."""
        # The shell may not have a group yet if it was only just forked.
        if not _send(os.killpg, self._shell, number) and self.shell_runs:
            _send(os.kill, self._shell, number)
        if self._subreaper:
            for pid in _descendants():
                if _group_of(pid) != self._shell:
                    _send(os.kill, pid, number)

    def _group_exists(self) -> bool:
        try:
            os.killpg(self._shell, 0)
        except OSError:
            return False
        return True


def _become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - 3 ms that only Linux needs

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def read_plan(argument: str) -> dict[str, Any]:
    """Return how the command is confined, read from the file descriptor that the argument names."""
    if argument == "-":
        return {}
    with open(int(argument), "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
        plan: dict[str, Any] = marshal.load(file)  # noqa: S302 - the server wrote it
    # After the standard library, so that none of our modules hides one of its.
    sys.path.append(os.path.join(os.path.dirname(__file__), "confinement"))  # noqa: PTH118, PTH120
    for descriptor in plan["passed"]:
        os.set_inheritable(descriptor, False)
    if "rulesets" in plan:
        plan["child"] = __import__("child")
    return plan


def _tidy_up(plan: dict[str, Any]) -> None:
    """Remove the placeholders and the temporary folder, in which most commands leave nothing."""
    if "made" in plan:
        plan["child"].remove_placeholders(plan["made"])
    folder = plan.get("temporary")
    if folder is None:
        return
    try:
        os.rmdir(folder)  # noqa: PTH106 - pathlib would double the start-up time
    except OSError:
        __import__("child").remove(folder)


def _start(command: list[str], status: int, plan: dict[str, Any]) -> int:
    """Start ``command`` in a session of its own; return its process id."""
    # A signal that arrives now waits for the shell: in the child, our handlers would swallow it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid == 0:
        _become(command, status, plan)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become(command: list[str], status: int, plan: dict[str, Any]) -> NoReturn:
    """Become ``command``, as a terminal would start it except for its stdin; never return."""
    try:
        # Not just a group: within our session it could join our group, and signal it.
        os.setsid()
        # Before it runs, so that the server knows the group even if the command's first act is to
        # kill the supervisor.
        _report(status, f"started {os.getpid()}")
        os.dup2(plan["stdin"] if "stdin" in plan else os.open(os.devnull, os.O_RDONLY), 0)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if "child" in plan:
            _confine(status, plan)
        os.execv(command[0], command)  # noqa: S606 - the command is itself a shell's
    except OSError as error:
        _report(status, f"failed {error.errno}")
    finally:
        os._exit(127)


def _confine(status: int, plan: dict[str, Any]) -> None:
    try:
        if plan["work"]:
            plan["child"].enter(plan["work"], plan["rulesets"][0])
        plan["child"].confine(plan["rulesets"], plan["program"])
    except OSError as error:
        _report(status, f"unconfined {error.errno}")
        os._exit(127)


def _descendants() -> list[int]:
    """Return the process ids of all descendants (Linux)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double the start-up time
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    stat = file.read()
            except OSError:
                continue  # It ended meanwhile.
            # The second field, the name in parentheses, may itself hold spaces and parentheses.
            parent = int(stat.rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    parents = [os.getpid()]
    while parents:
        offspring = children.get(parents.pop(), [])
        found += offspring
        parents += offspring
    return found


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _send(call: Callable[[int, int], None], target: int, number: int) -> bool:
    try:
        call(target, number)
    except OSError:
        return False  # Gone already, or somebody else's.
    return True


def _report(status: int, line: str) -> None:
    try:  # noqa: SIM105 - contextlib would add to the start-up time
        os.write(status, line.encode() + b"\n")
    except OSError:
        pass  # The server is gone, but the command must still be ended.


if __name__ == "__main__":
    main(int(sys.argv[1]), read_plan(sys.argv[2]), sys.argv[3:])
    os._exit(0)  # Shutting down the interpreter would take as long as starting it.
