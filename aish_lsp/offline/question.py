"""What was asked, and what the commands printed that were run before.

Questions that are about the conversation and not about the shell are told by simple patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aish_lsp.models.request import RequestMessage
from aish_lsp.offline.words import words

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


#: What cannot stand in a command: JSON may bring half a character.
_UNSPEAKABLE: Final = re.compile("[\0\ud800-\udfff]")


def _readable(text: str) -> str:
    """Return as much of a question as is looked at, without what cannot stand in a command."""
    return _UNSPEAKABLE.sub("", text[:_QUESTION_LIMIT])


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


_IT = r"(?:that|it|this|they|the (?:\w+ )?(?:command|tests?|build|run|output|result|error)s?)"
_ENDED = r"(?:ok|okay|good|fine|done|success\w*|work\w*|pass\w*|fail\w*|green|red)"

#: What is asked of the command that was run last.
_OF_THE_RESULT: Final = (
    rf"\bdid (?:{_IT}|everything|anything|all)\b",
    rf"\b(?:is|was|were|are|has|have) {_IT} {_ENDED}\b",
    rf"\bwhat (?:did|does|do|was|is wrong with) {_IT}(?! \S*[-/|])",
    r"\bwhat (?:did|does) (?:that|it|this|the)\b.*\b(?:print|say|output|show|mean)\b",
    r"\bwhat (?:was|is) the (?:output|result|error)\b",
    r"\bwhat (?:happened|went wrong|failed|broke|now|next)\b",
    rf"\bwhy (?:did|does|is|was|do|has|won't|can't|doesn't|didn't|isn't) (?:{_IT}|i)\b",
    r"\bwhy (?:did|does|do)\b.*\b(?:fail|crash|break)",
    r"^\W*why(?: not)?\W*$",
    r"^\W*which\b.*\bfail\w*\W*$",
    r"\bnow what\b",
    r"\b(?:what|which) (?:was |is )?(?:the )?exit (?:code|status)\b",
    r"\b(?:last|previous) (?:output|error)\b",
    r"\b(?:fix|explain|solve|repair) (?:it|this|that|the)(?: last)?(?: error| problem)?\W*$",
    r"\bhow (?:do|can|should) (?:i|we) (?:fix|solve|repair) (?:it|this|that|the error)\b",
)

#: As the code actions ask: the words behind it are the name of a file.
_OF_CODE: Final = r"^(?:explain|fix|suggest)\b.* lines? \d"

#: Memory is the chat's own.
_OF_MEMORY: Final = (
    r"^\W*(?:please |can you |could you )?(?:remember|forget(?!.*\bkeys?\b)|memori[sz]e)\b"
)

#: What may be asked of a command that was just run, where the question names nothing else.
_OF_TROUBLE: Final = (
    r"\b(?:error|errors|fail\w*|fix|broke\w*|wrong|crash\w*|problem|trouble|mean|means|meaning|output"
    r"|result|exit|solve|repair|mend|not work\w*|does ?n['\u2019]?t work|happen\w*)\b"
    r"|^\W*(?:why|what|how|so|and|huh|hm+|help|ugh|next|now|then|again|ok|okay)?(?:\s+(?:now|next|then))?\W*$"
)

#: Words that a question of a result may have, whatever was run.
_OF_ANY_RESULT: Final = (
    *("test", "suite", "build", "run", "error", "problem", "output", "result", "exit", "code"),
    *("status", "fail", "failure", "failed", "pass", "work", "working", "happen", "wrong", "go"),
    *("break", "broke", "broken", "crash", "print", "mean", "last", "previous", "green", "red"),
    *("success", "succeed", "successful", "succeeded", "finish", "finished", "fix", "explain"),
    *("solve", "repair", "next", "first", "why", "not", "good", "fine", "project", "didn't"),
    *(
        "doesn't",
        "don't",
        "isn't",
        "wasn't",
        "hasn't",
        "aren't",
        "time",
        "red",
        "yet",
        "again",
        "found",
        "say",
    ),
)

_TROUBLE = re.compile(_OF_TROUBLE, re.IGNORECASE)
_MEMORY = re.compile(_OF_MEMORY, re.IGNORECASE)
_RESULT = re.compile("|".join(_OF_THE_RESULT), re.IGNORECASE)
_CODE = re.compile(_OF_CODE, re.IGNORECASE)


def asks_of_result(text: str) -> bool:
    """Return whether ``text`` asks what came of the last command."""
    return _RESULT.search(" ".join(text.split())) is not None


def says_no_more(text: str) -> bool:
    """Return whether ``text``, which asks of a result, names nothing else: no program, no file."""
    terms = (words().term(word) for word in re.findall(r"[\w./-]*\w", text.lower()))
    known = {words().term(word) for word in _OF_ANY_RESULT}
    return all(term in known for term in terms if term)


def asks_of_trouble(text: str) -> bool:
    """Return whether ``text`` may be about the command that was just run, and what it printed."""
    return _TROUBLE.search(" ".join(text.split())) is not None


def asks_of_code(text: str) -> bool:
    """Return whether ``text`` asks to explain or to mend code, which takes a language model."""
    return _CODE.search(" ".join(text.split())) is not None


def asks_to_remember(text: str) -> bool:
    """Return whether ``text`` asks to keep something in mind, or to forget it."""
    return _MEMORY.search(text) is not None
