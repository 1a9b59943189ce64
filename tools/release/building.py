"""Build what is released: the same files give the same bytes, whenever and wherever it is."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import readiness

#: What esbuild and vsce need.
OLDEST_NODE = 20


class BuildError(Exception):
    """Something could not be built."""


def copy_files(root: Path, to: Path) -> None:
    """Copy what git knows or would take of a checkout, and nothing that merely lies about."""
    listed = readiness.git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in sorted(set(filter(None, listed.split("\0")))):
        source, target = root / name, to / name
        if not source.is_file():
            continue  # deleted, and not yet committed
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        # As git keeps it, whatever the umask.
        target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def environment(epoch: int) -> dict[str, str]:
    """Return the environment of a build: time, zone and language are always the same."""
    return {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "TZ": "UTC", "LC_ALL": "C.UTF-8"}


def install_backend(tree: Path, to: Path) -> None:
    """Install what pyproject.toml builds by, and nothing else, into the folder ``to``."""
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run([*pip, "--target", str(to), *wanted], "the build backend")


def build_packages(tree: Path, backend: Path, out: Path, epoch: int) -> None:
    """Write the wheel and the source distribution into ``out``."""
    hatchling = [sys.executable, "-m", "hatchling", "build"]
    command = [*hatchling, "-t", "sdist", "-t", "wheel", "-d", str(out)]
    seen = environment(epoch) | {"PYTHONPATH": str(backend)}
    run(command, "the wheel and the source distribution", tree, seen)


def build_plugins(tree: Path, out: Path, version: str, epoch: int) -> None:
    """Write the archives for Neovim and Vim, and Emacs' file, into ``out``."""
    for name, folder in (("aish.nvim", "nvim"), ("aish.vim", "vim")):
        packed = archive(tree / "editors" / folder, tree / "LICENSE", name, epoch)
        (out / f"{name}-{version}.tar.gz").write_bytes(packed)
    # A package of a single file is the file, by the name that Emacs' archives give it.
    shutil.copyfile(tree / "editors" / "emacs" / "aish.el", out / f"aish-{version}.el")


def archive(folder: Path, license_file: Path, name: str, epoch: int) -> bytes:
    """Return a folder with the license as the bytes of a tar.gz, in which all is below ``name``.

    Files whose names begin with a dot are for those who work on the plugin.
    """
    files = {f"{name}/LICENSE": license_file}
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inner.parts):
            files[f"{name}/{inner.as_posix()}"] = path
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", fileobj=packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for inner_name, path in sorted(files.items()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(inner_name)
            entry.size, entry.mtime, entry.mode = len(data), epoch, 0o644
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def no_extension(tree: Path) -> str | None:
    """Return why the VS Code extension cannot be built here; None where it can."""
    if not (tree / "editors" / "vscode" / "package.json").exists():
        return "there is no editors/vscode in this checkout"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "it needs Node and npm"
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)", told)
    if match is None or int(match[1]) < OLDEST_NODE:
        return f"it needs Node {OLDEST_NODE} or later, and this is {told.strip()}"
    return None


def install_extension(tree: Path, epoch: int) -> None:
    """Install what the VS Code extension is built by, in its folder."""
    folder = tree / "editors" / "vscode"
    run(["npm", "ci", "--no-audit", "--no-fund"], "npm ci", folder, environment(epoch))


def build_extension(tree: Path, out: Path, version: str, epoch: int) -> None:
    """Write the VS Code extension into ``out``, with the wheel that is there."""
    folder = tree / "editors" / "vscode"
    shutil.rmtree(folder / "wheel", ignore_errors=True)
    (folder / "wheel").mkdir()
    [wheel] = out.glob("*.whl")
    shutil.copyfile(wheel, folder / "wheel" / wheel.name)
    target = out.resolve() / f"aish-{version}.vsix"
    command = ["npm", "run", "package", "--", "--out", str(target)]
    run(command, "the VS Code extension", folder, environment(epoch))


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differing(one: Path, other: Path) -> list[str]:
    """Return the names of the files that are not in both folders with the same bytes."""
    names = {path.name for folder in (one, other) for path in folder.iterdir()}
    return sorted(
        name
        for name in names
        if not ((one / name).is_file() and (other / name).is_file())
        or digest(one / name) != digest(other / name)
    )


def publish(built: Path, out: Path) -> None:
    """Put what was built into ``out`` with SHA256SUMS, in place of what an earlier release left."""
    out.mkdir(parents=True, exist_ok=True)
    sums = out / "SHA256SUMS"
    if sums.exists():
        for line in sums.read_text(encoding="utf-8").splitlines():
            (out / Path(line.split()[-1]).name).unlink(missing_ok=True)
    for path in built.iterdir():
        shutil.copyfile(path, out / path.name)
    names = sorted(path.name for path in built.iterdir())
    sums.write_text("".join(f"{digest(out / name)}  {name}\n" for name in names), encoding="utf-8")


def run(
    command: Sequence[str | Path],
    what: str,
    folder: Path | None = None,
    seen: dict[str, str] | None = None,
) -> None:
    """Run a command that builds.

    Raises:
        BuildError: it failed; with what it printed.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=seen,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{what}: exit {done.returncode}\n{done.stdout[-4000:]}")
