"""Runs one command and ends everything that it started: a stand-alone script.

    python -I -S -X utf8 supervisor.py STATUS PLAN SHELL ARGUMENT...

Nothing is ever written to its stdin; the end of that pipe means that the server wants the command
ended, or is gone itself, whatever killed it. To the file descriptor STATUS it writes lines:

    started PID       the shell runs, in a session and a process group of this number; in the
                      profile `work` that is the first process of its namespace
    failed ERRNO      the shell could not be started
    unconfined ERRNO  the shell was not started, since it could not be confined
    namespaces ERRNO  the same, since no namespaces are to be had
    exit CODE         the shell exited ...
    signal NUMBER     ... or was killed
    left              the shell is gone, and processes that it started still run; they are ended now
    survived PID NAME a process that could not be ended: another user's, one that is stuck in the
                      kernel, or one that started others faster than they could be killed
    ended             nothing else is left

and it exits. From the file descriptor PLAN it reads how the command is confined, marshalled:
``temporary``, a folder that is removed with the command, and ``rulesets`` and ``program`` if the
kernel is to confine it. ``passed`` are descriptors that the command must not get; ``stdin``, if
given, is one that it reads. PLAN is ``-`` if none of these is needed.

On Linux it is a subreaper: whatever leaves the process group is still its descendant.
Elsewhere, a process that leaves the group is not ended.

In the profile `work` a fork of it is the first process of a PID namespace, and does all this there:
no process leaves the namespace, and all end with the first, which ends with the supervisor.
"""

# pathlib would double the start-up time.
# ruff: noqa: PTH106, PTH110, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # The module typing would add to the start-up time.
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

#: Seconds that processes may outlive their shell: `>(tee log)` still writes when the shell is gone.
LINGER_SECONDS = 0.5
#: Seconds between TERM and KILL.
TERM_SECONDS = 2.0
#: Seconds after KILL before processes that cannot be killed are left.
KILL_SECONDS = 5.0
#: Seconds between two rounds of KILL, for what was forked meanwhile.
KILL_ROUND_SECONDS = 0.02
#: Seconds in which all that are to be killed should have been stopped.
FREEZE_SECONDS = 0.5
#: Seconds that the first process of a namespace has for TERM and KILL before it is itself killed.
NAMESPACE_SECONDS = TERM_SECONDS + 1.0
#: How many that ended are reaped before anything else gets its turn: there may always be more.
REAPED_AT_ONCE = 256
#: How many survivors are named.
MOST_NAMED = 20

_PR_SET_CHILD_SUBREAPER = 36


def main(status: int, plan: dict[str, Any], command: list[str]) -> None:
    """Run ``command`` by ``plan`` and end it, reporting to the file descriptor ``status``."""
    os.set_inheritable(status, False)
    subreaper = _become_subreaper()
    requests = _Requests()
    requests.wait(0)
    ended = True
    if not requests.end and _prepare(status, plan):
        pid, in_namespace = _start(command, status, plan)
        _close_output(plan)
        if in_namespace:
            ended = _guard(_Processes(pid, status, subreaper), requests)
        elif pid:
            ended = _supervise(_Shell(pid, status, subreaper), requests)
    _tidy_up(status, plan, ended)
    _report(status, "ended")


def _close_output(plan: dict[str, Any]) -> None:
    """Let only the command keep the pipes open, so that the server sees their end."""
    os.close(1)
    os.close(2)
    if "stdin" in plan:
        os.close(plan["stdin"])


def _prepare(status: int, plan: dict[str, Any]) -> bool:
    """Make the protected places that the work tree lacks; return whether that succeeded."""
    if plan.get("work"):
        try:
            plan["tree"].make_placeholders(plan["work"])
        except OSError as error:
            _report(status, f"unconfined {error.errno}")
            return False
    return True


def _supervise(processes: _Shell, requests: _Requests) -> bool:
    """Wait for the shell's end or a request, then end what is left; return whether all ended."""
    while processes.reap() and processes.runs and not requests.end:
        requests.wait(None)
    if not requests.end:
        _wait_for_end(processes, requests, LINGER_SECONDS)
        if processes.reap() and not requests.end:
            processes.report("left")
    if not processes.reap():
        return True
    processes.signal(signal.SIGTERM)
    processes.signal(signal.SIGCONT)  # A stopped process would not act on SIGTERM.
    _wait_for_end(processes, requests, TERM_SECONDS)
    return _kill(processes, requests)


def _guard(processes: _Processes, requests: _Requests) -> bool:
    """Wait for the end of a namespace, or end it at a request; return whether all ended.

    Its first process is asked to end it, and killed if it does not, since it is only being set up.
    """
    while processes.reap() and not requests.end:
        requests.wait(None)
    processes.signal_first(signal.SIGTERM)
    _wait_for_end(processes, requests, NAMESPACE_SECONDS)
    return _kill(processes, requests)


def _kill(processes: _Processes, requests: _Requests) -> bool:
    """Kill what is left; report what cannot be killed, and return whether there is no such."""
    give_up = time.monotonic() + KILL_SECONDS
    while processes.reap():
        if time.monotonic() > give_up:
            processes.report_survivors()
            return False
        processes.kill()
        requests.wait(KILL_ROUND_SECONDS)
    return True


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
    """A process and all that it started; ``runs`` is true until the first is reaped."""

    def __init__(self, first: int, status: int, subreaper: bool) -> None:
        self.runs = True
        self._first = first
        self._status = status
        self._subreaper = subreaper

    def reap(self) -> bool:
        """Reap children that ended; return whether any process is left."""
        for _ in range(REAPED_AT_ONCE):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                # A subreaper without children has no descendants at all.
                return not self._subreaper and _send(os.killpg, self._first, 0)
            if pid == 0:
                return True
            if pid == self._first:
                self.runs = False
                self._tell_end(os.waitstatus_to_exitcode(status))
        # There may be more: be woken for them at once.
        os.kill(os.getpid(), signal.SIGCHLD)
        return True

    def _tell_end(self, code: int) -> None:
        if code < 0:
            self.report(f"signal {-code}")

    def report(self, line: str) -> None:
        """Write a line for the server."""
        _report(self._status, line)

    def signal(self, number: int) -> None:
        """Send a signal to all of the processes."""
        self.signal_first(number)
        if self._subreaper:
            for pid in _descendants():
                if _group_of(pid) != self._first:
                    _send(os.kill, pid, number)

    def signal_first(self, number: int) -> None:
        """Send a signal to the group of the first of the processes."""
        # It may not have a group yet if it was only just forked.
        if not _send(os.killpg, self._first, number) and self.runs:
            _send(os.kill, self._first, number)

    def kill(self) -> None:
        """Kill the processes, as many as are found.

        They are frozen before: whoever hears of another's end could start it again.
        """
        if self._subreaper:
            give_up = time.monotonic() + FREEZE_SECONDS
            while self._freeze() and time.monotonic() < give_up:
                self.reap()
        self.signal(signal.SIGKILL)

    def _freeze(self) -> bool:
        """Stop the processes that run; return whether there were any."""
        any_runs = False
        for pid in _descendants():
            if _is_running(pid):
                any_runs |= _send(os.kill, pid, signal.SIGSTOP)
        return any_runs

    def report_survivors(self) -> None:
        """Report the processes that are still there, the first MOST_NAMED of them."""
        if not self._subreaper:
            self.report(f"survived {self._first} process group")
            return
        alive = (pid for pid in _descendants() if _stat(pid)[:1] not in ([], [b"Z"], [b"X"]))
        for pid, _ in zip(alive, range(MOST_NAMED), strict=False):
            self.report(f"survived {pid} {_name_of(pid)}")


class _Shell(_Processes):
    """The shell and all that it started."""

    def _tell_end(self, code: int) -> None:
        self.report(f"exit {code}" if code >= 0 else f"signal {-code}")


class _Inhabitants(_Shell):
    """The shell and all else that is in the namespace of which this is the first process."""

    def signal(self, number: int) -> None:
        """Send a signal to all of the processes, which the kernel does in one go."""
        _send(os.kill, -1, number)

    def kill(self) -> None:
        """Kill the processes."""
        self.signal(signal.SIGKILL)


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
    with open(int(argument), "rb") as file:
        plan: dict[str, Any] = marshal.load(file)  # noqa: S302 - the server wrote it
    # After the standard library, so that none of our modules hides one of its.
    sys.path.append(os.path.join(os.path.dirname(__file__), "confinement"))
    for descriptor in plan["passed"]:
        os.set_inheritable(descriptor, False)
    if "rulesets" in plan:
        plan["child"] = __import__("child")
    if plan.get("work"):
        plan["tree"] = __import__("tree")
    return plan


def _tidy_up(status: int, plan: dict[str, Any], ended: bool) -> None:
    """Clear the work tree of placeholders and of what the command may not make there.

    If anything has survived, which could make it again, the next command does so. The temporary
    folder is removed; most commands leave nothing in it.
    """
    work = plan.get("work")
    if work and "made" in work and ended:
        for name in plan["tree"].put_aside(work):
            _report(status, f"kept {os.fsencode(name).hex()}")
    folder = plan.get("temporary")
    if folder is None:
        return
    try:
        os.rmdir(folder)
    except OSError:
        __import__("child").remove(folder)


def _start(command: list[str], status: int, plan: dict[str, Any]) -> tuple[int, bool]:
    """Start ``command`` in a session of its own.

    Returns the process id of its shell, or of the first process of its namespace, and whether it is
    that; 0 if it could not be started.
    """
    # A signal that arrives now waits for the shell: in the child, our handlers would swallow it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    alive, held = os.pipe()  # ``held`` is open as long as the supervisor lives.
    in_namespace = False
    try:
        if plan.get("work"):
            pid, in_namespace = plan["child"].fork_into_namespaces(plan["work"])
        else:
            pid = os.fork()
    except OSError as error:
        _report(status, f"{'namespaces' if plan.get('work') else 'failed'} {error.errno}")
        return 0, False
    if pid == 0:
        os.close(held)
        if in_namespace:
            _inhabit(command, status, plan, alive)
        _become(command, status, plan)
    os.close(alive)
    if in_namespace:
        _report(status, f"started {pid}")
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid, in_namespace


def _inhabit(command: list[str], status: int, plan: dict[str, Any], alive: int) -> NoReturn:
    """Run ``command`` as the first process of a namespace, until nothing of it is left."""
    try:
        os.setsid()
        plan["child"].end_with_parent(alive)
        _confine(status, plan["child"].enter, plan["work"], plan["rulesets"][0])
        requests = _Requests()
        requests.wait(0)
        if not requests.end:
            shell = os.fork()
            if shell == 0:
                _become(command, status, plan, in_namespace=True)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            _close_output(plan)
            _supervise(_Inhabitants(shell, status, subreaper=True), requests)
    except OSError as error:
        _report(status, f"failed {error.errno}")
    finally:
        os._exit(0)


def _become(
    command: list[str], status: int, plan: dict[str, Any], *, in_namespace: bool = False
) -> NoReturn:
    """Become ``command``, as a terminal would start it except for its stdin; never return."""
    try:
        # Not just a group: within our session it could join our group, and signal it.
        os.setsid()
        if not in_namespace:
            # Before it runs, so that the server knows the group even if the command's first act is
            # to kill the supervisor.
            _report(status, f"started {os.getpid()}")
            if plan.get("work"):
                _confine(status, plan["child"].enter, plan["work"], plan["rulesets"][0])
        os.dup2(plan["stdin"] if "stdin" in plan else os.open(os.devnull, os.O_RDONLY), 0)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if "child" in plan:
            _confine(status, plan["child"].confine, plan["rulesets"], plan["program"])
        os.execv(command[0], command)  # noqa: S606 - the command is itself a shell's
    except OSError as error:
        _report(status, f"failed {error.errno}")
    finally:
        os._exit(127)


def _confine(status: int, step: Callable[..., None], *arguments: object) -> None:
    """Take a step of the confinement; end if the kernel refuses it."""
    try:
        step(*arguments)
    except OSError as error:
        _report(status, f"unconfined {error.errno}")
        os._exit(127)


def _descendants() -> Iterator[int]:
    """Yield the process ids of all descendants, each before those that it started (Linux)."""
    all_children = None if os.path.exists("/proc/thread-self/children") else _all_children()
    parents = [os.getpid()]
    while parents:
        parent = parents.pop()
        for child in _children_of(parent) if all_children is None else all_children.get(parent, ()):
            yield child
            parents.append(child)


def _children_of(parent: int) -> list[int]:
    children: list[int] = []
    folder = f"/proc/{parent}/task"
    try:
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/children", "rb") as file:
                children += map(int, file.read().split())
    except OSError:
        pass  # It ended meanwhile.
    return children


def _all_children() -> dict[int, list[int]]:
    """Return the children of every process, for a kernel that does not list those of one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))):
            children.setdefault(int(fields[1]), []).append(int(name))
    return children


def _stat(pid: int) -> list[bytes]:
    """Return the state of a process, its parent and more; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The field before, the name in parentheses, may itself hold spaces and parentheses.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _is_running(pid: int) -> bool:
    """Return whether a process is neither stopped nor over."""
    return _stat(pid)[:1] not in ([], [b"T"], [b"t"], [b"Z"], [b"X"])


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
            return "".join(c if c.isprintable() else "?" for c in file.read().rstrip("\n"))
    except OSError:
        return "?"


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
