"""Whether a checkout may be released: nothing uncommitted, and one version everywhere."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

#: Files with the version in them, and the pattern that finds it.
_WRITTEN = {
    "editors/emacs/aish.el": r"^;; Version: (\S+)$",
    "editors/mason/package.yaml": r"^  id: pkg:pypi/aish-lsp@(\S+)$",
}
_JSON = (
    "editors/acp/agent.json",
    "editors/vscode/package.json",
    "editors/vscode/package-lock.json",
)


class NotReadyError(Exception):
    """The checkout cannot be released as it is."""


def git(root: Path, *words: str) -> str:
    """Return what a command of git prints."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReadyError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout


def epoch(root: Path) -> int:
    """Return when the last commit was made, in seconds: the time of all that is built."""
    return int(git(root, "log", "-1", "--format=%ct"))


def uncommitted(root: Path) -> list[str]:
    """Return the files that differ from the last commit, or are not in it."""
    return [line[3:] for line in git(root, "status", "--porcelain").splitlines()]


def version(root: Path) -> str:
    """Return the version that pyproject.toml gives the package."""
    place = "aish_lsp/__init__.py"
    if f'path = "{place}"' not in (root / "pyproject.toml").read_text(encoding="utf-8"):
        raise NotReadyError(f"pyproject.toml takes its version from elsewhere than {place}")
    return _found(root / place, r'^__version__ = "(.+)"$')


def versions(root: Path) -> dict[str, str]:
    """Return what each place says the version is; what the checkout does not have is left out."""
    found = {"pyproject.toml": version(root)}
    if changed := changelog_version((root / "CHANGELOG.md").read_text(encoding="utf-8")):
        found["CHANGELOG.md"] = changed
    for name, pattern in _WRITTEN.items():
        if (root / name).exists():
            found[name] = _found(root / name, pattern)
    for name in _JSON:
        if (root / name).exists():
            found[name] = json.loads((root / name).read_text(encoding="utf-8"))["version"]
    return found


def changelog_version(text: str) -> str | None:
    """Return the version of the newest changes; None where no version was ever named.

    What stands under Unreleased belongs to no version: behind an earlier release it is named so.
    """
    parts = re.split(r"^## +(.+)$", text, flags=re.MULTILINE)[1:]
    sections = list(zip(parts[::2], parts[1::2], strict=True))
    if all(title.strip("[] ").lower() == "unreleased" for title, _ in sections):
        return None
    newest = next((title for title, body in sections if body.strip()), sections[0][0])
    return newest.split()[0].strip("[]")


def check(root: Path, *, dirty: bool) -> list[str]:
    """Return what is worth a note; with ``dirty`` uncommitted changes are.

    Raises:
        NotReadyError: the checkout cannot be released.
    """
    notes = []
    if changed := uncommitted(root):
        told = f"not committed: {', '.join(changed[:5])}{' ...' if len(changed) > 5 else ''}"
        if not dirty:
            raise NotReadyError(f"{told}; commit it, or build with --dirty what is not released")
        notes.append(f"{told}: this is no release")
    found = versions(root)
    if len(set(found.values())) > 1:
        told = ", ".join(f"{place} says {number}" for place, number in found.items())
        raise NotReadyError(f"the version differs: {told}")
    mason = root / "editors" / "mason" / "package.yaml"
    if mason.exists() and "\nhomepage:" not in mason.read_text(encoding="utf-8"):
        notes.append("editors/mason/package.yaml: no homepage, without which Mason takes none")
    if "CHANGELOG.md" not in found:
        notes.append(f"CHANGELOG.md: Unreleased is not yet called {version(root)}")
    return notes


def _found(path: Path, pattern: str) -> str:
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise NotReadyError(f"{path.name} has no version ({pattern})")
    return match[1]
