"""Asks the offline model, runs what it answers in a scratch world, and says what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from corpus import Earlier, Entry
from world import World

from aish_lsp.config.schema import Preset
from aish_lsp.context.messages import ExecOutput, Message
from aish_lsp.context.prompt import user_text
from aish_lsp.models.request import ModelRequest, RequestMessage, Text
from aish_lsp.offline import OfflineModel, is_unknown
from aish_lsp.offline.workspace import Machine

#: ``right``: just what was asked. ``silent``: it says that it does not know. ``wrong``: all else.
Outcome = Literal["right", "silent", "wrong"]

#: A command that is suggested to be run, and one to be typed in one's own terminal.
_COMMAND = re.compile(r"(?<=^CMD: ).*|(?<=^```sh\n).*", re.MULTILINE)
_PLACEHOLDER = re.compile(r"<[a-z][a-z0-9 -]*>")


@dataclass(frozen=True, slots=True)
class Grade:
    """What came of one phrasing; ``why`` tells what was wrong, ``commands`` what was run."""

    entry: Entry
    question: str
    outcome: Outcome
    commands: tuple[str, ...] = ()
    why: str = ""


async def grade(entry: Entry) -> list[Grade]:
    """Return what comes of each phrasing of ``entry``; each is asked before anything has run.

    Phrasings that are answered with the same commands share a world: it would be the same again.
    Where two commands may be meant, it is enough that the second one is right.
    """
    grades: dict[str, Grade] = {}
    while waiting := [question for question in entry.ask if question not in grades]:
        with World(entry.world) as world:
            ran = _run_before(entry, world)
            replies = {question: await _ask(entry, question, world, ran) for question in waiting}
            tried = _to_run(entry, replies[waiting[0]])
            runs = bool(entry.check) and not is_unknown(replies[waiting[0]])
            why = _carried_out(entry, tried, world) if runs else ""
            if (
                why
                and (second := commands_of(replies[waiting[0]])[1:])
                and _is_unsure(replies[waiting[0]])
            ):
                with World(entry.world) as other:
                    _run_before(entry, other)
                    why = _carried_out(entry, filled(entry, second), other)
            for question, reply in replies.items():
                commands = _to_run(entry, reply)
                if question == waiting[0] or (commands == tried and not is_unknown(reply)):
                    grades[question] = _judged(entry, question, reply, commands, why)
    return [grades[question] for question in entry.ask]


async def _ask(entry: Entry, question: str, world: World, ran: ExecOutput | None) -> str:
    """Return the reply to ``question``, in a conversation as the server would send it."""
    machine = Machine(system=entry.system, path=world.path, home=world.folder / "home")
    model = OfflineModel(world.root, machine)
    messages = [RequestMessage("system", "You are aish.")]
    for before in (*entry.earlier, question):
        outputs = (ran,) if ran and before is question else ()
        messages.append(RequestMessage("user", user_text(Message("user", before, exec=outputs))))
        request = ModelRequest(Preset(), tuple(messages))
        parts = [event async for event in model.stream(request)]
        reply = "".join(part.delta for part in parts if isinstance(part, Text))
        messages.append(RequestMessage("assistant", reply))
    return reply


def _run_before(entry: Entry, world: World) -> ExecOutput | None:
    """Run the command that the question is about, if there is one."""
    before: Earlier | None = entry.ran
    if before is None:
        return None
    if before.output is not None:
        return ExecOutput(before.command, before.exit, before.output)
    done = world.run(before.command)
    return ExecOutput(before.command, done.status, done.output.rstrip("\n"))


def _is_unsure(reply: str) -> bool:
    """Return whether ``reply`` shows commands of which only one may be meant."""
    return reply.startswith("Perhaps one of these:")


def _to_run(entry: Entry, reply: str) -> tuple[str, ...]:
    """Return the commands of ``reply`` that are run, their placeholders filled."""
    return filled(entry, commands_of(reply))


def commands_of(reply: str) -> list[str]:
    """Return the commands that ``reply`` suggests."""
    return _COMMAND.findall(reply)


def filled(entry: Entry, commands: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``commands`` that are run, their placeholders filled."""
    found = commands if entry.run == "all" else commands[: int(entry.run)]
    fill = iter(entry.fill)
    return tuple(_PLACEHOLDER.sub(lambda match: next(fill, match[0]), line) for line in found)


def _carried_out(entry: Entry, commands: tuple[str, ...], world: World) -> str:
    """Run ``commands`` and return why the check does not hold, or nothing."""
    if not commands:
        return "no command was suggested"
    for command in commands:
        done = world.run(command, entry.seconds)
        if done.status != 0 and "STATUS" not in entry.check:
            return f"it ended with {done.status}: {done.output[-400:]}"
    return world.check(entry.check, done.status)


def _judged(entry: Entry, question: str, reply: str, commands: tuple[str, ...], why: str) -> Grade:
    """Return the grade of a reply whose commands came to ``why``: nothing is as it should be."""
    if is_unknown(reply):
        return Grade(entry, question, "right" if entry.unknown else "silent")
    if entry.unknown:
        why = f"it claims to know:\n{reply}"
    why = why or next(_unsaid(entry, reply), "")
    return Grade(entry, question, "wrong" if why else "right", commands, why)


def _unsaid(entry: Entry, reply: str) -> Iterator[str]:
    for pattern in entry.says:
        if not re.search(pattern, reply, re.IGNORECASE):
            yield f"it does not say {pattern!r}:\n{reply}"
