"""Further ecosystems: PHP, Ruby, Elixir, containers, a table of simple ones, hints from CI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aish_lsp.project.manifests.reading import Manifests, table
from aish_lsp.project.task import Intent, Rank, Task, named_tasks

#: A manifest whose mere presence tells the commands.
_SIMPLE: Mapping[str, Mapping[Intent, str]] = {
    "Package.swift": {"test": "swift test", "build": "swift build", "run": "swift run"},
    "build.zig": {"build": "zig build"},
    "stack.yaml": {"test": "stack test", "build": "stack build", "run": "stack run"},
    "build.sbt": {"test": "sbt test", "build": "sbt compile", "run": "sbt run"},
    "project.clj": {"test": "lein test", "build": "lein compile", "install": "lein deps"},
    "dune-project": {"test": "dune test", "build": "dune build", "format": "dune fmt"},
    "MODULE.bazel": {"test": "bazel test //...", "build": "bazel build //..."},
    "main.tf": {
        "install": "terraform init",
        "check": "terraform validate",
        "format": "terraform fmt -recursive",
    },
    "environment.yml": {"install": "conda env create -f environment.yml"},
}

_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")

#: Commands that are believed when a line of a CI file is one of them, harmless options aside.
_HINTS: Mapping[str, Intent] = {
    **dict.fromkeys(
        (
            *("pytest", "python -m pytest", "python3 -m pytest", "python -m unittest"),
            *("python -m unittest discover", "tox", "nox", "uv run pytest", "poetry run pytest"),
            *("pdm run pytest", "pipenv run pytest", "hatch test", "hatch run test"),
            *("make test", "make check", "just test", "task test", "prove -lr"),
            *("npm test", "npm run test", "pnpm test", "pnpm run test", "yarn test"),
            *("yarn run test", "bun test", "bun run test", "deno test", "npx jest"),
            *("npx vitest run", "npx mocha"),
            *("cargo test", "cargo nextest run", "go test", "ctest", "meson test"),
            *("./gradlew test", "./gradlew check", "gradle test", "gradle check"),
            *("./mvnw test", "./mvnw verify", "mvn test", "mvn verify", "sbt test", "lein test"),
            *(
                "dotnet test",
                "swift test",
                "stack test",
                "cabal test",
                "dune test",
                "zig build test",
            ),
            *("mix test", "flutter test", "dart test", "bazel test"),
            *("bundle exec rspec", "bundle exec rake", "bundle exec rake test"),
            *("bundle exec rake spec", "rspec", "rake test", "bin/rails test"),
            *("composer test", "composer run test", "composer run-script test"),
            *("vendor/bin/phpunit", "./vendor/bin/phpunit", "vendor/bin/pest"),
        ),
        "test",
    ),
    **dict.fromkeys(
        (
            *("make", "npm run build", "pnpm run build", "yarn build", "cargo build", "go build"),
            *("./gradlew build", "mvn package", "dotnet build", "mix compile", "swift build"),
        ),
        "build",
    ),
    **dict.fromkeys(
        (
            *("ruff check .", "ruff check", "shellcheck *.sh", "npm run lint", "cargo clippy"),
            *("go vet", "golangci-lint run", "bundle exec rubocop", "mix credo"),
        ),
        "lint",
    ),
}
_MOST_WORDS = max(len(command.split(" ")) for command in _HINTS)

#: What may stand behind such a command: it changes what is shown or covered, never what is run.
_HARMLESS = frozenset(
    (
        *("-v", "-vv", "-q", "-s", "--verbose", "--quiet", "--color=yes", "--color=always"),
        *("--all", "--workspace", "--all-features", "--all-targets", "--no-default-features"),
        *("--locked", "--frozen", "--offline", "--release", "--no-fail-fast", "--doc", "--lib"),
        *("./...", "//...", "-race", "-cover", "-short", "-count=1"),
        *("--no-daemon", "--stacktrace", "--info", "--continue", "--parallel"),
        *("-B", "-ntp", "--batch-mode", "--no-transfer-progress"),
        *("--no-build", "--no-restore", "--trace", "--cover", "--coverage", "--ci", "--cov"),
        *("--output-on-failure", "--test-dir", "build", "--warnings-as-errors"),
    )
)


def simple(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the ecosystems that need no look into the manifest."""
    for source, commands in _SIMPLE.items():
        if manifests.has(source):
            for intent, command in commands.items():
                yield Task(intent, command, source)


def dart(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Dart package or a Flutter application."""
    if not manifests.has("pubspec.yaml"):
        return
    flutter = re.search(r"^ +sdk: *flutter\b", manifests.text("pubspec.yaml"), re.MULTILINE)
    program = "flutter" if flutter else "dart"
    yield Task("test", f"{program} test", "pubspec.yaml")
    yield Task("install", f"{program} pub get", "pubspec.yaml")
    yield Task("lint", f"{program} analyze", "pubspec.yaml")
    yield Task("format", "dart format .", "pubspec.yaml")
    if flutter:
        yield Task("run", "flutter run", "pubspec.yaml")


def composer(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a PHP project."""
    if not manifests.has("composer.json"):
        return
    scripts = table(manifests.json("composer.json"), "scripts")
    # Of these names composer has commands of its own.
    names = scripts.keys() - {"install", "check", "init"}
    yield from named_tasks(names, "composer run-script ", "composer.json")
    yield Task("install", "composer install", "composer.json")
    if manifests.has("artisan"):
        yield Task("test", "php artisan test", "artisan")
        yield Task("start", "php artisan serve", "artisan")
    tools: tuple[tuple[Intent, str, tuple[str, ...]], ...] = (
        ("test", "vendor/bin/phpunit", ("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml")),
        ("lint", "vendor/bin/phpstan analyse", ("phpstan.neon", "phpstan.neon.dist")),
        ("format", "vendor/bin/php-cs-fixer fix", (".php-cs-fixer.php", ".php-cs-fixer.dist.php")),
    )
    for intent, command, files in tools:
        source = manifests.first(*files)
        if source is not None:
            yield Task(intent, command, source)


def ruby(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Ruby project: Rails, RSpec, Rake, RuboCop."""
    bundled = manifests.has("Gemfile")
    if not bundled and not manifests.has("Rakefile"):
        return
    prefix = "bundle exec " if bundled else ""
    if bundled:
        yield Task("install", "bundle install", "Gemfile")
    if manifests.has("bin/rails"):
        yield Task("start", "bin/rails server", "bin/rails")
        if manifests.has("test"):
            yield Task("test", "bin/rails test", "bin/rails")
    if manifests.has(".rspec") or manifests.has("spec/spec_helper.rb"):
        yield Task("test", f"{prefix}rspec", ".rspec" if manifests.has(".rspec") else "spec/")
    elif re.search(
        r"^[ \t]*gem[ (]+['\"]rspec(-rails)?['\"]", manifests.text("Gemfile"), re.MULTILINE
    ):
        yield Task("test", "bundle exec rspec", "Gemfile")
    rakefile = manifests.text("Rakefile")
    tasks = set(re.findall(r"^[ \t]*task[ (]+[:\"']?(\w+)", rakefile, re.MULTILINE))
    for name in re.findall(r"\bTestTask\.new(?:[ (]+[:\"'](\w+))?", rakefile):
        tasks.add(name or "test")
    yield from named_tasks(tasks, f"{prefix}rake ", "Rakefile")
    if manifests.has(".rubocop.yml"):
        yield Task("lint", f"{prefix}rubocop", ".rubocop.yml")
        yield Task("format", f"{prefix}rubocop --fix-layout", ".rubocop.yml")


def mix(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of an Elixir project."""
    if not manifests.has("mix.exs"):
        return
    text = manifests.text("mix.exs")
    yield Task("test", "mix test", "mix.exs")
    yield Task("build", "mix compile", "mix.exs")
    yield Task("install", "mix deps.get", "mix.exs")
    if ":credo" in text:
        yield Task("lint", "mix credo", "mix.exs")
    yield Task("format", "mix format", "mix.exs")
    yield Task("clean", "mix clean", "mix.exs")
    phoenix = re.search(r"\{:phoenix,", text)
    yield Task("start" if phoenix else "run", "mix phx.server" if phoenix else "mix run", "mix.exs")


def containers(manifests: Manifests) -> Iterator[Task]:
    """Yield how the containers of the folder are built and started."""
    compose = manifests.first(*_COMPOSE)
    if compose is not None:
        yield Task("start", "docker compose up", compose, Rank.GUESS)
        if re.search(r"^ +build:", manifests.text(compose), re.MULTILINE):
            yield Task("build", "docker compose build", compose, Rank.GUESS)
    if manifests.has("Dockerfile"):
        slug = re.sub(r"[^a-z0-9]+", "-", manifests.root.resolve().name.lower()).strip("-")
        image = slug or "workspace"
        yield Task("build", f"docker build -t {image} .", "Dockerfile", Rank.GUESS)
        yield Task("run", f"docker run --rm {image}", "Dockerfile", Rank.GUESS)


def continuous_integration(manifests: Manifests) -> Iterator[Task]:
    """Yield what the CI files run, where it is a command that is known by its every word."""
    folder = ".github/workflows"
    workflows = [f"{folder}/{n}" for n in manifests.inside(folder) if n.endswith((".yml", ".yaml"))]
    for source in (*workflows, ".gitlab-ci.yml", ".circleci/config.yml", ".travis.yml"):
        for line in manifests.text(source).split("\n"):
            command = re.sub(r"^(- )?((run|script|command):\s+)?", "", line.strip())
            intent = _hinted(command)
            if intent is not None:
                yield Task(intent, command, source, Rank.HINT)


def _hinted(command: str) -> Intent | None:
    """Return what a CI file runs ``command`` for, or None where one of its words is not known."""
    words = command.split(" ")
    for count in range(1, min(len(words), _MOST_WORDS) + 1):
        if not _HARMLESS.issuperset(words[count:]):
            continue
        intent = _HINTS.get(" ".join(words[:count]))
        if intent is not None:
            return intent
    return None
