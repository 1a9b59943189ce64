"""Ruby: Bundler, Rails, Rake, RSpec, RuboCop, Jekyll."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain
from aish_lsp.project.task import Rank, Task, named_tasks

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
    """Yield the linters, and the servers of what is no Rails application."""
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
