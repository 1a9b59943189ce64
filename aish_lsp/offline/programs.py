"""The programs that a question names because it is to be done with them: "outdated npm packages".

An answer with another program is not what was asked, however alike the words are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from aish_lsp.offline.table import Intent, Way

#: What a question may name, and the programs that its commands are of.
_PROGRAMS: Final[Mapping[str, frozenset[str]]] = {
    **{
        name: frozenset((name,))
        for name in (
            *("npm", "yarn", "pnpm", "bun", "uv", "poetry", "pdm", "conda", "pipx", "brew", "dnf"),
            *("yum", "pacman", "apk", "zypper", "snap", "flatpak", "cargo", "gem", "bundle"),
            *("composer", "maven", "gradle", "podman", "helm", "terraform", "ansible", "svn", "hg"),
            *("vagrant", "heroku", "aws", "gcloud", "az", "netlify", "vercel", "mvn", "rustup"),
        )
    },
    "pip": frozenset(("pip", "pip3", "pip-audit")),
    "pip3": frozenset(("pip", "pip3", "pip-audit")),
    "homebrew": frozenset(("brew",)),
    "apt": frozenset(("apt", "apt-get", "apt-cache", "apt-mark", "dpkg", "add-apt-repository")),
    "apt-get": frozenset(("apt", "apt-get")),
    "docker": frozenset(("docker", "docker-compose")),
    "kubectl": frozenset(("kubectl",)),
    "kubernetes": frozenset(("kubectl",)),
    "k8s": frozenset(("kubectl",)),
    "git": frozenset(("git",)),
}
_WORD: Final = re.compile(r"[\w.-]*\w")
#: Conditions of a way that a question settles which names the program.
_SETTLED: Final = ("has:", "!has:", "here:", "!here:", "on:", "!on:")


def named(words: Iterable[str]) -> frozenset[str]:
    """Return the programs that ``words`` name."""
    return frozenset(word for word in words if word in _PROGRAMS)


@cache
def _used(way: Way) -> frozenset[str]:
    return frozenset(word for command in way.run for word in _WORD.findall(command))


def agrees(intent: Intent, program: str) -> bool:
    """Return whether a command of ``intent`` is of ``program``, or what is said of it names it."""
    return (
        any(_PROGRAMS[program] & _used(way) for way in intent.ways)
        or program in intent.does.lower()
    )


def ways_with(intent: Intent, programs: Iterable[str]) -> tuple[Way, ...]:
    """Return the ways of ``intent`` that are of one of ``programs``; none where all or none are.

    The last of them serves whatever is installed: the question says that it is to be that one.
    """
    wanted = frozenset[str]().union(*(_PROGRAMS[program] for program in programs))
    found = [way for way in intent.ways if wanted & _used(way)]
    if not found or len(found) == len(intent.ways):
        return ()
    kept = tuple(term for term in found[-1].when if not term.startswith(_SETTLED))
    return (*found, replace(found[-1], when=kept))
