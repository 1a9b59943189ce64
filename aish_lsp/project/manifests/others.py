"""Ecosystems told by a file's presence or a word in it; PHP, Ruby, and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aish_lsp.project.manifests.reading import (
    Intent,
    Manifests,
    Rank,
    Task,
    is_plain,
    named_tasks,
    table,
)

# Ecosystems whose manifest's presence, or a word in it, tells the commands.


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


# PHP: Composer, Laravel, and the usual tools.

#: A tool, what it is for, the package that brings it, and the files that set it up.
_TOOLS: tuple[tuple[Intent, str, str, tuple[str, ...]], ...] = (
    ("test", "pest", "pestphp/pest", ()),
    (
        *("test", "phpunit", "phpunit/phpunit"),
        ("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"),
    ),
    (
        *("lint", "phpstan analyse", "phpstan/phpstan"),
        ("phpstan.neon", "phpstan.neon.dist", "phpstan.dist.neon"),
    ),
    ("lint", "psalm", "vimeo/psalm", ("psalm.xml", "psalm.xml.dist")),
    (
        *("lint", "phpcs", "squizlabs/php_codesniffer"),
        ("phpcs.xml", "phpcs.xml.dist", ".phpcs.xml", ".phpcs.xml.dist"),
    ),
    (
        *("format", "php-cs-fixer fix", "friendsofphp/php-cs-fixer"),
        (".php-cs-fixer.php", ".php-cs-fixer.dist.php"),
    ),
    ("format", "pint", "laravel/pint", ()),
)
#: These need no file of their own to know what to do.
_NEEDS_NO_FILE = frozenset({"pestphp/pest", "laravel/pint"})


def composer(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a PHP project."""
    if not manifests.has("composer.json"):
        return
    data = manifests.json("composer.json")
    # Of these names composer has commands of its own.
    names = table(data, "scripts").keys() - {"install", "check", "init"}
    yield from named_tasks(names, "composer run-script ", "composer.json")
    yield Task("install", "composer install", "composer.json")
    if manifests.has("artisan"):
        yield Task("test", "php artisan test", "artisan")
        yield Task("start", "php artisan serve", "artisan")
    required = table(data, "require-dev").keys() | table(data, "require").keys()
    for intent, command, package, files in _TOOLS:
        source = manifests.first(*files)
        if source is None and package in required and package in _NEEDS_NO_FILE:
            source = "composer.json"
        if source is not None:
            yield Task(intent, f"vendor/bin/{command}", source)
    if "phpunit/phpunit" in required and manifests.has("tests"):
        yield Task("test", "vendor/bin/phpunit tests", "composer.json", Rank.GUESS)
    for folder, index in (("public", "public/index.php"), (".", "index.php")):
        if manifests.has(index):
            yield Task("start", f"php -S localhost:8000 -t {folder}", index, Rank.GUESS)
            break


# Ruby: Bundler, Rails, Rake, RSpec, RuboCop, Jekyll.

_GEM = re.compile(r"^[ \t]*gem[ (]+['\"]([\w-]+)['\"]", re.MULTILINE)
_DEVELOPMENT = re.compile(r"\.add_(?:development_)?dependency[ (]+['\"]([\w-]+)['\"]")


def ruby(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Ruby project."""
    gemspec = next(iter(manifests.matching(".", "*.gemspec")), None)
    bundled = manifests.has("Gemfile")
    if not bundled and not manifests.has("Rakefile") and gemspec is None:
        return
    prefix = "bundle exec " if bundled else ""
    gems = set(_GEM.findall(manifests.text("Gemfile")))
    if gemspec is not None:
        gems.update(_DEVELOPMENT.findall(manifests.text(gemspec)))
    if bundled:
        yield Task("install", "bundle install", "Gemfile")
    yield from _rails(manifests)
    rspec = manifests.first(".rspec", "spec/spec_helper.rb")
    if rspec is not None or gems & {"rspec", "rspec-rails"}:
        yield Task("test", f"{prefix}rspec", rspec or "Gemfile")
    yield from _rake(manifests, prefix)
    if gemspec is not None and is_plain(gemspec):
        yield Task("build", f"gem build {gemspec}", gemspec, Rank.GUESS)
    yield from _tools(manifests, gems, prefix)


def _tools(manifests: Manifests, gems: set[str], prefix: str) -> Iterator[Task]:
    """Yield the linters, and the servers of what is not a Rails application."""
    if manifests.has(".rubocop.yml"):
        yield Task("lint", f"{prefix}rubocop", ".rubocop.yml")
        yield Task("format", f"{prefix}rubocop --fix-layout", ".rubocop.yml")
    elif "standard" in gems:
        yield Task("lint", f"{prefix}standardrb", "Gemfile")
        yield Task("format", f"{prefix}standardrb --fix", "Gemfile")
    if "jekyll" in gems or "github-pages" in gems:
        yield Task("start", f"{prefix}jekyll serve", "Gemfile")
        yield Task("build", f"{prefix}jekyll build", "Gemfile")
    if manifests.has("config.ru") and not manifests.has("bin/rails"):
        server = next((f"bundle exec {name}" for name in ("puma", "rackup") if name in gems), "")
        if server:
            yield Task("start", server, "config.ru")


def _rails(manifests: Manifests) -> Iterator[Task]:
    if not manifests.has("bin/rails"):
        return
    # Its first line may name a Ruby by a path that is not here, and it need not be executable.
    call = "bin/rails" if manifests.executable("bin/rails") else "ruby bin/rails"
    yield Task("start", f"{call} server", "bin/rails")
    if manifests.has("test"):
        yield Task("test", f"{call} test", "bin/rails")


def _rake(manifests: Manifests, prefix: str) -> Iterator[Task]:
    """Yield the tasks of a Rakefile, and those that its libraries define."""
    rakefile = re.sub(r"^[ \t]*#.*", "", manifests.text("Rakefile"), flags=re.MULTILINE)
    tasks = set(re.findall(r"^[ \t]*task[ (]+[:\"']?(\w+)", rakefile, re.MULTILINE))
    for name in re.findall(
        r"\b(?:Minitest::)?TestTask\.(?:new|create)(?:[ (]+[:\"'](\w+))?", rakefile
    ):
        tasks.add(name or "test")
    if re.search(r"['\"]bundler/gem_tasks['\"]", rakefile):
        tasks |= {"build", "clean"}
    yield from named_tasks(tasks, f"{prefix}rake ", "Rakefile")
    spec = re.search(r"\bRSpec::Core::RakeTask\.new(?:[ (]+[:\"'](\w+))?", rakefile)
    if spec is not None:
        yield Task("test", f"{prefix}rake {spec[1] or 'spec'}", "Rakefile", Rank.OWN)


# Containers and processes: Compose, Dockerfile, Procfile, dev containers.

_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


def containers(manifests: Manifests) -> Iterator[Task]:
    """Yield how the containers and processes of the folder are built and started."""
    compose = manifests.first(*_COMPOSE)
    if compose is not None:
        yield Task("start", "docker compose up", compose, Rank.GUESS)
        if re.search(r"^ +build:", manifests.text(compose), re.MULTILINE):
            yield Task("build", "docker compose build", compose, Rank.GUESS)
    file = manifests.first("Dockerfile", "Containerfile")
    if file is not None:
        slug = re.sub(r"[^a-z0-9]+", "-", manifests.root.resolve().name.lower()).strip("-")
        image = slug or "workspace"
        # Only Podman looks for a Containerfile of itself.
        named = "" if file == "Dockerfile" else f"-f {file} "
        yield Task("build", f"docker build -t {image} {named}.", file, Rank.GUESS)
        yield Task("run", f"docker run --rm {image}", file, Rank.GUESS)
    yield from _processes(manifests)
    if manifests.first(".devcontainer/devcontainer.json", ".devcontainer.json") is not None:
        command = "devcontainer up --workspace-folder ."
        yield Task("start", command, ".devcontainer", Rank.GUESS)


def _processes(manifests: Manifests) -> Iterator[Task]:
    """Yield how the processes of a Procfile are started, the one for development first."""
    file = manifests.first("Procfile.dev", "Procfile")
    if file is not None:
        named = "" if file == "Procfile" else f" -f {file}"
        honcho = any("honcho" in manifests.text(name) for name in ("pyproject.toml", "Pipfile"))
        program = "honcho" if honcho or manifests.has("requirements.txt") else "foreman"
        # Where honcho wants its option before the command, foreman wants it behind.
        command = f"honcho{named} start" if program == "honcho" else f"foreman start{named}"
        yield Task("start", command, file, Rank.GUESS)
