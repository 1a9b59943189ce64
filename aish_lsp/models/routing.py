"""What kind of question one is, by the rules of one table; and whom a question is addressed to.

The rules look at words in English, and at shapes in any language: fences, stack traces, paths,
commands. The first that fits counts, so what a user says outright stands above what may be chance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aish_lsp.config.schema import QuestionClass

#: Characters that are looked at, of the beginning and of the end of a question. What is pasted
#: between them may be of any length.
_ENDS: Final = 500

_COMMANDS: Final = (
    "apt|apt-get|aws|awk|brew|bun|bundle|cargo|cd|chmod|chown|cmake|conda|cp|curl|df|dnf|docker"
    "|docker-compose|du|ffmpeg|gcc|gh|git|grep|gzip|helm|journalctl|jq|kubectl|ln|ls|lsof|mkdir"
    "|mv|mvn|ninja|node|npm|npx|nvim|openssl|pacman|pip|pipx|pnpm|podman|ps|psql|pytest|python3?"
    "|rg|rm|rmdir|rsync|ruff|rustup|scp|sed|ssh|sudo|systemctl|tar|terraform|tmux|tox|uname|unzip"
    "|uv|uvx|vim|wget|xargs|yarn"
)
#: Commands that are words as well: they count where something that is not a word follows.
_WORDS_TOO: Final = "cat|cut|find|go|head|join|kill|less|make|sort|split|tail|test|time|top|which"
_SUFFIXES: Final = (
    "bash|c|cc|cpp|cs|css|dart|ex|go|h|hpp|hs|html|java|jl|js|jsx|kt|lua|m|mjs|ml|php|pl|py|pyi"
    "|rb|rs|scala|sh|sql|svelte|swift|tf|ts|tsx|vue|zig"
)


@dataclass(frozen=True, slots=True)
class Classified:
    """The class that a question was taken for, and why: the end of "It ..."."""

    class_: QuestionClass
    why: str


def _rule(
    class_: QuestionClass, why: str, *shapes: str, words: str = ""
) -> tuple[Classified, re.Pattern[str]]:
    """Return a row: any of ``shapes``, or any of ``words`` standing by itself, makes it fit."""
    patterns = [*shapes, rf"\b(?:{words})\b"] if words else shapes
    return Classified(class_, why), re.compile("|".join(patterns), re.MULTILINE)


#: The table, for questions in small letters. No pattern can be made slow by what it is given: each
#: repetition within another has an end.
RULES: Final = (
    _rule("reasoning", "asks to think it through",
          r"一步一步|逐步|ステップバイステップ|단계별|шаг за шагом",
          words=r"step[ -]by[ -]step|think (?:hard|harder|carefully|deeply|it through|through)"
                r"|reason (?:about|through)|trade-?offs?|pros and cons|root cause|proof"
                r"|prove (?:that|it|this|the)|schritt für schritt|étape par étape|paso a paso"
                r"|passo a passo"),
    _rule("shell", "shows a terminal",
          r"^ {0,3}(?:```|~~~) ?(?:sh|shell|bash|zsh|fish|console)\b",
          r"^[$%] \w"),
    _rule("code", "has a code fence",
          r"^ {0,3}(?:```|~~~)"),
    _rule("code", "has a stack trace or a compiler's message",
          r"^traceback \(most recent",
          r"^ {0,20}file \"[^\"\n]{1,300}\", line \d",
          r"^[ \t]{1,20}at [\w.$<>/]{1,200} ?\(",
          r"^[\w./\\-]{1,200}:\d{1,7}(?::\d{1,5})?: ",
          r"\berror\[[a-z]\d{4}\]|^panic: |\bundefined reference to\b"),
    _rule("code", "has a diff",
          r"^(?:@@ -\d|diff --git |--- a/|\+\+\+ b/)"),
    _rule("shell", "begins with a command",
          rf"\A\s{{0,20}}(?:{_COMMANDS})(?:\s|\Z)",
          rf"\A\s{{0,20}}(?:{_WORDS_TOO}) [-./~*$]"),
    _rule("code", "asks for work on code",
          words=r"(?:write|implement|refactor|rewrite|fix|debug|review|optimi[sz]e|simplify|extract"
                r"|rename|document|port|translate|convert|explain)\b[^.?!\n]{0,40}\b(?:functions?"
                r"|methods?|class(?:es)?|code|bugs?|unit tests?|types?|modules?|loops?|query|regex"
                r"|script|components?|endpoint|parser|variables?|algorithm)"),
    _rule("shell", "asks what to run",
          rf"`(?:{_COMMANDS})[` ]",
          words=r"commands?|terminal|shell|run|execute|install|uninstall|start|stop|restart|disk"
                r"|process(?:es)?|port \d{2,5}|permissions?|env(?:ironment)? variables?|folders?"
                r"|director(?:y|ies)|commit|stash|rebase|git|docker|containers?|pip|npm|ssh|cron"
                r"|(?:list|find|delete|remove|copy|move|count|show)\b[^.?!\n]{0,30}\bfiles?"),
    _rule("code", "names a source file",
          rf"(?<=[\w-])\.(?:{_SUFFIXES})(?![\w-])"),
    _rule("code", "has something written as code",
          r"\w\(\w{0,40}\)|[;{}][ \t]{0,8}$|=>|->|::|!=|==|&&",
          r"\b(?:def|fn|func|function|struct|class|impl) \w{1,60}[ (:{<]",
          r"^(?:import|from|#include|using|package) [\w<\"]"),
    _rule("code", "speaks of code",
          words=r"code|functions?|methods?|class(?:es)?|bugs?|refactor\w{0,3}|unit tests?|syntax"
                r"|compil\w{1,5}|regex|exceptions?|stack trace|null pointer|type errors?|async"
                r"|algorithms?|decorators?|mutex|generics?|lint\w{0,4}"),
    _rule("shell", "names a path",
          r"(?:^|\s)(?:~|\.{0,2})/[\w.-]"),
    _rule("reasoning", "asks why, or what is better",
          r"\A\s{0,20}¿?(?:why|warum|wieso|weshalb|pourquoi|por qu[eé]|perch[eé]|waarom|почему)\b",
          r"为什么|為什麼|なぜ|どうして|\A\s{0,20}왜",
          words=r"compare|versus|vs|should (?:i|we)|best (?:way|approach)|architecture|design"
                r"|plan for|(?:is|are|which|what)\b[^.?!\n]{0,40}\bbetter"),
)  # fmt: skip

_OTHERWISE: Final = Classified("chat", "has nothing of the other classes")


def classify(question: str) -> Classified:
    """Return what kind of question this is, by the first rule that fits."""
    if len(question) > 2 * _ENDS:
        question = f"{question[:_ENDS]}\n{question[-_ENDS:]}"
    lower = question.lower()
    return next((found for found, pattern in RULES if pattern.search(lower)), _OTHERWISE)


def addressed(question: str, names: Iterable[str]) -> tuple[str | None, str]:
    """Return the model that ``@NAME ...`` names at the beginning, and the question without it.

    ``@`` with anything but one of ``names`` and a blank behind it is part of the question; so is
    one with no question behind it.
    """
    if not question.startswith("@"):
        return None, question
    for name in names:
        rest = question[1:].removeprefix(name) if name and question[1:].startswith(name) else ""
        if rest[:1].isspace() and rest.strip():
            return name, rest.lstrip()
    return None, question
