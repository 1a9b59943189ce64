"""What is said in a long session: questions, command output, replies and summaries, in turn.

Code and English come from Python's standard library, the rest stands below; a seed decides what
comes when, so that a session can be held again.
"""

# ruff: noqa: RUF001 - Russian and Chinese have their own letters and marks

from __future__ import annotations

import ast
import json
import random
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["short", "english", "code", "output", "json", "russian", "chinese"]

#: Of each, how often it comes.
KINDS: dict[Kind, int] = {
    "short": 2,
    "english": 3,
    "code": 4,
    "output": 4,
    "json": 1,
    "russian": 3,
    "chinese": 3,
}

RUSSIAN = (
    "Почему тест не находит файл настроек, хотя он лежит рядом?",
    "Сначала посмотрим, что печатает команда, а потом решим, что исправить.",
    "Ошибка появляется только тогда, когда запущено несколько процессов сразу.",
    "Мне нужно переименовать функцию во всём проекте и ничего не сломать.",
    "В журнале видно, что соединение закрывается через тридцать секунд.",
    "Покажи, пожалуйста, самые большие каталоги и сколько места они занимают.",
    "После обновления библиотеки сборка стала заметно медленнее.",
    "Я предпочитаю короткие ответы без длинных объяснений.",
    "Запусти тесты ещё раз и скажи, какие из них не прошли.",
    "Эта строка длиннее ста знаков, её надо разбить.",
    "Переменная окружения задана, но программа её не видит.",
    "Проверь, не осталось ли в репозитории временных файлов.",
)

CHINESE = (
    "为什么测试找不到配置文件？它明明就在旁边。",
    "先看看命令输出了什么，再决定要改哪里。",
    "只有同时运行多个进程的时候才会出现这个错误。",
    "我想在整个项目里重命名这个函数，不要破坏其他代码。",
    "日志显示连接在三十秒之后被关闭了。",
    "请列出占用空间最大的目录，按大小排序。",
    "更新依赖库以后，构建速度明显变慢了。",
    "我喜欢简短的回答，不需要长篇解释。",
    "再运行一次测试，告诉我哪些没有通过。",
    "这一行超过了一百个字符，需要拆开。",
    "环境变量已经设置好了，可是程序读不到它。",
    "检查一下仓库里有没有留下临时文件。",
)

SHORT = (
    "And why?",
    "Go on.",
    "How do I undo that?",
    "Which file is that in?",
    "Does it also work on macOS?",
    "Thanks. What is left to do?",
    "Почему?",
    "А если файла нет?",
    "为什么？",
    "还有别的办法吗？",
)

#: What is really run; most of it only reads.
COMMANDS = (
    "ls -l",
    "cat Makefile",
    "wc -l app.py Makefile",
    "grep -n 'def ' app.py",
    "head -n 60 app.py",
    "od -c app.py | head -n 8",
    "seq -s ' ' 1 200",
    "ls nowhere",
    "make test",
    "echo 'Grüße 你好 🐍'",
)

_ABOUT_CODE = (
    "What does this do?",
    "Where is the bug in this?",
    "Write a test for this.",
    "Объясни, что здесь происходит.",
    "这段代码是做什么的？",
)
_ABOUT_OUTPUT = ("Did that work?", "What does that mean?", "Что здесь не так?", "这是什么意思？")

#: What a question shows, in shares of the longest, drawn evenly by the logarithm; and what one in
#: so many shows.
_USUAL = (0.1, 0.8)
_LONG = (0.8, 1.0)
_LONG_EVERY = 40

#: What is taken of a paragraph.
_WORDS, _CHARACTERS = 12, 90

#: Characters that a reply has at least, but for the sentence's end; short for the most part, since
#: a grammar over a large vocabulary is slow.
_REPLIES = (1, 1, 1, 1, 60, 150)

#: The share of its most characters that a summary has; one in so many is longer than it may be.
_SUMMARY_SHARE = (0.3, 0.7)
_TOO_LONG_SHARE = 1.2
_TOO_LONG_EVERY = 8


@dataclass(frozen=True)
class Question:
    """A question, the commands that are run before it, and what is replied.

    ``reasoning`` is what the model thinks first, where it can.
    """

    kind: Kind
    prompt: str
    commands: tuple[str, ...]
    reasoning: str
    reply: str


class Script:
    """All that is said in a session.

    Args:
        seed: what decides.
        longest: the most characters that a question shows.
        longest_summary: the most characters that a summary may have.
    """

    def __init__(self, seed: int, longest: int, longest_summary: int) -> None:
        self._longest = longest
        self._longest_summary = longest_summary
        self._random = random.Random(seed)
        self._summaries = random.Random(seed)

    @cached_property
    def _modules(self) -> list[str]:
        """Some modules of the standard library, from all of the alphabet."""
        folder = Path(sysconfig.get_path("stdlib"))
        found = sorted(path for path in folder.glob("*.py") if path.stat().st_size > 12_000)
        return [path.read_text("utf-8") for path in found[::3]]

    @cached_property
    def _prose(self) -> list[str]:
        """The paragraphs of these modules' docstrings."""
        paragraphs: list[str] = []
        for module in self._modules:
            nodes = ast.walk(ast.parse(module))
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
            for node in nodes:
                if isinstance(node, kinds):
                    paragraphs += (ast.get_docstring(node) or "").split("\n\n")
        return [text for text in paragraphs if len(text) > 80]

    def question(self) -> Question:
        """Return what is asked next, and what is replied."""
        rng = self._random
        [kind] = rng.choices(list(KINDS), list(KINDS.values()))
        commands: tuple[str, ...] = ()
        if kind == "output":
            commands = tuple(rng.sample(COMMANDS, rng.choice((1, 1, 2))))
        return Question(
            kind=kind,
            prompt=self._prompt(kind, self._length()),
            commands=commands,
            reasoning=self._sentences(self._english, 100) if rng.randrange(8) == 0 else "",
            reply=self._reply(kind),
        )

    def summary(self) -> str:
        """Return what the next summary says."""
        rng = self._summaries
        too_long = rng.randrange(_TOO_LONG_EVERY) == 0
        length = (
            _TOO_LONG_SHARE if too_long else rng.uniform(*_SUMMARY_SHARE)
        ) * self._longest_summary
        lines: list[str] = []
        while sum(map(len, lines)) < length:
            said = rng.choice((rng.choice(RUSSIAN), rng.choice(CHINESE), rng.choice(self._prose)))
            lines.append(" ".join(said.split())[:100])
        return "\n".join(dict.fromkeys(lines))

    def _length(self) -> int:
        """Return the characters that a question shows."""
        rng = self._random
        least, most = _LONG if rng.randrange(_LONG_EVERY) == 0 else _USUAL
        return int(self._longest * least * (most / least) ** rng.random())

    def _prompt(self, kind: Kind, length: int) -> str:
        rng = self._random
        match kind:
            case "short":
                return rng.choice(SHORT)
            case "english":
                return self._sentences(self._english, length)
            case "russian":
                return self._sentences(lambda: rng.choice(RUSSIAN), length // 2)
            case "chinese":
                return self._sentences(lambda: rng.choice(CHINESE), length // 4)
            case "output":
                return rng.choice(_ABOUT_OUTPUT)
            case "json":
                shown = json.dumps(self._entries(), indent=rng.choice((None, 2)))[:length]
            case "code":
                shown = self._code(length)
        return f"{rng.choice(_ABOUT_CODE)}\n\n```\n{shown}\n```"

    def _reply(self, kind: Kind) -> str:
        rng = self._random
        said: Callable[[], str] = self._english
        if kind in {"russian", "chinese"}:
            texts: Sequence[str] = RUSSIAN if kind == "russian" else CHINESE
            said = lambda: rng.choice(texts)  # noqa: E731 - as above
        reply = self._sentences(said, rng.choice(_REPLIES))
        match rng.randrange(12):
            case 0:
                reply += f"\n\n```python\n{self._code(120)}\n```"
            case 1 | 2 | 3:
                reply += f"\nCMD: {rng.choice(COMMANDS)}"
        return reply

    def _sentences(self, said: Callable[[], str], length: int) -> str:
        """Return something that was said, and more until it has about ``length`` characters."""
        text = said()
        while len(text) < length:
            text += f" {said()}"
        return text

    def _english(self) -> str:
        return " ".join(self._random.choice(self._prose).split()[:_WORDS])[:_CHARACTERS]

    def _code(self, length: int) -> str:
        module = self._random.choice(self._modules)
        begin = module.rfind("\n", 0, self._random.randrange(len(module) - length)) + 1
        return module[begin : begin + length].rstrip()

    def _entries(self) -> list[dict[str, object]]:
        """Return a module's functions, as a tool would tell them."""
        tree = ast.parse(self._random.choice(self._modules))
        return [
            {
                "name": node.name,
                "line": node.lineno,
                "arguments": [arg.arg for arg in node.args.args],
            }
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
        ]
