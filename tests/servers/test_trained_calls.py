"""What a small trained model calls when it may call anything: nonsense, and nothing breaks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from calling_proxy import Caller
from conversing import Place, events, no
from fault_server import FaultServer
from llama_server import LlamaServer
from trained_model import fetched

pytestmark = pytest.mark.llama

WINDOW = 8192
ROUNDS = 4

#: A call, its arguments JSON of any shape.
SHAPED = r"""
root ::= [A-Z] [a-z ]{0,40} "." call call?
call ::= "\n<tool_call>\n{\"name\": \"" name "\", \"arguments\": " object "}\n</tool_call>"
object ::= "{" ( pair (", " pair){0,3} )? "}"
pair ::= key ": " value
key ::= string | "\"path\"" | "\"command\"" | "\"pattern\"" | "\"old\"" | "\"new\"" | "\"start\""
value ::= string | string | number | "true" | "null" | "[" value ("," value){0,2} "]" | object
string ::= "\"" ( [^"\\\x00-\x1f] | "\\" ["\\nt] ){0,40} "\""
number ::= "-"? [0-9]{1,6} ("." [0-9]{1,3})?
"""
OWN = 'name ::= "read_file" | "list_files" | "search" | "edit_file" | "write_file" | "run_command"'
ANY = "name ::= [a-zA-Z_.]{1,24}"

#: A call, its arguments whatever comes.
SHAPELESS = r"""
root ::= call call?
call ::= "\n<tool_call>\n{\"name\": \"" name "\", \"arguments\": " [^<]{1,120} "}\n</tool_call>"
"""

QUESTIONS = (
    "Repair calc.py.",
    "Run the tests.",
    "Write a file hello.txt with the text hello.",
)


class Dreamer(Caller):
    """Has a trained model call what it likes, in the shape of a grammar; each round another."""

    def __init__(self, llama: LlamaServer, grammar: str) -> None:
        super().__init__(llama, [("", [])])
        self._dream = grammar

    def parted(self, call: str) -> tuple[str, str]:
        """Return a call's name, and its arguments, which may be no JSON."""
        found = re.fullmatch(r'\{"name": "(.*?)", "arguments": (.*)\}', call, re.DOTALL)
        assert found, call
        return found[1], found[2]

    def forced(self, grammar: str) -> Any:
        """Return what the model makes up; ``grammar`` is that of a fixed reply."""
        del grammar
        more = {"temperature": 1.0, "seed": len(self.sent), "max_tokens": 400}
        self.sent[-1] = {**self.sent[-1], **more}
        return super().forced(self._dream)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """llama.cpp with a trained model, and a template that knows of tools."""
    model = fetched(tmp_path_factory.mktemp("trained"))
    template = tiny_model.CALLS_TEMPLATE
    with LlamaServer(model=model, context=WINDOW, template=template) as server:
        yield server
    model.unlink()


@pytest.mark.parametrize(
    "grammar",
    [f"{SHAPED}{OWN}", f"{SHAPED}{ANY}", f"{SHAPELESS}{OWN}"],
    ids=["wrong arguments", "unknown tools", "no JSON"],
)
async def test_nonsense_is_answered_and_nothing_is_lost(
    tmp_path: Path, trained: LlamaServer, grammar: str
) -> None:
    place = Place.make(tmp_path)
    calc = place.folder / "calc.py"
    calc.write_text("def double(x):\n    return x + 1\n")
    before = {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    dreamer = Dreamer(trained, grammar)
    calls: list[Any] = []
    async with FaultServer(dreamer) as server:
        place.configure(server.url, context_window=WINDOW, max_output_tokens=400)
        with place.config.open("a") as file:
            file.write(f"[tools]\nmax_rounds = {ROUNDS}\nshare = 0.5\n")
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = no
            await client.initialize(place.folder)
            for number, question in enumerate(QUESTIONS):
                fields = {"prompt": question, "partialResultToken": f"t{number}"}
                result = await client.command_result("aish.ask", fields, timeout=200)
                assert result["finishReason"] in ("tool", "stop", "length"), result
                told = [one for one in events(client, f"t{number}", "tool") if one["result"]]
                assert told or result["finishReason"] == "length"
                calls += told
    assert len(calls) > 2 * len(QUESTIONS)
    assert {one["status"] for one in calls} <= {"done", "failed", "denied"}
    assert not [one for one in calls if "nternal" in one["result"]]
    # Each was sent back, with its result, and the session can be read again.
    async with place.client() as client:
        await client.initialize(place.folder)
        kept = await client.command_result("aish.session.list", {})
        assert kept["sessions"][0]["questions"] == len(QUESTIONS)
    # Nobody agreed to a change.
    there = {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    assert {path: there.get(path) for path in before} == before
    made = [path for path in there.keys() - before.keys() if ".aish" not in path.parts]
    assert made == [], json.dumps([str(path) for path in made])
