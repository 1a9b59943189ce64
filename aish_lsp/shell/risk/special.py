"""Commands that no row of a table can judge: their risk is in a program, a text or a target.

Confinement does not replace them: it holds only what is safe, and these are the commands that would
be no more than a caution (``curl x | python3``, ``git config alias.x '!rm -rf ~'``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from aish_lsp.shell.risk.data import UNKNOWN, table
from aish_lsp.shell.risk.matching import Arguments
from aish_lsp.shell.risk.paths import mentions_secret, names_keys, names_secret
from aish_lsp.shell.risk.review import SENDS, UNSEEN, Review, texts
from aish_lsp.shell.risk.rules import Program, tables
from aish_lsp.shell.risk.sed import sed
from aish_lsp.shell.risk.values import Input, text_of

Handler = Callable[[Review, Sequence[str], Input], bool]

_NAMES: Final = table("names")
_SHELLS: Final = frozenset(_NAMES["shells"])
_BASH_LIKE: Final = frozenset(_NAMES["bash_like"])
_SHELL_VALUES: Final = frozenset({"-o", "-O", "+o", "+O"})
#: Long options of bash, which may begin with one dash, too: they name a file that is run first, or
#: run nothing.
_RUN_FIRST: Final = frozenset({"rcfile", "init-file"})
_RUN_NOTHING: Final = frozenset(
    {"login", "noediting", "noprofile", "norc", "posix", "restricted", "verbose"}
)
_UPLOADERS: Final = frozenset(_NAMES["uploaders"])
#: They send what they are given to another machine.
SENDERS: Final = _UPLOADERS.union(_NAMES["senders"])
#: Options whose value is a file that is sent.
_SENT: Final = ("-T", "--upload-file", "--post-file", "--body-file")


def shell(review: Review, words: Sequence[str], stdin: Input) -> bool:
    """A shell: what it runs follows ``-c``, is in a file, or comes through a pipe."""
    name = words[0].rpartition("/")[2].casefold()
    at, from_text, from_input = 1, False, False
    while at < len(words) and words[at][:1] in {"-", "+"} and words[at] not in {"-", "--"}:
        word = words[at]
        if word in {"--version", "--help"} and len(words) == 2:
            return True
        long = word.lstrip("-")
        if long in _RUN_FIRST:
            _script(review, "".join(words[at + 1 : at + 2]))
        elif word[:2] == "--" and long not in _RUN_NOTHING:
            review.caution(f"may run another script: {word[:60]}")
        elif word[0] == "-" and long not in _RUN_NOTHING:
            from_text = from_text or "c" in word
            from_input = from_input or "s" in word
        takes_next = long in _RUN_FIRST or word in _SHELL_VALUES
        at += 2 if takes_next or (word[:1] == "-" and word[-1] in "oO") else 1
    rest = words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]
    if name not in _BASH_LIKE:
        review.caution(f"the grammar of {name} is not known")
    if from_text:
        text = "".join(rest[:1])
        review.add_text(text)
        review.caution_if(None if rest else f"may run another script: {name}")
        if UNKNOWN in text or "$" in text:
            # The text may run its arguments, by whatever names.
            review.add_text(texts(rest[1:]))
    elif rest and not from_input and rest[0] not in {"-", "/dev/stdin"}:
        _script(review, rest[0])
    else:
        review.add_input(stdin, or_else=f"opens {name}")
    return True


def _script(review: Review, path: str) -> None:
    if UNKNOWN in path:
        review.destructive(UNSEEN)
    elif not run_written_file(review, path, None):
        review.caution(f"runs the script {path[:60]}")


def source(review: Review, words: Sequence[str], stdin: Input) -> bool:
    """``source FILE``: runs it here."""
    review.may_run(UNKNOWN)
    if len(words) > 1 and words[1] in {"-", "/dev/stdin"}:
        review.add_input(stdin, or_else="runs its input")
    elif len(words) > 1:
        _script(review, words[1])
    else:
        review.caution("runs a script")
    return True


def trap(review: Review, words: Sequence[str], _stdin: Input) -> bool:
    """``trap TEXT SIGNAL ...``: runs the text later."""
    operands = [word for word in words[1:] if word[:1] != "-" or len(word) == 1]
    if len(operands) > 1:
        review.may_run(operands[0])
        review.add_text(operands[0] if operands[0] != "-" else "")
    return True


def alias(review: Review, words: Sequence[str], _stdin: Input) -> bool:
    """``alias NAME=TEXT``: gives a name another meaning."""
    for word in words[1:]:
        _name, equals, text = word.partition("=")
        if equals:
            review.caution("gives a name another meaning")
            review.may_run(text)
            review.add_text(text)
    return True


def coming_later(review: Review, words: Sequence[str], stdin: Input) -> bool:
    """``at``, ``batch``: run their input later."""
    if not {"-l", "-V"} & set(words):
        review.add_input(stdin, or_else="runs something later")
    return False


def change_folder(review: Review, words: Sequence[str], _stdin: Input) -> bool:
    """``cd``: later commands write there."""
    operands = [word for word in words[1:] if word[:1] != "-" or word == "-"]
    name = words[0]
    review.enters(operands[0] if operands else "~" if name == "cd" else "-")
    return True


#: The name of a remote place before a path on it: ``host:.env`` is not read here.
_REMOTE: Final = re.compile(r"[\w.-]+:")


def note_sending(review: Review, name: str, arguments: Arguments, stdin: Input) -> None:
    """Record what one of the ``SENDERS`` sends: files, its input, what is read for its words."""
    words = arguments.words
    files = [word.rpartition("@")[2] for word in words if "@" in word and "://" not in word]
    files += arguments.values(_SENT)
    if name in _UPLOADERS:
        files += [word for word in arguments.operands if not _REMOTE.match(word)]
    if names_keys(files) or names_secret(files):
        review.destructive(SENDS)
    review.sends = review.sends or stdin is not None or any(UNKNOWN in word for word in words)


# Programs within a command: in ``-c``, in a here-document, or in a file that it writes.
#
# They are not parsed: the tables say what plainly destroys something or reveals secrets. If the
# tables call such a command safe, confinement keeps the rest of it harmless.

#: A file, a name or a setting, which does nothing as a program, except a database's ``.drop``.
_PLAIN: Final = re.compile(r"(?!\.\w+\Z)[\w./:@=,+~-]*")
#: Options whose value is a program, in some tool.
_TAKES_PROGRAM: Final = re.compile(r"-\w*[ceEqQr]|--?(?:eval|exec|execute|command|query|print)")
#: An option, perhaps behind others, that a program is attached to.
_ATTACHED_TO: Final = re.compile(r"\A-\w*?[ceEr]")
_FROM_INPUT: Final = frozenset({"", "-", "/dev/stdin"})


def look_into(review: Review, words: Sequence[str], program: Program, stdin: Input) -> bool:
    """Judge the program in a command, wherever it is; return whether that settles the verdict."""
    text_of_input = program.input and stdin is not None
    # The unknown part of an option may be a program that is attached to it.
    first = next((word for word in words[1:] if word[:1] != "-" or UNKNOWN in word), "")
    if program.script:
        if "-m" in words and first in {"pip", "uv", "poetry", "ansible"}:
            review.add_text(texts(words[words.index(first) :]))
            return True
        if _PLAIN.fullmatch(first) and run_written_file(review, first, program):
            return True
        text_of_input = first in _FROM_INPUT and stdin is not None
    if UNKNOWN in first and (program.script or program.every):
        _not_known(review, first, program)
    for before, word in pairwise(words):
        is_plain = _PLAIN.fullmatch(word.replace(UNKNOWN, "")) is not None
        is_option = word[:1] == "-" and word != "-m"
        if program.every or is_option or not is_plain or _TAKES_PROGRAM.fullmatch(before):
            scan(review, _ATTACHED_TO.sub("", word), program)
        elif program.script and (word == "-m" or (word[:1] != "-" != before[:1])):
            break  # The rest is for the script.
    if text_of_input:
        text = text_of(stdin)
        if not text.strip(f"{UNKNOWN} \n\t") and UNKNOWN in text:
            _not_known(review, text, program)
        scan(review, text, program)
        review.caution("runs the program in its input")
    return False


def _not_known(review: Review, text: str, program: Program) -> None:
    if program.script and _PLAIN.fullmatch(text.replace(UNKNOWN, "").strip()):
        review.destructive(UNSEEN)
    else:
        review.caution("runs a program that is only partly known")


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Return an expression of the tables, compiled when a program is first looked into for it."""
    return re.compile(expression)


def scan(review: Review, text: str, program: Program) -> None:
    """Record what a program destroys, and whether it reveals secrets."""
    if mentions_secret(text):
        review.read_secrets = True
        review.caution("runs a program that may print secrets")
    bare = _compiled(program.without).sub(" ", text) if program.without else text
    for rule in program.rules:
        for match in _compiled(rule.expression).finditer(bare):
            review.findings.add(rule.level, rule.reason)
            review.read_secrets = review.read_secrets or rule.secrets
            inner = next((group for group in match.groups() if group is not None), None)
            if rule.runs and inner is None:
                review.destructive(UNSEEN)
            elif rule.runs:
                review.add_text(inner or "")
            elif rule.writes:
                review.writes(inner or UNKNOWN, "adds" if ">>" in match[0] else "overwrites")


def run_written_file(review: Review, path: str, program: Program | None) -> bool:
    """Judge running a file that the same command writes; return whether it is one.

    ``program`` describes the language that it is in; None stands for a shell's.
    """
    text = review.runs_file(path)
    if text is None:
        return False
    if UNKNOWN in text or not text:
        review.destructive("runs a file that it has just written")
        return True
    review.caution("runs a file that it has just written")
    if program is None:
        review.add_text(text)
    else:
        scan(review, text, program)
    return True


# PowerShell and cmd: only names that are known to destroy are looked for.
#
# There is no grammar for them here: a name counts wherever it is.

SHELLS: Final = frozenset({"pwsh", "powershell", "cmd"})


def is_windows_shell(shell: str) -> bool:
    """Return whether ``shell``, a name or a path, reads PowerShell's or cmd's language."""
    return re.split(r"[\\/]", shell)[-1].casefold().removesuffix(".exe") in SHELLS


def look_through_windows(review: Review, text: str) -> None:
    """Record the destructive names in ``text``; without any it is ``caution``."""
    bare = text.replace("`", "").replace("^", "")
    entry = tables().entry("pwsh")
    if entry is not None and entry.program is not None:
        scan(review, bare, entry.program)
    review.caution("the grammar of this shell is not known")


def opened(review: Review, words: Sequence[str], stdin: Input) -> bool:
    """``pwsh -Command TEXT``, ``cmd /c TEXT``."""
    rest = texts(words[1:])
    if stdin is not None:
        rest += f"\n{text_of(stdin)}"
    if UNKNOWN in rest:
        review.destructive(UNSEEN)
    look_through_windows(review, rest)
    return True


# ``git``: its own options can set anything, and its aliases can run anything.

_TAKES_NEXT: Final = frozenset(
    {"-C", "-c", "--config-env", "--git-dir", "--work-tree", "--namespace", "--super-prefix"}
)


@cache
def _commands() -> re.Pattern[str]:
    """Return the settings whose value is a command."""
    return re.compile("|".join(_NAMES["git_commands"]), re.IGNORECASE)


def git(review: Review, words: Sequence[str], _stdin: Input) -> bool:
    """Judge what git is set to run; the tables judge the rest."""
    at = 1
    while at < len(words) and words[at][:1] == "-":
        option = words[at]
        following = "".join(words[at + 1 : at + 2]) if option in _TAKES_NEXT else ""
        if option[:2] == "-c":
            _set(review, *(following or option[2:]).partition("=")[::2])
        at += 2 if following else 1
    command, rest = "".join(words[at : at + 1]), words[at + 1 :]
    if command == "config":
        operands = [word for word in rest if word[:1] != "-" and word != "set"]
        if len(operands) > 1:
            _configure(review, *operands[:2])
    return False


def _set(review: Review, name: str, value: str) -> None:
    """Queue the command that a setting names."""
    if _commands().fullmatch(name) and value not in {"", "true", "false"}:
        is_own = name.casefold().startswith("alias.") and value[:1] != "!"
        review.add_text(f"git {value}" if is_own else value.lstrip("!"))


#: Settings of what shows or edits, which the user's own configuration often has.
_SHOWS: Final = re.compile(
    r"(?i)core\.(?:pager|editor)|sequence\.editor|credential\.|pager\.|.*tool\."
)


def _configure(review: Review, name: str, value: str) -> None:
    """Judge what ``git config`` sets, if git would run it."""
    if name.casefold().startswith("alias."):
        _set(review, name, value)
    elif _commands().fullmatch(name) and not _SHOWS.match(name):
        review.destructive(f"sets {name[:40]}, which git runs")


HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(_SHELLS, shell),
    **dict.fromkeys((".", "source"), source),
    **dict.fromkeys(("at", "batch"), coming_later),
    **dict.fromkeys(("cd", "pushd", "popd"), change_folder),
    **dict.fromkeys(("pwsh", "powershell", "cmd"), opened),
    "git": git,
    **dict.fromkeys(("sed", "gsed"), sed),
    "trap": trap,
    "alias": alias,
}
