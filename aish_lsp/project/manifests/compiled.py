"""Languages with a build tool of their own: Rust, Go, C and C++, Java and Kotlin, .NET."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain, table
from aish_lsp.project.task import Intent, Task

#: How a CMakeLists.txt tells of tests: CTest's own calls, and those of test libraries.
_CTEST = re.compile(
    r"\b(enable_testing|(add|\w+_discover|\w+_add)_tests?)\s*\(|\binclude\s*\(\s*CTest",
    re.IGNORECASE,
)


def cargo(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Rust crate or workspace."""
    manifest = manifests.toml("Cargo.toml")
    if not {"package", "workspace"} & manifest.keys():
        return
    commands: tuple[tuple[Intent, str], ...] = (
        ("test", "cargo test"),
        ("build", "cargo build"),
        ("lint", "cargo clippy"),
        ("format", "cargo fmt"),
        ("check", "cargo check"),
        ("clean", "cargo clean"),
        ("install", "cargo fetch"),
    )
    for intent, command in commands:
        yield Task(intent, command, "Cargo.toml")
    binaries = manifest.get("bin")
    named = [table(binary).get("name") for binary in binaries] if isinstance(binaries, list) else []
    extra = [n.removesuffix(".rs") for n in manifests.inside("src/bin")]
    programs = [name for name in (*named, *extra) if isinstance(name, str) and is_plain(name)]
    if "default-run" in table(manifest, "package") or (
        manifests.has("src/main.rs") and not programs
    ):
        yield Task("run", "cargo run", "Cargo.toml")
    elif programs:
        command = "cargo run" if len(programs) == 1 else f"cargo run --bin {programs[0]}"
        yield Task("run", command, "Cargo.toml")


def go(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Go module."""
    if not manifests.has("go.mod"):
        return
    linter = manifests.first(*(f".golangci.{end}" for end in ("yml", "yaml", "toml", "json")))
    yield Task("test", "go test ./...", "go.mod")
    yield Task("build", "go build ./...", "go.mod")
    if linter is not None:
        yield Task("lint", "golangci-lint run", linter)
    yield Task("lint", "go vet ./...", "go.mod")
    yield Task("format", "go fmt ./...", "go.mod")
    yield Task("install", "go mod download", "go.mod")
    yield Task("clean", "go clean", "go.mod")
    if re.search(r"^package main\b", manifests.text("main.go"), re.MULTILINE):
        yield Task("run", "go run .", "main.go")
    for name in manifests.inside("cmd"):
        if is_plain(name) and manifests.has(f"cmd/{name}/main.go"):
            yield Task("run", f"go run ./cmd/{name}", f"cmd/{name}/main.go")


def cmake(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a CMake project, built in ``build``."""
    if not manifests.has("CMakeLists.txt"):
        return
    build = "cmake -S . -B build && cmake --build build"
    yield Task("build", build, "CMakeLists.txt")
    lists = ("CMakeLists.txt", "test/CMakeLists.txt", "tests/CMakeLists.txt")
    if any(_CTEST.search(manifests.text(name)) for name in lists):
        yield Task("test", f"{build} && ctest --test-dir build", "CMakeLists.txt")
    if manifests.has("build/CMakeCache.txt"):
        yield Task("clean", "cmake --build build --target clean", "CMakeLists.txt")


def meson(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Meson project, built in ``build``."""
    if not manifests.has("meson.build"):
        return
    setup = "" if manifests.has("build/build.ninja") else "meson setup build && "
    yield Task("build", f"{setup}meson compile -C build", "meson.build")
    yield Task("test", f"{setup}meson test -C build", "meson.build")


def gradle(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Gradle build, through its wrapper where there is one."""
    names = ("build.gradle.kts", "build.gradle", "settings.gradle.kts", "settings.gradle")
    source = manifests.first(*names)
    if source is None:
        return
    call = _wrapper(manifests, "gradlew", "gradle")
    text = manifests.text(source)
    yield Task("test", f"{call} test", source)
    yield Task("build", f"{call} build", source)
    yield Task("check", f"{call} check", source)
    yield Task("clean", f"{call} clean", source)
    if "org.springframework.boot" in text:
        yield Task("start", f"{call} bootRun", source)
    elif re.search(r"\bapplication\b", text):
        yield Task("run", f"{call} run", source)
    if "spotless" in text:
        yield Task("format", f"{call} spotlessApply", source)


def maven(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Maven build, through its wrapper where there is one."""
    if not manifests.has("pom.xml"):
        return
    call = _wrapper(manifests, "mvnw", "mvn")
    text = manifests.text("pom.xml")
    yield Task("test", f"{call} test", "pom.xml")
    yield Task("build", f"{call} package", "pom.xml")
    yield Task("check", f"{call} verify", "pom.xml")
    yield Task("clean", f"{call} clean", "pom.xml")
    yield Task("install", f"{call} dependency:resolve", "pom.xml")
    if "spring-boot-maven-plugin" in text:
        yield Task("start", f"{call} spring-boot:run", "pom.xml")
    if "spotless-maven-plugin" in text:
        yield Task("format", f"{call} spotless:apply", "pom.xml")


def _wrapper(manifests: Manifests, wrapper: str, program: str) -> str:
    """Return how a build tool is called: its wrapper, by sh where it cannot be started."""
    if not manifests.has(wrapper):
        return program
    return f"./{wrapper}" if manifests.executable(wrapper) else f"sh ./{wrapper}"


def dotnet(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a .NET solution or project."""
    solutions = _ending(manifests, ".sln", ".slnx")
    projects = _ending(manifests, ".csproj", ".fsproj", ".vbproj")
    if not solutions and not projects:
        return
    source = (solutions or projects)[0]
    # With more than one of them dotnet wants to be told which.
    which = f" {shlex.quote(source)}" if len(solutions) + len(projects) > 1 else ""
    if source.startswith("-") or not source.isprintable():
        return
    text = manifests.text(projects[0]) if projects else ""
    if solutions or "Microsoft.NET.Test.Sdk" in text:
        yield Task("test", f"dotnet test{which}", source)
    yield Task("build", f"dotnet build{which}", source)
    yield Task("format", f"dotnet format{which}", source)
    yield Task("install", f"dotnet restore{which}", source)
    yield Task("clean", f"dotnet clean{which}", source)
    if len(projects) == 1 and re.search(r"<OutputType>\s*(Win)?Exe|Sdk\.Web\"", text):
        yield Task("run", "dotnet run", projects[0])


def _ending(manifests: Manifests, *suffixes: str) -> list[str]:
    """Return the names in the folder that end in one of ``suffixes``, sorted."""
    return sorted(name for name in manifests.names if name.endswith(suffixes))
