"""Languages of a virtual machine: the JVM, .NET, Elixir, Dart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import (
    Intent,
    Manifests,
    Rank,
    Task,
    is_plain,
    is_plain_path,
    named_tasks,
)

# Java, Kotlin, Scala and their like: Gradle and Maven, by their wrappers where these are there.

_BUILDS = ("build.gradle.kts", "build.gradle")
_SETTINGS = ("settings.gradle.kts", "settings.gradle")

#: ``:app`` or ``"app"`` behind ``include``.
_INCLUDED = re.compile(r"['\"]:?([\w:.-]+)['\"]")
_INCLUDES = re.compile(r"^[ \t]*include\b(.*(?:,[ \t]*\n.*)*)", re.MULTILINE)

#: The plugin that gives ``run``; Android's has nearly the same name, and gives none.
_APPLICATION = re.compile(
    r"(?<![\w.])(?:application|id[ (]+['\"]application['\"]|plugin:\s*['\"]application['\"])"
    r"(?:\)|\s|$|\})"
)

#: What the text of a build shows to be there, and what it gives.
_GRADLE_PLUGINS: tuple[tuple[str, Intent, str], ...] = (
    ("com.diffplug.spotless", "format", "spotlessApply"),
    ("org.jlleitschuh.gradle.ktlint", "format", "ktlintFormat"),
    ("org.jlleitschuh.gradle.ktlint", "lint", "ktlintCheck"),
    ("io.gitlab.arturbosch.detekt", "lint", "detekt"),
    ("com.android.application", "lint", "lint"),
    ("org.springframework.boot", "start", "bootRun"),
    ("io.quarkus", "start", "quarkusDev"),
)
_MAVEN_PLUGINS: tuple[tuple[str, Intent, str], ...] = (
    ("spring-boot-maven-plugin", "start", "spring-boot:run"),
    ("quarkus-maven-plugin", "start", "quarkus:dev"),
    ("micronaut-maven-plugin", "start", "mn:run"),
    ("javafx-maven-plugin", "run", "javafx:run"),
    ("spotless-maven-plugin", "format", "spotless:apply"),
    ("maven-checkstyle-plugin", "lint", "checkstyle:check"),
)


def gradle(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Gradle build, of one project or of several."""
    own = manifests.first(*_BUILDS)
    settings = manifests.first(*_SETTINGS)
    source = own or settings
    if source is None:
        return
    call = _wrapper(manifests, "gradlew", "gradle")
    yield Task("test", f"{call} test", source)
    yield Task("build", f"{call} build", source)
    yield Task("check", f"{call} check", source)
    yield Task("clean", f"{call} clean", source)
    yield Task("install", f"{call} dependencies", source, Rank.GUESS)
    builds = [own] if own else []
    for folder in _projects(manifests.text(settings) if settings else ""):
        build = manifests.first(*(f"{folder}/{name}" for name in _BUILDS))
        builds += [build] if build else []
    for build in builds:
        text = manifests.text(build)
        for plugin, intent, task in _GRADLE_PLUGINS:
            if re.search(rf"\b{re.escape(plugin)}\b", text):
                yield Task(intent, f"{call} {task}", build)
        if "org.springframework.boot" not in text and _APPLICATION.search(text):
            yield Task("run", f"{call} run", build)


def _projects(settings: str) -> list[str]:
    """Return the folders of the projects that a settings file includes."""
    names = (name for part in _INCLUDES.findall(settings) for name in _INCLUDED.findall(part))
    folders = [name.strip(":").replace(":", "/") for name in names]
    return [folder for folder in folders if is_plain_path(folder)][:50]


def maven(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Maven build, of one module or of several."""
    if not manifests.has("pom.xml"):
        return
    call = _wrapper(manifests, "mvnw", "mvn")
    text = _without_comments(manifests.text("pom.xml"))
    yield Task("test", f"{call} test", "pom.xml")
    yield Task("build", f"{call} package", "pom.xml")
    yield Task("check", f"{call} verify", "pom.xml")
    yield Task("clean", f"{call} clean", "pom.xml")
    # Modules that need each other are to be had from nowhere else.
    modules = "<modules>" in text
    installs = "install -DskipTests" if modules else "dependency:resolve"
    yield Task("install", f"{call} {installs}", "pom.xml")
    for plugin, intent, goal in _MAVEN_PLUGINS:
        if f"<artifactId>{plugin}</artifactId>" in text:
            yield Task(intent, f"{call} {goal}", "pom.xml")
    if "<artifactId>exec-maven-plugin</artifactId>" in text and "<mainClass>" in text:
        yield Task("run", f"{call} compile exec:java", "pom.xml")


def _without_comments(xml: str) -> str:
    """Return XML without its comments; one without an end goes on to that of the text."""
    first, *others = xml.split("<!--")
    return first + "".join(other.partition("-->")[2] for other in others)


def _wrapper(manifests: Manifests, wrapper: str, program: str) -> str:
    """Return how a build tool is called: its wrapper, by sh where it cannot be started."""
    if not manifests.has(wrapper):
        return program
    return f"./{wrapper}" if manifests.executable(wrapper) else f"sh ./{wrapper}"


# C#, F# and Visual Basic: .NET solutions and projects.

_PROJECTS = (".csproj", ".fsproj", ".vbproj")

#: What shows that a project is run by ``dotnet test``.
_TESTS = re.compile(r"Microsoft\.NET\.Test\.Sdk|\bMSTest\.Sdk|\"(?:xunit\.v3|TUnit)\"")
_RUNS = re.compile(r"<OutputType>\s*(?:Win)?Exe|Sdk\.(?:Web|Worker)\"")
#: A project's path in a solution, old form and new.
_IN_SOLUTION = re.compile(r'"([^"\n]+\.(?:cs|fs|vb)proj)"')


def dotnet(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a .NET solution or project."""
    solutions = _ending(manifests, ".sln", ".slnx")
    projects = _ending(manifests, *_PROJECTS)
    if not solutions and not projects:
        return
    source = (solutions or projects)[0]
    if source.startswith("-") or not source.isprintable():
        return
    # With more than one of them dotnet wants to be told which.
    which = f" {shlex.quote(source)}" if len(solutions) + len(projects) > 1 else ""
    text = manifests.text(projects[0]) if projects else ""
    if solutions or _TESTS.search(text):
        yield Task("test", f"dotnet test{which}", source)
    yield Task("build", f"dotnet build{which}", source)
    yield Task("format", f"dotnet format{which}", source)
    yield Task("install", f"dotnet restore{which}", source)
    yield Task("clean", f"dotnet clean{which}", source)
    if len(projects) == 1 and _RUNS.search(text):
        yield Task("run", "dotnet run", projects[0])
    elif not projects:
        yield from _of_solution(manifests, source)


def _of_solution(manifests: Manifests, solution: str) -> Iterator[Task]:
    """Yield how the programs of a solution are run."""
    for path in _IN_SOLUTION.findall(manifests.text(solution)):
        project = path.replace("\\", "/")
        folder = project.rpartition("/")[0]
        if is_plain_path(folder) and _RUNS.search(manifests.text(project)):
            yield Task("run", f"dotnet run --project {folder}", project)


def _ending(manifests: Manifests, *suffixes: str) -> list[str]:
    """Return the names in the folder that end in one of ``suffixes``, sorted."""
    return sorted(name for name in manifests.names if name.endswith(suffixes))


# Elixir: Mix and Phoenix.

_ALIAS = re.compile(r"[ \t]*(?:\[[ \t]*)?(?:\"([\w.-]+)\"|(\w+)):(?:\s|$)")


def mix(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of an Elixir project, also of an umbrella."""
    if not manifests.has("mix.exs"):
        return
    text = re.sub(r"^[ \t]*#.*", "", manifests.text("mix.exs"), flags=re.MULTILINE)
    yield from named_tasks(_aliases(text) - {"run"}, "mix ", "mix.exs")
    yield Task("test", "mix test", "mix.exs")
    yield Task("build", "mix compile", "mix.exs")
    yield Task("install", "mix deps.get", "mix.exs")
    if ":credo" in text:
        yield Task("lint", "mix credo", "mix.exs")
    if ":dialyxir" in text:
        yield Task("check", "mix dialyzer", "mix.exs")
    yield Task("format", "mix format", "mix.exs")
    yield Task("clean", "mix clean", "mix.exs")
    parts = [manifests.text(f"{app}/mix.exs") for app in manifests.members(["apps/*"])]
    if any("{:phoenix," in part for part in (text, *parts)):
        yield Task("start", "mix phx.server", "mix.exs")
    elif any(re.search(r"\bmod:\s*\{", part) for part in (text, *parts)):
        yield Task("run", "mix run --no-halt", "mix.exs")


def _aliases(text: str) -> set[str]:
    """Return a project's own names for tasks; one that is Mix's own too is run in its place."""
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
    yield Task("install", f"{program} pub get", _PUBSPEC)
    yield Task("lint", f"{program} analyze", _PUBSPEC)
    yield Task("format", "dart format .", _PUBSPEC)
    if flutter:
        yield Task("run", "flutter run", _PUBSPEC)
        yield Task("clean", "flutter clean", _PUBSPEC)
        return
    name = re.search(r"^name: *(\w+)", text, re.MULTILINE)
    if name is not None and manifests.has(f"bin/{name[1]}.dart"):
        yield Task("run", "dart run", f"bin/{name[1]}.dart")
        return
    programs = [n for n in manifests.matching("bin", "*.dart") if is_plain(n.removeprefix("bin/"))]
    if programs:
        yield Task("run", f"dart run {programs[0]}", programs[0])
