"""Ecosystems whose manifest's presence, or a word in it, tells the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Intent, Rank, Task


@dataclass(frozen=True, slots=True)
class _When:
    """A command that is there where the manifest has a word, or the folder has a file."""

    command: str
    word: str = ""
    file: str = ""


#: A manifest (the first that is there of a name or a pattern), and what it tells.
_SIMPLE: Mapping[str, Mapping[Intent, str | _When]] = {
    "Package.swift": {
        "test": _When("swift test", r"\.testTarget\b"),
        "build": "swift build",
        "run": _When("swift run", r"\.executable(Target)?\b"),
    },
    "build.zig": {
        "test": _When("zig build test", r"\.step\(\"test\""),
        "build": "zig build",
        "run": _When("zig build run", r"\.step\(\"run\""),
        "format": "zig fmt .",
    },
    "stack.yaml": {"test": "stack test", "build": "stack build", "run": "stack run"},
    "*.cabal": {
        "test": _When("cabal test", r"(?mi)^test-suite\b"),
        "build": "cabal build",
        "run": _When("cabal run", r"(?mi)^executable\b"),
        "install": "cabal build --only-dependencies",
    },
    "build.sbt": {
        "test": "sbt test",
        "build": "sbt compile",
        "run": "sbt run",
        "format": _When("sbt scalafmtAll", file=".scalafmt.conf"),
    },
    "project.clj": {"test": "lein test", "build": "lein compile", "install": "lein deps"},
    "dune-project": {"test": "dune test", "build": "dune build", "format": "dune fmt"},
    "MODULE.bazel": {"test": "bazel test //...", "build": "bazel build //..."},
    "WORKSPACE.bazel": {"test": "bazel test //...", "build": "bazel build //..."},
    "WORKSPACE": {"test": "bazel test //...", "build": "bazel build //..."},
    "rebar.config": {
        "test": "rebar3 eunit",
        "build": "rebar3 compile",
        "install": "rebar3 get-deps",
        "start": "rebar3 shell",
        "clean": "rebar3 clean",
    },
    "gleam.toml": {
        "test": "gleam test",
        "build": "gleam build",
        "run": "gleam run",
        "format": "gleam format",
        "check": "gleam check",
        "install": "gleam deps download",
    },
    "shard.yml": {
        "test": _When("crystal spec", file="spec"),
        "build": _When("shards build", r"(?m)^targets:"),
        "format": "crystal tool format",
        "install": "shards install",
    },
    "*.nimble": {
        "test": "nimble test",
        "build": "nimble build",
        "install": "nimble install --depsOnly",
    },
    "Project.toml": {
        "test": _When("julia --project -e 'using Pkg; Pkg.test()'", file="test/runtests.jl"),
        "install": "julia --project -e 'using Pkg; Pkg.instantiate()'",
    },
    "DESCRIPTION": {
        "test": _When("Rscript -e 'testthat::test_local()'", file="tests/testthat"),
        "build": "R CMD build .",
        "install": _When("Rscript -e 'remotes::install_deps(dependencies = TRUE)'", r"^Package:"),
    },
    "cpanfile": {
        "test": _When("prove -lr t", file="t"),
        "install": "cpanm --installdeps .",
    },
    "Makefile.PL": {
        "test": _When("prove -lr t", file="t"),
        "build": "perl Makefile.PL && make",
    },
    "environment.yml": {"install": "conda env create -f environment.yml"},
}

#: What stands beside a language's own manifest and is asked for only where that says nothing.
_BESIDE: Mapping[str, Mapping[Intent, str | _When]] = {
    "flake.nix": {
        "build": _When("nix build", r"\bpackages?\b"),
        "check": "nix flake check",
        "format": _When("nix fmt", r"\bformatter\b"),
        "install": _When("nix develop", r"\bdevShells?\b"),
        "run": _When("nix run", r"\bapps\b"),
    },
    "shell.nix": {"install": "nix-shell"},
    "mkdocs.yml": {"start": "mkdocs serve", "build": "mkdocs build"},
    "hugo.toml": {"start": "hugo server", "build": "hugo"},
    "Chart.yaml": {"lint": "helm lint ."},
    "Tiltfile": {"start": "tilt up"},
    "skaffold.yaml": {"start": "skaffold dev"},
    "test/*.bats": {"test": "bats test"},
    "tests/*.bats": {"test": "bats tests"},
    "t/*.t": {"test": "prove -lr t"},
}

_TERRAFORM: Mapping[Intent, str] = {
    "install": "terraform init",
    "check": "terraform validate",
    "format": "terraform fmt -recursive",
}


def simple(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the ecosystems that need little look into the manifest."""
    yield from _tasks(manifests, _SIMPLE, Rank.CONFIGURED)
    terraform = next(iter(manifests.matching(".", "*.tf")), None)
    if terraform is not None:
        for intent, command in _TERRAFORM.items():
            yield Task(intent, command, terraform)


def infrastructure(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of what stands beside the code."""
    yield from _tasks(manifests, _BESIDE, Rank.GUESS)


def _tasks(
    manifests: Manifests, known: Mapping[str, Mapping[Intent, str | _When]], rank: Rank
) -> Iterator[Task]:
    for pattern, commands in known.items():
        folder, _, name = pattern.rpartition("/")
        source = next(iter(manifests.matching(folder or ".", name)), None)
        if source is None:
            continue
        for intent, told in commands.items():
            when = told if isinstance(told, _When) else _When(told)
            if when.word and not re.search(when.word, manifests.text(source)):
                continue
            if not when.file or manifests.has(when.file):
                yield Task(intent, when.command, source, rank)
