"""Compiled languages, where a table is not enough: CMake, Rust, Go, Gradle and .NET."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import (
    Manifests,
    Table,
    is_plain,
    is_plain_path,
    strings,
    table,
)
from aish_lsp.project.manifests.rules import Rank, Substitutions, Task, rule_tasks

_CMAKE = "CMakeLists.txt"

#: What a CMake file says if there are tests, which CTest then finds in that file's build folder.
_ENABLES = re.compile(r"\benable_testing\s*\(|\binclude\s*\(\s*CTest\b", re.IGNORECASE)
_SUBDIRECTORY = re.compile(r"\badd_subdirectory\s*\(\s*([^\s)]{1,200})", re.IGNORECASE)
_INCLUDED = re.compile(r"\binclude\s*\(\s*([\w./-]{1,200}\.cmake)\b", re.IGNORECASE)
_EXECUTABLE = re.compile(r"\badd_executable\s*\(\s*([^\s)]{1,200})\s+(\w+)", re.IGNORECASE)
_PROJECT = re.compile(r"\bproject\s*\(\s*([^\s)]{1,200})", re.IGNORECASE)

_BUILD = "cmake -S . -B build && cmake --build build"


def cmake(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a CMake project: by its presets or, without any, built in ``build``."""
    if not manifests.has(_CMAKE):
        return
    yield from _presets(manifests)
    yield Task("build", _BUILD, _CMAKE)
    root = manifests.code(_CMAKE)
    root += "".join(map(manifests.code, _INCLUDED.findall(root)))
    folders = dict.fromkeys([*filter(is_plain_path, _SUBDIRECTORY.findall(root)), "test", "tests"])
    texts = {"": root} | {folder: manifests.code(f"{folder}/{_CMAKE}") for folder in folders}
    tested = [folder for folder, text in texts.items() if _ENABLES.search(text)]
    for folder in [""] if "" in tested else tested:
        test = f"{_BUILD} && ctest --test-dir {_joined('build', folder)}"
        yield Task("test", test, _joined(folder, _CMAKE))
    yield from rule_tasks(manifests, "cmake")
    # The program, if there is just one and it is built in the usual place.
    project = _PROJECT.search(root)
    programs = [
        (folder, name)
        for folder, text in texts.items()
        for named, kind in _EXECUTABLE.findall(text)
        if is_plain(name := named.replace("${PROJECT_NAME}", project[1] if project else "$"))
        and kind not in ("IMPORTED", "ALIAS")
        and "test" not in folder
    ]
    usual = not any("RUNTIME_OUTPUT" in text for text in texts.values())
    if usual and len(programs) == 1 and "test" not in programs[0][1]:
        folder, name = programs[0]
        run = f"{_BUILD} && ./{_joined('build', folder, name)}"
        yield Task("run", run, _joined(folder, _CMAKE), Rank.GUESS)


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))


def _presets(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the first usable presets."""
    source = "CMakePresets.json"
    presets = manifests.data(source)

    def first(kind: str) -> str:
        listed = presets.get(kind)
        for preset in map(table, listed if isinstance(listed, list) else []):
            name = preset.get("name")
            usable = preset.get("hidden") is not True and "condition" not in preset
            if usable and isinstance(name, str) and is_plain(name):
                return name
        return ""

    configure, build, test = map(first, ("configurePresets", "buildPresets", "testPresets"))
    if configure and build:
        steps = f"cmake --preset {configure} && cmake --build --preset {build}"
        yield Task("build", steps, source)
        if test:
            yield Task("test", f"{steps} && ctest --preset {test}", source)


_CARGO_TOML = "Cargo.toml"


def cargo(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Rust crate or workspace."""
    manifest = manifests.data(_CARGO_TOML)
    if not {"package", "workspace"} & manifest.keys():
        return
    # Without it, only the root's own package is meant, if it is one.
    is_workspace = "workspace" in manifest
    words = Substitutions(
        manifests,
        all_of_it=" --workspace" if is_workspace else "",
        all_files=" --all" if is_workspace else "",
    )
    yield from rule_tasks(manifests, "cargo", words, _CARGO_TOML)
    own = [*_cargo_runs(manifests, manifest, "")] if "package" in manifest else []
    for which in own:
        yield Task("run", f"cargo run{which}", _CARGO_TOML)
    if own:
        return
    package = table(manifest, "package")
    if package and "example" not in manifest and package.get("autoexamples") is not False:
        paths = manifests.matching("examples/*.rs")
        names = {path: path.removeprefix("examples/").removesuffix(".rs") for path in paths}
        plain = [path for path in paths if is_plain(names[path])]
        for path in plain[:1]:
            yield Task("run", f"cargo run --example {names[path]}", path, Rank.GUESS)
    for member in manifests.members(strings(table(manifest, "workspace").get("members"))):
        source = f"{member}/{_CARGO_TOML}"
        crate = manifests.data(source)
        name = table(crate, "package").get("name")
        if isinstance(name, str) and is_plain(name):
            for which in [*_cargo_runs(manifests, crate, f"{member}/")][:1]:
                yield Task("run", f"cargo run -p {name}{which}", source)


def _cargo_runs(manifests: Manifests, manifest: Table, folder: str) -> list[str]:
    """Return what names each program of a crate, declared or implied by its place, to cargo run."""
    declared = manifest.get("bin")
    tables = [table(binary) for binary in declared] if isinstance(declared, list) else []
    programs = [(binary.get("name"), binary.get("path")) for binary in tables]
    package = table(manifest, "package")
    if package.get("autobins") is not False:
        paths = {path for _, path in programs}
        if manifests.has(f"{folder}src/main.rs") and "src/main.rs" not in paths:
            programs.append((package.get("name"), None))
        for name in manifests.inside(f"{folder}src/bin"):
            is_crate = manifests.has(f"{folder}src/bin/{name}/main.rs")
            if (name.endswith(".rs") or is_crate) and f"src/bin/{name}" not in paths:
                programs.append((name.removesuffix(".rs"), None))
    names = dict.fromkeys(name for name, _ in programs if isinstance(name, str))
    plain = list(filter(is_plain, names))
    if plain and ("default-run" in package or len(plain) == 1):
        return [""]
    return [f" --bin {name}" for name in plain]


#: Files of a package that are searched for its name.
_FILES = 50


def go(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Go module, or of the modules of a workspace."""
    modules = _go_modules(manifests)
    if not modules:
        return
    is_alone = modules == [""]
    # If one is outside the folder, "./..." would miss it or report that nothing is there.
    everything = " ".join(_joined(".", module, "...") for module in modules)
    folders = " ".join(module or "." for module in modules)
    words = Substitutions(
        manifests,
        modules=everything,
        others="" if is_alone else f" {everything}",
        # In a workspace, go fmt does not find the modules.
        format="go fmt ./..." if is_alone else f"gofmt -w {folders}",
    )
    yield from rule_tasks(manifests, "go", words)
    for module in modules:
        commands = filter(is_plain, manifests.inside(_joined(module, "cmd")))
        for folder in (module, *(_joined(module, "cmd", name) for name in commands)):
            main = _main_package(manifests, folder)
            if main is not None:
                yield Task("run", f"go run ./{folder}" if folder else "go run .", main)


def _go_modules(manifests: Manifests) -> list[str]:
    """Return the folders of the modules, "" for this one."""
    if not manifests.has("go.work"):
        return [""] if manifests.has("go.mod") else []
    text = re.sub(r"//.*", "", manifests.text("go.work"))
    blocks = re.findall(r"^[ \t]*use[ \t]*(?:\(([^()]*)\)?|(\S+))", text, re.MULTILINE)
    uses = (use for block, single in blocks for use in (single or block).split())
    folders = (use.strip('"').removeprefix("./").rstrip("/") for use in uses)
    modules = ["" if folder in ("", ".") else folder for folder in folders]
    return [m for m in modules if not m or (is_plain_path(m) and manifests.has(f"{m}/go.mod"))]


def _main_package(manifests: Manifests, folder: str) -> str | None:
    """Return the file that shows that the package in ``folder`` is a program, or None."""
    paths = manifests.matching(_joined(folder, "*.go"))
    names = [name for name in paths if not name.endswith("_test.go")]
    names.sort(key=lambda name: not name.endswith("main.go"))
    for name in names[:_FILES]:
        text = manifests.text(name)
        ignored = re.search(r"^//(go:build| \+build) ignore\b", text, re.MULTILINE)
        if not ignored and re.search(r"^package main\b", text, re.MULTILINE):
            return name
    return None


# Java, Kotlin, Scala and the like.

_BUILDS = ("build.gradle.kts", "build.gradle")

#: ``:app`` or ``"app"`` after ``include``.
_GRADLE_INCLUDED = re.compile(r"['\"]:?([\w:.-]+)['\"]")
_GRADLE_INCLUDES = re.compile(r"^[ \t]*include\b(.*(?:,[ \t]*\n.*)*)", re.MULTILINE)


def gradle(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Gradle build of one or more projects."""
    own = manifests.first(*_BUILDS)
    settings = manifests.first("settings.gradle.kts", "settings.gradle")
    source = own or settings
    if source is None:
        return
    words = Substitutions(manifests)
    yield from rule_tasks(manifests, "gradle", words, source)
    included = _GRADLE_INCLUDES.findall(manifests.text(settings)) if settings else []
    names = (name for part in included for name in _GRADLE_INCLUDED.findall(part))
    folders = (name.strip(":").replace(":", "/") for name in names)
    projects = [folder for folder in folders if is_plain_path(folder)][:50]
    builds = (manifests.first(*(f"{folder}/{name}" for name in _BUILDS)) for folder in projects)
    for build in (own, *builds):
        if build is not None:
            yield from rule_tasks(manifests, "gradle_project", words, build)


# C#, F# and Visual Basic: .NET solutions and projects.

_DOTNET_RUNS = re.compile(r"<OutputType>\s*(?:Win)?Exe|Sdk\.(?:Web|Worker)\"")
#: A project's path in a solution, in the old and the new format.
_IN_SOLUTION = re.compile(r'"([^"\n]+\.(?:cs|fs|vb)proj)"')


def dotnet(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a .NET solution or project."""
    solutions, projects = (
        sorted(name for name in manifests.names if name.endswith(ends))
        for ends in ((".sln", ".slnx"), (".csproj", ".fsproj", ".vbproj"))
    )
    source = next(iter(solutions + projects), "-")
    if source.startswith("-") or not source.isprintable():
        return
    # If there is more than one, dotnet must be told which to use.
    which = f" {shlex.quote(source)}" if len(solutions) + len(projects) > 1 else ""
    text = manifests.text(projects[0]) if projects else ""
    yield from rule_tasks(manifests, "dotnet", Substitutions(manifests, which=which), source)
    if len(projects) == 1 and _DOTNET_RUNS.search(text):
        yield Task("run", "dotnet run", projects[0])
    for path in _IN_SOLUTION.findall(manifests.text(source)) if not projects else ():
        project = path.replace("\\", "/")
        folder = project.rpartition("/")[0]
        if is_plain_path(folder) and _DOTNET_RUNS.search(manifests.text(project)):
            yield Task("run", f"dotnet run --project {folder}", project)
