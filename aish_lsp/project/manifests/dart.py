"""Dart packages and Flutter applications."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, is_plain
from aish_lsp.project.task import Task

_SOURCE = "pubspec.yaml"


def dart(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Dart package or a Flutter application."""
    if not manifests.has(_SOURCE):
        return
    text = manifests.text(_SOURCE)
    flutter = re.search(r"^ +sdk: *flutter\b", text, re.MULTILINE)
    program = "flutter" if flutter else "dart"
    if manifests.has("melos.yaml"):
        yield Task("install", "melos bootstrap", "melos.yaml")
    if manifests.has("test") or re.search(r"^ +(flutter_)?test:", text, re.MULTILINE):
        yield Task("test", f"{program} test", _SOURCE)
    yield Task("install", f"{program} pub get", _SOURCE)
    yield Task("lint", f"{program} analyze", _SOURCE)
    yield Task("format", "dart format .", _SOURCE)
    if flutter:
        yield Task("run", "flutter run", _SOURCE)
        yield Task("clean", "flutter clean", _SOURCE)
        return
    name = re.search(r"^name: *(\w+)", text, re.MULTILINE)
    if name is not None and manifests.has(f"bin/{name[1]}.dart"):
        yield Task("run", "dart run", f"bin/{name[1]}.dart")
        return
    programs = [n for n in manifests.matching("bin", "*.dart") if is_plain(n.removeprefix("bin/"))]
    if programs:
        yield Task("run", f"dart run {programs[0]}", programs[0])
