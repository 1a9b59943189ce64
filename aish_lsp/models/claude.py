"""Claude's models, by their names: how they think, and the fields that they refuse with it.

Up to Claude 4.5, thinking has a budget of tokens; from 4.6 on, the model decides how much to think
("adaptive"), guided by ``effort``. Claude 5 and later think without being asked, and do not show it
unless a summary is requested.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.models.address import host
from aish_lsp.models.loose_json import Json, as_dict
from aish_lsp.models.providers.base import settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aish_lsp.config.schema import Preset

_Version: TypeAlias = tuple[int, int]

#: Allows ``block_binding`` in a request.
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"

_OWN_HOST: Final = "api.anthropic.com"

_ADAPTIVE: Final[_Version] = (4, 6)
_REFUSES_SAMPLING: Final[_Version] = (4, 7)
_THINKS_UNASKED: Final[_Version] = (5, 0)
_BINDS_THINKING: Final[_Version] = (5, 1)

# claude-opus-4-5-20251101, claude-3-7-sonnet-latest, anthropic/claude-opus-4.6, claude-sonnet-5@...
_NAME: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")

#: Thinking budgets in tokens; the first is the smallest that the protocol accepts.
_LEAST_BUDGET: Final = 1024
_BUDGETS: Final = {
    "minimal": _LEAST_BUDGET,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 32768,
}


def is_own(preset: Preset) -> bool:
    """Return whether Anthropic itself serves ``preset``."""
    return host(preset.endpoint) == _OWN_HOST


def thinking_fields(
    preset: Preset, model: str, limit: int, messages: Sequence[Json]
) -> dict[str, Json]:
    """Return the fields of a request that control the model's thinking.

    ``limit`` is the request's ``max_tokens``, which includes thinking; ``messages`` are the
    request's. Models other than Claude get a budget, the form that other servers have adopted.
    """
    version = _version(model)
    if version is None or version < _ADAPTIVE:
        budget = min(_BUDGETS.get(preset.reasoning_effort or "", 0), limit // 2)
        if budget < _LEAST_BUDGET or not _may_have_budget(messages):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    unasked = is_own(preset) and version >= _THINKS_UNASKED
    if preset.reasoning_effort is None and not unasked:
        return {}
    thinking: Json = {"type": "adaptive", "display": "summarized"}
    if is_own(preset) and version >= _BINDS_THINKING:
        # These refuse a request if the text before its thinking has changed since. Here it does
        # change (the file tree, the summary of evicted turns); the thinking is then dropped.
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    fields = {"thinking": thinking}
    if preset.reasoning_effort is not None:
        fields["output_config"] = {"effort": preset.reasoning_effort}
    return fields


def sampling_fields(preset: Preset, model: str, thinking: object) -> Json:
    """Return the sampling fields that the model accepts.

    With ``thinking`` (the request's field), and from Claude 4.7 on, it accepts none; otherwise most
    Claude models accept only one of the two.
    """
    version = _version(model)
    thinks = as_dict(thinking).get("type") in {"enabled", "adaptive"}
    if version is not None and (thinks or version >= _REFUSES_SAMPLING):
        return {}
    fields = settings_of(preset, "temperature", "top_p")
    if version is not None and "temperature" in fields:
        fields.pop("top_p", None)
    return fields


def _version(model: str) -> _Version | None:
    """Return the version in a Claude model's name, or None if there is none."""
    found = _NAME.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def _may_have_budget(messages: Sequence[Json]) -> bool:
    """Return whether thinking with a budget is allowed.

    It is not during the tool calls of a turn that another model began without thinking.
    """
    first: Json = {}
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"][0]
        elif message["content"][0]["type"] != "tool_result":
            break
    return not first or "thinking" in first["type"]
