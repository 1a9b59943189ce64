"""A real llama.cpp server with a tiny model, as a process of its own.

``python tests/servers/llama_server.py --port 8080`` runs one by hand; tests use ``LlamaServer``.
What the model answers is forced by a grammar: for the whole server, or for one request by
``extra_body = {"grammar": ...}``; ``says`` makes the grammar of a text.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import tiny_model

#: Seconds for the server to load the model, on a busy machine.
START_TIMEOUT = 60.0

#: A reply that never ends by itself: it fills the window, some thousand tokens.
ENDLESS = "root ::= [a-z] root"


def says(text: str) -> str:
    """Return the grammar that forces exactly ``text``."""
    return f"root ::= {json.dumps(text, ensure_ascii=False)}"


def missing_part() -> str | None:
    """Return why no server can be run here, or None."""
    missing = [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]
    return f"needs {' and '.join(missing)} (pip install -e '.[parts]')" if missing else None


class LlamaServer:
    """A server that runs between ``with`` and its end.

    Args:
        model: the model's file; the tiny one by default.
        grammar: the grammar (GBNF) of every reply that brings none of its own.
        context: the window, in tokens. The tiny model's tokens are bytes.
        parallel: how many requests are answered at once; they share the window.
        api_key: the key that requests must bring.
        template: the chat template in place of the model's own.
    """

    def __init__(
        self,
        *,
        model: Path | None = None,
        grammar: str | None = None,
        context: int = 32768,
        parallel: int = 1,
        api_key: str | None = None,
        template: str | None = None,
    ) -> None:
        self._options = ["--context", str(context), "--parallel", str(parallel)]
        if model is not None:
            self._options += ["--model", str(model)]
        if api_key is not None:
            self._options += ["--api-key", api_key]
        self._files = {"grammar": grammar, "template": template}
        self._api_key = api_key
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="aish-llama-")
        self.url = ""

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        folder = Path(self._folder.name)
        log = folder / "log"
        for name, text in self._files.items():
            if text is not None:
                (folder / name).write_text(text, encoding="utf-8")
                self._options += [f"--{name}-file", str(folder / name)]
        with log.open("wb") as output:
            # The server ends with our end of its stdin: none outlives a test that is killed.
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--port", "0", *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        assert self._process.stdout is not None
        # The line comes when the model is loaded; nothing comes when the process dies.
        self.url = self._process.stdout.readline().decode().strip()
        if not self.url:
            tail = log.read_text(errors="replace")[-2000:]
            self.kill()
            msg = f"llama.cpp did not start:\n{tail}"
            raise RuntimeError(msg)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()

    def kill(self) -> None:
        """End the server at once, whatever it is doing."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def get(self, path: str) -> Any:
        """Return the JSON at ``path``."""
        request = urllib.request.Request(f"{self.url}{path}")
        if self._api_key is not None:
            request.add_header("Authorization", f"Bearer {self._api_key}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as reply:
            return json.load(reply)

    def busy_slots(self) -> int:
        """Return how many requests the server is working on."""
        return sum(bool(slot["is_processing"]) for slot in self.get("/slots"))

    def seconds_until_idle(self, limit: float = 10.0) -> float:
        """Wait until the server works on nothing; return the seconds that took.

        Raises:
            TimeoutError: it still works after ``limit`` seconds.
        """
        begin = time.monotonic()
        while self.busy_slots():
            if time.monotonic() - begin > limit:
                raise TimeoutError("the server is still busy")
            time.sleep(0.02)
        return time.monotonic() - begin


def serve(arguments: argparse.Namespace) -> None:
    """Run the server until stdin ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(arguments.model or tiny_model.model_path())
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = arguments.port
    parameters.n_ctx = arguments.context
    parameters.n_parallel = arguments.parallel
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    parameters.endpoint_props = True
    parameters.endpoint_slots = True
    parameters.model_alias = {"aish-tiny"}
    reasoning = xllamacpp.common_reasoning_format
    parameters.reasoning_format = reasoning.COMMON_REASONING_FORMAT_AUTO
    # Always the likeliest token: what a test gets does not change from run to run.
    parameters.sampling.temp = 0.0
    if arguments.api_key:
        parameters.api_keys = [arguments.api_key]
    if arguments.template_file:
        parameters.chat_template = arguments.template_file.read_text(encoding="utf-8")
    if arguments.grammar_file:
        grammar = xllamacpp.CommonGrammar()
        grammar.grammar = arguments.grammar_file.read_text(encoding="utf-8")
        grammar.type = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        parameters.sampling.grammar = grammar
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--model", type=Path, help="a GGUF file; else the tiny model")
    parser.add_argument("--grammar-file", type=Path, help="the grammar of every reply")
    parser.add_argument("--template-file", type=Path, help="the chat template (Jinja)")
    parser.add_argument("--context", type=int, default=32768, help="the window, in tokens")
    parser.add_argument("--parallel", type=int, default=1, help="requests at once")
    parser.add_argument("--api-key", help="the key that requests must bring")
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
