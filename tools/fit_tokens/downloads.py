"""Fetching what is fitted to, by pip and apt, into a folder that can be thrown away.

Neither is asked to install anything: the files are unpacked where they were put.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

#: Packages of PyPI: vocabularies, and code and JSON to count.
PYTHON_PACKAGES = ("litellm", "mistral-common", "botocore", "sympy")

#: The one whose source holds llama.cpp's vocabularies, which its wheels lack.
SOURCE_PACKAGE = "llama-cpp-python"

#: Packages of Debian 12, for prose in many languages and for C, C++ and shell.
DEBIAN_PACKAGES = (
    "bash-completion",
    "debian-handbook",
    "debian-reference-en",
    "debian-reference-ja",
    "debian-reference-zh-cn",
    "developers-reference",
    "developers-reference-ja",
    "developers-reference-ru",
    "fortunes",
    "fortunes-ru",
    "fortunes-zh",
    "gimp-help-en",
    "gimp-help-ja",
    "gimp-help-ko",
    "gimp-help-ru",
    "gimp-help-zh-cn",
    "git-man",
    "gnome-user-docs",
    "iso-codes",
    "libboost1.81-dev",
    "libeigen3-dev",
    "libreoffice-help-en-us",
    "libreoffice-help-ja",
    "libreoffice-help-ko",
    "libreoffice-help-ru",
    "libreoffice-help-zh-cn",
    "linux-source-6.1",
    "maint-guide",
    "maint-guide-ja",
    "maint-guide-ru",
    "maint-guide-zh-cn",
    "manpages-ja",
    "manpages-ru",
    "manpages-zh",
    "nlohmann-json3-dev",
    "python3.11-doc",
)

#: The parts of Linux that are unpacked: all of it is a gigabyte.
_LINUX_PARTS = ("Documentation", "kernel", "scripts", "tools", "fs", "lib", "net")


def fetch(work: Path) -> None:
    """Fetch and unpack what ``work`` lacks, into ``work/packages`` and ``work/debs``.

    Raises:
        subprocess.CalledProcessError: pip or apt cannot fetch a package.
    """
    files = work / "downloads"
    for folder in (files, work / "packages", work / "debs"):
        folder.mkdir(parents=True, exist_ok=True)
    for name in (*PYTHON_PACKAGES, SOURCE_PACKAGE):
        _fetch_python(name, files, work / "packages" / name.replace("-", "_"))
    for name in DEBIAN_PACKAGES:
        _fetch_debian(name, files, work / "debs" / name)


def _fetch_python(name: str, files: Path, target: Path) -> None:
    if target.exists():
        return
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(files),
        name,
    ]
    if name == SOURCE_PACKAGE:
        pip += ["--no-binary", name]
    subprocess.run(pip, check=True)
    [archive] = files.glob(f"{name.replace('-', '_')}-*")
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    if archive.suffix == ".whl":
        shutil.unpack_archive(archive, part, "zip")
        part.replace(target)
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
        [only] = part.iterdir()
        only.replace(target)
        part.rmdir()


def _fetch_debian(name: str, files: Path, target: Path) -> None:
    if target.exists():
        return
    subprocess.run(["apt-get", "download", "--quiet", name], cwd=files, check=True)
    [archive] = files.glob(f"{name}_*.deb")
    part = target.with_name(f"{target.name}.part")
    subprocess.run(["dpkg-deb", "--extract", archive, part], check=True)
    for source in part.glob("usr/src/linux-source-*.tar.xz"):
        patterns = [f"*/{folder}/*" for folder in _LINUX_PARTS]
        tar = ["tar", "-C", str(source.parent), "-xJf", str(source), "--wildcards", *patterns]
        subprocess.run(tar, check=True)
    part.replace(target)
