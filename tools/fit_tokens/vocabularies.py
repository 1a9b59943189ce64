"""The real tokenizers, and counting with them.

Those that come as GGUF files are counted by llama.cpp's own server; the others by the library
that their makers publish them for.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf_model

_SERVER = Path(__file__).resolve().parents[2] / "tests/servers/llama_server.py"

Counter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A tokenizer.

    Attributes:
        name: its name in tables.
        family: the family that is fitted to it.
        file: where it lies in the folder of unpacked packages.
        counter: what opens it: a context that gives a function from a text to its tokens.
    """

    name: str
    family: str
    file: str
    counter: Callable[[Path], contextlib.AbstractContextManager[Counter]]


@contextlib.contextmanager
def llama_server(file: Path) -> Iterator[Counter]:
    """Run llama.cpp's server with the vocabulary of a GGUF file."""
    model = file.with_suffix(".model")
    if not model.exists():
        gguf_model.write_model(file, model)
    command = [sys.executable, str(_SERVER), "--port", "0", "--context", "512"]
    with subprocess.Popen(
        [*command, "--model", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        if not url:
            raise RuntimeError(f"llama.cpp does not load {model}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def count(text: str) -> int:
            # The server's JSON has no lone surrogates, and the corpus has none.
            body = json.dumps({"content": text}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/tokenize", body, headers)  # noqa: S310 - http
            with opener.open(request, timeout=300) as reply:
                return len(json.load(reply)["tokens"])

        try:
            yield count
        finally:
            server.kill()


def _tiktoken(pattern: str, ranks: dict[bytes, int]) -> Counter:
    import tiktoken  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    encoding = tiktoken.Encoding(
        "fitted", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    return lambda text: len(encoding.encode_ordinary(text))


def _ranks(pattern: str) -> Callable[[Path], contextlib.AbstractContextManager[Counter]]:
    """Return what opens a file of OpenAI's ranks."""

    @contextlib.contextmanager
    def open_ranks(file: Path) -> Iterator[Counter]:
        pairs = (line.split() for line in file.read_bytes().splitlines())
        yield _tiktoken(pattern, {base64.b64decode(token): int(rank) for token, rank in pairs})

    return open_ranks


@contextlib.contextmanager
def _tekken(file: Path) -> Iterator[Counter]:
    """Open a file of Mistral's."""
    content = json.loads(file.read_bytes())
    config = content["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    tokens = [base64.b64decode(entry["token_bytes"]) for entry in content["vocab"][:size]]
    yield _tiktoken(config["pattern"], {token: rank for rank, token in enumerate(tokens)})


@contextlib.contextmanager
def _huggingface(file: Path) -> Iterator[Counter]:
    """Open a ``tokenizer.json``."""
    from tokenizers import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        Tokenizer,
    )

    tokenizer = Tokenizer.from_file(str(file))
    yield lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


# The patterns that OpenAI publishes with its ranks, in tiktoken.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    + _ENDING
    + r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    + _ENDING
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_GGUF = "llama_cpp_python/vendor/llama.cpp/models/ggml-vocab-{}.gguf"
_LITELLM = "litellm/litellm/litellm_core_utils/tokenizers/{}"

#: Each vocabulary of the GGUF files that is a language model's, with its family.
_GGUF_FAMILIES = {
    "qwen2": "qwen",
    "llama-bpe": "llama3",
    "llama-spm": "llama2",
    "gemma-4": "gemma",
    "deepseek-llm": "deepseek-llm",
    "deepseek-coder": "deepseek-coder",
    "command-r": "command-r",
    "falcon": "falcon",
    "starcoder": "starcoder",
    "gpt-2": "gpt-2",
    "gpt-neox": "neox",
    "baichuan": "baichuan",
    "aquila": "aquila",
}

VOCABULARIES: Sequence[Vocabulary] = (
    *(
        Vocabulary(name, family, _GGUF.format(name), llama_server)
        for name, family in _GGUF_FAMILIES.items()
    ),
    Vocabulary("deepseek-v3", "deepseek", _LITELLM.format("deepseek_tokenizer.json"), _huggingface),
    Vocabulary(
        "tekken",
        "mistral",
        "mistral_common/mistral_common/data/tekken_240911.json",
        _tekken,
    ),
    Vocabulary(
        "o200k",
        "gpt",
        _LITELLM.format("fb374d419588a4632f3f557e76b4b70aebbca790"),
        _ranks(_O200K),
    ),
    Vocabulary(
        "cl100k",
        "gpt-4",
        _LITELLM.format("9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
        _ranks(_CL100K),
    ),
    Vocabulary("claude-2", "claude", _LITELLM.format("anthropic_tokenizer.json"), _huggingface),
)


def counts(vocabulary: Vocabulary, packages: Path, cache: Path, texts: list[str]) -> list[int]:
    """Return the tokens of each text, from ``cache`` where it was counted before.

    Raises:
        OSError: the vocabulary's file is not there.
        RuntimeError: llama.cpp does not load it.
    """
    known_at = cache / f"{vocabulary.name}.json"
    known: dict[str, int] = json.loads(known_at.read_bytes()) if known_at.exists() else {}
    keys = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in texts]
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if missing:
        with vocabulary.counter(packages / vocabulary.file) as count:
            known |= {key: count(text) for key, text in missing.items()}
        known_at.write_text(json.dumps(known))
    return [known[key] for key in keys]
