"""What installed manuals say about a program and its options; they are read on demand.

A page was written by the program's author and is not trusted: it is read by a process whose time,
output and files are limited, and shown as a quotation. A program is started with ``--help`` only if
it is in a folder of the system's packages, since one that does not know the option would do its
work.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.offline.words import group
from aish_lsp.offline.workspace import Machine

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,60}", re.ASCII)
_SYSTEM: Final = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/opt/homebrew")

#: The most bytes of a page that are read, and the most seconds that this may take.
_MOST: Final = 400_000
_PATIENCE: Final = 4.0

#: What a program that is asked for its help may use: three seconds, and no file.
_BOUNDS: Final = 'ulimit -t 3; ulimit -f 0; ulimit -c 0; exec "$@"'


_OVERSTRUCK: Final = re.compile(".\b")
_SENTENCE: Final = re.compile(r".*?[.;](?=\s|$)")
_LONGEST: Final = 160


@dataclass(frozen=True, slots=True)
class Manual:
    """The text of a page, and its source."""

    source: str
    text: str
    summary: str


def manual(words: Sequence[str], machine: Machine) -> Manual | None:
    """Return the manual of the program that ``words`` begin with, preferably of its subcommand."""
    name = words[0]
    if not _NAME.fullmatch(name):
        return None
    if name in group("with_commands") and len(words) > 1 and _NAME.fullmatch(words[1]):
        page = _page(f"{name}-{words[1]}") or _help([name, words[1]], machine)
        if page is not None:
            return page
    return _page(name) or _builtin(name, machine) or _help([name], machine)


def _page(name: str) -> Manual | None:
    """Return a manual page."""
    text = _read(["man", "--", name], {"MANWIDTH": "100", "MANPAGER": "cat", "PAGER": "cat"})
    if not text:
        return None
    heading = re.search(r"^NAME\n(.+?)\n\S", text, re.MULTILINE | re.DOTALL)
    line = " ".join(heading[1].split()) if heading else ""
    summary = re.split(r"\s[-\u2010-\u2014]\s", line, maxsplit=1)[-1]
    return Manual(f"the manual page of {name}", text, _short(summary))


def _builtin(name: str, machine: Machine) -> Manual | None:
    """Return bash's help for one of its builtins."""
    bash = machine.which("bash")
    if bash is None:
        return None
    text = _read([bash, "--norc", "-c", 'help -- "$1"', "bash", name], {})
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) < 2:
        return None
    return Manual("bash's own help", text, _short(lines[1]))


def _help(command: Sequence[str], machine: Machine) -> Manual | None:
    """Return what a program prints for ``--help``, if it comes from the system's packages."""
    place = machine.which(command[0])
    if place is None or not _is_of_system(place):
        return None
    text = _read(["/bin/sh", "-c", _BOUNDS, "sh", place, *command[1:], "--help"], {})
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) < 3:
        return None
    said = (
        line for line in lines[:8] if not re.match(r"usage\b", line, re.IGNORECASE) and " " in line
    )
    shown = " ".join(command)
    return Manual(f"`{shown} --help`", text, _short(next(said, "")))


def _is_of_system(place: str) -> bool:
    """Return whether a program is in a folder that only the system's packages write to."""
    try:
        real = Path(place).resolve(strict=True)
        found = real.stat()
    except OSError:
        return False
    own = str(Path(place).parent) in _SYSTEM or str(real.parent) in _SYSTEM
    return (
        own
        and any(str(real).startswith(f"{at}/") for at in (*_SYSTEM, "/usr/lib"))
        and not (found.st_mode & 0o022)
    )


def _read(command: Sequence[str], more: dict[str, str]) -> str:
    """Return what a process prints, up to a limit; nothing if it cannot be started."""
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**env, **more},
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return ""
    assert process.stdout is not None
    try:
        content = _bounded(process.stdout.fileno())
    finally:
        _end(process)
    return _OVERSTRUCK.sub("", content.decode("utf-8", "replace"))


def _bounded(descriptor: int) -> bytes:
    """Return what is read from ``descriptor`` until its end or a limit of size or time."""
    content = bytearray()
    end = time.monotonic() + _PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(content) < _MOST and (left := end - time.monotonic()) > 0:
            if not selector.select(left):
                break
            piece = os.read(descriptor, 65536)
            if not piece:
                break
            content += piece
    return bytes(content[:_MOST])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything that it started."""
    import signal  # noqa: PLC0415

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@dataclass(frozen=True, slots=True)
class Option:
    """What a manual says about an option, and whether the option takes a value."""

    says: str
    takes_value: bool


def option(text: str, name: str) -> Option | None:
    """Return what a manual's text says about the option ``name``."""
    escaped = re.escape(name)
    head = re.compile(
        rf"^(?P<indent>[ \t]*)(?P<names>(?:-{{1,2}}[^\s,]+[^\n]{{0,40}}?[, \t][ \t]*)?{escaped}"
        rf"(?![\w-])[^\n]*)$",
        re.MULTILINE,
    )
    for match in head.finditer(text):
        if not match["indent"] and not name.startswith("--"):
            continue
        names, _, here = match["names"].partition("  ")
        says = here.strip() or _below(text[match.end() + 1 :], len(match["indent"]))
        if says:
            value = re.search(rf"(?<![\w-]){escaped}(?:=|\s+|\[=)[<\[]?[A-Za-z]", names)
            return Option(_short(says), bool(value))
    return None


def _below(text: str, indent: int) -> str:
    """Return the paragraph that follows, as long as it is indented more."""
    said: list[str] = []
    for line in text.split("\n")[:12]:
        stripped = line.strip()
        if not stripped:
            if said:
                break
            continue
        if len(line) - len(line.lstrip()) <= indent:
            if stripped.startswith("-") and not said:
                continue
            break
        said.append(stripped)
    return " ".join(said)


def _short(text: str) -> str:
    """Return the first sentence, cut after a word if it is too long."""
    text = " ".join(text.split())
    sentence = _SENTENCE.match(text)
    line = sentence[0].rstrip(".;") if sentence else text
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST].rsplit(' ', 1)[0]} ..."
