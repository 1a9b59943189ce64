"""Whether commands can be confined on this machine, and what each is confined with."""

from __future__ import annotations

import asyncio
import os
import platform
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, Denied, StoreUnavailable
from aish_lsp.foundation.files import data_dir, private_dir, workspace_dir
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.shell.confinement import landlock, seccomp
from aish_lsp.shell.confinement.child import remove
from aish_lsp.shell.confinement.layers import Layer, layers_for
from aish_lsp.shell.confinement.places import Closed, secret_places
from aish_lsp.shell.process import Sandbox
from aish_lsp.shell.protected import protection, put_aside_in
from aish_lsp.shell.runner import RunResult, Stream, run_quietly

_PROBE: Final = Path(__file__).with_name("probe.py")
_PROBE_SECONDS: Final = 10.0
#: Seconds before another try if the machine was too busy for the first.
_RETRY_SECONDS: Final = 60.0
#: Seconds to wait for a work tree in which another command is at work, and between two looks.
_LOCK_SECONDS: Final = 1.0
_LOCK_PAUSE_SECONDS: Final = 0.01
#: How many characters of what the probe printed the user is shown.
_LONGEST_QUOTE: Final = 300


@dataclass(frozen=True, slots=True)
class Support:
    """Whether confinement is available here; ``detail`` says by what means, or why not.

    ``undecided`` says that it could not be tried this time.
    """

    available: bool
    detail: str
    undecided: bool = False


class Confinement:
    """Confines commands, if this machine can."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._support: Support | None = None
        self._deciding: asyncio.Task[Support] | None = None
        self._decided_at = 0.0
        self._making = asyncio.Lock()
        self._rulesets: dict[Path | None, landlock.Ruleset] = {}
        self._temporary: tuple[Path, int] | None = None
        self._worked: set[tuple[Path, bool]] = set()

    @property
    def available(self) -> bool:
        """Whether commands can be confined, as far as is known (it is tried before one runs)."""
        return self._support.available if self._support else not _missing()

    def begin(self) -> None:
        """Begin to try confinement, if that was not done yet, so that later callers wait less."""
        support = self._support
        if support is not None and support.undecided:
            again = time.monotonic() - self._decided_at >= _RETRY_SECONDS
            if again and self._deciding is not None and self._deciding.done():
                self._deciding = None
        if self._deciding is None:
            self._deciding = asyncio.create_task(self._decide(), name="try the confinement")

    async def support(self) -> Support:
        """Return whether commands can be confined.

        The first call tries it, and so does a later one if it could not be tried.
        """
        self.begin()
        assert self._deciding is not None
        # A caller that is cancelled meanwhile leaves the task to the others.
        return await asyncio.shield(self._deciding)

    async def sandbox(self, root: Path | None) -> Sandbox:
        """Return the sandbox of a command of the workspace ``root``.

        Raises:
            Denied: it cannot be confined.
        """
        return await self._made(partial(self._make_sandbox, root))

    async def work_sandbox(self, root: Path, *, layered: bool = False) -> Sandbox:
        """Return the sandbox of a command that may change the work tree ``root`` without asking.

        If ``layered``, it can write to git folders, which are covered by layers; else they are
        read-only. Whether the kernel allows it is only known when it starts: a refusal is
        ``Denied`` then.

        Raises:
            Denied: it cannot be confined.
        """
        return await self._made(partial(self._make_work_sandbox, root, layered=layered))

    async def why_no_work(self, root: Path, *, layered: bool = False) -> str:
        """Try ``work_sandbox``; return why commands cannot run in it, empty if they can.

        What has worked once is not tried again.
        """
        if (root, layered) in self._worked:
            return ""
        try:
            sandbox = await self.work_sandbox(root, layered=layered)
            result, _ = await self._run(":", root, sandbox)
        except AishError as error:
            # The reason follows the words that say that it was refused.
            return error.message.rpartition("confined: ")[2].rstrip(".")
        except OSError as error:
            return error.strerror or str(error)
        if result.exit_code != 0:
            return "even an empty command fails in the sandbox"
        self._worked.add((root, layered))
        return ""

    async def work_support(self) -> Support:
        """Return whether commands can run in the profile ``work`` here, tried in a new folder."""
        with tempfile.TemporaryDirectory(prefix=PROBE) as folder:
            root = Path(folder)
            if why := await self.why_no_work(root):
                return Support(False, why)
            sandbox = await self.work_sandbox(root)
            _, printed = await self._run("echo $$", root, sandbox)
        # The shell is the second process of its namespace.
        ends = printed["stdout"] == "2\n"
        how = "ended as a whole" if ends else "searched for, frozen and killed"
        return Support(True, f"{sandbox.mechanism}; what a command leaves running is {how}")

    async def _made(self, make: Callable[[], Sandbox]) -> Sandbox:
        making = asyncio.create_task(self._made_alone(make))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_release)
            raise
        except (OSError, ValueError, StoreUnavailable) as error:
            msg = f"The command was not run, since it could not be confined: {escaped(str(error))}."
            raise Denied(msg) from error

    async def _made_alone(self, make: Callable[[], Sandbox]) -> Sandbox:
        # One at a time: two would make the same ruleset.
        async with self._making:
            return await asyncio.to_thread(make)

    async def aclose(self) -> None:
        """Close the rulesets; commands that are running stay confined."""
        if self._deciding is not None:
            await asyncio.wait([self._deciding])
        async with self._making:
            self._close_rulesets()

    def _close_rulesets(self) -> None:
        for ruleset in self._rulesets.values():
            ruleset.close()
        self._rulesets.clear()

    def _make_sandbox(self, root: Path | None) -> Sandbox:
        temporary = self._temporary_folder()
        if sys.platform == "darwin":
            return self._sandbox_of_macos(root, temporary)
        return self._sandbox_of_linux(root, temporary)

    def _temporary_folder(self) -> Path:
        """Return the folder that holds those of the commands; the rulesets name it."""
        if self._temporary is None:
            remove_forgotten()
        folder, inode = shared_folder(self._temporary[0] if self._temporary else None)
        if self._temporary != (folder, inode):  # What the rulesets name keeps its inode.
            self._close_rulesets()
            self._temporary = folder, inode
        return folder

    def _sandbox_of_linux(self, root: Path | None, temporary: Path) -> Sandbox:
        abi = landlock.kernel_version()
        if abi == 0 or not seccomp.supported():
            raise ValueError(_missing())
        ruleset = self._rulesets.get(root)
        if ruleset is None or not ruleset.refresh():
            made = landlock.Ruleset(abi, secret_places(self._environ), [temporary], root)
            self._rulesets[root] = made
            if ruleset is not None:
                ruleset.close()
            ruleset = made
        own = Path(tempfile.mkdtemp(dir=temporary))
        try:
            # The other ruleset is shared, and would let commands write to each other's folders.
            writing = landlock.writing_only(abi, own)
        except OSError:
            own.rmdir()
            raise
        # A separate descriptor, since the ruleset may be remade for another command meanwhile.
        return Sandbox(
            f"Landlock {abi} and seccomp",
            own,
            rulesets=(os.dup(ruleset.descriptor), writing),
            program=seccomp.program(abi),
        )

    def _make_work_sandbox(self, root: Path, *, layered: bool) -> Sandbox:
        abi = landlock.kernel_version()
        if abi == 0 or not seccomp.supported():
            raise ValueError(_missing())
        # Mounting needs the real path.
        root = Path(os.path.realpath(root))
        closed = secret_places(self._environ)
        if os.fspath(root) in closed.parents:
            msg = f"{root} contains secret places"
            raise ValueError(msg)
        run = _WorkRun(root)
        lock = _locked(root)
        try:
            protected, nested = run.protect()
            if layered:
                run.add_layers(nested)
            temporary = Path(tempfile.mkdtemp(dir=self._temporary_folder()))
            # Not shared: the command adds its mounts to it.
            ruleset = landlock.Ruleset(abi, closed, [temporary, root], network=True)
        except BaseException:
            run.close()
            os.close(lock)
            raise
        writable = [os.fsencode(root), os.fsencode(temporary)]
        layers = [(os.fsencode(one.folder), os.fsencode(one.git)) for one in run.layers]
        work = protected | {"writable": writable, "layers": layers, "rights": ruleset.all_rights}
        return Sandbox(
            f"Landlock {abi}, seccomp and namespaces",
            temporary,
            rulesets=(ruleset.descriptor,),
            program=seccomp.program(abi, "work"),
            work=work,
            lock=lock,
            settle=run.settle,
            close=run.close,
        )

    def _sandbox_of_macos(self, root: Path | None, temporary: Path) -> Sandbox:
        own = Path(tempfile.mkdtemp(dir=temporary))
        try:
            profile = _sandbox_profile(secret_places(self._environ), own, root)
        except ValueError:
            own.rmdir()
            raise
        return Sandbox("sandbox-exec", own, (_SANDBOX, "-p", profile))

    async def _decide(self) -> Support:
        self._support = await self._tried()
        self._decided_at = time.monotonic()
        return self._support

    async def _tried(self) -> Support:
        """Let a confined process try what it must not be able to do."""
        missing = _missing()
        if missing:
            return Support(False, missing)
        try:
            with (
                tempfile.TemporaryDirectory(prefix=PROBE) as folder,
                tempfile.TemporaryDirectory(dir=_layers_folder()) as secrets,
            ):
                return await self._probed(Path(folder), Path(secrets))
        except (OSError, AishError) as error:
            return Support(False, f"it could not be tried: {error}", undecided=True)

    async def _probed(self, folder: Path, secrets: Path) -> Support:
        victim, secret = folder / "victim", secrets / "secret"
        victim.write_text("untouched\n")
        secret.write_text("secret\n")
        attempts = [sys.executable, "-I", "-S", _PROBE, os.getpid(), secret, victim]
        everyday = next(
            (name for name in ("ls", "git --version") if shutil.which(name.split()[0])), ":"
        )
        text = f"{shlex.join(map(str, attempts))} && : && {everyday} >/dev/null"
        sandbox = await self.sandbox(folder)
        result, printed = await self._run(text, folder, sandbox)
        if result.finish_reason == "timeout":
            reason = f"it could not be tried within {_PROBE_SECONDS:.0f} seconds"
            return Support(False, reason, undecided=True)
        if printed["stdout"]:
            version = ", ".join(printed["stdout"].splitlines())[:_LONGEST_QUOTE]
            reason = f"{sandbox.mechanism} did not hold: a confined command can {version}"
            return Support(False, reason)
        # Other complaints, such as one about the locale, do not matter.
        if result.exit_code != 0:
            message = " ".join(printed["stderr"].split())[:_LONGEST_QUOTE] or "it says nothing"
            return Support(False, f"with {sandbox.mechanism} an everyday command fails: {message}")
        return Support(True, sandbox.mechanism)

    async def _run(
        self, text: str, folder: Path, sandbox: Sandbox
    ) -> tuple[RunResult, dict[Stream, str]]:
        return await run_quietly(
            text, cwd=folder, env=self._environ, seconds=_PROBE_SECONDS, sandbox=sandbox
        )


class _WorkRun:
    """What is left to do after a command of the profile ``work`` in the work tree ``root``.

    Attributes:
        aside: the folder for what the command made although it may not.
        layers: the layers that cover git folders.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        own = workspace_dir(root) / "aside"
        _remove_old(own, "*", _ASIDE_SECONDS)
        self.aside = own / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{os.urandom(3).hex()}"
        self._folder: Path | None = None
        self._table: Any = None
        self.layers: list[Layer] = []

    def protect(self) -> tuple[dict[str, Any], list[Path]]:
        """Return how the work tree is protected, and the git folders in it: see ``protection``."""
        plan, nested = protection(self._root, self.aside)
        self._table = plan["table"]
        return plan, nested

    def add_layers(self, nested: Iterable[Path]) -> None:
        """Make the layers; ``nested`` are the git folders in the work tree.

        Raises:
            ValueError: a git folder cannot have one.
            OSError: one cannot be made.
        """
        layers = _layers_folder()
        _remove_old(layers, "*")
        self._folder = Path(tempfile.mkdtemp(dir=layers))
        self.layers = layers_for(self._root, nested, self._folder)

    def settle(self, ended_by_itself: bool) -> list[str]:
        """Take over what git did; return what the user should know. Blocks."""
        notices: list[str] = []
        for layer in self.layers:
            if ended_by_itself:
                notices += layer.take_over()
            else:
                git = shown_path(layer.git)
                notices.append(f"nothing that git did in {git} was kept, since it was stopped")
        if self.aside.exists():
            aside = put_aside_in(self.aside, self._table)
            notices += [
                f"{escaped(name)} is put aside: it {reason}" for name, reason in aside[:_TOLD]
            ]
            more = f" and {len(aside) - _TOLD} more" if len(aside) > _TOLD else ""
            notices.append(f"what is put aside{more} is in {shown_path(self.aside)}")
        return notices

    def close(self) -> None:
        """Remove the layers."""
        if self._folder is not None:
            remove(self._folder)


def _layers_folder() -> Path:
    """Return the secret folder in which what is left by a run that was killed is known as ours."""
    return private_dir(data_dir() / "layers")


def _locked(root: Path) -> int:
    """Return a descriptor that holds the work tree for one command, until it is closed everywhere.

    A supervisor that has reported the end of its command still holds it for a moment. Blocks.

    Of two commands the first to end would take away what protects the places that are missing.

    Raises:
        ValueError: another command is at work there.
    """
    import fcntl  # noqa: PLC0415 - not on Windows

    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    give_up = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > give_up:
                    msg = f"another command is at work in {root}"
                    raise ValueError(msg) from error
                time.sleep(_LOCK_PAUSE_SECONDS)
            else:
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _release(making: asyncio.Task[Sandbox]) -> None:
    """Release a sandbox that no caller waits for any more."""
    if not making.cancelled() and making.exception() is None:
        with making.result():
            pass


def _missing() -> str:
    """Return what this machine lacks for confinement; empty if nothing is known to be missing."""
    if sys.platform == "darwin":
        return "" if os.access(_SANDBOX, os.X_OK) else f"there is no {_SANDBOX}"
    if sys.platform != "linux":
        return f"there is none for {sys.platform}"
    if not seccomp.supported():
        return f"there is none for {platform.machine()} processors"
    if landlock.kernel_version() == 0:
        return "the kernel has no Landlock, or it is turned off"
    return ""


# The profile that ``sandbox-exec`` confines a command with (macOS).
#
# It follows Apple's profiles in ``/System/Library/Sandbox/Profiles``; the last rule that matches
# decides. The probe shows whether it works, as on every system.

_SANDBOX: Final = "/usr/bin/sandbox-exec"
#: What is the same for every command.
_SANDBOX_HEAD: Final = Path(__file__).with_name("macos.sb").read_text("utf-8")


def _sandbox_profile(closed: Closed, writable: Path, readable: Path | None) -> str:
    """Return the profile that allows reading all but ``closed``, and writing to ``writable``.

    ``readable`` may be read even if it is in a closed place.

    Raises:
        ValueError: a path has a character that a profile cannot name.
    """
    places = list(_filters(closed))
    rules = [
        f"(deny file-read-data process-exec {' '.join(places)})",
        # The names in a closed place may be seen.
        *(f"(allow file-read-data (require-all {path} (vnode-type DIRECTORY)))" for path in places),
        f"(allow file-write* (subpath {_quoted(os.fspath(writable))}))",
    ]
    if readable is not None and closed.contains(readable):
        rules.append(
            f"(allow file-read-data process-exec (subpath {_quoted(os.fspath(readable))}))"
        )
    return _SANDBOX_HEAD + "\n".join(rules) + "\n"


def _filters(closed: Closed) -> Iterator[str]:
    for folder, names in closed.patterns.items():
        for name in names:
            if "*" not in name:
                yield f"(subpath {_quoted(f'{folder}/{name}')})"
            else:
                yield f"(regex {_quoted(_regex(folder, name))})"


def _regex(folder: str, pattern: str) -> str:
    """Return an expression for the names in ``folder`` that match, and everything below them."""
    literal = "".join(f"[{c}]" if c in ".+*?()|{}$^" else c for c in f"{folder}/")
    name = "".join("[^/]*" if c == "*" else "[.]" if c == "." else c for c in pattern)
    return f"^{literal}{name}(/|$)"


def _quoted(text: str) -> str:
    if not text.isprintable():
        msg = "a path has a character that no sandbox profile can name"
        raise ValueError(msg)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Where confined commands have their temporary folders: one folder for all servers of a user.
#
# It is kept, so that a server that is killed leaves nothing new behind. The folder of a command is
# removed by its supervisor or the server; if both were killed, by a later server.

#: The prefix of the names of the folders in which confinement is tried.
PROBE: Final = "aish-probe-"
#: Seconds after which a folder is no longer needed; a command runs for an hour at most.
_FORGOTTEN: Final = 86_400.0
#: How many of the files that were put aside are named.
_TOLD: Final = 10
#: Seconds for which that is kept which commands of the profile ``work`` made although they may not.
_ASIDE_SECONDS: Final = 30 * 86_400.0


def shared_folder(before: Path | None = None) -> tuple[Path, int]:
    """Return the folder and its inode; ``before`` is the folder that was last returned.

    Raises:
        OSError: it cannot be made.
    """
    usual = _usual()
    for folder in (usual, before):
        if folder is not None:
            with suppress(OSError):
                folder.mkdir(mode=0o700)
            with suppress(OSError):
                status = folder.lstat()
                if _is_ours(status):
                    return folder, status.st_ino
    # Another user has taken the name.
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="aish-")))
    return folder, folder.lstat().st_ino


def remove_forgotten() -> None:
    """Remove what was left when a server was killed together with its supervisors."""
    usual = _usual()
    with suppress(OSError):
        if _is_ours(usual.lstat()):
            _remove_old(usual, "*")
    _remove_old(usual.parent, f"{PROBE}*")


def _usual() -> Path:
    return Path(os.path.realpath(tempfile.gettempdir())) / f"aish-{os.geteuid()}"


def _is_ours(status: os.stat_result) -> bool:
    """Return whether it is a folder in which no other user can put anything."""
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return private and status.st_uid == os.geteuid()


def _remove_old(folder: Path, pattern: str, seconds: float = _FORGOTTEN) -> None:
    oldest = time.time() - seconds
    for path in folder.glob(pattern):
        with suppress(OSError):
            status = path.lstat()
            if _is_ours(status) and status.st_mtime < oldest:
                remove(path)
