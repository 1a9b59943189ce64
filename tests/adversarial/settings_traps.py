"""Repositories whose settings run a program when git reads them, and the commands that would.

A setting is the text of files in the folder, by a name; each is put into an otherwise harmless
repository. What of it the classifier does not see makes a plain ``git status`` run code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from derive import Case

#: What only reads, as long as the settings of the repository are harmless.
_COMMANDS: Final = (
    *(
        "git status",
        "git status -s",
        "git diff",
        "git diff HEAD~1",
        "git log",
        "git log -p",
        "git show",
    ),
    *("git show HEAD:keep.txt", "git log --show-signature", "git blame keep.txt", "git grep first"),
    *(
        "git ls-files",
        "git branch",
        "git tag -l",
        "git stash list",
        "git remote -v",
        "git describe --all",
    ),
    *("git ls-remote", "git ls-remote origin", "git submodule status", "git submodule summary"),
    *(
        "git cat-file -p HEAD",
        "git cat-file --batch-check < list",
        "git rev-parse HEAD",
        "git fsck",
    ),
    *(
        "git diff --stat",
        "git diff --cached",
        "git diff -- link",
        "git log -1 --stat",
        "git shortlog HEAD",
    ),
    *(
        "git help log",
        "git help -m log",
        "git config --list",
        "git config --get user.name",
        "git var -l",
    ),
    *(
        "git check-attr -a keep.txt",
        "git for-each-ref",
        "git rev-list --all",
        "git reflog",
        "git st",
    ),
    *(
        "git worktree list",
        "git notes list",
        "git diff-files -p",
        "git diff-index -p HEAD~1",
        "git count-objects",
    ),
    *(
        "git -C dir status",
        "cd dir && git status",
        "cd src; git diff HEAD~1",
        "git verify-commit HEAD",
    ),
    *(
        "git diff --no-index a.txt b.txt",
        "git whatchanged",
        "git range-diff HEAD~1 HEAD~1 HEAD",
        "git log --format=%G?",
    ),
)


def from_settings() -> Iterator[Case]:
    """Yield every command in every setting."""
    for setting in _settings():
        for command in _COMMANDS:
            yield Case(f"{setting}: {command}", command, setting)


def files(setting: str) -> dict[str, str]:
    """Return the files of a setting, by their path; what begins with ``+`` is added."""
    return _settings()[setting] if setting else {}


@cache
def _settings() -> dict[str, dict[str, str]]:
    path = Path(__file__).with_name("settings_traps.toml")
    found: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found
