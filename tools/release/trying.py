"""Try what was built as a user gets it: in an empty home, with no key, by a conversation."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import threading
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).parent
QUESTION = "how do I list files"

#: Seconds of any one step: a loaded machine takes its time.
PATIENCE = 300

#: Where programs are that are not of this project.
SYSTEM = "/usr/local/bin:/usr/bin:/bin"


class TrialError(Exception):
    """What was built does not do what it is for."""


class SkippedError(Exception):
    """What it would be tried with is not here."""


@dataclass(frozen=True)
class Home:
    """A user who has nothing yet, with a folder to work in.

    Attributes:
        home: the home.
        work: the folder.
        programs: what this user has installed, for PATH.
    """

    home: Path
    work: Path
    programs: Path

    @classmethod
    def make(cls, root: Path, programs: Path) -> Home:
        """Return a new one in the folder ``root``."""
        home, work = root / "home", root / "work"
        for path in (home, work / ".git"):
            path.mkdir(parents=True)
        (work / "main.py").write_text("print()\n")
        return cls(home, work, programs)

    @property
    def environment(self) -> dict[str, str]:
        """All of it, as after ``env -i``: no model server of this machine answers instead."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:{SYSTEM}",
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "AISH_DISCOVERY": "off",
        }

    @property
    def chat(self) -> str:
        """The chat's text."""
        path = self.work / ".aish" / "chat.md"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def run(self, *command: str | Path, **more: str) -> str:
        """Return what a command prints.

        Raises:
            TrialError: it failed.
        """
        return output(command, self.work, self.environment | more)

    def check_chat(self) -> None:
        """Check that the chat has the question, the reply, and the place for the next question.

        Raises:
            TrialError: it has not.
        """
        reply = self.chat.partition("\n## aish\n")[2]
        if QUESTION not in self.chat or "\nCMD: ls" not in reply or "\n## You" not in reply:
            raise TrialError(f"no reply in the chat:\n{self.chat}")


def output(command: Sequence[str | Path], folder: Path, seen: Mapping[str, str]) -> str:
    """Return what a command prints.

    Raises:
        TrialError: it failed, or did not end.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=seen,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrialError(f"{shlex.join(words)} did not end in {PATIENCE} s") from error
    if done.returncode:
        said = f"{done.stdout}{done.stderr}".strip()
        raise TrialError(f"{shlex.join(words)}: exit {done.returncode}\n{said[-4000:]}")
    return done.stdout


def install(package: Path, root: Path) -> Path:
    """Install a wheel or a source distribution into a new venv; return its programs' folder."""
    venv.create(root, symlinks=True)
    python = root / "bin" / "python"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
    # pip needs to know where packages come from; what is tried later sees nothing of this.
    output([*pip, "--disable-pip-version-check", package], root, os.environ)
    return root / "bin"


def try_package(user: Home, version: str) -> str:
    """Ask on the command line and see the demo; return how it was tried."""
    if user.run("aish-lsp", "--version").split()[-1] != version:
        raise TrialError("aish-lsp --version says another version")
    if "\nCMD: ls" not in user.run("aish-lsp", "ask", QUESTION):
        raise TrialError("aish-lsp ask suggests no command")
    # The reply to its last question knows what the command before it has printed.
    if "succeeded (exit 0)" not in user.run("aish-lsp", "demo"):
        raise TrialError("aish-lsp demo does not run the tests of its project")
    return "new venv, ask, demo"


def try_neovim(archive: Path, user: Home) -> str:
    """Ask in Neovim with the plugin as a package of a clean profile; return how it was tried."""
    beside = Path(sys.executable).with_name("nvim")
    nvim = str(beside) if beside.exists() else found("nvim", "./dev test installs it")
    told = output([nvim, "--version"], user.work, user.environment).split("\n", 1)[0]
    match = re.search(r"v(\d+)\.(\d+)", told)
    if match is None or (int(match[1]), int(match[2])) < (0, 11):
        raise SkippedError(f"the plugin needs Neovim 0.11, this is {told}")
    unpack(archive, user.home / ".local/share/nvim/site/pack/aish/start")
    init = user.home / ".config/nvim/init.lua"
    init.parent.mkdir(parents=True)
    init.write_text('require("aish").setup{}\n')
    user.run(nvim, "--headless", "main.py", "-S", HERE / "converse.lua")
    user.check_chat()
    return f"{told}, chat"


def try_emacs(package: Path, user: Home) -> str:
    """Ask in Emacs with the file installed as a package; return how it was tried."""
    emacs = found("emacs", "apt-get install emacs-nox elpa-eglot")
    told = output([emacs, "--version"], user.work, user.environment).split("\n", 1)[0]
    try:
        user.run(emacs, "-q", "--batch", "--eval", "(require 'eglot)")
    except TrialError as error:
        raise SkippedError("Emacs has no Eglot: apt-get install elpa-eglot, or Emacs 29") from error
    # Without the user's own files; those of the site say where Debian's packages are.
    command = [emacs, "-q", "--no-splash", "-nw", "-l", str(HERE / "converse.el"), "main.py"]
    in_terminal(command, user, PACKAGE=str(package))
    user.check_chat()
    return f"{told}, chat"


def try_vim(archive: Path, user: Home) -> str:
    """Ask in Vim with ALE and the plugin as a package; return how it was tried."""
    vim = found("vim", "apt-get install vim-nox vim-ale")
    told = re.match(r"VIM - Vi IMproved (\S+)", user.run(vim, "--version"))
    probe = "if globpath(&packpath, 'pack/*/opt/ale') == '' | cquit | else | quit | endif"
    try:
        user.run(vim, "-Nes", "-c", probe)
    except TrialError as error:
        raise SkippedError("Vim has no ALE: apt-get install vim-ale") from error
    unpack(archive, user.home / ".vim/pack/aish/start")
    (user.home / ".vimrc").write_text("packadd! ale\n")
    in_terminal([vim, "-S", str(HERE / "converse.vim"), "main.py"], user)
    user.check_chat()
    return f"Vim {told[1] if told else '?'} with ALE, chat"


def try_extension(vsix: Path, wheel: Path, version: str, user: Home) -> str:
    """Look into the extension, and install it where CODE_SERVER names one; return what was done."""
    with zipfile.ZipFile(vsix) as archive:
        manifest = json.loads(archive.read("extension/package.json"))
        inside = f"extension/wheel/{wheel.name}"
        held = [name for name in archive.namelist() if name.startswith("extension/wheel/")]
        if held != [inside] or archive.read(inside) != wheel.read_bytes():
            raise TrialError(f"wheel/ holds {held}, which is not the wheel")
        main = f"extension/{manifest['main'].removeprefix('./')}"
        if main not in archive.namelist():
            raise TrialError(f"there is no {main}")
    if manifest["version"] != version:
        raise TrialError(f"package.json says {manifest['version']}")
    server = os.environ.get("CODE_SERVER")
    if not server:
        return "unzipped, wheel inside (CODE_SERVER not given)"
    command = shlex.split(server)
    user.run(*command, "--install-extension", vsix)
    wanted = f"{manifest['publisher']}.{manifest['name']}@{version}"
    if wanted not in user.run(*command, "--list-extensions", "--show-versions").split():
        raise TrialError(f"code-server does not list {wanted}")
    return "unzipped, wheel inside, in code-server"


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar.gz into a folder, which is made."""
    into.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive, "-C", into], check=True)


def found(program: str, advice: str) -> str:
    """Return the path of a program.

    Raises:
        SkippedError: it is not here.
    """
    path = shutil.which(program)
    if path is None:
        raise SkippedError(f"{program} is not here: {advice}")
    return path


def in_terminal(command: Sequence[str], user: Home, **more: str) -> None:
    """Run a program that wants a terminal, until it ends by itself.

    Raises:
        TrialError: it failed, or did not end; with what it wrote to standard error.
    """
    screen, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    name = os.ttyname(terminal)
    # What a new session opens first becomes its terminal.
    process = subprocess.Popen(
        ["sh", "-c", f"exec {shlex.join(command)} <{name} >{name}"],
        cwd=user.work,
        env=user.environment | more,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    reader = threading.Thread(target=_drain, args=(screen,))
    reader.start()
    try:
        said = process.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired as error:
        raise TrialError(f"{command[0]} did not end in {PATIENCE} s") from error
    finally:
        process.kill()
        process.wait()
        # Closed before the program has opened it, it would have ended for the reader.
        os.close(terminal)
        reader.join()
        os.close(screen)
    if process.returncode:
        raise TrialError(f"{command[0]}: exit {process.returncode}\n{said[-4000:]}")


def _drain(screen: int) -> None:
    try:
        while os.read(screen, 1 << 16):
            pass
    except OSError:
        pass  # the program has ended


class Trials:
    """How each file of a folder is tried.

    Attributes:
        files: these files, in the order in which they are.
    """

    def __init__(self, built: Path, version: str, root: Path) -> None:
        [self._wheel], [self._sdist] = built.glob("*.whl"), built.glob("aish_lsp-*.tar.gz")
        packages = [self._wheel, self._sdist]
        self.files = packages + sorted(set(built.iterdir()) - set(packages))
        self._version = version
        self._root = root

    @cached_property
    def _programs(self) -> Path:
        """Where the wheel is installed: the server of all that needs one."""
        return install(self._wheel, self._root / "venv-wheel")

    def attempt(self, path: Path) -> str:
        """Try one of them; return how.

        Raises:
            TrialError: it does not do what it is for.
            SkippedError: what it would be tried with is not here.
        """
        sdist = path == self._sdist
        programs = install(path, self._root / "venv-sdist") if sdist else self._programs
        user = Home.make(self._root / path.name, programs)
        if path.suffix == ".vsix":
            return try_extension(path, self._wheel, self._version, user)
        if path.suffix == ".el":
            return try_emacs(path, user)
        if path.name.startswith("aish.nvim-"):
            return try_neovim(path, user)
        if path.name.startswith("aish.vim-"):
            return try_vim(path, user)
        return try_package(user, self._version)
