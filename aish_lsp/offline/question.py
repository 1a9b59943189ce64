"""What was asked, and what the commands printed that were run before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aish_lsp.models.request import RequestMessage

#: Characters of a question that are looked at.
_QUESTION_LIMIT = 2000

#: User messages that are looked at.
_EARLIER = 12

#: The head of a block as the prompt writes it; in an output such a line never begins so.
_HEAD = re.compile(r"^\[exec output\]\n\$ (.*) \(exit (-?\d+)\)$", re.MULTILINE)

#: The head of text that the question is about, which follows the output; the whole of its block.
_ABOUT = re.compile(r"^\[(?:selection|definition|problems|file)\] ", re.MULTILINE)
_BLOCK = re.compile(rf"{_ABOUT.pattern}.*\n(`{{3,}}).*\n(?:.*\n)*?\1$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run, its exit status and what it printed."""

    command: str
    exit: int
    output: str


@dataclass(frozen=True, slots=True)
class Question:
    """The last user message: its text, the last command run, and how the two belong together.

    ``ran_since`` says that the command was run since the message before; ``is_first`` that the
    conversation has no reply yet. ``earlier`` are the questions before it, the oldest first.
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


def _readable(text: str) -> str:
    """Return as much of a question as is looked at, without what cannot stand in a command."""
    return text[:_QUESTION_LIMIT].replace("\0", "")


def _parted(content: str) -> tuple[Ran | None, str]:
    """Return the last command whose output a user message carries, and the message's own text.

    Behind an output, which may have blank lines as well, the text is taken to be the last
    paragraph; what the question is about has fences.
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
