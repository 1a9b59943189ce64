# ruff: noqa: RUF001 - prose of other languages has letters that look like ours
"""Natural text of any length, from what every machine with Python has and from a few pages here.

``NATURAL`` is what people and tools write. ``UNNATURAL`` is what they hardly do: keys, blanks, rare
characters, of which no estimate can know much.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import random
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

STDLIB = Path(sysconfig.get_path("stdlib"))

_ENGLISH = """\
The build fails on the second machine only, and I do not see why it should.
Please look at the last ten lines of the log before you answer.
We moved the parser into a module of its own, so that the command line and the server share it.
If the file is missing, the program should say so and go on with its defaults.
My grandmother kept bees, and every summer the whole street came to buy honey from her.
The train to the coast leaves at a quarter past seven and stops at every village.
A cache that is never emptied is a leak with a friendly name.
Could you explain the difference between the two functions, and when I would use which?
The committee met on Tuesday, but it could not agree on the budget for the new library.
Nobody had told the night watchman that the museum would be closed for repairs.
It worked yesterday; since then I have only upgraded the compiler and cleaned my desk.
She wrote the first version in a weekend and spent the following year removing most of it.
Heavy rain is expected in the north, while the south will stay dry and unusually warm.
All of these settings can be overridden on the command line, in the environment, or in a file.
"""

_RUSSIAN = """\
Сборка падает только на второй машине, и я не понимаю, почему так происходит.
Пожалуйста, посмотри последние десять строк журнала, прежде чем отвечать.
Мы вынесли разбор настроек в отдельный модуль, чтобы сервер и командная строка им делились.
Если файла нет, программа должна сказать об этом и работать со значениями по умолчанию.
Моя бабушка держала пчёл, и каждое лето вся улица приходила к ней за мёдом.
Поезд до побережья отправляется в четверть восьмого и останавливается в каждой деревне.
Не могли бы вы объяснить разницу между этими двумя функциями и когда какую использовать?
Комиссия собралась во вторник, но так и не договорилась о расходах на новую библиотеку.
Никто не предупредил ночного сторожа, что музей закрыт на ремонт.
Вчера всё работало; с тех пор я только обновил компилятор и прибрался на столе.
На севере ожидаются сильные дожди, а на юге останется сухо и необычайно тепло.
Первую версию она написала за выходные, а потом целый год удаляла из неё лишнее.
"""

_CHINESE = """\
构建只在第二台机器上失败，我不明白为什么会这样。
请先看日志的最后十行，然后再回答我的问题。
我们把解析器移到了单独的模块里，这样命令行和服务器就可以共用它。
如果文件不存在，程序应该说明这一点，然后使用默认设置继续运行。
我的祖母以前养蜜蜂，每年夏天整条街的人都来她那里买蜂蜜。
去海边的火车七点一刻出发，在每个村子都停。
你能解释一下这两个函数之间的区别吗？什么时候应该用哪一个？
委员会星期二开会，但是没有就新图书馆的预算达成一致。
没有人告诉夜班保安博物馆因为维修而关闭。
昨天还能用，从那以后我只升级了编译器，还整理了桌子。
预计北方有大雨，南方则继续干燥，而且异常温暖。
她用一个周末写出了第一个版本，然后花了一年时间删掉其中的大部分。
"""

_JAPANESE = """\
ビルドは二台目のマシンでだけ失敗しますが、その理由がわかりません。
答える前に、ログの最後の十行を見てください。
構文解析を独立したモジュールに移したので、コマンドラインとサーバーの両方で使えます。
ファイルがない場合は、そのことを伝えて、既定の設定で処理を続けるべきです。
祖母は昔ミツバチを飼っていて、毎年夏になると近所の人がみんな蜂蜜を買いに来ました。
海岸行きの電車は七時十五分に出発し、すべての村に停車します。
この二つの関数の違いと、どちらをいつ使えばよいかを説明していただけますか。
委員会は火曜日に集まりましたが、新しい図書館の予算については合意できませんでした。
博物館が修理のために閉まっていることを、夜警には誰も知らせていませんでした。
昨日は動いていました。それからコンパイラを更新して、机を片付けただけです。
北部では大雨が予想されていますが、南部は乾燥していて、いつになく暖かいでしょう。
彼女は最初の版を週末に書き上げ、その後の一年をかけてほとんどを削りました。
"""


def _sentences(page: str, separator: str) -> Callable[[random.Random, int], str]:
    """Return what writes sentences of ``page``, in any order."""
    lines = page.splitlines()

    def write(rng: random.Random, size: int) -> str:
        text = ""
        while len(text) < size:
            end = "\n\n" if rng.random() < 0.15 else separator
            text += rng.choice(lines) + end
        return text[:size]

    return write


@cache
def _modules() -> list[str]:
    paths = sorted(path for path in STDLIB.glob("*.py") if path.stat().st_size > 2000)
    return [path.read_text("utf-8") for path in paths]


def _code(rng: random.Random, size: int) -> str:
    module = rng.choice(_modules())
    begin = module.rfind("\n", 0, rng.randrange(max(1, len(module) - size))) + 1
    return module[begin : begin + size]


@cache
def _functions() -> list[dict[str, object]]:
    """Return what some modules' functions are, as a tool would tell it."""
    return [
        {
            "name": node.name,
            "line": node.lineno,
            "arguments": [argument.arg for argument in node.args.args],
            "documentation": ast.get_docstring(node),
        }
        for source in _modules()[::8]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]


def _data(rng: random.Random, size: int) -> str:
    entries = rng.sample(_functions(), min(len(_functions()), 1 + size // 100))
    return json.dumps(entries, indent=rng.choice([None, 2]))[:size]


@cache
def _listed() -> tuple[list[str], list[str]]:
    """Return the standard library's files as ``ls -l`` lists them, and its lines as ``grep -n``."""
    files = sorted(path for path in STDLIB.glob("*.py"))
    listing = [
        f"-rw-r--r-- 1 me me {path.stat().st_size:7} 2024-03-{1 + day % 28:02} 09:41 {path.name}"
        for day, path in enumerate(files)
    ]
    matches = [
        f"{path.name}:{number}:{line}"
        for path in files[::8]
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "return" in line or "import" in line
    ]
    return listing, matches


def _output(rng: random.Random, size: int) -> str:
    lines = rng.choice(_listed())
    begin = rng.randrange(len(lines))
    return "\n".join(lines[begin : begin + 1 + size // 40])[:size]


#: What writes ``size`` characters of a kind.
NATURAL: dict[str, Callable[[random.Random, int], str]] = {
    "python": _code,
    "json": _data,
    "output": _output,
    "english": _sentences(_ENGLISH, " "),
    "russian": _sentences(_RUSSIAN, " "),
    "chinese": _sentences(_CHINESE, ""),
    "japanese": _sentences(_JAPANESE, ""),
}


def _base64(rng: random.Random, size: int) -> str:
    return base64.b64encode(rng.randbytes(size)).decode()[:size]


def _hashes(rng: random.Random, size: int) -> str:
    lines = (hashlib.sha256(rng.randbytes(8)).hexdigest() for _ in range(1 + size // 65))
    return "\n".join(lines)[:size]


def _blanks(rng: random.Random, size: int) -> str:
    runs = (rng.choice(" \n\t") * rng.choice([1, 2, 3, 7, 30]) for _ in range(1 + size))
    return "".join(runs)[:size]


def _marks(rng: random.Random, size: int) -> str:
    return "".join(chr(rng.randrange(33, 127)) for _ in range(size))


def _rare(rng: random.Random, size: int) -> str:
    ranges = ((0x80, 0x250), (0x370, 0x3FF), (0x900, 0xDFF), (0x2190, 0x27BF), (0x1F300, 0x1FAFF))
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(size))


def _headings(rng: random.Random, size: int) -> str:
    lines = (rng.choice(["[result]", "[project]", "[tool: x]", "</s>"]) for _ in range(size))
    return "\n".join(lines)[:size]


#: What no estimate can know.
UNNATURAL: dict[str, Callable[[random.Random, int], str]] = {
    "base64": _base64,
    "hashes": _hashes,
    "blanks": _blanks,
    "marks": _marks,
    "rare": _rare,
    "headings": _headings,
}
