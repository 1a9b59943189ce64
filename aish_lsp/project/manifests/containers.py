"""Containers and processes: Compose, Dockerfile, Procfile, dev containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests
from aish_lsp.project.task import Rank, Task

_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


def containers(manifests: Manifests) -> Iterator[Task]:
    """Yield how the containers and processes of the folder are built and started."""
    compose = manifests.first(*_COMPOSE)
    if compose is not None:
        yield Task("start", "docker compose up", compose, Rank.GUESS)
        if re.search(r"^ +build:", manifests.text(compose), re.MULTILINE):
            yield Task("build", "docker compose build", compose, Rank.GUESS)
    file = manifests.first("Dockerfile", "Containerfile")
    if file is not None:
        slug = re.sub(r"[^a-z0-9]+", "-", manifests.root.resolve().name.lower()).strip("-")
        image = slug or "workspace"
        # Only Podman looks for a Containerfile of itself.
        named = "" if file == "Dockerfile" else f"-f {file} "
        yield Task("build", f"docker build -t {image} {named}.", file, Rank.GUESS)
        yield Task("run", f"docker run --rm {image}", file, Rank.GUESS)
    yield from _processes(manifests)
    if manifests.first(".devcontainer/devcontainer.json", ".devcontainer.json") is not None:
        command = "devcontainer up --workspace-folder ."
        yield Task("start", command, ".devcontainer", Rank.GUESS)


def _processes(manifests: Manifests) -> Iterator[Task]:
    """Yield how the processes of a Procfile are started, the one for development first."""
    file = manifests.first("Procfile.dev", "Procfile")
    if file is not None:
        named = "" if file == "Procfile" else f" -f {file}"
        honcho = any("honcho" in manifests.text(name) for name in ("pyproject.toml", "Pipfile"))
        program = "honcho" if honcho or manifests.has("requirements.txt") else "foreman"
        # Where honcho wants its option before the command, foreman wants it behind.
        command = f"honcho{named} start" if program == "honcho" else f"foreman start{named}"
        yield Task("start", command, file, Rank.GUESS)
