"""A tiny model for llama.cpp: one layer of random weights and a byte-level tokenizer.

It knows nothing, so a grammar says what it answers; all else (the server, its tokenizer, its
stream, its errors) is real.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

LAYERS = 1
WIDTH = 32
FEED_FORWARD = 64
HEADS = 1
CONTEXT = 32768
SEED = 20

_BYTE_TOKEN = 6
_CONTROL_TOKEN = 3
_UNKNOWN_TOKEN = 2
_NORMAL_TOKEN = 1


#: ChatML with calls as Hermes and Qwen write them: llama.cpp then takes calls out of a reply, and
#: has the schemas of tools force them where one must be called.
CALLS_TEMPLATE = """{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}# Tools

<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>

Call one so:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% elif message.role != 'system' or not loop.first %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def calling_model_path() -> Path:
    """Return the file of the model whose template knows of tools."""
    return model_path("calling", CALLS_TEMPLATE)


def model_path(name: str = "bytes", template: str = "") -> Path:
    """Return the model's file, written at the first call on this machine."""
    folder = Path(tempfile.gettempdir()) / f"aish-tiny-model-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name}-{LAYERS}x{WIDTH}-{SEED}.gguf"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        write_model(part, template)
        part.replace(path)
    return path


def vocabulary() -> tuple[list[str], list[float], list[int]]:
    """Return tokens, scores and types: the 256 bytes, and the few a chat template needs."""
    tokens = ["<unk>", "<s>", "</s>"]
    types = [_UNKNOWN_TOKEN, _CONTROL_TOKEN, _CONTROL_TOKEN]
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [_BYTE_TOKEN] * 256
    # The one word of SentencePiece that stands for a space.
    tokens.append("\N{LOWER ONE EIGHTH BLOCK}")
    types.append(_NORMAL_TOKEN)
    return tokens, [0.0] * len(tokens), types


def write_model(path: Path, template: str = "") -> None:
    """Write the model to ``path``, with a chat template of its own where one is given."""
    import gguf
    import numpy as np

    random = np.random.default_rng(SEED)
    tokens, scores, types = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("aish-tiny")
    if template:
        writer.add_chat_template(template)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)

    def weights(name: str, *shape: int) -> None:
        scale = 1.0 / shape[-1] ** 0.5
        writer.add_tensor(name, (random.standard_normal(shape) * scale).astype(np.float32))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    weights("token_embd.weight", len(tokens), WIDTH)
    weights("output.weight", len(tokens), WIDTH)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        ones(f"blk.{layer}.attn_norm.weight")
        ones(f"blk.{layer}.ffn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{layer}.{part}.weight", WIDTH, WIDTH)
        weights(f"blk.{layer}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        weights(f"blk.{layer}.ffn_up.weight", FEED_FORWARD, WIDTH)
        weights(f"blk.{layer}.ffn_down.weight", WIDTH, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
