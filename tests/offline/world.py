"""A scratch world: a folder, a home, tools and processes of its own, in which a command is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Self

HERE = Path(__file__).resolve().parent

#: Tools that would change the machine, or that need a service: a world has fakes of them.
FAKED = (
    *("apt", "apt-cache", "apt-get", "snap", "service", "systemctl", "journalctl", "loginctl"),
    *("docker", "kubectl", "crontab", "shutdown", "reboot", "poweroff", "halt", "mount", "umount"),
    *("useradd", "userdel", "usermod", "adduser", "deluser", "groupadd", "passwd", "chsh"),
    *("timedatectl", "hostnamectl", "xdg-open", "ping", "traceroute", "dig", "ssh", "npm", "cargo"),
    *("groupdel", "gpasswd", "addgroup", "delgroup", "chpasswd", "sysctl", "ufw", "iptables"),
)
#: What belongs to one distribution, system or taste: there only where a world fakes it.
ABSENT = ("dnf", "yum", "pacman", "apk", "zypper", "brew", "open", "pbcopy", "pbpaste", "uv", "fd")

_CALL = '{ printf "%s" "${0##*/}"; [ $# -eq 0 ] || printf " %q" "$@"; echo; } >>"$LOG"'

#: It runs what it is given, as whoever the world's user is.
_SUDO = """while :; do
    case "${1:-}" in
    -u | -g) shift 2 ;;
    -[a-zA-Z]* | --) shift ;;
    *) break ;;
    esac
done
[ $# -eq 0 ] || exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command came to."""

    status: int
    output: str


class World:
    """One scratch world; leaving the context ends its processes and deletes it."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.folder = Path(tempfile.mkdtemp(prefix="aish-world-")).resolve()
        self.root = self.folder / "work"

    def __enter__(self) -> Self:
        for name in ("work", "home", "bin"):
            (self.folder / name).mkdir()
        (self.folder / "log").touch()
        command = ["unshare", "-rpnmf", "--kill-child", "--mount-proc", "bash", f"{HERE}/world.sh"]
        self._process = subprocess.Popen(
            command,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if self._step("world", self._script) != 0:
            log = self._read("world.log")
            self.__exit__()
            raise AssertionError(f"the world failed:\n{log}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        subprocess.run(["chmod", "-R", "u+rwX", self.folder], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def path(self) -> str:
        """The PATH in this world."""
        own = self.folder / "tools"
        return os.pathsep.join(
            str(place) for place in (self.folder / "bin", own if own.is_dir() else tools())
        )

    def run(self, command: str, seconds: float = 20) -> Done:
        """Run a command and return how it ended, and its output and errors."""
        status = self._step("run", command, argument=str(seconds), file="command")
        return Done(status, self._read("out") + self._read("err"))

    def check(self, script: str, status: int) -> str:
        """Return why ``script`` does not hold, or nothing."""
        if self._step("check", script, argument=str(status)) == 0:
            return ""
        return self._read("check.log").strip() or "the check does not hold"

    def _step(self, name: str, text: str, argument: str = "", file: str = "") -> int:
        (self.folder / (file or name)).write_text(text)
        sent, told = self._process.stdin, self._process.stdout
        assert sent is not None
        assert told is not None
        sent.write(f"{name} {argument}\n")
        sent.flush()
        return _status(told)

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            "PATH": self.path,
            "HOME": str(folder / "home"),
            "WORLD": str(folder),
            "LOG": str(folder / "log"),
            "OUT": str(folder / "out"),
            "ERR": str(folder / "err"),
            "TOOLS": str(tools()),
            "HELPERS": str(HERE / "helpers.sh"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "MANPAGER": "cat",
            "EDITOR": "true",
            "USER": "root",
            "SHELL": "/bin/bash",
            "TZ": "UTC",
            "TMPDIR": str(folder),
            "GIT_CONFIG_GLOBAL": str(folder / "home/.gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ann",
            "GIT_AUTHOR_EMAIL": "ann@example.com",
            "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "ann@example.com",
        }


def _status(stream: IO[str]) -> int:
    line = stream.readline()
    if not line:
        raise AssertionError("the world ended by itself")
    return int(line.split()[-1])


@cache
def tools() -> Path:
    """Return a folder of links to this machine's tools, with fakes of what would change it."""
    import atexit

    folder = Path(tempfile.mkdtemp(prefix="aish-tools-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for place in ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for tool in sorted(Path(place).iterdir()) if Path(place).is_dir() else ():
            link = folder / tool.name
            if tool.name not in (*ABSENT, *FAKED) and not link.is_symlink():
                link.symlink_to(tool)
    for name in (*FAKED, "sudo"):
        script = f"#!/bin/bash\n{_CALL}\n"
        if name == "sudo":
            script = f"#!/bin/bash\n{_CALL}\n{_SUDO}"
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return folder
