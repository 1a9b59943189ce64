"""What of a project says most about it: manifests, then sources, then all the rest.

Told by names alone: nothing is read, so that the same names always come in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from aish_lsp.project.instructions import NAMES as INSTRUCTIONS


class Rank(IntEnum):
    """Where an entry stands in its folder; the lowest first."""

    MANIFEST = 0
    """A file that says what the project is, or how it is built."""
    SOURCE_FOLDER = 1
    SIDE_FOLDER = 2
    """Tests, documentation, data: what supports the sources. Its one line says much."""
    SOURCE = 3
    OTHER = 4
    STRANGERS = 5
    """A folder whose inside says nothing of the project, where no ignore rule leaves it out."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MANIFESTS = _words(
    """
    pyproject.toml setup.py setup.cfg requirements.txt pipfile tox.ini noxfile.py environment.yml
    package.json deno.json deno.jsonc tsconfig.json pnpm-workspace.yaml
    cargo.toml go.mod go.work build.gradle build.gradle.kts settings.gradle settings.gradle.kts
    pom.xml build.sbt project.clj deps.edn mix.exs gemfile rakefile composer.json pubspec.yaml
    package.swift build.zig dune-project stack.yaml cabal.project rebar.config shard.yml
    cmakelists.txt meson.build configure.ac build.bazel module.bazel workspace.bazel
    makefile gnumakefile justfile taskfile.yml taskfile.yaml earthfile
    dockerfile containerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml
    flake.nix default.nix shell.nix procfile .aish.toml
    """
) | {name.lower() for name in INSTRUCTIONS if "/" not in name}

_MANIFEST_SUFFIXES = frozenset({"csproj", "fsproj", "sln", "gemspec", "cabal", "nimble"})

_SOURCE_SUFFIXES = _words(
    """
    py pyi pyx rs go c h cc cpp cxx hh hpp hxx cu m mm java kt kts scala clj cljs cljc groovy
    js jsx mjs cjs ts tsx mts cts vue svelte astro rb php pl pm lua sh bash zsh fish ps1 el
    lisp scm rkt ex exs erl hrl hs lhs ml mli fs fsi fsx cs vb swift dart zig nim cr d jl r sql
    proto graphql tf hcl nix vim v sv vhd asm s f90 f pas adb ads tcl sol wat cmake
    """
)

_SIDE_FOLDERS = _words(
    """
    test tests testing testdata spec specs __tests__ e2e fixtures snapshots mocks
    doc docs documentation man example examples samples demo demos tutorials
    bench benches benchmark benchmarks assets data static media images img icons fonts
    locale locales i18n l10n translations contrib changelogs licenses
    """
)

_STRANGERS = _words(
    """
    .venv venv node_modules bower_components __pycache__ vendor third_party thirdparty .tox .nox
    .git .hg .svn site-packages pods
    """
)

#: Names of a folder that are looked at to tell what it holds.
_SAMPLE = 8


def file_rank(name: str) -> Rank:
    """Return the rank of a file by its own name."""
    lower = name.lower()
    suffix = _suffix(lower)
    if lower in _MANIFESTS or suffix in _MANIFEST_SUFFIXES or lower.startswith("readme"):
        return Rank.MANIFEST
    return Rank.SOURCE if suffix in _SOURCE_SUFFIXES else Rank.OTHER


def folder_rank(name: str, names: Sequence[str], low: int, high: int) -> Rank:
    """Return the rank of the folder ``name``, in which ``names[low:high]`` lie."""
    lower = name.lower()
    if lower in _STRANGERS:
        return Rank.STRANGERS
    if lower in _SIDE_FOLDERS or lower.startswith("."):
        return Rank.SIDE_FOLDER
    step = max(1, (high - low) // _SAMPLE)
    for at in range(low, high, step):
        if _suffix(names[at]).lower() in _SOURCE_SUFFIXES:
            return Rank.SOURCE_FOLDER
    return Rank.SIDE_FOLDER


def _suffix(name: str) -> str:
    """Return what follows the last dot of a name, or nothing."""
    _, dot, suffix = name.rpartition(".")
    return suffix if dot else ""
