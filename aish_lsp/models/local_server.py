"""A llama.cpp server for the ``file`` of a model: one for each user, shared by all editors.

The server belongs to a keeper, a process of its own (``python -m aish_lsp.models.local_server``).
Whoever uses the server holds a shared lock on ``ID.users``, which the system releases however they
end. The keeper waits for the exclusive lock of that file, and ends the server when it has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendRejected, BackendUnavailable
from aish_lsp.foundation.files import (
    data_dir,
    open_append,
    store_errors,
    write_atomic,
)
from aish_lsp.foundation.locks import lock_free, unlock
from aish_lsp.foundation.text import escaped, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient

#: Seconds for a server to load its model, and between two looks at it.
START_TIMEOUT = 300.0
_PAUSE: Final = 0.1

#: How many ports are tried, and what llama.cpp says of one that is taken.
_PORTS: Final = 3
_NO_PORT: Final = re.compile(r"bind (?:HTTP server )?socket|address already in use", re.IGNORECASE)

_PR_SET_PDEATHSIG: Final = 1

#: The lines of llama.cpp's output that say why it ended.
_REASON: Final = re.compile(r"error|fail|invalid|unable|cannot|not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Server:
    """The files of one server: its users, its keeper, where it is, and what it printed."""

    model: Path
    window: int

    def file(self, kind: str) -> Path:
        name = hashlib.sha256(os.fsencode(f"{self.model}\n{self.window}")).hexdigest()[:16]
        return data_dir() / "servers" / f"{name}.{kind}"


# By server: the lock of this process as a user of it, the keeper that it has started, and the port
# at which it has answered.
_used: dict[_Server, int] = {}
_keepers: dict[_Server, subprocess.Popen[bytes]] = {}
_answering: dict[_Server, int] = {}


def has_engine() -> bool:
    """Return whether llama.cpp is here."""
    return bool(shutil.which("llama-server") or find_spec("xllamacpp"))


async def served(preset: Preset, http: HttpClient) -> Preset:
    """Return the preset with the endpoint of its server, which is started if it has a ``file``.

    Raises:
        BackendUnavailable: there is no such file or no llama.cpp, or the server does not start.
    """
    if preset.file is None:
        return preset
    server = _Server(model_file(preset), preset.context_window or 0)
    await asyncio.to_thread(_use, server)
    try:
        async with asyncio.timeout(START_TIMEOUT):
            while True:
                state = _running(server)
                if state and await _answers(server, state, http):
                    headers = preset.extra_headers | _with_key(state)
                    return replace(preset, file=None, endpoint=_url(state), extra_headers=headers)
                if not state:
                    _start(server, preset)
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        msg = f"llama.cpp did not load {shown_path(server.model)} within {START_TIMEOUT:g} s."
        raise BackendUnavailable(msg) from None


def model_file(preset: Preset) -> Path:
    """Return the real path of the preset's ``file``.

    Raises:
        BackendUnavailable: it is not a model, or there is nothing to serve it.
    """
    if not has_engine():
        from aish_lsp.models.fetching import install_command  # noqa: PLC0415 - for this alone

        command = install_command()
        raise BackendUnavailable(
            f"There is no llama.cpp here: install `llama-server`, or run `{command}`."
        )
    path = preset.path
    try:
        with path.open("rb") as file:
            is_model = file.read(4) == b"GGUF"
    except (OSError, ValueError) as error:  # ValueError: a NUL
        reason = getattr(error, "strerror", error)
        msg = f"models.{preset.name}.file: {shown_path(path)}: {reason}."
        raise BackendUnavailable(msg) from error
    if not is_model:
        msg = f"models.{preset.name}.file: {shown_path(path)} is not a model in GGUF form."
        raise BackendUnavailable(msg)
    return path.resolve()


def _use(server: _Server) -> None:
    """Become a user of the server until this process ends. Blocks while its keeper is ending."""
    if server in _used:
        return
    path = server.file("users")
    fd = open_append(path)
    with store_errors(path, "lock"):
        fcntl.flock(fd, fcntl.LOCK_SH)
    _used[server] = fd


def _running(server: _Server) -> dict[str, Any] | None:
    """Return the port and the key of the server, or None if it has no keeper."""
    fd = lock_free(server.file("keeper"))
    if fd is not None:
        # What a keeper that was killed has left names a port that may be another program's now.
        server.file("json").unlink(missing_ok=True)
        unlock(fd)
        return None
    with contextlib.suppress(OSError, ValueError):
        state: dict[str, Any] = json.loads(server.file("json").read_bytes())
        return state
    return {"port": 0, "key": ""}


def _url(state: Mapping[str, Any]) -> str:
    return f"http://127.0.0.1:{state['port']}"


def _with_key(state: Mapping[str, Any]) -> dict[str, str]:
    return {"Authorization": f"Bearer {state['key']}"}


async def _answers(server: _Server, state: Mapping[str, Any], http: HttpClient) -> bool:
    """Return whether the server has loaded its model.

    Another program may have taken the port before it; that one does not refuse a missing key.
    """
    port: int = state["port"]
    if port and _answering.get(server) != port:
        with contextlib.suppress(AishError):
            await http.fetch_json(f"{_url(state)}/health", timeout_s=2.0)
            try:
                await http.fetch_json(f"{_url(state)}/props", timeout_s=2.0)
            except BackendRejected:
                await http.fetch_json(f"{_url(state)}/props", headers=_with_key(state), timeout_s=2)
                _answering[server] = port
    return port != 0 and _answering.get(server) == port


def _start(server: _Server, preset: Preset) -> None:
    """Start the keeper, unless it is starting; raise BackendUnavailable if it cannot."""
    has_answered = _answering.pop(server, None)
    keeper = _keepers.get(server)
    if keeper is None:
        words = str(server.model), str(server.window), preset.model
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(server.file("log"), flags, 0o600), "wb") as log:
            _keepers[server] = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
    elif keeper.poll() is not None:
        # It ended with 0 if another one was faster. One that had started is started again.
        del _keepers[server]
        if keeper.returncode and not has_answered:
            raise BackendUnavailable(_why(server))


def _why(server: _Server) -> str:
    """Return why the server ended, in the words of llama.cpp."""
    log = server.file("log")
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    lines = [line for line in lines if line.strip()]
    said = next(filter(_REASON.search, reversed(lines)), lines[-1] if lines else "it said nothing")
    return (
        f"llama.cpp does not start with {shown_path(server.model)}: {escaped(said.strip()[:300])}."
        f" All that it said is in {shown_path(log)}."
    )


# The keeper.


def _keep(server: _Server, name: str) -> int:
    """Run the server until it has no users; return the exit code."""
    if lock_free(server.file("keeper")) is None:
        return 0
    program = shutil.which("llama-server")
    running: list[subprocess.Popen[bytes]] = []
    is_ending = threading.Event()
    threading.Thread(
        target=_end_without_users, args=(server, running, is_ending), daemon=True
    ).start()
    key = secrets.token_urlsafe(32)
    for _ in range(_PORTS):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        write_atomic(server.file("json"), json.dumps({"port": port, "key": key}))
        if program is None:
            _run_library(server, name, port, key)
            return 1
        running[:] = [_run_program(program, server, name, port, key)]
        running[0].wait()
        if is_ending.is_set():
            return 0
        # Another program was faster at the port.
        if not _NO_PORT.search(server.file("log").read_text("utf-8", "replace")):
            break
    return 1


def _end_without_users(
    server: _Server, running: list[subprocess.Popen[bytes]], is_ending: threading.Event
) -> None:
    """Wait until nobody uses the server, and end it and this process."""
    fcntl.flock(open_append(server.file("users")), fcntl.LOCK_EX)
    server.file("json").unlink(missing_ok=True)
    is_ending.set()
    for process in running:
        process.kill()
        process.wait()
    os._exit(0)


def _run_program(
    program: str, server: _Server, name: str, port: int, key: str
) -> subprocess.Popen[bytes]:
    words = ["-m", str(server.model), "-c", str(server.window), "-np", "1", "--alias", name]
    words += ["--host", "127.0.0.1", "--port", str(port), "--jinja"]
    # Not an argument: those can be seen by everyone.
    environ: Mapping[str, str] = os.environ | {"LLAMA_API_KEY": key}
    return subprocess.Popen(
        [program, *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - the other thread only waits for a lock
    )


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _run_library(server: _Server, name: str, port: int, key: str) -> None:
    import xllamacpp  # noqa: PLC0415 - an extra

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(server.model)
    parameters.model_alias = {name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.api_keys = [key]
    parameters.n_ctx = server.window
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = max(2, (os.cpu_count() or 2) // 2)
    parameters.endpoint_props = True
    parameters.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_AUTO
    _kept = xllamacpp.Server(parameters)
    threading.Event().wait()


if __name__ == "__main__":
    sys.exit(_keep(_Server(Path(sys.argv[1]), int(sys.argv[2])), sys.argv[3]))
