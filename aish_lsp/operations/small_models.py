"""Small models for this machine: ``:model add small``, and what a client's form fetches."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aish_lsp.agent.events import Notice
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.ports import Question, plain

if TYPE_CHECKING:
    from aish_lsp.agent.folder import FolderContext
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.job import Emit
    from aish_lsp.models.fetching import Fetcher, SmallModel
    from aish_lsp.operations.operation import Caller

logger = logging.getLogger(__name__)


async def small_choices(workspace: FolderContext) -> tuple[list[SmallModel], str]:
    """Return the small models that can be fetched, and why there are none."""
    fetcher, models, problem = await _available(workspace)
    return (models if fetcher else []), problem


async def small_model(caller: Caller, which: str) -> Preset | str:
    """Fetch a small model by its number, once the user agrees; return it, or what to tell the user.

    Raises:
        NotFound: there is no such number.
        BackendUnavailable: it could not be fetched.
    """
    if which:
        return await fetch_small(caller, which)
    models, problem = await small_choices(caller.session.workspace)
    if problem:
        return problem
    rows = (f"{number}. {model}" for number, model in enumerate(models, 1))
    return "\n".join([*rows, "", "`:model add small 1` gets the first of them."])


async def fetch_small(caller: Caller, which: str) -> Preset | str:
    """Fetch a small model by its number, as ``small_model`` does."""
    services = caller.session.workspace.services
    fetcher, models, problem = await _available(caller.session.workspace)
    if fetcher is None:
        return problem
    model = {str(number): one for number, one in enumerate(models, 1)}.get(which)
    if model is None:
        raise NotFound(
            f"There is no number {which[:20]!r}: `:model add small` lists {len(models)}."
        )
    if problem := fetcher.lacking_space(model):
        return problem
    question = Question(f"{model}. {fetcher.question(model)}", yes="Fetch it", no="No")
    if not plain(await services.ask_user(question)):
        return "Nothing was fetched: that needs a yes."

    async def fetch(emit: Emit) -> Preset | str:
        async def tell(progress: str) -> None:
            logger.info(progress)
            await emit(Notice("info", progress))

        try:
            return await fetcher.fetch(model, tell)
        except asyncio.CancelledError:
            return "Stopped. What has arrived is kept: choose the model again to go on."

    return await caller.face.wait(Job("small", fetch).start(), f"aish fetches {model.name}")


async def _available(workspace: FolderContext) -> tuple[Fetcher | None, list[SmallModel], str]:
    """Return what fetches, the models, and what is missing: without it, there is no fetcher."""
    from aish_lsp.models.fetching import (  # noqa: PLC0415 - for this alone
        TOO_LITTLE_MEMORY,
        Fetcher,
        no_engine,
        small_models,
    )

    models = small_models()
    if not models:
        return None, [], TOO_LITTLE_MEMORY
    services = workspace.services
    fetcher = await Fetcher.find(services.http, services.environ)
    return fetcher, models, "" if fetcher else no_engine()
