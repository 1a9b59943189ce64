"""Commands that write to a file named by an operand: what they overwrite decides."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aish_lsp.shell.risk.data import UNKNOWN
from aish_lsp.shell.risk.matching import Arguments
from aish_lsp.shell.risk.paths import How, is_of_system, is_system, names_secret
from aish_lsp.shell.risk.review import SENDS, Review
from aish_lsp.shell.risk.rules import Writer
from aish_lsp.shell.risk.values import Input, text_of


def note_targets(
    review: Review, how: Writer, name: str, arguments: Arguments, stdin: Input
) -> None:
    """Record the risk of what a command writes; ``how`` it names that."""
    if how.needs and re.search(how.needs, "\n".join(arguments.words), re.MULTILINE) is None:
        return
    if how.own_values is not None:
        arguments = Arguments(arguments.words, how.own_values)
    if how.only and not any(map(arguments.has, how.only)):
        return
    if name in {"curl", "wget"}:
        _downloads(review, name, arguments)
    for value in arguments.values(how.outputs):
        if value != "-":
            review.writes(value)
    for value in arguments.values(how.folders):
        _folder(review, value, name)
    for value in arguments.values(how.runs):
        review.add_text(value.removeprefix("exec="))
    _archive(review, name, arguments, stdin)
    if how.operands:
        # If no option holds its program, the first operand does.
        first = int(bool(how.program) and not any(map(arguments.has, how.program)))
        keeps = any(map(arguments.has, how.keeps))
        _operands(review, how, name, arguments.operands[first:], keeps=keeps, stdin=stdin)


def _operands(
    review: Review, how: Writer, name: str, operands: Sequence[str], *, keeps: bool, stdin: Input
) -> None:
    """Judge what a command writes to the files among its operands."""
    taken = operands[:-1]
    is_emptied = operands[:1] == ["/dev/null"]
    if how.sources:
        _taken(review, taken)
    if how.last:
        operands = operands[-1:] if len(operands) > 1 else []
    remote = name in {"scp", "rsync"}
    away = remote and any(":" in word.partition("/")[0] for word in operands)
    kind: How = "adds" if keeps or away else "places" if how.last else "overwrites"
    if how.last and is_emptied:
        review.destructive("empties a file")
    for target in operands:
        if remote and ":" in target.partition("/")[0]:
            if is_of_system(target.partition(":")[2]):
                review.destructive("writes system files on another machine")
            if names_secret(taken):
                review.destructive(SENDS)
            continue
        if target == "/dev/null" and how.sources:
            review.destructive("moves files to /dev/null, where they are lost")
        if not (how.last and target in {".", "./"}):
            text = text_of(stdin, UNKNOWN) if how.copies else UNKNOWN
            review.writes(target, kind, text)


def _archive(review: Review, name: str, arguments: Arguments, stdin: Input) -> None:
    """Judge the archive or bundle that a subcommand, or a letter of the first word, makes."""
    files: list[str] = []
    words = arguments.words
    rest = [word for word in words if word[:1] != "-"]
    if name == "tar" and _creates(words):
        files = arguments.values(("-f", "--file"))
        files += words[1:2] if words[0][:1] != "-" and "f" in words[0] else ()
    elif name == "git" and rest[:2] == ["bundle", "create"]:
        files = rest[2:3]
    elif name == "git" and rest[:1] == ["archive"]:
        files = arguments.values(("-o",))
    elif name == "ssh-keygen" and stdin is not None and not {"-l", "-F", "-y"} & set(words):
        review.destructive("overwrites a key without asking")
    for file in files:
        if file != "-" and ":" not in file:
            review.writes(file)


def _creates(words: Sequence[str]) -> bool:
    """Return whether ``tar`` makes an archive: ``c`` is in its first word or its options."""
    clusters = [word for word in words if word[:1] == "-" != word[1:2]] + [*words[:1]]
    return "--create" in words or any("c" in cluster for cluster in clusters)


def _taken(review: Review, sources: Sequence[str]) -> None:
    """Judge the files that are moved away."""
    if any(map(is_of_system, sources)):
        review.destructive("moves system files, or a whole home folder")
    for source in sources:
        review.loses(source)


def _folder(review: Review, folder: str, name: str) -> None:
    """Judge unpacking, or copying, into a folder."""
    if is_system(folder) and not folder.startswith(("/opt", "/srv", "~", "/usr/share")):
        review.destructive("writes into a system folder")
    elif name not in {"tar", "unzip"} or folder.startswith("~"):
        review.writes(f"{folder.rstrip('/')}/{UNKNOWN}", "adds")


def _downloads(review: Review, name: str, arguments: Arguments) -> None:
    """Note the files to which a download is written, named after its address."""
    named = name == "wget" or arguments.has("-O") or arguments.has("--remote-name")
    for word in arguments.words:
        base = word.split("?")[0].rstrip("/").rpartition("/")[2]
        if named and base and word[:1] != "-" and ("/" in word or "." in word):
            review.written.setdefault(base, UNKNOWN)
