"""C and C++: CMake, Meson, Autotools."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain, is_plain_path, table
from aish_lsp.project.task import Rank, Task

_CMAKE = "CMakeLists.txt"

#: CTest's own words for "there are tests"; CTest looks for them where they are said.
_ENABLES = re.compile(r"\benable_testing\s*\(|\binclude\s*\(\s*CTest\b", re.IGNORECASE)
_SUBDIRECTORY = re.compile(r"\badd_subdirectory\s*\(\s*([^\s)]{1,200})", re.IGNORECASE)
_INCLUDED = re.compile(r"\binclude\s*\(\s*([\w./-]{1,200}\.cmake)\b", re.IGNORECASE)
_EXECUTABLE = re.compile(r"\badd_executable\s*\(\s*([^\s)]{1,200})\s+(\w+)", re.IGNORECASE)
_PROJECT = re.compile(r"\bproject\s*\(\s*([^\s)]{1,200})", re.IGNORECASE)
_COMMENT = re.compile(r"#.*")


def cmake(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a CMake project: by its presets, and else built in ``build``."""
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
    """Yield how the program is run, where there is one and nothing says that it lies elsewhere."""
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
    """Yield the tasks of the first presets that can be used."""
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
    is_set_up = manifests.has("build/build.ninja")
    setup = "" if is_set_up else "meson setup build && "
    yield Task("build", f"{setup}meson compile -C build", "meson.build")
    yield Task("test", f"{setup}meson test -C build", "meson.build")
    if is_set_up:
        yield Task("clean", "meson compile -C build --clean", "meson.build")
    programs = re.findall(r"\bexecutable\s*\(\s*'([^']+)'", manifests.text("meson.build"))
    programs = [name for name in programs if is_plain(name) and "test" not in name]
    if len(programs) == 1:
        command = f"{setup}meson compile -C build && ./build/{programs[0]}"
        yield Task("run", command, "meson.build", Rank.GUESS)


def autotools(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a project with a configure script, or with what makes one."""
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
