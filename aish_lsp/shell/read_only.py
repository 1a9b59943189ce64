"""The short list of commands that only read, with the arguments they may have.

An option that is not listed is taken for one that writes, runs something or prints secrets. The
user's own configuration is trusted: what git's or the environment's settings make a command run
besides is not looked at.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

# Bare words hold nothing that a shell looks at: no expansion, pattern, escape, comment or operator.
# Between quotes anything may stand but the closing one, and in double quotes but expansions.
_WORD_PART = r"""[\w./,:@%+=-]|'[^'\n]*+'|"[^"$`\\!\n]*+\""""
_SIMPLE_COMMAND = re.compile(rf"[ \t]*+(?:(?:{_WORD_PART})++(?:[ \t]++|\Z))++")
_WORD = re.compile(rf"(?:{_WORD_PART})++")
_QUOTED = re.compile(r"""'([^']*+)'|"([^"]*+)\"""")


def simple_command(text: str) -> list[str] | None:
    """Return the words of ``text`` where it is one simple command of literal words, else None.

    What is returned is what a POSIX shell would pass on, quotes removed.
    """
    if not _SIMPLE_COMMAND.fullmatch(text):
        return None
    return [
        _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", word)
        for word in _WORD.findall(text)
    ]


def only_reads(words: list[str]) -> bool:
    """Return whether the command ``words`` is known to only read, and to print no secrets."""
    name, *arguments = words
    check = _READERS.get(name)
    return check is not None and not any(map(_is_private, arguments)) and check(arguments)


_PRIVATE_NAME = re.compile(
    r"""
      \.env(?:\..*)? | \.envrc | \.netrc | \.pgpass | \.npmrc | \.pypirc | \.git-credentials
    | \.htpasswd | \.vault-token | \..*history | id_(?:rsa|dsa|ecdsa|ed25519).* | g?shadow-?
    | credentials(?:\..*)? | secrets?\..* | .*\.(?:pem|key|p12|pfx|kdbx|keystore|jks)
    | \.(?:ssh|gnupg|aws|azure|kube|docker|password-store) | gcloud
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_PLAIN_FILE = re.compile(r"(?:/+|(?:\.\./)+)(?:dev|proc|sys)(?:/.*)?")


def _is_private(argument: str) -> bool:
    """Return whether an argument names a place where secrets are kept, or no plain file at all."""
    names = re.split("[/:=]", argument)
    path = posixpath.normpath(argument.rpartition("=")[2])
    return any(map(_PRIVATE_NAME.fullmatch, names)) or _NO_PLAIN_FILE.fullmatch(path) is not None


_Check = Callable[[list[str]], bool]


def _any(_arguments: list[str]) -> bool:
    return True


def _none(arguments: list[str]) -> bool:
    return not arguments


def _only(pattern: str) -> _Check:
    """Accept arguments that match ``pattern``, each as a whole."""
    compiled = re.compile(pattern, re.DOTALL)
    return lambda arguments: all(map(compiled.fullmatch, arguments))


def _options(pattern: str) -> _Check:
    """Accept any operands, and options that match ``pattern`` as a whole.

    What stands behind ``--`` is no exception: an option before it may have taken it for its value.
    """
    return _only(rf"--|-|[^-].*|(?:{pattern})|")


def _git(arguments: list[str]) -> bool:
    if arguments[:1] == ["--no-pager"]:
        arguments = arguments[1:]
    check = _GIT_READERS.get(arguments[0]) if arguments else None
    return check is not None and check(arguments[1:])


def _command_v(arguments: list[str]) -> bool:
    return arguments[:1] in (["-v"], ["-V"])


_GIT_HISTORY = _options(
    r"-\d+|-n\d*|-[pusbwMq]|-U\d+|-[SG].+"
    r"|--(?:all|cached|staged|oneline|graph|stat|shortstat|numstat|summary|patch|no-patch|raw)"
    r"|--(?:name-only|name-status|abbrev-commit|decorate|follow|reverse|merges|no-merges)"
    r"|--(?:first-parent|no-color|no-ext-diff|no-textconv|word-diff|check|branches|tags|remotes)"
    r"|--(?:since|until|after|before|author|grep|max-count|date|stat|unified)=.*"
    r"|--pretty=(?:oneline|short|medium|full|fuller)"
)

_GIT_READERS: dict[str, _Check] = {
    "status": _any,
    "log": _GIT_HISTORY,
    "diff": _GIT_HISTORY,
    "show": _GIT_HISTORY,
    "branch": _only(r"-[arv]+|--list|--all|--remotes|--show-current|--no-color"),
    "remote": _only(r"-v|--verbose"),
    "rev-parse": _any,
    "ls-files": _any,
}

_READERS: dict[str, _Check] = {
    # Whatever their arguments, these only print.
    "basename": _any,
    "cat": _any,
    "df": _any,
    "dirname": _any,
    "du": _any,
    "echo": _any,
    "egrep": _any,
    "false": _any,
    "fgrep": _any,
    "free": _any,
    "grep": _any,
    "groups": _any,
    "head": _any,
    "id": _any,
    "ls": _any,
    "nproc": _any,
    "pwd": _any,
    "readlink": _any,
    "realpath": _any,
    "stat": _any,
    "tail": _any,
    "true": _any,
    "type": _any,
    "uname": _any,
    "uptime": _any,
    "wc": _any,
    "which": _any,
    "whoami": _any,
    # These can do more: set the name or the clock, kill, write a file, run a program.
    "command": _command_v,
    "date": _only(r"\+.*|-[uIR]|--utc|--iso-8601(?:=\w+)?|--rfc-email|--date=.*"),
    "file": _options(r"-[bikLhs]+|--brief|--mime|--mime-type"),
    "find": _options(
        r"-(?:name|iname|path|ipath|type|size|mtime|mmin|newer|maxdepth|mindepth|empty|not"
        r"|o|or|a|and|print|print0|prune|perm|user|group|xdev|ls)"
    ),
    "git": _git,
    "hostname": _none,
    "lsof": _only(r"-i[\w:.@,-]*|-[nPtl]+|-sTCP:\w+|-p|\d+|:\d+"),
    # Without the options that print each process's environment.
    "ps": _only(r"aux|axu|ax|ux|x|-[eAaf]+|-p|\d+"),
    "rg": _options(
        r"-[ilnwFcvSsHoxNPUuABCegtTm\d]+|--(?:files|hidden|no-ignore|count|ignore-case|smart-case)"
        r"|--(?:files-with-matches|fixed-strings|line-number|word-regexp|type|glob|context)(?:=.*)?"
    ),
    "ss": _only(r"-[tulpnaexwmio46H]+"),
}
