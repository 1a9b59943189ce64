"""What the tests of the context's faults share: model servers that count, looks at the state."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from client import Client
from conversing import Place, ask, events
from fault_server import FaultServer, Peer, Request, Script, chunk_of

Json: TypeAlias = dict[str, Any]

_numbers = itertools.count(1)

#: Some 300 tokens of English; no two of them are alike.
_SENTENCES = (
    "The build of the parser fails on the second machine, where the compiler is older. ",
    "We agreed to keep the public functions as they are and to change what is below them. ",
    "The tests that read the network are slow, so they run at night and not with each commit. ",
    "Please look at the folder of the server first, since most of the warnings come from there. ",
)


def story(number: int, length: int = 1200) -> str:
    """Return a question of ``length`` characters, another one for each number."""
    text = f"Part {number}: " + "".join(
        itertools.islice(itertools.cycle(_SENTENCES), number % 4, 99)
    )
    return (text * (length // len(text) + 1))[:length]


def configure(place: Place, *models: Json, **tables: Json) -> str:
    """Write a configuration; return the name of its first model, which answers.

    Each model has a window of 8192, and a name that no other test in the process has: what is
    known of a model outlives a conversation. Unless a table says so, nothing is summarized and no
    tools are offered: the sizes are those of what is said.
    """
    plain = {"context": {"summarize": False}, "project": {"auto_tree": False}}
    tables = plain | {"tools": {"servers": {"aish": {"enabled": False}}}} | tables
    named = [{"name": f"model{next(_numbers)}", **model} for model in models]
    lines = [f"default_model = {_toml(named[0]['name'])}"]
    for table, values in tables.items():
        lines += [f"[{table}]", *_pairs(values)]
    for model in named:
        name = model.pop("name")
        preset = {"model": name, "max_output_tokens": 256, "context_window": 8192, "timeout": 5.0}
        lines += [f"[models.{name}]", *_pairs(preset | model)]
    place.config.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return lines[0].split('"')[1]


def _pairs(values: Json) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(_pairs(value)) + "}"
    return json.dumps(value, ensure_ascii=False)


# What the model server does


def counted(request: Request) -> int:
    """Return the tokens that the scripted servers find in a request: a quarter of its bytes."""
    messages = request.json["messages"]
    return sum(len(message["content"].encode()) // 4 + 5 for message in messages)


#: Makes the usage that a server reports of a request and its reply, or none.
Usage: TypeAlias = Callable[[Request, str], Any]


def honest(request: Request, text: str) -> Json:
    """Report what was counted."""
    return {"prompt_tokens": counted(request), "completion_tokens": len(text.encode()) // 4 + 2}


def says(text: str = "All is well.", usage: Usage = honest) -> Script:
    """Return a script that answers with ``text`` and reports its usage in a last chunk."""

    async def script(request: Request, peer: Peer) -> None:
        await peer.head()
        await peer.event(chunk_of(text))
        await peer.event(chunk_of("", finish_reason="stop"))
        if (reported := usage(request, text)) is not None:
            await peer.event({"choices": [], "usage": reported})
        await peer.event("[DONE]")
        await peer.chunk(b"")

    return script


def is_summary(request: Request) -> bool:
    """Return whether a request asks for a summary."""
    system: str = request.json["messages"][0]["content"]
    return system.startswith("You summarize a conversation")


def chats(model: FaultServer) -> list[Request]:
    """Return the requests for a completion that the model server got."""
    return [one for one in model.requests if one.path.endswith("/chat/completions")]


def asked(model: FaultServer) -> list[list[Json]]:
    """Return the messages of each question that the model server got."""
    return [one.json["messages"] for one in chats(model) if not is_summary(one)]


def summaries_asked(model: FaultServer) -> list[list[Json]]:
    """Return the messages of each request for a summary."""
    return [one.json["messages"] for one in chats(model) if is_summary(one)]


# What is seen of it


def assert_alternating(messages: list[Json]) -> None:
    """Roles take turns: the system message, then user and assistant, a question last."""
    roles = [message["role"] for message in messages]
    assert roles == ["system", *(("user", "assistant") * len(roles))[: len(roles) - 1]], roles
    assert roles[-1] == "user"
    assert all(message["content"] for message in messages)


async def shown(client: Client) -> Json:
    """Return ``aish.context.show``, whose numbers have to add up."""
    report: Json = await client.command_result("aish.context.show")
    total, budget = report["total"], report["tokenBudget"]
    assert sum(report["breakdown"].values()) == total
    assert min(report["breakdown"].values()) >= 0
    assert report["free"] == max(0, budget - total)
    assert report["percent"] == round(100 * total / budget, 1)
    return report


async def tell(client: Client, count: int, length: int = 1200) -> None:
    """Have ``count`` exchanges, each with a question of ``length`` characters."""
    for number in range(count):
        await ask(client, story(number, length), f"told {number}")


async def run(client: Client, text: str = "echo pending") -> None:
    """Run a command that only reads; its output goes with the next question."""
    result = await client.command_result("aish.run", {"text": text, "partialResultToken": "run"})
    assert result["exitCode"] == 0


def notices(client: Client, token: str) -> list[str]:
    """Return what the user was told under a token."""
    return [event["message"] for event in events(client, token, "notice")]


def ratios(place: Place) -> dict[str, float]:
    """Return what is learned of models, by their names alone."""
    path = place.data / "calibration.json"
    if not path.exists():
        return {}
    models = json.loads(path.read_text(encoding="utf-8"))["models"]
    return {key.rpartition("/")[2]: entry["ratio"] for key, entry in models.items()}


async def learned(place: Place, name: str) -> float:
    """Return a model's ratio as soon as it is written: nobody waits for that."""
    for _ in range(500):
        if name in ratios(place):
            break
        await asyncio.sleep(0.02)
    return ratios(place)[name]


def used(place: Place, name: str) -> list[Json]:
    """Return the lines of ``usage.jsonl`` for one model."""
    [path] = place.data.glob("workspaces/*/usage.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("model") == name]
