"""Rust: crates and workspaces of them."""

from __future__ import annotations

from collections.abc import Iterator

from aish_lsp.project.manifests.reading import Manifests, Table, is_plain, strings, table
from aish_lsp.project.task import Intent, Rank, Task

_MANIFEST = "Cargo.toml"


def cargo(manifests: Manifests) -> Iterator[Task]:
    """Yield the tasks of a Rust crate or workspace."""
    manifest = manifests.toml(_MANIFEST)
    if not {"package", "workspace"} & manifest.keys():
        return
    # Without it a root that is a package itself stands for that package alone.
    all_of_it = " --workspace" if "workspace" in manifest else ""
    commands: tuple[tuple[Intent, str], ...] = (
        ("test", f"cargo test{all_of_it}"),
        ("build", f"cargo build{all_of_it}"),
        ("lint", f"cargo clippy{all_of_it}"),
        ("format", "cargo fmt --all" if all_of_it else "cargo fmt"),
        ("check", f"cargo check{all_of_it}"),
        ("clean", "cargo clean"),
        ("install", "cargo fetch"),
    )
    for intent, command in commands:
        yield Task(intent, command, _MANIFEST)
    if manifests.has(".config/nextest.toml"):
        yield Task("test", f"cargo nextest run{all_of_it}", ".config/nextest.toml")
    yield from _programs(manifests, manifest)


def _programs(manifests: Manifests, manifest: Table) -> Iterator[Task]:
    """Yield how the programs are run, of the root or else of a workspace's members."""
    if "package" in manifest:
        programs = _binaries(manifests, manifest, "")
        if "default-run" in table(manifest, "package") or len(programs) == 1:
            yield Task("run", "cargo run", _MANIFEST)
            return
        for program in programs:
            yield Task("run", f"cargo run --bin {program}", _MANIFEST)
        if programs:
            return
        yield from _examples(manifests, manifest)
    for member in manifests.members(strings(table(manifest, "workspace").get("members"))):
        source = f"{member}/{_MANIFEST}"
        crate = manifests.toml(source)
        name = table(crate, "package").get("name")
        programs = _binaries(manifests, crate, f"{member}/")
        if isinstance(name, str) and is_plain(name) and programs:
            one = "default-run" in table(crate, "package") or len(programs) == 1
            which = "" if one else f" --bin {programs[0]}"
            yield Task("run", f"cargo run -p {name}{which}", source)


def _binaries(manifests: Manifests, manifest: Table, folder: str) -> list[str]:
    """Return the plain names of a crate's programs: the declared ones, and those by their place."""
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
