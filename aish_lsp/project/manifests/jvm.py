"""Java, Kotlin, Scala and their like: Gradle and Maven, by their wrappers where these are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain_path
from aish_lsp.project.task import Intent, Rank, Task

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
