"""What the user is told of a reply that ended otherwise than as one hopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.models.request import reply_limit

if TYPE_CHECKING:
    from aish_lsp.config.schema import Preset
    from aish_lsp.events import FinishReason, Usage

#: Of its limit of tokens: a reply that is called too long before it has as many filled the window.
#: Not more, since what it has may be an estimate.
_AT_LIMIT = 0.5


def told_of(
    preset: Preset, finish: FinishReason, usage: Usage | None, *, spoke: bool
) -> str | None:
    """Return what to say of a reply of ``preset``, None where it speaks for itself.

    ``spoke`` tells whether it had any text; ``usage`` is in tokens.
    """
    name, limit = preset.name, reply_limit(preset)
    match finish:
        case "stop" if not spoke:
            return "The model answered with nothing. Ask again."
        case "refusal":
            return f"{name} refused to answer{' any further' if spoke else ''}."
        case "length" if usage is not None and 0 < usage.output_tokens < _AT_LIMIT * limit:
            return (
                f"The reply of {name} ended early: its window was full, or its server stopped it. "
                "Ask it to continue."
            )
        case "length" if spoke:
            return (
                f"The reply of {name} was cut at {limit:,} tokens, its `max_output_tokens`. Raise "
                "that, or ask it to continue."
            )
        case "length":
            return (
                f"{name} used up {limit:,} tokens, its `max_output_tokens`, before it said a word:"
                " its thinking counts, too. Raise that."
            )
    return None
