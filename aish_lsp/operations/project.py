"""``project.*``: what the model is told about the project."""

from __future__ import annotations

from dataclasses import dataclass, field

from aish_lsp.foundation.wording import count_of
from aish_lsp.operations.operation import Answer, Line, Place, Target, operation
from aish_lsp.project.tree import ProjectBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectParams(Target):
    """Another depth (folders) or size (characters) than the configured one, kept from now on."""

    depth: int | None = field(default=None, metadata={"minimum": 1})
    max_chars: int | None = field(default=None, metadata={"minimum": 0})


@operation(
    "project.show",
    ProjectParams,
    Line("tree", help="what the model is told about the project"),
    shows=True,
)
async def show(place: Place, params: ProjectParams) -> Answer[ProjectBlock]:
    """What the model is told about the project."""
    workspace = place.workspace
    workspace.project.shape(params.depth, params.max_chars)
    config = workspace.config.project
    if not workspace.project.shown(config):
        told = "The model knows nothing about the project now. `:tree on` changes that."
        return Answer(ProjectBlock("", 0, truncated=False), told)
    await workspace.project.refresh(config, patience=None)
    block = workspace.project.block
    if not block.block:
        return Answer(block, "There is nothing to show: the folder is empty, or no folder is open.")
    cut = ", cut to fit" if block.truncated else ""
    return Answer(
        block, f"```\n{block.block.rstrip()}\n```\n\n{count_of(block.files, 'file')}{cut}."
    )


@operation("project.refresh", ProjectParams, Line("tree refresh"))
async def refresh(place: Place, params: ProjectParams) -> Answer[ProjectBlock]:
    """Look anew."""
    place.workspace.project.renew()
    return await show(place, params)


@operation("project.off", ProjectParams, Line("tree off"))
async def off(place: Place, params: ProjectParams) -> Answer[ProjectBlock]:
    """Tell the model nothing about the project."""
    place.workspace.project.switch(on=False)
    return await show(place, params)


@operation("project.on", ProjectParams, Line("tree on"))
async def on(place: Place, params: ProjectParams) -> Answer[ProjectBlock]:
    """Tell the model about the project again."""
    place.workspace.project.switch(on=True)
    return await show(place, params)
