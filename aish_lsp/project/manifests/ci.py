"""Hints from CI files: what they run, where it is a command that is known by its every word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aish_lsp.project.manifests.reading import Intent, Manifests, Rank, Task

_FOLDERS = (".github/workflows", ".forgejo/workflows", ".gitea/workflows", ".woodpecker")
_FILES = (
    *(".gitlab-ci.yml", ".circleci/config.yml", ".travis.yml", "azure-pipelines.yml"),
    *("bitbucket-pipelines.yml", ".woodpecker.yml", ".drone.yml", ".cirrus.yml", "appveyor.yml"),
    "Jenkinsfile",
)
_BEFORE_COMMAND = re.compile(r"^(- )?((run|script|command):\s+|sh\s+)?")

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


def continuous_integration(manifests: Manifests) -> Iterator[Task]:
    """Yield what the CI files run, where it is a command that is known by its every word."""
    workflows = [path for folder in _FOLDERS for path in manifests.matching(folder, "*.y*ml")]
    for source in (*workflows, *_FILES):
        for line in manifests.text(source).split("\n"):
            command = _BEFORE_COMMAND.sub("", line.strip())
            if command[:1] in ("'", '"') and command[-1] == command[0]:
                command = command[1:-1]
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
