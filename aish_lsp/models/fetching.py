"""Small models, fetched by what is here: Ollama, llama.cpp's server, or the hub's client.

Whichever it is keeps the model in its own cache, and goes on with a fetch that was interrupted.

``python -m aish_lsp.models.fetching REPOSITORY FILE`` has the hub's client fetch a file. It prints
how far it is, unless it draws a bar on a terminal, then where the file is, or why there is none.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from aish_lsp.config.schema import LOCAL_WINDOW, Preset
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import AishError, BackendUnavailable
from aish_lsp.foundation.files import expanded
from aish_lsp.foundation.text import escaped, shown_path
from aish_lsp.models.address import host
from aish_lsp.models.loose_json import as_dict, as_text, decoded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aish_lsp.models.http import HttpClient

#: Seconds without a word from Ollama: it says nothing while it verifies what it has fetched.
_SILENCE: Final = 600.0

#: Seconds between two looks at llama.cpp's server.
_PAUSE: Final = 0.5

_HUB: Final = "https://huggingface.co"

#: The name of a large file's content in the hub's cache: its SHA-256.
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

#: Gets the progress of a fetch, in words.
Told: TypeAlias = "Callable[[str], Awaitable[None]]"

#: The engines, and what can be told to whoever has none.
Engine: TypeAlias = Literal["ollama", "llama-server", "hub"]
TOO_LITTLE_MEMORY: Final = "This machine has too little memory for a model that would be of use."


def no_engine() -> str:
    """Return what a model on this machine needs."""
    return f"""\
A model on this machine needs one of these, then choose it again:

    {install_command()}
    brew install llama.cpp             # or your system's package of it
    ollama serve                       # https://ollama.com/download
"""


def install_command() -> str:
    """Return the command that adds llama.cpp to this installation of aish-lsp."""
    extra = "'aish-lsp[local]'"
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx install --force {extra}"
    if Path(sys.prefix, "uv-receipt.toml").exists():
        return f"uv tool install {extra}"
    python = shlex.quote(sys.executable)
    if find_spec("pip"):
        return f"{python} -m pip install {extra}"
    return f"uv pip install --python {python} {extra}"


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A model that can be fetched; ``size`` and ``memory``, what it needs, are in GB."""

    name: str
    size: float
    memory: float
    license: str
    expect: str
    repository: str
    file: str
    ollama: str

    def __str__(self) -> str:
        return f"{self.name}: {self.size:g} GB, {self.license}; {self.expect}"


def small_models() -> list[SmallModel]:
    """Return the models for which this machine has the memory, the smallest first."""
    table = tomllib.loads(Path(__file__).with_name("small_models.toml").read_text("utf-8"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return [one for one in (SmallModel(**row) for row in table["models"]) if one.memory <= memory]


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Gets small models by one engine.

    Attributes:
        engine: what fetches and serves them.
        host: the machine from which they come.
        folder: where they are kept, empty if the engine does not say.
    """

    engine: Engine
    host: str
    folder: str
    _http: HttpClient
    _url: str = ""

    @classmethod
    async def find(cls, http: HttpClient, environ: Mapping[str, str]) -> Fetcher | None:
        """Return the fetcher of the engine that is here; None if there is none."""
        url = _ollama_url(environ)
        try:
            await http.fetch_json(f"{url}/api/version", timeout_s=2.0)
            return cls("ollama", "registry.ollama.ai", "", http, url)
        except AishError:
            pass  # It is not running.
        hub = host(environ.get("HF_ENDPOINT") or _HUB)
        cache = expanded(environ.get("XDG_CACHE_HOME") or "~/.cache")
        if shutil.which("llama-server"):
            folder = environ.get("LLAMA_CACHE") or cache / "llama.cpp"
            return cls("llama-server", hub, str(folder), http)
        if find_spec("huggingface_hub") and find_spec("xllamacpp"):
            home = environ.get("HF_HOME") or cache / "huggingface"
            return cls("hub", hub, str(environ.get("HF_HUB_CACHE") or Path(home, "hub")), http)
        return None

    def lacking_space(self, model: SmallModel) -> str:
        """Return why the disk has no room for a model; empty if it has, or if that is unknown."""
        if not self.folder:
            return ""
        there = Path(self.folder)
        while not there.exists():
            there = there.parent
        free = shutil.disk_usage(there).free / 1e9
        if free >= model.size:
            return ""
        return (
            f"{model.name} needs {model.size:g} GB, and {free:.1f} GB are free where"
            f" {shown_path(self.folder)} is."
        )

    def question(self, model: SmallModel) -> str:
        """Return the question that is asked before a model is fetched."""
        kept = f" to {shown_path(self.folder)}" if self.folder else ""
        return f"Fetch {model.size:g} GB from {self.host}{kept}?"

    async def fetch(self, model: SmallModel, told: Told) -> Preset:
        """Fetch a model and return its preset, without a name; ``told`` gets the progress.

        What runs meanwhile is stopped if this is cancelled, and keeps what has arrived.

        Raises:
            BackendUnavailable: it could not be fetched; the message says why.
        """
        if self.engine == "ollama":
            await _pull(self._http, self._url, model.ollama, told)
            return Preset(
                provider="ollama",
                endpoint=self._url,
                model=model.ollama,
                context_window=LOCAL_WINDOW,
            )
        if self.engine == "llama-server":
            path = await _serve(self._http, model)
        else:
            path = await _download(model, told)
        await asyncio.to_thread(_verify, path)
        return Preset(file=str(path))


def _ollama_url(environ: Mapping[str, str]) -> str:
    """Return where Ollama listens, by its own variable."""
    address = environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1:11434"
    url = address if "://" in address else f"http://{address}"
    # It listens on all addresses there; one is reached by another name.
    url = url.replace("//0.0.0.0", "//127.0.0.1").rstrip("/")
    return url if re.search(r":\d+$", url) else f"{url}:11434"


async def _pull(http: HttpClient, url: str, name: str, told: Told) -> None:
    """Have Ollama pull a model, and tell each tenth of it."""
    shown = ""
    status = ""
    body = {"model": name, "stream": True}
    async for line in http.stream(f"{url}/api/pull", body, headers={}, timeout_s=_SILENCE):
        step = as_dict(decoded(line))
        if "error" in step:
            raise BackendUnavailable(f"Ollama: {escaped(as_text(step['error']))}")
        status = as_text(step.get("status"))
        total, done = step.get("total"), step.get("completed")
        text = status
        if isinstance(total, int) and isinstance(done, int) and total > 0:
            text = f"{status}: {_share(done, total, 10)}"
        if text != shown:
            await told(escaped(text))
            shown = text
    if status != "success":
        raise BackendUnavailable("Ollama broke off. Choose the model again to go on with it.")


def _share(done: int, total: int, step: int = 1) -> str:
    """Return how much has arrived, in steps of so many percent."""
    percent = min(100, 100 * done // total // step * step)
    return f"{percent} % of {total / 1e6:,.0f} MB"


async def _download(model: SmallModel, told: Told) -> Path:
    """Have the hub's client fetch a file, tell each hundredth of it, and return its path."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__),
        *(model.repository, model.file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        # Its faster way cannot go on with a file, and does not work behind many proxies.
        env=os.environ | {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
    )
    assert process.stdout is not None
    path = reason = shown = ""
    try:
        async for line in process.stdout:
            word, _, rest = os.fsdecode(line).rstrip("\n").partition(" ")
            if word == "at":
                done, total = map(int, rest.split())
                if shown != (shown := _share(done, total)):
                    await told(shown)
            elif word == "path":
                path = rest
            elif word == "failed":
                reason = f" {escaped(rest)}"
        await process.wait()
    finally:
        await _stop(process)
    if not path:
        raise BackendUnavailable(
            f"{model.file} was not fetched.{reason} What has arrived is kept: choose it again."
        )
    return Path(path)


async def _serve(http: HttpClient, model: SmallModel) -> Path:
    """Have llama.cpp's server fetch a model as it starts, and end it; return the file's path."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    name = f"{model.repository}:Q4_K_M"
    process = await asyncio.create_subprocess_exec(
        *("llama-server", "-hf", name, "-c", "512", "--host", "127.0.0.1", "--port", str(port)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        while process.returncode is None:
            try:
                await http.fetch_json(f"http://127.0.0.1:{port}/health", timeout_s=2.0)
                props = await http.fetch_json(f"http://127.0.0.1:{port}/props", timeout_s=30.0)
                return Path(as_text(as_dict(props).get("model_path")))
            except AishError:
                await asyncio.sleep(_PAUSE)
    finally:
        await _stop(process)
    raise BackendUnavailable(
        f"`llama-server -hf {name}` ended with exit code {process.returncode}. What has"
        " arrived is kept: choose the model again."
    )


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
        await process.wait()


def _verify(path: Path) -> None:
    """Check what was fetched, which the hub's cache names by its SHA-256. Blocks.

    Raises:
        BackendUnavailable: it is not what it should be; it was removed.
    """
    real = path.resolve()
    try:
        with real.open("rb") as file:
            is_whole = file.read(4) == b"GGUF"
            if is_whole and _DIGEST.fullmatch(real.name):
                file.seek(0)
                is_whole = hashlib.file_digest(file, "sha256").hexdigest() == real.name
        if is_whole:
            return
        real.unlink()
    except OSError as error:
        msg = f"{shown_path(path)} cannot be read: {error.strerror}."
        raise BackendUnavailable(msg) from error
    raise BackendUnavailable(
        f"{shown_path(path)} was damaged on its way, and was removed. Choose the model again."
    )


# The hub's client, in a process that can be stopped.


class _Progress:
    """What of a progress bar the hub's client uses; it prints lines."""

    def __init__(self, *, total: int | None = None, initial: int = 0, **_: object) -> None:
        self._total, self._done = total, initial

    def update(self, count: int = 1) -> None:
        self._done += count
        if self._total:
            sys.stdout.write(f"at {self._done} {self._total}\n")
            sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def main(repository: str, file: str) -> int:
    """Fetch a file; return the exit code."""
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - an extra

    bar: Any = None if sys.stderr.isatty() else _Progress
    try:
        _go_on(repository, file, bar)
        path = hf_hub_download(repository, file, tqdm_class=bar)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        reason = ": ".join(str(one) for one in (error, error.__cause__) if one)
        sys.stdout.write(f"failed {' '.join(reason.split())[:300]}\n")
        return 1
    sys.stdout.write(f"path {path}\n")
    return 0


def _go_on(repository: str, file: str, bar: Any) -> None:
    """Fetch what is missing of a file into the hub's cache.

    The hub's client begins anew each time it is started, and leaves behind what it had.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url  # noqa: PLC0415

    try:
        from huggingface_hub.file_download import http_get, repo_folder_name  # noqa: PLC0415
    except ImportError:  # They are not public: its client then begins anew.
        return

    try:
        known = get_hf_file_metadata(hf_hub_url(repository, file))
    except Exception:  # noqa: BLE001 - its client tells why, unless it has the file
        return
    if not _DIGEST.fullmatch(known.etag or ""):
        return
    folder = repo_folder_name(repo_id=repository, repo_type="model")
    blob = Path(constants.HF_HUB_CACHE, folder, "blobs", str(known.etag))
    if blob.exists():
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    part = blob.with_name(f"{blob.name}.incomplete")
    with part.open("ab") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        # Another process may have had the lock, and fetched all of it or more of it.
        if blob.exists():
            return
        if known.size is not None and written.seek(0, os.SEEK_END) > known.size:
            written.truncate(0)
        http_get(
            known.location,
            written,
            resume_size=written.seek(0, os.SEEK_END),
            expected_size=known.size,
            displayed_filename=file,
            tqdm_class=bar,
        )
        written.flush()
        part.replace(blob)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
