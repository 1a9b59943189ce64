"""The offline model as an adapter, and its answers: a sentence, commands and what can go wrong.

Text from the user, from files or from an output is quoted when it becomes part of a command, and is
never at the beginning of a line elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, RequestMessage, Text
from aish_lsp.offline.choosing import CONNECT, Part, render, told
from aish_lsp.offline.commands import explained_command, explanation, typed_command
from aish_lsp.offline.overlay import Match
from aish_lsp.offline.results import (
    Ran,
    asks_of_result,
    asks_of_trouble,
    result_parts,
    says_no_more,
)
from aish_lsp.offline.table import kind_of, spoken, table
from aish_lsp.offline.tasks import entry_parts, overview, task_parts
from aish_lsp.offline.understanding import Reading, read
from aish_lsp.offline.words import group, is_foreign
from aish_lsp.offline.workspace import Machine, Workspace, to_install
from aish_lsp.project.manifests.reading import Intent

#: The beginning of an answer to what the model does not know.
_BEYOND: Final = "That is beyond me."

_HELLO: Final = re.compile(
    r"^\W*(?:help|thanks?(?: you)?"
    r"|(?:hi|hello|hey)(?: there)?(?:\W+how (?:are|is|was|do) [^?]*)?)?\W*$",
    re.IGNORECASE,
)

_CODE: Final = "To explain or to fix code takes a language model."
_HOW_TO_CONNECT: Final = (
    "I am aish's offline model: I answer from a table and the files here, without a language "
    "model. To connect a real one, start llama.cpp (`llama-server -m MODEL.gguf`) or Ollama "
    "(`ollama serve`), or set a key such as OPENAI_API_KEY; `aish-lsp doctor` shows what is found "
    "and what is missing."
)
_MEMORY: Final = (
    "Memory is kept by commands of the chat: `:remember TEXT` adds to it, `:memory list` shows "
    "it, `:memory forget ID` takes from it."
)


#: The form in which the code actions ask; the words after it are the name of a file.
_OF_CODE: Final = re.compile(r"^(?:explain|fix|suggest)\b.* lines? \d", re.IGNORECASE)

#: Requests to remember something, which is a task of the chat.
_OF_MEMORY: Final = re.compile(
    r"^\W*(?:please |can you |could you )?(?:remember|forget(?!.*\bkeys?\b)|memori[sz]e)\b",
    re.IGNORECASE,
)

#: How many characters of a question are looked at.
_QUESTION_LIMIT = 2000

#: How many user messages are looked at.
_EARLIER = 12

#: The head of a block as the prompt writes it; no line of an output begins in this way.
_HEAD = re.compile(r"^\[exec output\]\n\$ (.*) \(exit (-?\d+)\)$", re.MULTILINE)

#: The head of the text that the question is about, which follows the output, and its whole block.
_ABOUT = re.compile(r"^\[(?:selection|definition|problems|file)\] ", re.MULTILINE)
_BLOCK = re.compile(rf"{_ABOUT.pattern}.*\n(`{{3,}}).*\n(?:.*\n)*?\1$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Question:
    """The last user message: its text, the last command run, and how the two are related.

    ``ran_since`` says that the command was run after the previous message, ``is_first`` that the
    conversation has no reply yet. ``earlier`` has the previous questions, the oldest first.
    """

    text: str
    ran: Ran | None = None
    ran_since: bool = False
    is_first: bool = True
    earlier: tuple[str, ...] = ()


def read_question(messages: Sequence[RequestMessage]) -> Question:
    """Return what the last user message asks."""
    is_first = not any(message.role == "assistant" for message in messages)
    contents = [message.content for message in messages if message.role == "user"]
    if not contents:
        return Question("", is_first=is_first)
    ran, text = _parted(contents[-1])
    before = [_parted(content) for content in contents[-_EARLIER:-1]]
    known = ran or next((command for command, _ in reversed(before) if command), None)
    earlier = tuple(_readable(said) for _, said in before)
    return Question(_readable(text), known, ran is not None, is_first, earlier)


#: What a command cannot contain; JSON may contain half a surrogate pair.
_UNSPEAKABLE: Final = re.compile("[\0\ud800-\udfff]")


def _readable(text: str) -> str:
    """Return the part of a question that is looked at, without what a command cannot contain."""
    return _UNSPEAKABLE.sub("", text[:_QUESTION_LIMIT])


def _parted(content: str) -> tuple[Ran | None, str]:
    """Return the last command whose output a user message contains, and the message's own text.

    After an output, which may itself have blank lines, the last paragraph is taken for the text;
    what the question is about is fenced.
    """
    about = _ABOUT.search(content)
    heads = list(_HEAD.finditer(content, 0, about.start() if about else len(content)))
    if not (heads and heads[0].start() == 0) and not (about and about.start() == 0):
        return None, content.strip()
    before, _, text = content.rstrip().rpartition("\n\n")
    if about:
        before, text = content[: about.start()], _BLOCK.sub("", content[about.start() :])
    if not heads:
        return None, text.strip()
    head = heads[-1]
    return Ran(head[1], int(head[2]), before[head.end() :].strip("\n")), text.strip()


class OfflineModel:
    """Answers the last user message from the files under ``root``. Runs nothing."""

    def __init__(self, root: Path, machine: Machine | None = None) -> None:
        self._root = root
        self._machine = machine

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the answer word by word. Never raises by itself; the answer is deterministic.

        The model has no tokenizer and reports no usage.
        """
        question = read_question(request.messages)
        text = await asyncio.to_thread(reply, question, self._root, self._machine)
        for word in re.findall(r"\s*\S+|\s+", text):
            yield Text(word)
            await asyncio.sleep(0)  # where a cancellation takes effect
        yield Finish("stop")


def is_unknown(reply: str) -> bool:
    """Return whether ``reply`` says that the question is beyond the model."""
    return reply.startswith(_BEYOND)


def reply(question: Question, root: Path, machine: Machine | None = None) -> str:
    """Return the answer to ``question`` in the workspace at ``root``."""
    workspace = Workspace(root, machine)
    parts = _parts(question, workspace)
    lines = [line for part in parts for line in part.lines()]
    names_itself = any("offline model" in line for line in lines)
    if (question.is_first or is_unknown(lines[0])) and not names_itself:
        lines += ["", CONNECT]
    return "\n".join(lines)


def _parts(question: Question, workspace: Workspace) -> Sequence[Part]:
    command = explained_command(question.text, workspace)
    if command is not None:
        return explanation(command, workspace)
    return (
        _as_typed(question, workspace, surely=True)
        or entry_parts(question.text, workspace)
        or _of_the_conversation(question, workspace)
        or _of_the_table(question, workspace)
    )


def _as_typed(question: Question, workspace: Workspace, *, surely: bool) -> Sequence[Part]:
    """Return the answer if the question is itself a command, else nothing."""
    command = typed_command(question.text, workspace.root, workspace.machine, surely=surely)
    return _with_tools("As you wrote it:", (command,), workspace) if command else []


def _of_the_conversation(question: Question, workspace: Workspace) -> Sequence[Part]:
    """Return the answer to a question that is not about the shell, else nothing."""
    text = question.text
    if _OF_CODE.search(" ".join(text.split())):
        return [Part(_CODE), Part(CONNECT, ("aish-lsp doctor",))]
    if _HELLO.match(text) and not question.ran_since:
        return [_help()]
    if asks_of_result(text) and (
        question.ran or (says_no_more(text) and not _of_the_table_alone(question, workspace))
    ):
        return result_parts(question.ran, workspace)
    return [Part(_MEMORY)] if _OF_MEMORY.search(text) else []


def _of_the_table_alone(question: Question, workspace: Workspace) -> bool:
    """Return whether the table knows the question, which may only sound like one about a result."""
    return bool(read(question.text, (), workspace).meant)


def _of_the_table(question: Question, workspace: Workspace) -> Sequence[Part]:
    """Return the table's answer, else the result of the last command, else that this is unknown."""
    text = question.text
    reading = read(text, question.earlier, workspace)
    if reading.meant:
        return [part for meant in reading.meant for part in _answer(meant, workspace)]
    if question.ran_since and asks_of_trouble(text):
        return result_parts(question.ran, workspace)
    return _as_typed(question, workspace, surely=False) or [_unknown(text, reading)]


def _help() -> Part:
    titles = table().titles
    count = len(table().intents)
    families = ", ".join(f"{title[0].lower()}{title[1:]}" for title in titles.values())
    return Part(
        f"Ask me about everyday tasks in the shell: I know {count}, of {families}; how to test, "
        "build and run this project; what a command means; why the last one failed. `:help "
        "offline` lists them."
    )


def _unknown(text: str, reading: Reading) -> Part:
    """Return the answer that the question is not known, with the nearest known ones."""
    if is_foreign(text):
        return Part(f"{_BEYOND} I only understand English; a language model understands more.")
    nearest = [_spoken(match) for match in reading.nearest if match.confidence > 0]
    known = f" The nearest that I know: {' · '.join(nearest)}." if nearest else ""
    return Part(f"{_BEYOND}{known} `:help offline` lists what I know.")


def _spoken(match: Match) -> str:
    """Return an example of asking for an intent, with its slots as words."""
    return f"*{spoken(match.intent.example)}*"


def _answer(meant: Match, workspace: Workspace) -> Sequence[Part]:
    """Return the answer to one of the things that are asked for."""
    intent = meant.intent
    if intent.topic:
        kind, _, name = intent.topic.partition(":")
        if kind == "say":
            return [Part(intent.does)]
        return _TOPICS[kind](name, workspace)
    values = meant.values
    way = told(intent, values, workspace, meant.ways)
    if way is None:
        return [Part(f"{intent.does} I know no way to do that on this machine.")]
    commands = way.commands
    if meant.suffix:
        commands = (f"{commands[0]}{render(meant.suffix, values)}",)
    if commands[0].startswith("git ") and _needs_repository(commands[0]) and not workspace.in_git:
        return [
            Part("This folder is not in a git repository; `git init` makes it one.", ("ls -la",))
        ]
    sentence = meant.sentence or intent.does
    return _with_tools(sentence, commands, workspace, way.note, _guessed_programs(values))


def _guessed_programs(values: Mapping[str, str]) -> set[str]:
    """Return what was taken for a program because of its position, but is not known to be one."""
    commands = (value.split() for slot, value in values.items() if kind_of(slot) == "command")
    given = {parts[0] for parts in commands if parts}
    return given - group("names") - group("programs")


def _with_tools(
    sentence: str,
    commands: tuple[str, ...],
    workspace: Workspace,
    note: str = "",
    guessed: Collection[str] = (),
) -> Sequence[Part]:
    """Return what to run, after how to install a tool that it needs and that is missing."""
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
    words = command.split()
    return words[1] not in ("init", "clone", "config", "--version", "help", "ls-remote") and not (
        words[1] == "diff" and "--no-index" in words
    )


def _task(name: str, workspace: Workspace) -> Sequence[Part]:
    intent: Intent = name  # type: ignore[assignment]
    return task_parts(intent, workspace)


_TOPICS: Final[Mapping[str, Callable[[str, Workspace], Sequence[Part]]]] = {
    "task": _task,
    "connect": lambda _name, _workspace: [Part(_HOW_TO_CONNECT, ("aish-lsp doctor",))],
    "help": lambda _name, _workspace: [_help()],
    "remember": lambda _name, _workspace: [Part(_MEMORY)],
    "overview": lambda _name, workspace: [overview(workspace)],
}
