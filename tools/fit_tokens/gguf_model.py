"""Making a model that llama.cpp's server loads of a GGUF file that has a vocabulary only.

The file's tokenizer is kept byte for byte; two layers of zeros make a model of it. The ``gguf``
package can do the same, in minutes where this takes a second.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"GGUF"
_VERSION = 3
_UINT32, _FLOAT32, _STRING, _ARRAY = 4, 6, 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_F32, _F16 = 0, 1
_ALIGNMENT = 32

_WIDTH = 32
_LAYERS = 2
_HEADS = 2


def tokenizer_entries(vocabulary: Path) -> tuple[list[bytes], int]:
    """Return the raw metadata entries of the tokenizer, and how many tokens it has.

    Raises:
        ValueError: the file is no GGUF file, or has no tokens.
    """
    entries: list[bytes] = []
    tokens = 0
    with vocabulary.open("rb") as file:
        magic, _, _, count = struct.unpack("<4sIQQ", file.read(24))
        if magic != _MAGIC:
            raise ValueError(f"{vocabulary} is no GGUF file")
        for _ in range(count):
            begin = file.tell()
            name = file.read(struct.unpack("<Q", file.read(8))[0])
            length = _skip(file, struct.unpack("<I", file.read(4))[0])
            end = file.tell()
            if name == b"tokenizer.ggml.tokens":
                tokens = length
            if name.startswith(b"tokenizer."):
                file.seek(begin)
                entries.append(file.read(end - begin))
    if not tokens:
        raise ValueError(f"{vocabulary} has no tokens")
    return entries, tokens


def write_model(vocabulary: Path, model: Path) -> None:
    """Write a model with the tokenizer of ``vocabulary`` to ``model``.

    Raises:
        ValueError: ``vocabulary`` is no GGUF file, or has no tokens.
    """
    entries, tokens = tokenizer_entries(vocabulary)
    entries += _architecture(tokens)
    tensors = _tensors(tokens)
    infos, offset = b"", 0
    for name, shape, kind in tensors:
        # GGUF names the fastest dimension first.
        dimensions = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        infos += _string(name) + struct.pack("<I", len(shape)) + dimensions
        infos += struct.pack("<IQ", kind, offset)
        offset += _aligned(_bytes_of(shape, kind))
    part = model.with_suffix(".part")
    with part.open("wb") as file:
        file.write(struct.pack("<4sIQQ", _MAGIC, _VERSION, len(tensors), len(entries)))
        file.writelines(entries)
        file.write(infos)
        file.write(bytes(-file.tell() % _ALIGNMENT))
        for _, shape, kind in tensors:
            # A norm of zeros is as good as any: nothing is ever generated.
            file.write(bytes(_aligned(_bytes_of(shape, kind))))
    part.replace(model)


def _skip(file: BinaryIO, kind: int) -> int:
    """Go to the end of a value; return an array's length, else 0."""
    if kind == _ARRAY:
        item, length = struct.unpack("<IQ", file.read(12))
        if item == _STRING:
            for _ in range(length):
                file.seek(struct.unpack("<Q", file.read(8))[0], 1)
        else:
            file.seek(_WIDTHS[item] * length, 1)
        return int(length)
    file.seek(struct.unpack("<Q", file.read(8))[0] if kind == _STRING else _WIDTHS[kind], 1)
    return 0


def _architecture(tokens: int) -> list[bytes]:
    sizes = {
        "block_count": _LAYERS,
        "context_length": 8192,
        "embedding_length": _WIDTH,
        "feed_forward_length": _WIDTH,
        "attention.head_count": _HEADS,
        "rope.dimension_count": _WIDTH // _HEADS,
        "vocab_size": tokens,
    }
    entries = [_string("general.architecture") + struct.pack("<I", _STRING) + _string("llama")]
    entries += [
        _string(f"llama.{name}") + struct.pack("<II", _UINT32, size) for name, size in sizes.items()
    ]
    norm = _string("llama.attention.layer_norm_rms_epsilon")
    return [*entries, norm + struct.pack("<If", _FLOAT32, 1e-6)]


def _tensors(tokens: int) -> list[tuple[str, tuple[int, ...], int]]:
    tensors: list[tuple[str, tuple[int, ...], int]] = [
        ("token_embd.weight", (tokens, _WIDTH), _F16),
        ("output_norm.weight", (_WIDTH,), _F32),
    ]
    for layer in range(_LAYERS):
        norms = [f"blk.{layer}.{part}_norm.weight" for part in ("attn", "ffn")]
        tensors += [(name, (_WIDTH,), _F32) for name in norms]
        parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        tensors += [(f"blk.{layer}.{part}.weight", (_WIDTH, _WIDTH), _F16) for part in parts]
    return tensors


def _bytes_of(shape: tuple[int, ...], kind: int) -> int:
    size = 4 if kind == _F32 else 2
    for dimension in shape:
        size *= dimension
    return size


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
