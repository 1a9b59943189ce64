"""How near a program's own count of a prompt's tokens is: ours, before it is sent, and aider's.

Each asks a llama.cpp server about the same texts, and says what its whole prompt comes to; the
server's own template and tokenizer say what it was.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final

from measuring import TESTS, Row

# isort: split
import llama_server
from conversing import Place, ask, events, forward_to
from fault_server import FaultServer
from natural_texts import NATURAL

#: A model with a tokenizer that people use, not the tests' own of bytes.
MODEL: Final = Path(os.environ.get("TESTS_SHARED") or TESTS.parents[1] / "shared")
KINDS: Final = ("python", "output", "english", "chinese")
SIZE: Final = 6000
SENT: Final = re.compile(r"Tokens: ([\d.]+)(k?) sent")


async def rows(aider: Path, flags: tuple[str, ...]) -> list[Row]:
    """Measure both, where aider, llama.cpp and a model are there."""
    model = MODEL / "models/tiny-qwen3think.gguf"
    if not (aider.exists() and model.exists()) or llama_server.missing_part():
        return []
    texts = [f"What is this?\n{NATURAL[kind](random.Random(7), SIZE)}" for kind in KINDS]
    grammar = llama_server.says("It is a text.")
    ours: dict[str, list[float]] = {"estimate": [], "server's tokenizer": []}
    theirs: list[float] = []
    with (
        llama_server.LlamaServer(model=model, grammar=grammar) as llama,
        tempfile.TemporaryDirectory() as home,
    ):
        async with FaultServer(forward_to(llama.port)) as proxy:
            env = os.environ | {"OPENAI_API_KEY": "x", "OPENAI_API_BASE": f"{proxy.url}/v1"}
            for text in texts:
                for way, errors in ours.items():
                    place = Place.make(Path(tempfile.mkdtemp(dir=home)))
                    place.configure(proxy.url)
                    if way != "estimate":
                        with place.config.open("a", encoding="utf-8") as file:
                            file.write("[tokenize]\nuse_endpoint = true\n")
                    said = await _ours(place, text)
                    errors.append(_error(said, llama.url, proxy))
                command = (str(aider), "--model", "openai/m", *flags, "-m", text)
                said = await _said(command, env | {"HOME": home}, place.folder)
                theirs.append(_error(said, llama.url, proxy))
    return [
        Row(f"aish-lsp, {way}: error of a prompt's tokens", "aider", errors, theirs, 0, "more", "%")
        for way, errors in ours.items()
    ]


async def _ours(place: Place, text: str) -> float:
    """Return the tokens that aish-lsp says before it sends a question."""
    async with place.client() as client:
        await client.initialize(place.folder)
        await ask(client, text, "t")
        [start] = events(client, "t", "start")
        return float(start["contextTokens"])


async def _said(command: tuple[str, ...], env: dict[str, str], folder: Path) -> float:
    """Return the tokens that aider says it has sent."""
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, cwd=folder, check=False, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    [(number, thousands)] = SENT.findall(done.stdout)
    return float(number) * (1000 if thousands else 1)


def _error(said: float, url: str, proxy: FaultServer) -> float:
    """Return by how many percent a count is wrong for the last question that came through."""
    asked = [one.json for one in proxy.requests if one.path.endswith("/chat/completions")]
    template = {name: asked[-1][name] for name in ("messages", "tools") if name in asked[-1]}
    text = _post(f"{url}/apply-template", template)
    tokens = {"content": text["prompt"], "add_special": True, "parse_special": True}
    true = len(_post(f"{url}/tokenize", tokens)["tokens"])
    return 100 * abs(said - true) / true


def _post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, data=json.dumps(body).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as reply:
        return json.load(reply)
