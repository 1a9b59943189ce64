"""The estimate against llama.cpp's own tokenizers, in short; ``tools/fit_tokens`` does it in full.

The vocabularies are a development machine's, the texts any machine's that has Python.
"""

from __future__ import annotations

import ast
import json
import os
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

import pytest
from llama_server import LlamaServer, missing_part

from aish_lsp.context.tokens import count

SHARED = Path(os.environ.get("TESTS_SHARED", Path(__file__).resolve().parents[2] / "../shared"))
STDLIB = Path(sysconfig.get_path("stdlib"))
TEXTS = 20
LONGEST = 20_000

pytestmark = [
    pytest.mark.llama,
    pytest.mark.shared,
    pytest.mark.skipif(missing_part() is not None, reason=str(missing_part())),
]

Tokenize = Callable[[str], int]


def sources() -> list[Path]:
    """Some of the standard library's modules, from all of the alphabet."""
    modules = sorted(path for path in STDLIB.glob("*.py") if path.stat().st_size > 2000)
    return modules[:: max(1, len(modules) // TEXTS)]


def code() -> list[str]:
    return [path.read_text("utf-8")[:LONGEST] for path in sources()]


def prose() -> list[str]:
    """What the modules' docstrings say, those of a module in one text."""
    texts = []
    for path in sources():
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docs = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
        texts.append("\n\n".join(filter(None, docs))[:LONGEST])
    return [text for text in texts if len(text) > 500]


def data() -> list[str]:
    """What a module's functions are, as a tool would tell it, in both ways of writing JSON."""
    texts = []
    for number, path in enumerate(sources()):
        tree = ast.parse(path.read_text("utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        entries = [
            {
                "name": node.name,
                "line": node.lineno,
                "arguments": [argument.arg for argument in node.args.args],
                "documented": ast.get_docstring(node) is not None,
            }
            for node in functions
        ]
        texts.append(json.dumps(entries, indent=2 if number % 2 else None)[:LONGEST])
    return [text for text in texts if len(text) > 500]


@pytest.fixture(
    scope="module",
    params=[("tiny-qwen3think.gguf", "qwen"), ("tiny-llama-spm.gguf", "llama2")],
    ids=["qwen", "llama2"],
)
def tokenizer(request: pytest.FixtureRequest) -> Iterator[tuple[Tokenize, str]]:
    """A real tokenizer, and the family that it is one of."""
    file, family = request.param
    model = SHARED / "models" / file
    if not model.exists():
        pytest.skip(f"needs {file} in {SHARED.name}/models")
    with LlamaServer(model=model, context=512) as server:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def tokenize(text: str) -> int:
            body = json.dumps({"content": text}).encode()
            headers = {"Content-Type": "application/json"}
            asked = urllib.request.Request(f"{server.url}/tokenize", body, headers)
            with opener.open(asked, timeout=60) as reply:
                return len(json.load(reply)["tokens"])

        yield tokenize, family


@pytest.mark.parametrize(
    ("texts", "most_on_average", "most_of_20"),
    [(code, 0.10, 0.25), (prose, 0.10, 0.25), (data, 0.15, 0.40)],
    ids=["code", "prose", "data"],
)
def test_the_estimate_is_as_near_as_promised(
    tokenizer: tuple[Tokenize, str],
    texts: Callable[[], list[str]],
    most_on_average: float,
    most_of_20: float,
) -> None:
    tokenize, family = tokenizer
    errors = sorted(abs(count(text, family) / tokenize(text) - 1) for text in texts())
    assert len(errors) >= TEXTS // 2
    assert mean(errors) <= most_on_average
    assert errors[int(0.95 * len(errors))] <= most_of_20


def test_the_estimate_is_many_times_as_fast(tokenizer: tuple[Tokenize, str]) -> None:
    tokenize, family = tokenizer
    texts = code()

    def seconds(counter: Callable[[str], int]) -> float:
        begin = time.perf_counter()
        for text in texts:
            counter(text)
        return time.perf_counter() - begin

    # The least of some tries is what it takes; the rest is what else the machine does. It is some
    # 40 times; a busy machine may halve that twice.
    real = min(seconds(tokenize) for _ in range(2))
    estimate = min(seconds(lambda text: count(text, family)) for _ in range(5))
    assert real / estimate >= 10
