"""How a model thinks over Anthropic's Messages, and what it then refuses, by the model's name.

Up to Claude 4.5 thinking has a budget of tokens; from 4.6 on the model itself decides how much it
thinks ("adaptive"), and ``effort`` guides it. Claude 5 and later think without being asked, and
show nothing of it unless a summary is asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from aish_lsp.models.adapters.loose import Json, as_dict
from aish_lsp.models.address import host

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

#: Tokens of thinking where it has a budget; the protocol takes no smaller one than the first.
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
    """Tell whether Anthropic itself serves ``preset``."""
    return host(preset.endpoint) == _OWN_HOST


def thinking_fields(
    preset: Preset, model: str, limit: int, messages: Sequence[Json]
) -> dict[str, Json]:
    """Return the fields of a request that say whether and how the model is to think.

    ``limit`` is the request's ``max_tokens``, of which thinking takes its part; ``messages`` are
    the request's. What is no Claude gets a budget: that is what others have copied.
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
        # These refuse a request whose thinking followed other words than stand before it now, and
        # ours do change: the file tree, the summary of what was evicted. Then it is left out.
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    fields = {"thinking": thinking}
    if preset.reasoning_effort is not None:
        fields["output_config"] = {"effort": preset.reasoning_effort}
    return fields


def sampling_fields(preset: Preset, model: str, thinking: object) -> Json:
    """Return how tokens are sampled, without what the model would refuse the request for.

    That is all of it with ``thinking`` (the request's field) and from Claude 4.7 on; of the others
    most take only one of the two.
    """
    version = _version(model)
    thinks = as_dict(thinking).get("type") in {"enabled", "adaptive"}
    if version is not None and (thinks or version >= _REFUSES_SAMPLING):
        return {}
    fields = {"temperature": preset.temperature, "top_p": preset.top_p}
    if version is not None and preset.temperature is not None:
        fields["top_p"] = None
    return {name: value for name, value in fields.items() if value is not None}


def _version(model: str) -> _Version | None:
    """Return a Claude model's version by its name, None where that does not say it."""
    found = _NAME.search(model.lower())
    return (int(found[1]), int(found[2] or 0)) if found else None


def _may_have_budget(messages: Sequence[Json]) -> bool:
    """Tell whether thinking with a budget may be on.

    Not in mid-turn, where tools have answered a turn that was begun without (by another model).
    """
    first: Json = {}
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"][0]
        elif message["content"][0]["type"] != "tool_result":
            break
    return not first or "thinking" in first["type"]
