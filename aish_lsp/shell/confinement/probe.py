"""Tries what a confined process must not be able to do: a script, which imports nothing of ours.

    python -I -S probe.py SERVER-PID SECRET VICTIM

It prints what it was able to do, one per line, and nothing if confinement works. SECRET is in a
secret place, VICTIM is a plain file that may be read.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main(server: int, secret: str, victim: str) -> None:
    """Try each, and print what was possible."""
    forbidden: dict[str, Callable[[], object]] = {
        "write a file": lambda: os.close(os.open(victim, os.O_WRONLY)),
        "empty a file": lambda: os.truncate(victim, 0),
        "remove a file": lambda: os.unlink(victim),  # noqa: PTH108 - pathlib takes long to import
        "change a file's mode": lambda: os.chmod(victim, 0o600),  # noqa: PTH101 - as above
        "change a file's times": lambda: os.utime(victim),
        "open a connection": lambda: _socket("AF_INET"),
        "open a local socket": lambda: _socket("AF_UNIX"),
        "signal another process": lambda: os.kill(server, 0),
        "read a secret": lambda: os.close(os.open(secret, os.O_RDONLY)),
    }
    for what, attempt in forbidden.items():
        if _is_possible(attempt):
            print(what)  # noqa: T201 - for whoever started this script
    if not _is_possible(lambda: _write_temporary(os.environ["TMPDIR"])):
        print("not write its own temporary folder")  # noqa: T201 - as above
    if not _is_possible(lambda: os.close(os.open(victim, os.O_RDONLY))):
        print("not read a plain file")  # noqa: T201 - as above


def _is_possible(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _socket(family: str) -> None:
    import _socket as sockets  # noqa: PLC0415 - the module around it takes long to import

    sockets.socket(getattr(sockets, family), sockets.SOCK_DGRAM).close()


def _write_temporary(folder: str) -> None:
    with open(os.path.join(folder, "probe"), "w") as file:  # noqa: PTH118, PTH123 - as above
        file.write("written")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
