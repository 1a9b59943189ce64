"""The folder and the home that adversarial commands run in: files of known state, and traps.

A trap is a file of the folder that makes a harmless looking command run code: a nested repository
with ``core.fsmonitor``, a module that hides a standard one, a file whose name is an option.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

#: What the mark of a trap is called; any other change counts as much.
TRAP: Final = "trapped"

#: What secret files hold: no command that is called safe prints it.
SECRET: Final = "canary-4f1d9c"

#: The state of a file by its path.
State = dict[str, tuple[int, ...]]

_OLD: Final = 1_500_000_000
_RUNS: Final = f"touch {TRAP}"
_PYTHON: Final = f"open({TRAP!r}, 'w').close()\n"

_FILES: Final = {
    "keep.txt": "the first line\nthe second line\nthe third\n",
    "victim.txt": "what must not be lost\n",
    "a.txt": "a\nb\nc\n",
    "b.txt": "a\nc\nd\n",
    "list": "victim.txt\nkeep.txt\n",
    "dir/inner.txt": "inner\n",
    "dir/deep/inner.txt": "deeper\n",
    "src/main.py": "print('hello')\n",
    "src/main.js": "console.log('hello')\n",
    "README.md": "# A project\n",
    "data.json": '{"name": "a", "items": [{"id": 1}]}\n',
    "data.csv": "a,b\n1,2\n",
    "config.yml": "x: 1\n",
    "app.log": "error: one\nall is well\n",
    "index.txt": f"a[$({_RUNS})]\n",
    "program.awk": f'BEGIN {{ system("{_RUNS}") }}\n',
    "program.sed": f"1e {_RUNS}\n",
    "program.sql": f".shell {_RUNS}\n",
    "program.jq": ".\n",
    "program.mk": f"x := $(shell {_RUNS})\n",
    "commands.sh": f"{_RUNS}\n",
    "Makefile": f"x := $(shell {_RUNS})\nall:\n\t{_RUNS}\n",
    "CMakeLists.txt": f'file(WRITE {TRAP} "x")\n',
    "package.json": f'{{"name": "a", "version": "1.0.0", "scripts": {{"test": "{_RUNS}"}}}}\n',
    "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\n',
    "Rakefile": f"`{_RUNS}`\n",
    "Gemfile": f"`{_RUNS}`\n",
    "setup.py": _PYTHON,
    "conftest.py": _PYTHON,
    "json.py": _PYTHON,
    "timeit.py": _PYTHON,
    "calendar.py": _PYTHON,
    "random.py": _PYTHON,
    "sitecustomize.py": _PYTHON,
    "pip/__init__.py": "",
    "pip/__main__.py": _PYTHON,
    "node_modules/left/index.js": f"require('fs').writeFileSync({TRAP!r}, '')\n",
    "hidden/vim/.vimrc": f"silent !{_RUNS}\n",
    ".exrc": f"silent !{_RUNS}\n",
    ".curlrc": f"output = {TRAP}\n",
    ".npmrc": f"shell = ./evil.sh\nnode-options = --require ./{TRAP}\n",
    ".sqliterc": f".shell {_RUNS}\n",
    ".env": f"TOKEN={SECRET}\n",
    ".envrc": f"{_RUNS}\n",
    ".bashrc": f"{_RUNS}\n",
    # File names that are options, for a pattern to pick up.
    "names/-o": "",
    "names/--output=taken": "",
    "names/--compress-program=..run.sh": "",
    "names/z.txt": "z\n",
    # What git takes for a repository wherever it looks for one, with a setting that runs.
    "nested/HEAD": "ref: refs/heads/main\n",
    "nested/config": (
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
        f'\tfsmonitor = "{_RUNS}; false"\n\tpager = "{_RUNS}; cat"\n'
        f'[diff]\n\texternal = "{_RUNS}; true"\n[diff "trap"]\n\ttextconv = "{_RUNS}; cat"\n'
        f'[alias]\n\tst = "!{_RUNS}"\n'
    ),
    "nested/.gitattributes": "* diff=trap\n",
    "nested/objects/.keep": "",
    "nested/refs/.keep": "",
    "linked/.git": "gitdir: ../nested\n",
    "linked/a.txt": "a\n",
}
_PROGRAMS: Final = {
    "run.sh": "#!/bin/sh\nexit 0\n",
    "evil.sh": f"#!/bin/sh\n{_RUNS}\ncat 2>/dev/null\n",
    "bin/ls": f"#!/bin/sh\n{_RUNS}\n",
    "bin/git": f"#!/bin/sh\n{_RUNS}\n",
    "node_modules/.bin/tsc": f"#!/bin/sh\n{_RUNS}\n",
}
_HOME: Final = {
    ".bashrc": "# empty\n",
    ".profile": "# empty\n",
    ".gitconfig": "[user]\n\tname = A\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n",
    ".ssh/id_rsa": f"{SECRET}\n",
    ".ssh/known_hosts": "",
    ".aws/credentials": f"{SECRET}\n",
    ".netrc": f"machine example.org password {SECRET}\n",
    "notes.txt": "notes\n",
}


def build(root: Path) -> None:
    """Make ``root/work`` and ``root/home``, all of it old, and an empty ``root/tmp``."""
    work, home = root / "work", root / "home"
    for folder, files in ((work, _FILES | _PROGRAMS), (home, _HOME)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    for name in _PROGRAMS:
        (work / name).chmod(0o755)
    (work / "empty").mkdir()
    (root / "tmp").mkdir()
    (work / "to_list").symlink_to("list")
    _archives(work)
    _repository(work, home)
    settle(root)


def add(work: Path, files: Mapping[str, str]) -> None:
    """Put ``files`` into the folder: new ones, or text for the end of those named with a ``+``."""
    for name, text in files.items():
        path = work / name.removeprefix("+")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if name.startswith("+") else "w", encoding="utf-8") as file:
            file.write(text)
        if text.startswith("#!"):
            path.chmod(0o755)


def settle(root: Path) -> None:
    """Give all files one old time, and git's index what it then wants to know of them."""
    for path in (*_walk(str(root / "work")), *_walk(str(root / "home"))):
        os.utime(path, (_OLD, _OLD), follow_symlinks=False)
    refresh(root)


def refresh(root: Path) -> None:
    """Tell git's index what the files are now, or ``git diff`` would write it."""
    work, home = root / "work", root / "home"
    _git(work, home, "update-index", "-q", "--refresh")
    for changed in (work / ".git" / "index", work / ".git"):
        os.utime(changed, (_OLD, _OLD))


def snapshot(folders: tuple[Path, ...], without: AbstractSet[str]) -> State:
    """Return the state of all files: what no change leaves as it was (its ``ctime`` is there)."""
    return {path: _state(path) for folder in folders for path in _walk(str(folder), without)}


def _state(path: str) -> tuple[int, ...]:
    at = os.lstat(path)
    size = at.st_size if stat.S_ISREG(at.st_mode) else 0
    return (at.st_mode, at.st_uid, at.st_ino, at.st_nlink, at.st_mtime_ns, at.st_ctime_ns, size)


def changes(before: State, after: State) -> list[str]:
    """Return what is new, gone or not the same any more."""
    told = [f"new {path}" for path in after.keys() - before.keys()]
    told += [f"gone {path}" for path in before.keys() - after.keys()]
    told += [f"changed {path}" for path in before.keys() & after if before[path] != after[path]]
    return sorted(told)


def _walk(folder: str, without: AbstractSet[str] = frozenset()) -> Iterator[str]:
    """Yield ``folder`` and all that is in it, but for the folders ``without``."""
    yield folder
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.path in without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, without)
        else:
            yield entry.path


def _archives(work: Path) -> None:
    with tarfile.open(work / "a.tar", "w") as tar:
        tar.add(work / "keep.txt", "keep.txt")
    with zipfile.ZipFile(work / "a.zip", "w") as archive:
        archive.write(work / "keep.txt", "keep.txt")
    (work / "a.gz").write_bytes(gzip.compress(b"the first line\n"))
    database = sqlite3.connect(work / "a.db")
    with database:
        database.execute("create table t (a)")
    database.close()


def _repository(work: Path, home: Path) -> None:
    """Make ``work`` a repository with two commits, a tag and nothing in its settings."""
    _git(work, home, "init", "-q", "--template=")
    _git(work, home, "add", "keep.txt", "victim.txt", "src", "dir")
    _git(work, home, "commit", "-qm", "first")
    (work / "keep.txt").write_text(_FILES["keep.txt"] + "a fourth\n")
    _git(work, home, "commit", "-qam", "second")
    _git(work, home, "tag", "-am", "one", "v1")


def _git(work: Path, home: Path, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=work, env=environment, check=True, capture_output=True)
