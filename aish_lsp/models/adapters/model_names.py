"""The model to name in a request where the preset names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.foundation.errors import BackendRejected
from aish_lsp.models.endpoint import chat_models, list_models

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aish_lsp.config.schema import Preset
    from aish_lsp.models.http import HttpClient

#: Seconds to ask a server for the models that it has.
LIST_TIMEOUT = 10.0


class ModelNames:
    """The names that servers were found to use; each server is asked once."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self._found: dict[str, str] = {}

    async def name_for(self, preset: Preset, headers: Mapping[str, str]) -> str:
        """Return the preset's model, else the first chat model that its server lists.

        Empty where the server has no list: it then has but one.

        Raises:
            BackendUnavailable, BackendRejected: as ``endpoint.list_models``.
        """
        if preset.model:
            return preset.model
        known = self._found.get(preset.endpoint)
        if known is None:
            timeout_s = min(preset.timeout, LIST_TIMEOUT)
            try:
                models = await list_models(self._http, preset, headers, timeout_s=timeout_s)
            except BackendRejected as error:
                if error.data.get("status") not in {404, 405}:
                    raise
                models = []
            known = next(iter(chat_models(models)), "")
            self._found[preset.endpoint] = known
        return known
