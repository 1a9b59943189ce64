"""The system message's blocks, composed of what a workspace knows at this moment."""

from __future__ import annotations

import datetime as dt
import platform
from typing import TYPE_CHECKING

from aish_lsp.context.prompt import (
    Blocks,
    Surroundings,
    base_prompt,
    instructions_part,
    summary_block,
    tree_part,
)
from aish_lsp.memory.listing import background_text, select

if TYPE_CHECKING:
    from pathlib import Path

    from aish_lsp.config.schema import Config
    from aish_lsp.memory.scopes import MemoryScopes
    from aish_lsp.project.picture import ProjectPicture


def compose(
    config: Config,
    folder: Path,
    memory: MemoryScopes,
    project: ProjectPicture,
    *,
    summary: str,
    wording: str,
) -> Blocks:
    """Return the blocks of a request that is made now.

    ``folder`` is where commands run; ``wording`` replaces the base prompt's, unless it is empty.
    """
    picture = project if project.shown(config.project) else None
    instructions = picture.instructions if picture else ()
    selected = select(memory.items(), config.memory.inject_max_chars)
    return Blocks(
        base=base_prompt(_surroundings(config, folder), wording),
        background=background_text(selected.items),
        tree=tree_part(picture.block.block, picture.tasks) if picture else "",
        instructions="\n".join(instructions_part(one.name, one.text) for one in instructions),
        summary=summary_block(summary),
    )


def _surroundings(config: Config, folder: Path) -> Surroundings:
    system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    today = dt.datetime.now().astimezone().date().isoformat()
    return Surroundings(system, config.safety.shell, today, folder.name or "/")
