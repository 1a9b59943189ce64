"""What a remembered approval covers: simple commands, told apart by their words.

Only a plain text is covered: words, in quotes or not, and ``&&``, ``;`` or ``|`` between simple
commands; also ``2>&1``, which opens no file and does not count. Everything else of the shell (other
redirections, substitutions, variables, patterns, assignments, escapes, line ends) is not read here
at all, and so never covered. Each word counts as it is written, in its order, but for operands that
are files of the workspace and that the tables know as data of their command.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.shell.risk.data import LONGEST, table
from aish_lsp.shell.risk.paths import why_protected
from aish_lsp.shell.risk.plain import simple_commands, tokens
from aish_lsp.shell.runner import inside

_NAMES: Final = table("names")
#: Commands by whose operands they do not differ, with the options that may stand beside them.
_DATA: Final[Mapping[str, str]] = _NAMES["data"]
#: What the shell does itself: some of it changes what the commands after it are.
_HARMLESS: Final = frozenset(_NAMES["harmless"])
_OF_SHELL: Final = frozenset((*_NAMES["builtins"], *_NAMES["reserved"])) - _HARMLESS

#: The shells whose words these are.
_SHELLS: Final = frozenset({"bash", "dash", "sh"})

_TOKENS: Final = tokens(r"\w./:=,@%+-", r"2>&1(?=[ ;&|]|\Z)|(&&|;|\|)")

#: Stands for the operands that are free; no word is written like that by ``shlex.join``.
_FREE: Final = "FILE\N{HORIZONTAL ELLIPSIS}"

#: A word that is the name of a file to every command, and neither an option nor a pattern, such as
#: the patterns of git: ``*.py``, ``:(top)x``.
_NAME_OF_FILE: Final = re.compile(r"[\w./][\w./ ,=@%+-]*")

#: The variables of which one is CDPATH, and the other names a file that may set it.
_SETS_PATH: Final = frozenset({"CDPATH", "BASH_ENV"})

#: What separates the parts of a word that may be names of files: ``--out=a:b``.
_PARTS: Final = re.compile("[=:,@]")


@dataclass(frozen=True, slots=True)
class Approvable:
    """A simple command, as an approval of it is remembered.

    Attributes:
        name: how it is written, with the folder if that is not the workspace's own.
        seal: a hash of all else that has to be the same: the folder, the programs that it names,
            what they hold, and where each word leads if it names a file.
    """

    name: str
    seal: str


def approvable(
    text: str,
    shell: str,
    folder: Path,
    root: Path,
    environ: Mapping[str, str],
    *,
    contents: bool = False,
) -> tuple[Approvable, ...]:
    """Return the simple commands of a text of which each has to be approved; none if it cannot be.

    This blocks: programs are read.

    Args:
        text: the command; its risk is not looked at.
        shell: what runs it, a name or a path.
        folder: where it runs.
        root: the workspace's folder.
        environ: the environment in which it runs.
        contents: whether the files that it names have to hold the same as when it was approved.
    """
    if Path(shell).name not in _SHELLS or len(text) > LONGEST:
        return ()
    plain = simple_commands(text.strip(" "), _TOKENS)
    parts = plain[0] if plain else []
    if not all(map(_is_program, parts)):
        return ()
    if len(parts) > 1 and parts[0][0] == "cd":
        moved = _entered(parts, text, folder, has_path=not _SETS_PATH.isdisjoint(environ))
        if moved is None:
            return ()
        folder, parts = moved, parts[1:]
    if not parts or not inside(root, folder):
        return ()
    path = environ.get("PATH", "")
    sealed = [_sealed(words, folder, root, path, contents=contents) for words in parts]
    return tuple(one for one in sealed if one) if all(sealed) else ()


def _is_program(words: Sequence[str]) -> bool:
    """Return whether a simple command is run by a program, or does no more than it says."""
    first = words[0]
    return bool(first) and "=" not in first and (first == "cd" or first not in _OF_SHELL)


def _entered(
    parts: Sequence[Sequence[str]], text: str, folder: Path, *, has_path: bool
) -> Path | None:
    """Return the folder in which all after ``cd FOLDER &&`` runs; None if that is not certain.

    What stands behind a ``;`` runs even if ``cd`` fails. ``has_path``: CDPATH may be set.
    """
    where = parts[0][1:]
    is_alone = re.match(r"cd [^&;|]*&&[^;]*$", text.lstrip(" ")) is not None
    # `cd -` goes back to where the shell was before.
    if len(where) != 1 or not is_alone or where[0][:1] in ("", "-"):
        return None
    # A relative name is looked up in CDPATH, too, unless it begins with a dot.
    if has_path and not where[0].startswith(("/", "./")):
        return None
    # The shell goes back from a link to where the link is, not to the folder above its target.
    if ".." in where[0].split("/"):
        return None
    real = Path(os.path.realpath(folder / where[0]))
    # Path's method raises if the name is too long.
    return real if os.path.isdir(real) else None  # noqa: PTH112


def _sealed(
    words: Sequence[str], folder: Path, root: Path, path: str, *, contents: bool
) -> Approvable | None:
    """Return a simple command as it is remembered; None if it cannot be."""
    if words[0] == "cd" or _program(words[0], folder, path) is None:
        return None
    count = _free_operands(words, folder, root)
    exact = words[: len(words) - count]
    # A word behind the first one may be a program, too: `timeout 60 make test`.
    named = [words[0], *(word for word in exact[1:] if "/" not in word)]
    programs = [
        program_path for word in named if (program_path := _program(word, folder, path)) is not None
    ]
    places = [os.path.realpath(folder / part) for word in exact[1:] for part in _parts(word)]
    held = [_digest(place) for place in places] if contents else []
    real_root, real_folder = Path(os.path.realpath(root)), Path(os.path.realpath(folder))
    # What is allowed where it is confined is not allowed elsewhere.
    sealed = [contents, str(real_folder), programs, [*map(_digest, programs)], places, held]
    name = shlex.join(exact) + (f" {_FREE}" if count else "")
    if real_folder != real_root:
        name += f" (in {shlex.quote(os.path.relpath(real_folder, real_root))})"
    seal = hashlib.sha256(json.dumps(sealed).encode(errors="surrogateescape"))
    return Approvable(name, seal.hexdigest())


def _program(name: str, folder: Path, path: str) -> str | None:
    """Return the real path of what a first word runs; empty if the shell does it itself."""
    if name in _HARMLESS:
        return ""
    places = [""] if "/" in name else path.split(os.pathsep)
    for folder_name in places:
        program = folder / folder_name / name
        if os.access(program, os.X_OK) and program.is_file():
            # One that cannot be read may be replaced unnoticed.
            return os.path.realpath(program) if os.access(program, os.R_OK) else None
    return None


def _free_operands(words: Sequence[str], folder: Path, root: Path) -> int:
    """Return how many words at the end are free: data of the command, and files of ours."""
    for size in (2, 1):
        options = _DATA.get(" ".join(words[:size]))
        if options is None:
            continue
        rest = words[size:]
        first = next((at for at, word in enumerate(rest) if word[:1] != "-"), len(rest))
        operands = rest[first:]
        is_known = set(rest[:first]) <= set(options.split())
        if is_known and operands and all(_is_ours(word, folder, root) for word in operands):
            return len(operands)
    return 0


def _is_ours(word: str, folder: Path, root: Path) -> bool:
    """Return whether a word names a file of the workspace that commands may change."""
    if not _NAME_OF_FILE.fullmatch(word):
        return False
    real = Path(os.path.realpath(folder / word))
    try:
        status = real.stat()
    except OSError:
        return False
    # Another name of the file may be outside.
    is_alone = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return is_alone and inside(root, real) and why_protected(str(real), root) is None


def _parts(word: str) -> Iterator[str]:
    """Yield what may be the name of a file in a word."""
    yield word
    yield from filter(None, _PARTS.split(word)[1:])
    if word[:1] == "-" and len(word) > 2:
        yield word[2:]


def _digest(place: str) -> str:
    """Return the hash of a file's contents; empty if it cannot be read, or there is none."""
    if not os.path.isfile(place):  # noqa: PTH113 - Path's method raises if the name is too long
        return ""
    try:
        with Path(place).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
