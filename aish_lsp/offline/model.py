"""The offline model as an adapter, and its answers: a sentence, commands and what can go wrong.

Text from the user, from files or from an output is quoted when it becomes part of a command.
Elsewhere it never begins a line, so it cannot look like a suggestion.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from aish_lsp.foundation.opening import read_head
from aish_lsp.foundation.text import without_hidden
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Text
from aish_lsp.offline.choosing import (
    CONNECT,
    Part,
    acts_on_its_shell,
    chosen,
    overwrites_its_input,
    render,
    suggested,
)
from aish_lsp.offline.commands import explained_command, explanation, typed_command
from aish_lsp.offline.compose import compose, has_clauses
from aish_lsp.offline.overlay import Match
from aish_lsp.offline.own import entry_parts, own_parts
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.requests import shortened, told_of
from aish_lsp.offline.results import (
    asks_of_result,
    asks_of_trouble,
    result_parts,
    says_no_more,
)
from aish_lsp.offline.table import FREE, kind_of, ways_of
from aish_lsp.offline.understanding import (
    Reading,
    TypedQuestion,
    read,
    read_question,
)
from aish_lsp.offline.words import data, group, is_foreign
from aish_lsp.offline.workspace import Machine, WorkspaceFacts, steps, to_install
from aish_lsp.project.manifests.rules import Intent, Rank

#: How the answer to a question that the model cannot answer begins.
_UNKNOWN: Final = "I don't know this one."

#: The most commands that are shown where none is sure.
_MOST_PERHAPS: Final = 2

_HELLO: Final = re.compile(
    r"^\W*(?:help|thanks?(?: you)?"
    r"|(?:hi|hello|hey)(?: there)?(?:\W+how (?:are|is|was|do) [^?]*)?)?\W*$",
    re.IGNORECASE,
)

_CODE: Final = "Explaining or fixing code takes a language model."
_HOW_TO_CONNECT: Final = (
    "I am aish's offline model: I answer from a table and the files here, without a language "
    "model. To connect a real one, start llama.cpp (`llama-server -m MODEL.gguf`) or Ollama "
    "(`ollama serve`), or set a key such as OPENAI_API_KEY; `aish-lsp doctor` shows what is found "
    "and what is missing."
)
_MEMORY: Final = (
    "Memory is kept by commands of the chat: `:remember TEXT` adds to it, `:memory list` shows "
    "it, `:memory forget ID` removes from it."
)


#: How the questions of code actions begin; the name of a file follows.
_OF_CODE: Final = re.compile(r"^(?:explain|fix|suggest)\b.* lines? \d", re.IGNORECASE)

#: Requests to remember something, which the chat does.
_OF_MEMORY: Final = re.compile(
    r"^\W*(?:please |can you |could you )?(?:remember|forget(?!.*\bkeys?\b)|memori[sz]e)\b",
    re.IGNORECASE,
)


class OfflineModel:
    """Answers the last user message from the files under ``root``. Runs nothing."""

    def __init__(self, root: Path, machine: Machine | None = None) -> None:
        self._root = root
        self._machine = machine

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the answer word by word. It is always the same for the same question and files.

        The model has no tokenizer and reports no usage.
        """
        question = read_question(request.messages)
        text = await asyncio.to_thread(reply, question, self._root, self._machine)
        for word in re.findall(r"\s*\S+|\s+", text):
            yield Text(word)
            await asyncio.sleep(0)  # where a cancellation takes effect
        yield Finish("stop")


def is_unknown(reply: str) -> bool:
    """Return whether ``reply`` says that the model does not know the question."""
    return reply.startswith(_UNKNOWN)


def reply(question: TypedQuestion, root: Path, machine: Machine | None = None) -> str:
    """Return the answer to ``question`` in the workspace at ``root``."""
    workspace = WorkspaceFacts(root, machine)
    parts = _parts(question, workspace)
    lines = [line for part in parts for line in part.lines()]
    return "\n".join(lines)


def sure_command(text: str, root: Path) -> str:
    """Return the command that answers a question for certain, ready to run; empty if unsure."""
    workspace = WorkspaceFacts(root)
    reading = read(text, (), workspace)
    if len(reading.meant) != 1 or not _says_it_all(reading, text):
        return ""
    parts = _answer(reading.meant[0], workspace)
    commands = parts[0].commands if len(parts) == 1 and parts[0].is_ready else ()
    command = commands[0] if len(commands) == 1 else ""
    # Beside another model's answer, nothing about ourselves is of use.
    return "" if command.startswith("aish-lsp") or acts_on_its_shell(command) else command


def _parts(question: TypedQuestion, workspace: WorkspaceFacts) -> Sequence[Part]:
    own = own_parts(question.text, workspace)
    if own:
        return own
    command = explained_command(question.text, workspace)
    if command is not None:
        return explanation(command, workspace)
    return (
        _as_typed(question, workspace, surely=True)
        or entry_parts(question.text, workspace)
        or _of_the_conversation(question, workspace)
        or _of_the_table(question, workspace)
    )


def _as_typed(
    question: TypedQuestion, workspace: WorkspaceFacts, *, surely: bool
) -> Sequence[Part]:
    """Return the answer if the question is itself a command, else nothing."""
    command = typed_command(question.text, workspace, surely=surely)
    return _with_tools("As you wrote it:", (command,), workspace) if command else []


def _of_the_conversation(question: TypedQuestion, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return the answer to a question about the conversation or its results, else nothing."""
    text = question.text
    if _OF_CODE.search(" ".join(text.split())):
        return [Part(_CODE), Part(CONNECT, ("aish-lsp doctor",))]
    if _HELLO.match(text) and not question.ran_since:
        return [_help()]
    # A question that the table knows may only sound like one about a result.
    if asks_of_result(text) and (
        question.ran or (says_no_more(text) and not read(text, (), workspace).meant)
    ):
        return result_parts(question.ran, workspace)
    return [Part(_MEMORY)] if _OF_MEMORY.search(text) else []


def _of_the_table(question: TypedQuestion, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return the table's answer, else the result of the last command, else what may be meant."""
    text = question.text
    composed = compose(text, workspace, question.earlier)
    asked = None
    if composed is None:
        asked = shortened(text, workspace)
        ways = (compose(way, workspace) for way in (*told_of(text, workspace), asked) if way)
        composed = next(filter(None, ways), None)
    is_going_on = composed is not None and composed.goes_on
    reading = Reading(()) if is_going_on else read(text, question.earlier, workspace)
    if asked and not reading.meant:
        of_request = read(asked, question.earlier, workspace, is_long=True)
        if of_request.meant or of_request.perhaps or not reading.perhaps:
            text, reading = asked, of_request
    known = [part for meant in reading.meant for part in _answer(meant, workspace)]
    if text is asked and not all(part.is_ready for part in known):
        reading, known = Reading(()), []  # What is to be filled in may be in what was told.
    says_all, clauses = _says_it_all(reading, text), has_clauses(text, workspace)
    is_filled = all(part.is_ready or not part.commands for part in known)
    if composed and not (says_all and (is_filled or not clauses)):
        return _with_tools(composed.says, (composed.command,), workspace)
    if composed and len(known) > len(reading.meant):  # Something would be installed first.
        return min(known, _with_tools(composed.says, (composed.command,), workspace), key=len)
    if clauses and not says_all:
        reading = _without_drops(reading, text, workspace)
    if reading.meant:
        return known
    if question.ran_since and asks_of_trouble(text):
        return result_parts(question.ran, workspace)
    typed = _as_typed(question, workspace, surely=False)
    return typed or _unsure(text, reading, workspace)


#: The likeness from which a question is a phrasing of the table word for word.
_WORD_FOR_WORD: Final = 0.99


def _says_it_all(reading: Reading, text: str) -> bool:
    """Return whether the table has ``text`` word for word, or it is about the last question.

    Several words that are taken for one text only because of their place may be clauses.
    """
    return bool(reading.meant) and all(
        not match.ignored
        and match.evidence.get("likeness", 1.0) > _WORD_FOR_WORD
        and not any(
            kind_of(slot) in FREE and " " in value and f" {value} " in f" {text} "
            for slot, value in match.values.items()
        )
        for match in reading.meant
    )


#: The most weight of words that an answer may leave out where files are said by clauses.
_MOST_DROPPED: Final = 2.0
#: A word that may be a path although there is no such file: ``a.txt``, ``/tmp``, ``x1``.
_PATH_LIKE: Final = re.compile(r"[/~.]|.*[^a-z/]")


def _without_drops(reading: Reading, text: str, workspace: WorkspaceFacts) -> Reading:
    """Return what does not drop a clause, or take a word of one for a folder: "the whole tree"."""

    def is_whole(match: Match) -> bool:
        return match.evidence.get("unknown", 0.0) <= _MOST_DROPPED and all(
            value == "." or workspace.exists(value) or (value in text and _PATH_LIKE.match(value))
            for slot, value in match.values.items()
            if kind_of(slot) in ("file", "folder", "path")
        )

    meant = reading.meant if all(map(is_whole, reading.meant)) else ()
    return Reading(meant, tuple(filter(is_whole, reading.perhaps)))


def _help() -> Part:
    known = ranking().table
    families = ", ".join(f"{title[0].lower()}{title[1:]}" for title in known.titles.values())
    return Part(
        f"Ask me about everyday tasks in the shell: I know {len(known.intents)}, of {families}; "
        "how to test, build and run this project; what a command means; why the last one "
        "failed. `:help offline` in the chat shows them."
    )


def _unsure(text: str, reading: Reading, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return the commands that may be meant, ready to run, or say that the question is unknown."""
    answers = (_answer(match, workspace) for match in reading.perhaps)
    ready = [parts[0] for parts in answers if len(parts) == 1 and parts[0].is_ready]
    if ready:
        return [Part("Perhaps one of these:"), *ready[:_MOST_PERHAPS]]
    if is_foreign(text):
        return [Part(f"{_UNKNOWN} I only understand English; a language model understands more.")]
    return [Part(f"{_UNKNOWN} `:help offline` in the chat shows what I know.")]


def _answer(meant: Match, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return the answer to one of the things that a question asks for."""
    intent = meant.intent
    if intent.topic:
        kind, _, name = intent.topic.partition(":")
        if kind == "say":
            return [Part(intent.does)]
        return _TOPICS[kind](name, workspace)
    values = meant.values
    way = suggested(intent, values, workspace, meant.ways)
    if way is None:
        name = values.get("file", "")
        missing = f"`{name}` is not here: its name may be misspelled."
        other = f"{intent.does} I do not know how to do that on this machine."
        return [Part(missing if workspace.lacks(name) else other)]
    commands = way.commands
    if meant.suffix:
        commands = (f"{commands[0]}{render(meant.suffix, values)}",)
    if commands[0].startswith("git ") and _needs_repository(commands[0]) and not workspace.in_git:
        return [
            Part("This folder is not in a git repository; `git init` makes it one.", ("ls -la",))
        ]
    if any(map(overwrites_its_input, commands)):
        return [Part("That would empty one of the files before it is read: name another one.")]
    sentence = meant.sentence or intent.does
    return _with_tools(sentence, commands, workspace, way.note, _guessed_programs(values))


def _guessed_programs(values: Mapping[str, str]) -> set[str]:
    """Return the words taken for programs because of their position, but not known to be any."""
    commands = (value.split() for slot, value in values.items() if kind_of(slot) == "command")
    given = {parts[0] for parts in commands if parts}
    return given - group("names") - group("programs")


def _with_tools(
    sentence: str,
    commands: tuple[str, ...],
    workspace: WorkspaceFacts,
    note: str = "",
    guessed: Collection[str] = (),
) -> Sequence[Part]:
    """Return what to run, preceded by how to install a missing tool that it needs."""
    missing = to_install(commands, workspace.machine, guessed)
    if missing is None:
        return [Part(sentence, commands, note=note)]
    tool, install = missing
    return [
        Part(f"`{tool}` is not installed here. To install it:", install),
        Part(f"Then: {sentence[0].lower()}{sentence[1:]}", commands, note=note),
    ]


def _needs_repository(command: str) -> bool:
    """Return whether a git command needs an existing repository."""
    parts = command.split()
    return parts[1] not in ("init", "clone", "config", "--version", "help", "ls-remote") and not (
        parts[1] == "diff" and "--no-index" in parts
    )


# Answers about the project itself: how its tasks are run, and what it is.

_README_LIMIT: Final = 16384

#: The most other ways, and other parts of a project, that are shown.
_OTHER_WAYS: Final = 1
_OTHER_PARTS: Final = 3


def _task_parts(name: str, workspace: WorkspaceFacts) -> Sequence[Part]:
    """Return how a task is done here: the surest way, and another one that the project sets up.

    If only parts of the project have the task, several of them are shown.
    """
    intent: Intent = name  # type: ignore[assignment]
    described = data("tasks")["described"]
    found = workspace.best(intent)
    if not found:
        task = described[intent]
        usual = chosen(ways_of(data("tasks")["usual"].get(intent, ())), {}, {}, workspace)
        if usual is not None:
            said = f"I found no file here that says how to {task}. The usual command:"
            return [Part(said, usual.commands)]
        return [Part(f"I found no file here that says how to {task}.", ("ls -la",))]
    first = found[0]
    parts = [Part(f"To {described[first.intent]} here (from {first.source}):", steps(first))]
    seen = {first.folder or first.source}
    if first.rank == Rank.PART:
        others = (task for task in found if task.rank == Rank.PART)
        lead_in, most = "And, from {}:", _OTHER_PARTS
    else:
        others = (task for task in found if task.rank <= Rank.CONFIGURED)
        lead_in, most = "Or, from {}:", _OTHER_WAYS
    for other in others:
        place = other.folder or other.source
        if place not in seen and len(parts) <= most:
            seen.add(place)
            parts.append(Part(lead_in.format(other.source), steps(other)))
    return parts


def _overview(workspace: WorkspaceFacts) -> Part:
    """Return what the manifests and the beginning of the README say about the project."""
    sources = list(dict.fromkeys(task.source for task in workspace.tasks))[:6]
    known = (
        f"Its tasks are in {', '.join(sources)}."
        if sources
        else "I found no manifest that I can read."
    )
    look = ["ls -la"]
    quote: tuple[str, ...] = ()
    for name in ("README.md", "README.rst", "README.txt", "README"):
        head = read_head(workspace.root, name, _README_LIMIT)
        if head is not None:
            lines = [line for line in without_hidden(head[0]).split("\n") if line.strip()]
            quote = tuple(lines[:4])
            look.insert(0, f"cat {name}")
            break
    begins = " Its README begins:" if quote else ""
    return Part(f"This is the folder {workspace.root.name}. {known}{begins}", tuple(look), quote)


_TOPICS: Final[Mapping[str, Callable[[str, WorkspaceFacts], Sequence[Part]]]] = {
    "task": _task_parts,
    "connect": lambda _name, _workspace: [Part(_HOW_TO_CONNECT, ("aish-lsp doctor",))],
    "help": lambda _name, _workspace: [_help()],
    "remember": lambda _name, _workspace: [Part(_MEMORY)],
    "overview": lambda _name, workspace: [_overview(workspace)],
}
