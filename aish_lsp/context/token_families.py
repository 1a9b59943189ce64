"""Which family of tokenizers a model has, told by its name."""

from __future__ import annotations

import re

from aish_lsp.context.token_constants import P99
from aish_lsp.context.tokens import GENERAL

#: The first that is found in a model's name, in small letters, tells the family. A distilled model
#: has the tokenizer of what it was distilled into.
_FAMILIES = tuple(
    (re.compile(pattern), family)
    for pattern, family in (
        (r"distill.*llama|deepseek-r1:70b", "llama3"),
        (r"distill.*qwen|deepseek-r1:(1\.5|7|8|14|32)b", "qwen"),
        (r"qwen|qwq|qvq", "qwen"),
        (r"gemma|gemini", "gemma"),
        (r"claude", "claude"),
        (r"gpt-?[45]o|gpt-?4\.[15]|gpt-?5|gpt-?oss|chatgpt|(^|/)o[1-9]($|[-:])", "gpt"),
        (r"phi-?4-(mini|multimodal)", "gpt"),
        (r"gpt-?4|gpt-?3\.5|phi-?4|olmo-?[23]\b", "gpt-4"),
        (r"deepseek-?coder-?v2|deepseek-?(llm|v2|moe|math|vl)", "deepseek-llm"),
        (r"deepseek-?coder", "deepseek-coder"),
        (r"deepseek", "deepseek"),
        (r"llama-?2|code-?llama|tiny-?llama|llama-?spm|vicuna|phi-?3|zephyr|mathstral", "llama2"),
        (r"mistral-7b|mistral:|mixtral|codestral.22b|mistral-large-24", "llama2"),
        (r"mistral-small(:22b|-24)", "llama2"),
        (r"llama|hermes-?[34]", "llama3"),
        (r"mistral|ministral|magistral|devstral|pixtral|voxtral", "mistral"),
        (r"command|cohere|c4ai|(^|/)aya", "command-r"),
        (r"falcon-?(7b|40b|180b)|falcon($|:)", "falcon"),
        (r"starcoder|santacoder|refact|granite-?(code|3|\d+b)", "starcoder"),
        (r"neox|pythia|olmo|dolly|(^|/)mpt", "neox"),
        (r"gpt-?2|phi-?[12]($|[-_.:])", "gpt-2"),
        (r"baichuan", "baichuan"),
        (r"aquila", "aquila"),
    )
)


def family_of(model: str) -> str:
    """Return the family of a model's tokenizer; the general one where its name tells none.

    Args:
        model: the name that the endpoint is asked for, with or without a maker before it or a
            size behind it: ``meta-llama/Llama-3.1-8B-Instruct``, ``gemma3:12b``.
    """
    name = model.lower().replace("_", "-")
    return next((family for pattern, family in _FAMILIES if pattern.search(name)), GENERAL)


def p99_error(family: str) -> float:
    """Return by how much of the estimate the actual count is above it, in 99 of 100 texts at most.

    ``count(text, family) * (1 + p99_error(family))`` is hardly ever less than the real count.

    Raises:
        KeyError: there is no such family.
    """
    return P99[family]
