"""``:model add small``: a small model for this machine is fetched."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.ports import Question, plain

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.foundation.job import Emit
    from aish_lsp.operations.operation import Caller

logger = logging.getLogger(__name__)


async def small_model(caller: Caller, which: str) -> Preset | str:
    """Fetch a small model by its number, once the user agrees; return it, or what to tell the user.

    Raises:
        NotFound: there is no such number.
        BackendUnavailable: it could not be fetched.
    """
    from aish_lsp.models.fetching import (  # noqa: PLC0415 - for this alone
        NO_ENGINE,
        TOO_LITTLE_MEMORY,
        Fetcher,
        small_models,
    )

    services = caller.session.workspace.services
    fetcher = await Fetcher.find(services.http, services.environ)
    models = small_models()
    if fetcher is None or not models:
        return NO_ENGINE if fetcher is None else TOO_LITTLE_MEMORY
    by_number = {str(number): model for number, model in enumerate(models, 1)}
    if not which:
        rows = (f"{number}. {model}" for number, model in by_number.items())
        return "\n".join([*rows, "", "`:model add small 1` gets the first of them."])
    model = by_number.get(which)
    if model is None:
        raise NotFound(
            f"There is no number {which[:20]!r}: `:model add small` lists {len(models)}."
        )
    if problem := fetcher.lacking_space(model):
        return problem
    question = Question(f"{model}. {fetcher.question(model)}", yes="Fetch it", no="No")
    if not plain(await services.ask_user(question)):
        return "Nothing was fetched: that needs a yes. `aish-lsp setup` in a terminal asks, too."

    async def fetch(_emit: Emit) -> Preset | str:
        try:
            return await fetcher.fetch(model, logger.info)
        except asyncio.CancelledError:
            return "Stopped. What has arrived is kept: write it again to go on."

    return await caller.face.wait(Job("small", fetch).start(), f"aish fetches {model.name}")
