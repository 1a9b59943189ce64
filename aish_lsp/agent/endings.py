"""What the user is told of a reply that ended, or of a request that was read, not as one hopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aish_lsp.models.request import reply_limit

if TYPE_CHECKING:
    from aish_lsp.agent.events import FinishReason, Usage
    from aish_lsp.config.schema import Preset

#: Of its limit of tokens: a reply that is called too long before it has as many filled the window.
#: Not more, since what it has may be an estimate.
_AT_LIMIT = 0.5


def told_of(
    preset: Preset, finish: FinishReason, usage: Usage | None, *, spoke: bool
) -> str | None:
    """Return what to say of a reply of ``preset``, None where it speaks for itself.

    ``spoke`` tells whether it had any text; ``usage`` is in tokens.
    """
    name = preset.name
    match finish:
        case "stop" if not spoke:
            return "The model answered with nothing. Ask again."
        case "refusal":
            return f"{name} refused to answer{' any further' if spoke else ''}."
        case "repetition":
            return (
                f"The reply of {name} was stopped: it kept {'writing' if spoke else 'thinking'} the"
                " same thing. Ask in other words, or ask another model (`:retry NAME`)."
                " `suggestions.repetition_guard` sets whose replies are stopped."
            )
        case "length":
            return _cut(preset, usage, spoke=spoke)
    return None


def _cut(preset: Preset, usage: Usage | None, *, spoke: bool) -> str:
    """Return what to say of a reply that was called too long."""
    name, limit = preset.name, reply_limit(preset)
    if usage is not None and 0 < usage.output_tokens < _AT_LIMIT * limit:
        return (
            f"The reply of {name} ended early: its window was full, or its server stopped it. "
            "Ask it to continue."
        )
    if spoke:
        return (
            f"The reply of {name} was cut at {limit:,} tokens, its `max_output_tokens`. Raise "
            "that, or ask it to continue."
        )
    return (
        f"{name} used up {limit:,} tokens, its `max_output_tokens`, before it said a word:"
        " its thinking counts, too. Raise that."
    )


def cut_silently(preset: Preset, sent: int, read: int, limit: int) -> str:
    """Return what to say of a server that ``read`` less than it was ``sent``; in tokens.

    ``limit`` is what it seems to be set to.
    """
    return (
        f"{preset.name} was sent about {sent:,} tokens, and its server read only {read:,}: it seems"
        " to leave out, without a word, what is beyond a limit of its own. With Ollama that is"
        " `num_ctx`: start it with a larger one (`OLLAMA_CONTEXT_LENGTH=16384 ollama serve`). Or"
        f" set `context_window = {limit}` in `[models.{preset.name}]`: then no more is sent than it"
        " reads."
    )
