"""The environment of a command: the user's own, without our keys and without a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

#: Where the model servers that we know keep their keys by custom.
KNOWN_SECRETS = frozenset(
    {
        "AI21_API_KEY",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "AZURE_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "CEREBRAS_API_KEY",
        "CO_API_KEY",
        "COHERE_API_KEY",
        "DASHSCOPE_API_KEY",
        "DEEPINFRA_API_KEY",
        "DEEPSEEK_API_KEY",
        "FIREWORKS_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GROQ_API_KEY",
        "HF_TOKEN",
        "HUGGINGFACE_API_KEY",
        "HUGGING_FACE_HUB_TOKEN",
        "LITELLM_API_KEY",
        "MISTRAL_API_KEY",
        "MOONSHOT_API_KEY",
        "NVIDIA_API_KEY",
        "OLLAMA_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "PERPLEXITY_API_KEY",
        "REPLICATE_API_TOKEN",
        "TOGETHER_API_KEY",
        "XAI_API_KEY",
        "ZAI_API_KEY",
    }
)

# Nothing may wait for keys at a terminal that is not there, or print for one.
_WITHOUT_TERMINAL = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GH_PAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "GIT_TERMINAL_PROMPT": "0",
    "NO_COLOR": "1",
    "CLICOLOR": "0",
}
_FORCES_COLOR = ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLORTERM")


def command_environment(
    environ: Mapping[str, str], secret_names: Collection[str]
) -> dict[str, str]:
    """Return the environment that a command gets, made from ours.

    The variables of ``secret_names`` and of KNOWN_SECRETS are gone, pagers, prompts and colors are
    off. The rest is kept: PATH, and a virtual environment that is active. One that is not
    active although we run from it (pipx, uvx, a plugin's own) is taken out of PATH: the user never
    asked for its Python.
    """
    dropped = {*secret_names, *KNOWN_SECRETS, *_FORCES_COLOR}
    kept = {name: value for name, value in environ.items() if name not in dropped}
    if "PATH" in kept:
        kept["PATH"] = _without_own_folder(kept["PATH"], kept.get("VIRTUAL_ENV"))
    return kept | _WITHOUT_TERMINAL


def secret_values(environ: Mapping[str, str], secret_names: Collection[str]) -> tuple[str, ...]:
    """Return the values that ``command_environment`` withholds as secrets, for ``mask_secrets``."""
    names = {*secret_names, *KNOWN_SECRETS}
    return tuple(value for name, value in environ.items() if name in names and value)


def _without_own_folder(path: str, active: str | None) -> str:
    own = os.path.realpath(sys.prefix)
    in_virtual_environment = sys.prefix != sys.base_prefix
    if not in_virtual_environment or (active is not None and os.path.realpath(active) == own):
        return path
    scripts = os.path.realpath(Path(own, "bin"))
    folders = path.split(os.pathsep)
    return os.pathsep.join(f for f in folders if not f or os.path.realpath(f) != scripts)
