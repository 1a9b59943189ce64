"""Go: modules and workspaces of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain, is_plain_path
from aish_lsp.project.task import Task

_GOLANGCI = tuple(f".golangci.{end}" for end in ("yml", "yaml", "toml", "json"))

#: Files of a package that are looked into for its name.
_FILES = 50


def go(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Go module, or of the modules of a workspace."""
    modules = _modules(manifests)
    if not modules:
        return
    source = "go.work" if manifests.has("go.work") else "go.mod"
    # Where one is outside of the folder, "./..." would miss it, or say nothing is there.
    everything = " ".join(f"./{module}/..." if module else "./..." for module in modules)
    linter = manifests.first(*_GOLANGCI)
    yield Task("test", f"go test {everything}", source)
    yield Task("build", f"go build {everything}", source)
    if linter is not None:
        yield Task(
            "lint", f"golangci-lint run{'' if modules == [''] else f' {everything}'}", linter
        )
    yield Task("lint", f"go vet {everything}", source)
    # In a workspace go fmt does not find the modules.
    formats = (
        "go fmt ./..." if modules == [""] else f"gofmt -w {' '.join(m or '.' for m in modules)}"
    )
    yield Task("format", formats, source)
    yield Task("install", "go mod download", source)
    if modules == [""]:
        yield Task("clean", "go clean", source)
    for module in modules:
        yield from _programs(manifests, module)


def _modules(manifests: Manifests) -> list[str]:
    """Return the folders of the modules, "" for this one."""
    if not manifests.has("go.work"):
        return [""] if manifests.has("go.mod") else []
    uses: list[str] = []
    within = False
    for line in manifests.text("go.work").split("\n"):
        words = line.partition("//")[0].replace("(", " ( ").replace(")", " ) ").split()
        if words[:2] == ["use", "("]:
            within, words = True, words[2:]
        elif words[:1] == ["use"]:
            uses += words[1:2]
        if within:
            within = ")" not in words
            uses += (word for word in words if word != ")")
    folders = (use.strip('"').removeprefix("./").rstrip("/") for use in uses)
    modules = ["" if folder in ("", ".") else folder for folder in folders]
    return [m for m in modules if not m or (is_plain_path(m) and manifests.has(f"{m}/go.mod"))]


def _programs(manifests: Manifests, module: str) -> Iterator[Task]:
    """Yield how the programs of one module are run."""
    folder = f"{module}/" if module else ""
    main = _main_package(manifests, module or ".")
    if main is not None:
        yield Task("run", f"go run ./{module}" if module else "go run .", main)
    for name in manifests.inside(f"{folder}cmd"):
        main = _main_package(manifests, f"{folder}cmd/{name}") if is_plain(name) else None
        if main is not None:
            yield Task("run", f"go run ./{folder}cmd/{name}", main)


def _main_package(manifests: Manifests, folder: str) -> str | None:
    """Return the file that shows that the package in ``folder`` is a program, or None."""
    names = [n for n in manifests.matching(folder, "*.go") if not n.endswith("_test.go")]
    names.sort(key=lambda name: not name.endswith("main.go"))
    for name in names[:_FILES]:
        text = manifests.text(name)
        ignored = re.search(r"^//(go:build| \+build) ignore\b", text, re.MULTILINE)
        if not ignored and re.search(r"^package main\b", text, re.MULTILINE):
            return name
    return None
