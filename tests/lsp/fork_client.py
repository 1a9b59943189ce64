"""Stands for a program that the fork server runs.

``python -S -E fork_client.py SOCKET COMMAND...``: the program has this process's streams, folder
and environment. Signals go on to it, and what ends this process ends it. If it cannot be forked,
this process becomes the program itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

#: Bytes of the longest request (arguments and environment); the kernel passes on twice as many.
MOST_BYTES = 100_000


def ask(
    path: str,
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    descriptors: Sequence[int],
) -> bool:
    """Ask the fork server at ``path`` to run ``command``; return whether it was asked.

    ``descriptors`` are its three streams and a pipe for two lines: its process id (0 if it is not
    forked) and its exit code.
    """
    # A process can read its mask only by setting it.
    mask = os.umask(0)
    os.umask(mask)
    request = {
        "command": list(command),
        "env": dict(env),
        "cwd": cwd,
        "umask": mask,
        # Inherited: what a shell starts in the background ignores it.
        "takesInterrupts": signal.getsignal(signal.SIGINT) is not signal.SIG_IGN,
    }
    data = json.dumps(request).encode()
    if len(data) > MOST_BYTES:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        try:
            channel.connect(path)
            socket.send_fds(channel, [data], descriptors)
        except OSError:
            return False
    return True


def main(path: str, command: list[str]) -> None:
    """Have ``command`` forked, and end as it ends."""
    read, write = os.pipe()
    asked = ask(path, command, os.environ, os.getcwd(), [0, 1, 2, write])  # noqa: PTH109
    os.close(write)
    status = os.fdopen(read)
    pid = int(status.readline() or 0) if asked else 0
    if pid == 0:
        os.execv(command[0], command)
    for passed_on in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(passed_on, lambda number, _: _send(pid, number))
    # Otherwise a reader of its streams would never reach their end.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    code = int(status.readline() or 1)
    if code < 0:
        # SIGKILL has no handler that could be set.
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
