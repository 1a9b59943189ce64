"""Ecosystems that one file or a word in it reveals; PHP, Ruby, Elixir, Dart, and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import (
    COMMANDS,
    Manifests,
    Rank,
    Task,
    is_plain,
    named_tasks,
    table,
    table_tasks,
)


def simple(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of ecosystems for which a table of commands is enough."""
    yield from _of_tables(manifests, "ecosystems", Rank.CONFIGURED)


def infrastructure(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of what accompanies the code, such as infrastructure and documentation."""
    yield from _of_tables(manifests, "beside", Rank.GUESS)


def _of_tables(manifests: Manifests, kind: str, rank: Rank) -> Iterator[Task]:
    for patterns, commands in COMMANDS[kind].items():
        source = manifests.first_matching(*patterns.split())
        if source is not None:
            yield from table_tasks(manifests, commands, source, rank)


# PHP: Composer, Laravel, and the usual tools.


def composer(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a PHP project."""
    if not manifests.has("composer.json"):
        return
    data = manifests.json("composer.json")
    # Composer has commands of its own with these names.
    names = table(data, "scripts").keys() - {"install", "check", "init"}
    yield from named_tasks(names, "composer run-script ", "composer.json")
    yield Task("install", "composer install", "composer.json")
    if manifests.has("artisan"):
        yield Task("test", "php artisan test", "artisan")
        yield Task("start", "php artisan serve", "artisan")
    required = table(data, "require-dev").keys() | table(data, "require").keys()
    for tool in COMMANDS["php_tools"]:
        source = manifests.first(*tool.get("files", ()))
        if tool.get("package") in required:
            source = "composer.json"
        if source is not None:
            yield Task(tool["intent"], f"vendor/bin/{tool['command']}", source)
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
    gemspec = manifests.first_matching("*.gemspec")
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
    """Yield the linters, and how anything but a Rails application is served."""
    if manifests.has(".rubocop.yml"):
        yield from table_tasks(manifests, COMMANDS["rubocop"], ".rubocop.yml", prefix=prefix)
    elif "standard" in gems:
        yield from table_tasks(manifests, COMMANDS["standard"], "Gemfile", prefix=prefix)
    if "jekyll" in gems or "github-pages" in gems:
        yield from table_tasks(manifests, COMMANDS["jekyll"], "Gemfile", prefix=prefix)
    if manifests.has("config.ru") and not manifests.has("bin/rails"):
        server = next((f"bundle exec {name}" for name in ("puma", "rackup") if name in gems), "")
        if server:
            yield Task("start", server, "config.ru")


def _rails(manifests: Manifests) -> Iterator[Task]:
    if not manifests.has("bin/rails"):
        return
    # Not by itself: its first line may name a Ruby that is not here, and it may not be executable.
    call = "bin/rails" if manifests.executable("bin/rails") else "ruby bin/rails"
    yield Task("start", f"{call} server", "bin/rails")
    if manifests.has("test"):
        yield Task("test", f"{call} test", "bin/rails")


def _rake(manifests: Manifests, prefix: str) -> Iterator[Task]:
    """Yield the tasks of a Rakefile and those that its libraries define."""
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


# Containers and processes: Dockerfile, Procfile, dev containers.


def containers(manifests: Manifests) -> Iterator[Task]:
    """Yield how the containers and processes of the folder are built and started."""
    file = manifests.first("Dockerfile", "Containerfile")
    if file is not None:
        slug = re.sub(r"[^a-z0-9]+", "-", manifests.root.resolve().name.lower()).strip("-")
        image = slug or "workspace"
        # Only Podman looks for a Containerfile by itself.
        named = "" if file == "Dockerfile" else f"-f {file} "
        yield Task("build", f"docker build -t {image} {named}.", file, Rank.GUESS)
        yield Task("run", f"docker run --rm {image}", file, Rank.GUESS)
    # The Procfile for development first.
    file = manifests.first("Procfile.dev", "Procfile")
    if file is not None:
        named = "" if file == "Procfile" else f" -f {file}"
        honcho = any("honcho" in manifests.text(name) for name in ("pyproject.toml", "Pipfile"))
        program = "honcho" if honcho or manifests.has("requirements.txt") else "foreman"
        # honcho takes its option before the command, foreman after it.
        command = f"honcho{named} start" if program == "honcho" else f"foreman start{named}"
        yield Task("start", command, file, Rank.GUESS)
    if manifests.first(".devcontainer/devcontainer.json", ".devcontainer.json") is not None:
        command = "devcontainer up --workspace-folder ."
        yield Task("start", command, ".devcontainer", Rank.GUESS)


# Elixir: Mix and Phoenix.

_ALIAS = re.compile(r"[ \t]*(?:\[[ \t]*)?(?:\"([\w.-]+)\"|(\w+)):(?:\s|$)")


def mix(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of an Elixir project, which may be an umbrella."""
    if not manifests.has("mix.exs"):
        return
    text = re.sub(r"^[ \t]*#.*", "", manifests.text("mix.exs"), flags=re.MULTILINE)
    yield from named_tasks(_aliases(text) - {"run"}, "mix ", "mix.exs")
    yield from table_tasks(manifests, COMMANDS["mix"], "mix.exs")
    parts = [manifests.text(f"{app}/mix.exs") for app in manifests.members(["apps/*"])]
    if any("{:phoenix," in part for part in (text, *parts)):
        yield Task("start", "mix phx.server", "mix.exs")
    elif any(re.search(r"\bmod:\s*\{", part) for part in (text, *parts)):
        yield Task("run", "mix run --no-halt", "mix.exs")


def _aliases(text: str) -> set[str]:
    """Return the aliases that a project defines; they come before Mix's own tasks."""
    names = set()
    within = False
    for line in text.split("\n"):
        if re.match(r"[ \t]*defp?[ \t]+aliases\b", line):
            within = True
        elif within and line.strip() == "end":
            within = False
        alias = _ALIAS.match(line) if within else None
        if alias is not None:
            names.add(alias[1] or alias[2])
    return names


_PUBSPEC = "pubspec.yaml"


def dart(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Dart package or a Flutter application."""
    if not manifests.has(_PUBSPEC):
        return
    text = manifests.text(_PUBSPEC)
    flutter = re.search(r"^ +sdk: *flutter\b", text, re.MULTILINE)
    program = "flutter" if flutter else "dart"
    if manifests.has("melos.yaml"):
        yield Task("install", "melos bootstrap", "melos.yaml")
    if manifests.has("test") or re.search(r"^ +(flutter_)?test:", text, re.MULTILINE):
        yield Task("test", f"{program} test", _PUBSPEC)
    yield from table_tasks(manifests, COMMANDS["dart"], _PUBSPEC, program=program)
    if flutter:
        yield from table_tasks(manifests, COMMANDS["flutter"], _PUBSPEC)
        return
    name = re.search(r"^name: *(\w+)", text, re.MULTILINE)
    if name is not None and manifests.has(f"bin/{name[1]}.dart"):
        yield Task("run", "dart run", f"bin/{name[1]}.dart")
        return
    programs = [n for n in manifests.matching("bin", "*.dart") if is_plain(n.removeprefix("bin/"))]
    if programs:
        yield Task("run", f"dart run {programs[0]}", programs[0])
