"""The offline model's answers: a sentence, commands for this project, how to get a real model.

What comes from the user, from files or from an output is quoted where it gets into a command, and
never stands at the beginning of a line elsewhere.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aish_lsp.models.offline.follow_up import PORTS, Advice, advice, told
from aish_lsp.models.offline.question import Question, Ran
from aish_lsp.models.offline.quoting import plain_line, quoted
from aish_lsp.models.offline.topics import Topic, intents, topic
from aish_lsp.project.safe_read import read_head
from aish_lsp.project.tasks import Intent, Rank, Task, find_tasks
from aish_lsp.text import without_hidden

CONNECT = (
    "I am aish's offline model: I answer from the files here, without a language model. To connect "
    "a real one, start llama.cpp (`llama-server -m MODEL.gguf`) or Ollama (`ollama serve`), or set "
    "a key such as OPENAI_API_KEY; `aish-lsp doctor` shows what is found and what is missing."
)

_BEYOND = "That is beyond me."

_KNOWN = (
    "how to test, build, run, lint, format, check, clean, install and start this project, how to "
    "search it, what git, the disk, the processes and the ports say, and what the last command "
    "printed"
)

#: A task in words, for "To ... here".
_IN_WORDS: Mapping[Intent, str] = {
    "test": "run the tests",
    "build": "build it",
    "run": "run it",
    "start": "start the development server",
    "lint": "lint the code",
    "format": "format the code",
    "check": "check the code",
    "clean": "clean up",
    "install": "install what it needs",
}
#: What may be meant as well where a project has no such task.
_INSTEAD: Mapping[Intent, tuple[Intent, ...]] = {
    "test": ("check",),
    "run": ("start",),
    "start": ("run",),
    "check": ("lint",),
    "lint": ("check",),
}

_README_LIMIT = 16384

#: A command whose " && " stand outside of quotes and brackets, as far as a glance can tell.
_STEPS_ARE_PLAIN = re.compile(r"(?:[^'\"()]|'[^'\"&]*')*")

#: Other ways that are told, and parts of a project.
_OTHER_WAYS = 1
_OTHER_PARTS = 3


@dataclass(frozen=True, slots=True)
class _Part:
    """A sentence, quoted lines and commands; they stand in this order."""

    sentence: str
    commands: tuple[str, ...] = ()
    quote: tuple[str, ...] = ()

    def lines(self) -> Iterable[str]:
        yield plain_line(self.sentence)
        yield from quoted(self.quote)
        yield from (f"CMD: {plain_line(command)}" for command in self.commands)


class _Workspace:
    """What the answers need of the workspace, looked up when first needed."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The project's tasks, the surest first."""
        return find_tasks(self.root)

    @cached_property
    def in_git(self) -> bool:
        """Whether the folder lies in a repository."""
        return any((folder / ".git").exists() for folder in (self.root, *self.root.parents))

    def best(self, intent: Intent) -> list[Task]:
        """Return the tasks for ``intent``, or for what may be meant as well."""
        for meant in (intent, *_INSTEAD.get(intent, ())):
            found = [task for task in self.tasks if task.intent == meant]
            if found:
                return found
        return []


def reply(question: Question, root: Path) -> str:
    """Return the answer to ``question`` in the workspace at ``root``."""
    workspace = _Workspace(root)
    parts = _parts(question, workspace)
    tells_how_to_connect = question.is_first or parts is None
    lines = [line for part in parts or _unknown(workspace) for line in part.lines()]
    if tells_how_to_connect and CONNECT not in lines:
        lines += ["", CONNECT]
    return "\n".join(lines)


def is_unknown(reply: str) -> bool:
    """Return whether ``reply`` says that the question is beyond the model."""
    return reply.startswith(_BEYOND)


def _parts(question: Question, workspace: _Workspace) -> Sequence[_Part] | None:
    """Return the answer's parts, or None where the question is not understood."""
    about = topic(question.text)
    if about is not None and about.name == "follow_up":
        return _follow_up(question, workspace)
    if about is not None:
        return _TOPIC_ANSWERS[about.name](about, workspace)
    wanted = intents(question.text)
    if wanted:
        return [part for intent in wanted for part in _task(intent, workspace)]
    if question.ran_since:
        return _follow_up(question, workspace)
    return None


def _task(intent: Intent, workspace: _Workspace) -> Sequence[_Part]:
    """Return how a task is done here: the surest way, and another one that the project sets up.

    Where only parts of the project tell, all of them are told, up to a few.
    """
    found = workspace.best(intent)
    if not found:
        words = _IN_WORDS[intent]
        return [_Part(f"I found no file here that says how to {words}.", ("ls -la",))]
    first = found[0]
    words = _IN_WORDS[first.intent]
    parts = [_Part(f"To {words} here (from {first.source}):", _steps(first))]
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
            parts.append(_Part(lead_in.format(other.source), _steps(other)))
    return parts


def _steps(task: Task) -> tuple[str, ...]:
    """Return the commands of a task, each to be run by itself, in order."""
    if _STEPS_ARE_PLAIN.fullmatch(task.command):
        return tuple(task.command.split(" && "))
    return (task.command,)


def _follow_up(question: Question, workspace: _Workspace) -> Sequence[_Part]:
    """Return what the last command did, and what to do next."""
    ran = question.ran
    if ran is None:
        sentence = "Nothing has been run in this conversation yet; run a suggested command first."
        return [_Part(sentence, _best_steps("test", workspace))]
    sentence, quote = told(ran)
    intent = next((t.intent for t in workspace.tasks if _steps(t)[-1] == ran.command), None)
    next_part = _next_part(advice(ran, intent), ran, workspace)
    return [_Part(sentence, quote=quote), *next_part]


def _best_steps(intent: Intent, workspace: _Workspace) -> tuple[str, ...]:
    """Return the commands of the surest task for ``intent``; none where there is no such task."""
    return next(map(_steps, workspace.best(intent)), ())


def _next_part(step: Advice, ran: Ran, workspace: _Workspace) -> Sequence[_Part]:
    """Return a step as a sentence and commands of this project's; a success may need none."""
    command = ran.command
    if step.again is not None and any(task.command == command for task in workspace.tasks):
        return [_Part(step.sentence, (f"{command} {step.again}",))]
    steps = _best_steps(step.intent, workspace) if step.intent else ()
    if steps and steps[-1] != command:
        return [_Part(step.sentence, steps)]
    if step.command:
        return [_Part(step.sentence, (step.command,))]
    if ran.exit == 0:
        return []
    if workspace.in_git:
        return [_Part("What has changed here:", ("git status --short",))]
    return [_Part("What is here:", ("ls -la",))]


def _unknown(workspace: _Workspace) -> Sequence[_Part]:
    """Return an honest answer with the nearest commands that help."""
    nearest = [*_best_steps("test", workspace)]
    nearest.append("git status --short --branch" if workspace.in_git else "ls -la")
    sentence = f"{_BEYOND} I only know {_KNOWN}. What may help meanwhile:"
    return [_Part(sentence, tuple(nearest))]


def _search(about: Topic, workspace: _Workspace) -> Sequence[_Part]:
    term = plain_line(about.term)
    if not term:
        return [_Part("Tell me what to search for, as in: search for `TODO`.")]
    program = "git grep -n -I --untracked" if workspace.in_git else "grep -rnI"
    place = "" if workspace.in_git else " ."
    command = f"{program} -F -e {shlex.quote(term)}{place}"
    return [_Part("To find it in the files of this folder:", (command,))]


def _file(about: Topic, _workspace: _Workspace) -> Sequence[_Part]:
    term = plain_line(about.term)
    pattern = term if "*" in term else f"*{term}*"
    command = f"find . -name {shlex.quote(pattern)} -not -path {shlex.quote('./.git/*')}"
    return [_Part("To find files of that name:", (command,))]


def _overview(_about: Topic, workspace: _Workspace) -> Sequence[_Part]:
    """Return what the manifests and the first words of the README tell of the project."""
    sources = list(dict.fromkeys(task.source for task in workspace.tasks))[:6]
    known = (
        f"I find its tasks in {', '.join(sources)}."
        if sources
        else "I found no manifest that I know."
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
    return [_Part(f"This is the folder {workspace.root.name}. {known}{begins}", tuple(look), quote)]


def _git(sentence: str, *commands: str) -> Callable[[Topic, _Workspace], Sequence[_Part]]:
    """Return an answer that needs a repository."""

    def answer(_about: Topic, workspace: _Workspace) -> Sequence[_Part]:
        if workspace.in_git:
            return [_Part(sentence, commands)]
        return [_Part("This folder is in no git repository.", ("ls -la",))]

    return answer


def _always(sentence: str, *commands: str) -> Callable[[Topic, _Workspace], Sequence[_Part]]:
    """Return an answer that is the same everywhere."""
    parts = [_Part(sentence, commands)]
    return lambda _about, _workspace: parts


_TOPIC_ANSWERS: Mapping[str, Callable[[Topic, _Workspace], Sequence[_Part]]] = {
    "code": lambda _about, _workspace: [
        _Part("To explain or to fix code takes a language model."),
        _Part(CONNECT, ("aish-lsp doctor",)),
    ],
    "connect": _always(CONNECT, "aish-lsp doctor"),
    "help": _always(f"Ask me {_KNOWN}."),
    "remember": _always(
        "Memory is kept by commands of the chat: `:remember TEXT` adds to it, `:memory list` shows "
        "it, `:memory forget ID` takes from it."
    ),
    "file": _file,
    "large": _always(
        "To find what is large here:", "find . -type f -size +10M -not -path './.git/*'", "du -sh ."
    ),
    "search": _search,
    "git_log": _git("The latest commits:", "git log --oneline -20"),
    "git_branch": _git("The branches:", "git branch --all"),
    "git_diff": _git("What has changed since the last commit:", "git diff", "git diff --staged"),
    "git": _git("The state of the work tree:", "git status --short --branch"),
    "git_status": _git("The state of the work tree:", "git status --short --branch"),
    "ports": _always("To see which ports are listened on, and by what:", PORTS),
    "processes": _always("To see what is running:", "ps aux"),
    "ram": _always(
        "To see how memory is used:", "vm_stat" if sys.platform == "darwin" else "free -h"
    ),
    "disk": _always("To see how full the disk is, and what this takes:", "df -h .", "du -sh ."),
    "system": _always("To see what system this is:", "uname -a"),
    "overview": _overview,
    "list": _always("To see the files here:", "ls -la"),
}
