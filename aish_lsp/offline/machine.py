"""The machine that commands are for: its system, its tools, and how a missing one is installed."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Machine:
    """A system (``linux``, ``darwin``), the folders that tools are looked for in, and a home."""

    system: str
    path: str
    home: Path
    _found: dict[str, str | None] = field(default_factory=dict, compare=False)

    @classmethod
    def here(cls) -> Self:
        """Return this machine as it is now."""
        system = "darwin" if sys.platform == "darwin" else "linux"
        return cls(system, os.environ.get("PATH", os.defpath), Path.home())

    def which(self, tool: str) -> str | None:
        """Return where ``tool`` is installed, if it is."""
        if tool not in self._found:
            self._found[tool] = shutil.which(tool, path=self.path)
        return self._found[tool]

    def has(self, tool: str) -> bool:
        """Return whether ``tool`` is installed."""
        return self.which(tool) is not None


#: What a shell does itself, and what begins a command without being its tool.
_BUILTINS: Final = frozenset(
    [
        "cd",
        "echo",
        "printf",
        "export",
        "unset",
        "alias",
        "unalias",
        "source",
        ".",
        "set",
        "type",
        "command",
        "kill",
        "jobs",
        "fg",
        "bg",
        "history",
        "read",
        "test",
        "[",
        "exit",
        "ulimit",
        "umask",
        "wait",
        "time",
        "for",
        "while",
        "until",
        "if",
        "pwd",
        "true",
        "false",
        "nohup",
        "exec",
        "eval",
        "disown",
        "hash",
        "shopt",
        "bind",
        "trap",
        "!",
        "{",
        "}",
        "then",
        "do",
        "done",
        "fi",
        "else",
    ]
)
_PREFIXES: Final = frozenset(("sudo", "nohup", "time", "env", "command"))
#: Options of these behind which a value follows: ``sudo -iu deploy``.
_TAKES_A_VALUE: Final = re.compile(r"-[a-zA-Z]*[ug]|-C|-S")

#: The package that has a tool, where it is called otherwise: on Debian; elsewhere, if it differs.
_PACKAGES: Final = {
    "rg": ("ripgrep",),
    "fd": ("fd-find", "fd"),
    "dig": ("dnsutils", "bind"),
    "nslookup": ("dnsutils", "bind"),
    "host": ("dnsutils", "bind"),
    "nc": ("netcat-openbsd", "netcat"),
    "ping": ("iputils-ping", "iputils"),
    "7z": ("p7zip-full", "p7zip"),
    "unrar": ("unrar",),
    "convert": ("imagemagick",),
    "import": ("imagemagick",),
    "lspci": ("pciutils",),
    "lsusb": ("usbutils",),
    "tracepath": ("iputils-tracepath", "iputils"),
    "resolvectl": ("systemd-resolved", "systemd"),
    "nmcli": ("network-manager", "networkmanager"),
    "pdfunite": ("poppler-utils", "poppler"),
    "amixer": ("alsa-utils",),
    "xrandr": ("x11-xserver-utils", "xorg-xrandr"),
    "watch": ("procps",),
    "pkill": ("procps",),
    "inotifywait": ("inotify-tools",),
    "getfacl": ("acl",),
    "setfacl": ("acl",),
    "smartctl": ("smartmontools",),
    "pdfinfo": ("poppler-utils", "poppler"),
    "tesseract": ("tesseract-ocr", "tesseract"),
    "xmllint": ("libxml2-utils", "libxml2"),
    "gpg": ("gnupg",),
    "gio": ("libglib2.0-bin", "glib"),
    "mysql": ("default-mysql-client", "mysql-client"),
    "mysqldump": ("default-mysql-client", "mysql-client"),
    "redis-cli": ("redis-tools", "redis"),
    "pg_dump": ("postgresql-client", "postgresql"),
    "createdb": ("postgresql-client", "postgresql"),
    "magick": ("imagemagick",),
    "mogrify": ("imagemagick",),
    "identify": ("imagemagick",),
    "lvs": ("lvm2",),
    "vgs": ("lvm2",),
    "pvs": ("lvm2",),
    "lvextend": ("lvm2",),
    "zpool": ("zfsutils-linux", "zfs"),
    "zfs": ("zfsutils-linux", "zfs"),
    "mkfs.xfs": ("xfsprogs",),
    "mkfs.vfat": ("dosfstools",),
    "mkfs.exfat": ("exfatprogs",),
    "mkfs.btrfs": ("btrfs-progs",),
    "mkfs.ntfs": ("ntfs-3g",),
    "ffprobe": ("ffmpeg",),
    "pdftoppm": ("poppler-utils", "poppler"),
    "pdfseparate": ("poppler-utils", "poppler"),
    "gs": ("ghostscript",),
    "nm": ("binutils",),
    "objdump": ("binutils",),
    "readelf": ("binutils",),
    "nft": ("nftables",),
    "fail2ban-client": ("fail2ban",),
    "wg": ("wireguard-tools",),
    "wg-quick": ("wireguard-tools",),
    "mpstat": ("sysstat",),
    "pidstat": ("sysstat",),
    "atq": ("at",),
    "atrm": ("at",),
    "mysqladmin": ("default-mysql-client", "mysql-client"),
    "pg_restore": ("postgresql-client", "postgresql"),
    "ifconfig": ("net-tools",),
    "netstat": ("net-tools",),
    "pstree": ("psmisc",),
    "fuser": ("psmisc",),
    "killall": ("psmisc",),
    "crontab": ("cron", "cronie"),
    "xclip": ("xclip",),
    "docker": ("docker.io", "docker"),
    "npm": ("npm",),
    "node": ("nodejs", "node"),
    "pip": ("python3-pip", "python"),
    "pdftotext": ("poppler-utils", "poppler"),
    "ncal": ("ncal",),
    "cal": ("ncal",),
    "ss": ("iproute2",),
    "ip": ("iproute2",),
    "xxd": ("xxd", "vim"),
    "sqlite3": ("sqlite3", "sqlite"),
    "psql": ("postgresql-client", "postgresql"),
    "cargo": ("cargo", "rust"),
    "go": ("golang-go", "go"),
    "sensors": ("lm-sensors", "lm_sensors"),
    "iostat": ("sysstat",),
    "at": ("at",),
    "hexdump": ("bsdextrautils", "util-linux"),
    "column": ("bsdextrautils", "util-linux"),
    "notify-send": ("libnotify-bin", "libnotify"),
}

#: Tools that the package managers of systems mostly do not have.
_ELSEWHERE: Final = {
    "uv": "python3 -m pip install uv",
    "ruff": "python3 -m pip install ruff",
    "jupyter": "python3 -m pip install jupyterlab",
    "flask": "python3 -m pip install flask",
    "uvicorn": "python3 -m pip install uvicorn",
    "alembic": "python3 -m pip install alembic",
    "mypy": "python3 -m pip install mypy",
    "isort": "python3 -m pip install isort",
    "poetry": "python3 -m pip install poetry",
    "pipx": "python3 -m pip install pipx",
    "pip-audit": "python3 -m pip install pip-audit",
    "pnpm": "npm install --global pnpm",
    "yarn": "npm install --global yarn",
}
#: Tools that come with a system, or that it takes more than a command to get.
_NOT_OURS: Final = frozenset(
    [
        # Where only root looks for commands: they are there all the same.
        *("useradd", "usermod", "userdel", "adduser", "deluser", "chpasswd", "gpasswd", "chage"),
        *("groupadd", "groupdel", "groupmod", "addgroup", "delgroup", "visudo", "chroot"),
        *("mkfs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "fsck", "tune2fs", "resize2fs", "blkid"),
        *("mkswap", "swapon", "swapoff", "fdisk", "sfdisk", "losetup", "mount", "umount"),
        *("sysctl", "modprobe", "ldconfig", "service", "shutdown", "reboot", "poweroff", "halt"),
        "docker",
        "kubectl",
        "brew",
        "rustup",
        "systemctl",
        "journalctl",
        "systemd-analyze",
        "apt",
        "apt-get",
        "dnf",
        "pacman",
        "xdg-open",
        "open",
        "pbcopy",
        "pbpaste",
        "nvm",
        "mongosh",
        "loginctl",
        "diskutil",
        "launchctl",
        "networksetup",
        "scutil",
        "deactivate",
        "getenforce",
        "setenforce",
        "ausearch",
        "apachectl",
        "nvidia-smi",
        "squeue",
        "sbatch",
        "scancel",
        "sinfo",
        "srun",
        "scontrol",
        "conda",
        "bundle",
        "composer",
    ]
)

_MANAGERS: Final = (
    ("brew", "brew install {}"),
    ("apt-get", "sudo apt-get install {}"),
    ("dnf", "sudo dnf install {}"),
    ("pacman", "sudo pacman -S {}"),
    ("zypper", "sudo zypper install {}"),
    ("apk", "sudo apk add {}"),
)


def to_install(
    commands: Sequence[str], machine: Machine, guessed: Collection[str] = ()
) -> tuple[str, tuple[str, ...]] | None:
    """Return the tool that ``commands`` need and this machine has not, and what installs it.

    Where no package manager is known, nothing is said: the commands tell themselves. Neither is of
    what is only ``guessed`` to be a program: a package of that name may be anybody's.
    """
    for command in commands:
        tool = _tool(command)
        if tool and tool not in guessed and not machine.has(tool):
            install = install_command(tool, machine)
            if install is not None:
                return tool, (install,)
    return None


def install_command(tool: str, machine: Machine) -> str | None:
    """Return the command that installs ``tool`` with this machine's package manager."""
    if tool in _NOT_OURS:
        return None
    if machine.system != "darwin" and tool in _ELSEWHERE:
        return _ELSEWHERE[tool]
    for manager, command in _MANAGERS:
        if machine.has(manager):
            names = _PACKAGES.get(tool, (tool,))
            return command.format(names[0] if manager == "apt-get" else names[-1])
    return None


def _tool(command: str) -> str:
    """Return the program that a command of the table begins with, or nothing."""
    words = re.sub(r"^\w+=\$\(", "", command).split()
    while words and (words[0] in _PREFIXES or re.match(r"\w+=", words[0])):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1 + bool(_TAKES_A_VALUE.fullmatch(words[0])) :]
    tool = words[0] if words else ""
    return tool if re.fullmatch(r"[\w.+-]+", tool) and tool not in _BUILTINS else ""
