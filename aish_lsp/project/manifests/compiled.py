"""Compiled languages: C and C++, Rust, Go, and those of the JVM and .NET."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import (
    COMMANDS,
    Manifests,
    Rank,
    Table,
    Task,
    is_plain,
    is_plain_path,
    strings,
    table,
    table_tasks,
)

_CMAKE = "CMakeLists.txt"

#: What a CMake file says if there are tests, which CTest then finds in that file's build folder.
_ENABLES = re.compile(r"\benable_testing\s*\(|\binclude\s*\(\s*CTest\b", re.IGNORECASE)
_SUBDIRECTORY = re.compile(r"\badd_subdirectory\s*\(\s*([^\s)]{1,200})", re.IGNORECASE)
_INCLUDED = re.compile(r"\binclude\s*\(\s*([\w./-]{1,200}\.cmake)\b", re.IGNORECASE)
_EXECUTABLE = re.compile(r"\badd_executable\s*\(\s*([^\s)]{1,200})\s+(\w+)", re.IGNORECASE)
_PROJECT = re.compile(r"\bproject\s*\(\s*([^\s)]{1,200})", re.IGNORECASE)
_COMMENT = re.compile(r"#.*")


def cmake(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a CMake project: by its presets or, without any, built in ``build``."""
    if not manifests.has(_CMAKE):
        return
    yield from _presets(manifests)
    build = "cmake -S . -B build && cmake --build build"
    yield Task("build", build, _CMAKE)
    root = _COMMENT.sub("", manifests.text(_CMAKE))
    for name in _INCLUDED.findall(root):
        root += _COMMENT.sub("", manifests.text(name))
    parts = {p: f"{p}/{_CMAKE}" for p in _SUBDIRECTORY.findall(root) if is_plain_path(p)}
    parts |= {name: f"{name}/{_CMAKE}" for name in ("test", "tests")}
    texts = {name: _COMMENT.sub("", manifests.text(path)) for name, path in parts.items()}
    if _ENABLES.search(root):
        yield Task("test", f"{build} && ctest --test-dir build", _CMAKE)
    else:
        for name, text in texts.items():
            if _ENABLES.search(text):
                yield Task("test", f"{build} && ctest --test-dir build/{name}", parts[name])
    if manifests.has("build/CMakeCache.txt"):
        yield Task("clean", "cmake --build build --target clean", _CMAKE)
    yield from _cmake_program(root, texts, build)


def _cmake_program(root: str, parts: dict[str, str], build: str) -> Iterator[Task]:
    """Yield how the program is run, if there is just one and it is built in the usual place."""
    texts = {"": root, **parts}
    if any("RUNTIME_OUTPUT" in text for text in texts.values()):
        return
    project = _PROJECT.search(root)
    found = []
    for folder, text in texts.items():
        for name, kind in _EXECUTABLE.findall(text):
            program = name.replace("${PROJECT_NAME}", project[1] if project else "$")
            if is_plain(program) and kind not in ("IMPORTED", "ALIAS") and "test" not in folder:
                found.append(("/".join(filter(None, ("./build", folder, program))), folder))
    if len(found) == 1 and "test" not in found[0][0]:
        path, folder = found[0]
        source = f"{folder}/{_CMAKE}" if folder else _CMAKE
        yield Task("run", f"{build} && {path}", source, Rank.GUESS)


def _presets(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of the first usable presets."""
    source = "CMakePresets.json"
    presets = manifests.json(source)

    def first(kind: str) -> str:
        listed = presets.get(kind)
        for preset in map(table, listed if isinstance(listed, list) else []):
            name = preset.get("name")
            usable = preset.get("hidden") is not True and "condition" not in preset
            if usable and isinstance(name, str) and is_plain(name):
                return name
        return ""

    configure, build, test = map(first, ("configurePresets", "buildPresets", "testPresets"))
    if not configure or not build:
        return
    steps = f"cmake --preset {configure} && cmake --build --preset {build}"
    yield Task("build", steps, source)
    if test:
        yield Task("test", f"{steps} && ctest --preset {test}", source)


def meson(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Meson project, built in ``build``."""
    if not manifests.has("meson.build"):
        return
    setup = "" if manifests.has("build/build.ninja") else "meson setup build && "
    yield from table_tasks(manifests, COMMANDS["meson"], "meson.build", setup=setup)
    programs = re.findall(r"\bexecutable\s*\(\s*'([^']+)'", manifests.text("meson.build"))
    programs = [name for name in programs if is_plain(name) and "test" not in name]
    if len(programs) == 1:
        command = f"{setup}meson compile -C build && ./build/{programs[0]}"
        yield Task("run", command, "meson.build", Rank.GUESS)


def autotools(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a project with a configure script, or with the source of one."""
    if manifests.first("GNUmakefile", "makefile", "Makefile") is not None:
        return
    source = manifests.first("configure", "configure.ac")
    if source is None:
        return
    configure = "./configure" if manifests.executable("configure") else "sh ./configure"
    if source == "configure.ac":
        configure = "autoreconf --install && ./configure"
    yield Task("build", f"{configure} && make", source)
    if manifests.has("Makefile.am"):
        yield Task("test", f"{configure} && make check", source)


_CARGO_TOML = "Cargo.toml"


# Rust: crates and workspaces of them.


def cargo(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Rust crate or workspace."""
    manifest = manifests.toml(_CARGO_TOML)
    if not {"package", "workspace"} & manifest.keys():
        return
    # Without it, only the root's own package is meant, if it is one.
    all_of_it = " --workspace" if "workspace" in manifest else ""
    files = " --all" if all_of_it else ""
    commands = COMMANDS["cargo"]
    yield from table_tasks(manifests, commands, _CARGO_TOML, all_of_it=all_of_it, all_files=files)
    if manifests.has(".config/nextest.toml"):
        yield Task("test", f"cargo nextest run{all_of_it}", ".config/nextest.toml")
    yield from _programs(manifests, manifest)


def _programs(manifests: Manifests, manifest: Table) -> Iterator[Task]:
    """Yield how the programs of the root are run or, if it has none, those of its members."""
    if "package" in manifest:
        programs = _binaries(manifests, manifest, "")
        if "default-run" in table(manifest, "package") or len(programs) == 1:
            yield Task("run", "cargo run", _CARGO_TOML)
            return
        for program in programs:
            yield Task("run", f"cargo run --bin {program}", _CARGO_TOML)
        if programs:
            return
        yield from _examples(manifests, manifest)
    for member in manifests.members(strings(table(manifest, "workspace").get("members"))):
        source = f"{member}/{_CARGO_TOML}"
        crate = manifests.toml(source)
        name = table(crate, "package").get("name")
        programs = _binaries(manifests, crate, f"{member}/")
        if isinstance(name, str) and is_plain(name) and programs:
            one = "default-run" in table(crate, "package") or len(programs) == 1
            which = "" if one else f" --bin {programs[0]}"
            yield Task("run", f"cargo run -p {name}{which}", source)


def _binaries(manifests: Manifests, manifest: Table, folder: str) -> list[str]:
    """Return the plain names of a crate's programs, whether declared or implied by their place."""
    declared = manifest.get("bin")
    tables = [table(binary) for binary in declared] if isinstance(declared, list) else []
    programs = [(binary.get("name"), binary.get("path")) for binary in tables]
    package = table(manifest, "package")
    if package.get("autobins") is not False:
        taken = {path for _, path in programs}
        if manifests.has(f"{folder}src/main.rs") and "src/main.rs" not in taken:
            programs.append((package.get("name"), None))
        for name in manifests.inside(f"{folder}src/bin"):
            is_crate = manifests.has(f"{folder}src/bin/{name}/main.rs")
            if (name.endswith(".rs") or is_crate) and f"src/bin/{name}" not in taken:
                programs.append((name.removesuffix(".rs"), None))
    names = dict.fromkeys(name for name, _ in programs if isinstance(name, str))
    return [name for name in names if is_plain(name)]


def _examples(manifests: Manifests, manifest: Table) -> Iterator[Task]:
    """Yield how the first example of a library is run."""
    if "example" in manifest or table(manifest, "package").get("autoexamples") is False:
        return
    for name in manifests.matching("examples", "*.rs"):
        program = name.removeprefix("examples/").removesuffix(".rs")
        if is_plain(program):
            yield Task("run", f"cargo run --example {program}", name, Rank.GUESS)
            return


_GOLANGCI = tuple(f".golangci.{end}" for end in ("yml", "yaml", "toml", "json"))

#: Files of a package that are searched for its name.
_FILES = 50


def go(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Go module, or of the modules of a workspace."""
    modules = _modules(manifests)
    if not modules:
        return
    source = "go.work" if manifests.has("go.work") else "go.mod"
    # If one is outside the folder, "./..." would miss it or report that nothing is there.
    everything = " ".join(f"./{module}/..." if module else "./..." for module in modules)
    linter = manifests.first(*_GOLANGCI)
    yield Task("test", f"go test {everything}", source)
    yield Task("build", f"go build {everything}", source)
    if linter is not None:
        yield Task(
            "lint", f"golangci-lint run{'' if modules == [''] else f' {everything}'}", linter
        )
    yield Task("lint", f"go vet {everything}", source)
    # In a workspace, go fmt does not find the modules.
    formats = (
        "go fmt ./..." if modules == [""] else f"gofmt -w {' '.join(m or '.' for m in modules)}"
    )
    yield Task("format", formats, source)
    yield Task("install", "go mod download", source)
    if modules == [""]:
        yield Task("clean", "go clean", source)
    for module in modules:
        yield from _go_programs(manifests, module)


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


def _go_programs(manifests: Manifests, module: str) -> Iterator[Task]:
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


# Java, Kotlin, Scala and the like: Gradle and Maven, through their wrappers if there are any.

_BUILDS = ("build.gradle.kts", "build.gradle")
_SETTINGS = ("settings.gradle.kts", "settings.gradle")

#: ``:app`` or ``"app"`` after ``include``.
_GRADLE_INCLUDED = re.compile(r"['\"]:?([\w:.-]+)['\"]")
_GRADLE_INCLUDES = re.compile(r"^[ \t]*include\b(.*(?:,[ \t]*\n.*)*)", re.MULTILINE)

#: The plugin that provides ``run``; Android's has nearly the same name, but does not.
_APPLICATION = re.compile(
    r"(?<![\w.])(?:application|id[ (]+['\"]application['\"]|plugin:\s*['\"]application['\"])"
    r"(?:\)|\s|$|\})"
)


def gradle(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Gradle build of one or more projects."""
    own = manifests.first(*_BUILDS)
    settings = manifests.first(*_SETTINGS)
    source = own or settings
    if source is None:
        return
    call = _wrapper(manifests, "gradlew", "gradle")
    yield from table_tasks(manifests, COMMANDS["gradle"], source, call=call)
    yield Task("install", f"{call} dependencies", source, Rank.GUESS)
    builds = [own] if own else []
    for folder in _gradle_projects(manifests.text(settings) if settings else ""):
        build = manifests.first(*(f"{folder}/{name}" for name in _BUILDS))
        builds += [build] if build else []
    for build in builds:
        text = manifests.text(build)
        for plugin, commands in COMMANDS["gradle_plugins"].items():
            if re.search(rf"\b{re.escape(plugin)}\b", text):
                yield from table_tasks(manifests, commands, build, call=call)
        if "org.springframework.boot" not in text and _APPLICATION.search(text):
            yield Task("run", f"{call} run", build)


def _gradle_projects(settings: str) -> list[str]:
    """Return the folders of the projects that a settings file includes."""
    names = (
        name
        for part in _GRADLE_INCLUDES.findall(settings)
        for name in _GRADLE_INCLUDED.findall(part)
    )
    folders = [name.strip(":").replace(":", "/") for name in names]
    return [folder for folder in folders if is_plain_path(folder)][:50]


def maven(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Maven build of one or more modules."""
    if not manifests.has("pom.xml"):
        return
    call = _wrapper(manifests, "mvnw", "mvn")
    text = _without_xml_comments(manifests.text("pom.xml"))
    yield from table_tasks(manifests, COMMANDS["maven"], "pom.xml", call=call)
    # Modules that depend on each other can be found nowhere else.
    modules = "<modules>" in text
    installs = "install -DskipTests" if modules else "dependency:resolve"
    yield Task("install", f"{call} {installs}", "pom.xml")
    for plugin, commands in COMMANDS["maven_plugins"].items():
        if f"<artifactId>{plugin}</artifactId>" in text:
            yield from table_tasks(manifests, commands, "pom.xml", call=call)
    if "<artifactId>exec-maven-plugin</artifactId>" in text and "<mainClass>" in text:
        yield Task("run", f"{call} compile exec:java", "pom.xml")


def _without_xml_comments(xml: str) -> str:
    """Return XML without its comments; an unclosed comment goes on to the end of the text."""
    first, *others = xml.split("<!--")
    return first + "".join(other.partition("-->")[2] for other in others)


def _wrapper(manifests: Manifests, wrapper: str, program: str) -> str:
    """Return how to call a build tool: by its wrapper, with sh if that is not executable."""
    if not manifests.has(wrapper):
        return program
    return f"./{wrapper}" if manifests.executable(wrapper) else f"sh ./{wrapper}"


# C#, F# and Visual Basic: .NET solutions and projects.

_DOTNET_PROJECTS = (".csproj", ".fsproj", ".vbproj")

#: What shows that a project contains tests for ``dotnet test``.
_DOTNET_TESTS = re.compile(r"Microsoft\.NET\.Test\.Sdk|\bMSTest\.Sdk|\"(?:xunit\.v3|TUnit)\"")
_DOTNET_RUNS = re.compile(r"<OutputType>\s*(?:Win)?Exe|Sdk\.(?:Web|Worker)\"")
#: A project's path in a solution, in the old and the new format.
_IN_SOLUTION = re.compile(r'"([^"\n]+\.(?:cs|fs|vb)proj)"')


def dotnet(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a .NET solution or project."""
    solutions = _ending(manifests, ".sln", ".slnx")
    projects = _ending(manifests, *_DOTNET_PROJECTS)
    if not solutions and not projects:
        return
    source = (solutions or projects)[0]
    if source.startswith("-") or not source.isprintable():
        return
    # If there is more than one, dotnet must be told which to use.
    which = f" {shlex.quote(source)}" if len(solutions) + len(projects) > 1 else ""
    text = manifests.text(projects[0]) if projects else ""
    if solutions or _DOTNET_TESTS.search(text):
        yield Task("test", f"dotnet test{which}", source)
    yield from table_tasks(manifests, COMMANDS["dotnet"], source, which=which)
    if len(projects) == 1 and _DOTNET_RUNS.search(text):
        yield Task("run", "dotnet run", projects[0])
    elif not projects:
        yield from _of_solution(manifests, source)


def _of_solution(manifests: Manifests, solution: str) -> Iterator[Task]:
    """Yield how the programs of a solution are run."""
    for path in _IN_SOLUTION.findall(manifests.text(solution)):
        project = path.replace("\\", "/")
        folder = project.rpartition("/")[0]
        if is_plain_path(folder) and _DOTNET_RUNS.search(manifests.text(project)):
            yield Task("run", f"dotnet run --project {folder}", project)


def _ending(manifests: Manifests, *suffixes: str) -> list[str]:
    """Return the names in the folder that end in one of ``suffixes``, in order."""
    return sorted(name for name in manifests.names if name.endswith(suffixes))
