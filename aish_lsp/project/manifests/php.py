"""PHP: Composer, Laravel, and the usual tools."""

from __future__ import annotations

from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, table
from aish_lsp.project.task import Intent, Rank, Task, named_tasks

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
