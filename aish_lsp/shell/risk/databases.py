"""Clients of databases: what the statements do that they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aish_lsp.shell.risk.matching import takes_next
from aish_lsp.shell.risk.programs import tells
from aish_lsp.shell.risk.review import Input, Review
from aish_lsp.shell.risk.words import HOLE


@dataclass(frozen=True, slots=True)
class Client:
    """How a client is given statements: by options, or as an operand."""

    statements: tuple[str, ...]
    values: frozenset[str] = frozenset()
    operand: int | None = None


_SQL_VALUES: Final = frozenset(
    [
        "-h",
        "-U",
        "-d",
        "-p",
        "-P",
        "-u",
        "-D",
        "-S",
        "-H",
        "--host",
        "--user",
        "--username",
        "--dbname",
        "--database",
        "--port",
        "-v",
        "-o",
        "-f",
        "-L",
        "-F",
        "--socket",
        "--password",
        "-w",
        "-e",
    ]
)
_MYSQL_VALUES: Final = frozenset(["-h", "-u", "-P", "-D", "-S", "--host", "--user", "--port"])
DATABASES: Final[dict[str, Client]] = {
    "psql": Client(("-c", "--command"), _SQL_VALUES - {"-e", "-w", "-S"}),
    "pgcli": Client(("-c", "--command"), _SQL_VALUES),
    "cockroach": Client(("-e", "--execute"), _SQL_VALUES),
    "mysql": Client(("-e", "--execute", "--init-command"), _MYSQL_VALUES),
    "mariadb": Client(("-e", "--execute", "--init-command"), _MYSQL_VALUES),
    "sqlite3": Client(("-cmd", "--cmd"), frozenset({"-cmd", "-separator", "-init"}), 1),
    "duckdb": Client(("-c", "-cmd", "--command"), frozenset({"-c", "-cmd"}), 1),
    "clickhouse-client": Client(("-q", "--query"), _SQL_VALUES),
    "cqlsh": Client(("-e", "--execute"), _SQL_VALUES),
    "sqlcmd": Client(("-Q", "-q"), _SQL_VALUES),
    "snowsql": Client(("-q", "--query"), _SQL_VALUES),
    "presto": Client(("--execute",)),
    "trino": Client(("--execute",)),
    "bq": Client((), frozenset(), None),
    "mongosh": Client(("--eval",), frozenset({"--host", "--port", "-u", "-p"})),
    "mongo": Client(("--eval",), frozenset({"--host", "--port", "-u", "-p"})),
    "influx": Client(("-execute",), frozenset({"-database", "-host"})),
    "cypher-shell": Client((), frozenset({"-u", "-p", "-a", "-d"}), 0),
    "osqueryi": Client((), frozenset(), 0),
}

_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXTS: Final = re.compile(r"'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*'", re.DOTALL)
_DESTROYS: Final = tuple(
    (reason, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for reason, pattern in (
        (
            "deletes tables, or a whole database",
            r"\bdrop\b(?!\s*_)|\btruncate\b|\bdropdatabase|\.drop\w*\s*\(|\bdetach\s+delete\b|\bpurge\b",
        ),
        (
            "deletes rows or documents",
            r"\bdelete\b|\.(?:delete|remove|findandremove|bulkwrite|findoneanddelete)\w*\s*\(",
        ),
        ("changes every row", r"\bupdate\b(?:(?!\bwhere\b|;).)*(?:;|\Z)|\.updatemany\(\s*\{\s*\}"),
        (
            "takes something from a table",
            r"\balter\b.*\b(?:drop|rename|disable)\b|\breplace\s+into\b",
        ),
        (
            "changes who may do what",
            r"\brevoke\b|\b(?:drop|alter)\s+(?:user|role)\b|\bset\s+password\b",
        ),
        (
            "runs programs, or writes files, from the database",
            (
                r"\bto\s+program\b|\bfrom\s+program\b|xp_cmdshell|\binto\s+(?:out|dump)file\b|load_extension"
                r"|writefile\s*\(|lo_export|pg_terminate|pg_reload|sys_exec|\bkill\b|\bflush\b|shutdown"
                r"|\\!|\\[go]\w*\s*\||\\gexec|\.(?:shell|system)\b|^\s*(?:system|source|pager)\s"
            ),
        ),
        (
            "overwrites a database",
            r"\brestore\b|^\s*\.(?:restore|import)\b|\battach\b.*\bvacuum\s+into",
        ),
    )
)


def database(review: Review, words: Sequence[str], depth: int, given: Input) -> bool:
    """Take down what the statements destroy; return False: the tables say the rest."""
    name = words[0].rpartition("/")[2].casefold()
    client = DATABASES[name]
    if name == "bq":
        return _bq(review, words)
    statements, operands = _parts(client, words[1:])
    if client.operand is not None and len(operands) > client.operand:
        statements += operands[client.operand :]
    if name == "influx" and operands:
        return False
    for statement in statements:
        _statement(review, statement)
    if not statements:
        _from_input(review, name, given)
    return False


def _from_input(review: Review, name: str, given: Input) -> None:
    if given is None:
        review.caution(f"opens {name}")
        return
    text = given if isinstance(given, str) else given()
    if text.strip(HOLE):
        _statement(review, text)
    else:
        review.caution("runs the statements in its input")


def _parts(client: Client, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the statements in options, and the operands."""
    statements, operands = [], []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        found = next((option for option in client.statements if _holds(word, option)), None)
        if found is not None:
            rest = word[len(found) :].removeprefix("=") if word[:2] == found[:2] else ""
            if (rest and len(found) == 2) or (rest and found[:2] == "--"):
                statements.append(rest)
            else:
                statements.append(words[at] if at < len(words) else "")
                at += 1
        elif word[:1] != "-":
            operands.append(word)
        else:
            at += takes_next(word, client.values)
    return statements, operands


def _holds(word: str, option: str) -> bool:
    if word == option or (option[:2] == "--" and word.startswith(f"{option}=")):
        return True
    if len(option) > 2 or word[:2] == "--" or word[:1] != "-":
        return False
    return word[:2] == option or word.endswith(option[1])


def _statement(review: Review, text: str) -> None:
    """Take down what statements do, in SQL or in a shell's own language."""
    if text.strip(f"{HOLE} ") == "" and HOLE in text:
        review.caution("runs statements that are not known")
        return
    tells(review, text)
    bare = _TEXTS.sub("''", _COMMENTS.sub(" ", text))
    for reason, pattern in _DESTROYS:
        if pattern.search(bare):
            review.destructive(reason)


def _bq(review: Review, words: Sequence[str]) -> bool:
    operands = [word for word in words[1:] if word[:1] != "-"]
    if operands[:1] == ["query"] and len(operands) > 1:
        _statement(review, operands[-1])
        return True
    return False
