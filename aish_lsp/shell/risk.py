"""How much a command can harm, judged before it runs.

``safe`` takes a proof: one simple command out of a short list of those that only read.
``destructive`` takes a suspicion: words of a command that loses data, work or access, wherever they
stand. All else is ``caution``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from aish_lsp import events
from aish_lsp.shell.read_only import only_reads, simple_command
from aish_lsp.text import hidden_characters

#: The shells whose grammar ``simple_command`` knows.
_KNOWN_SHELLS = frozenset({"bash", "sh"})
#: Characters; nobody has looked through a longer command before it runs.
_LONGEST_SAFE = 1000


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a command; ``reasons`` are short phrases for the user, none when safe."""

    risk: events.Risk
    reasons: tuple[str, ...] = ()


def classify(text: str, shell: str) -> Verdict:
    """Return the risk of running ``text`` with ``shell``, a name or a path."""
    hidden = hidden_characters(text)
    if hidden:
        return Verdict("destructive", (f"holds hidden characters: {', '.join(hidden[:5])}",))
    known_shell = PurePath(shell).name in _KNOWN_SHELLS
    words = simple_command(text) if len(text) <= _LONGEST_SAFE else None
    if known_shell and words and only_reads(words):
        return Verdict("safe")
    suspicions = _suspicions(text)
    if suspicions:
        return Verdict("destructive", suspicions)
    if not known_shell:
        return Verdict("caution", (f"the grammar of {PurePath(shell).name} is not known",))
    return Verdict("caution", (_why_not_safe(words),))


def _why_not_safe(words: list[str] | None) -> str:
    if not words:
        return "not one simple command of plain words"
    return f"not known to only read: {words[0][:60]}"


def _suspicions(text: str) -> tuple[str, ...]:
    """Return why ``text`` looks destructive; quotes and backslashes do not hide a name."""
    bare = re.sub(r"[\\'\"]", "", text)
    words = {word[:_LONGEST_WORD] for form in (text, bare) for word in _WORD.findall(form)}
    names = {word.rpartition("/")[2].lower() for word in words}
    lines = "\n".join(words | names)
    by_words = [
        reason
        for reason, patterns in _DESTRUCTIVE_WORDS
        if all(pattern.search(lines) for pattern in patterns)
    ]
    by_syntax = [reason for reason, pattern in _DESTRUCTIVE_SYNTAX if pattern.search(bare)]
    return tuple(dict.fromkeys(by_words + by_syntax))


_WORD = re.compile(r"[^\s;&|()<>{}`$'\"\\=,]+")
#: Characters of a word that are looked at: what matters are names of commands and options.
_LONGEST_WORD = 64


def _rule(reason: str, *patterns: str) -> tuple[str, tuple[re.Pattern[str], ...]]:
    return reason, tuple(re.compile(f"^(?:{pattern})$", re.MULTILINE) for pattern in patterns)


# A rule applies where each of its patterns matches a whole word of the command, in any order.
_DESTRUCTIVE_WORDS = (
    _rule("deletes files", r"rm|unlink|shred|srm"),
    _rule("deletes files", r"find|fd|fdfind", r"-delete"),
    _rule("deletes files", r"rsync", r"--del.*|--remove-source-files"),
    _rule("empties files", r"truncate"),
    _rule(
        "writes to whole devices",
        r"dd|mkfs|mkfs\..+|mke2fs|mkswap|wipefs|s?fdisk|sgdisk|parted|blkdiscard|diskutil",
    ),
    _rule("stops the machine", r"shutdown|reboot|halt|poweroff|telinit"),
    _rule("stops other programs", r"killall|killall5|pkill"),
    _rule("stops other programs", r"kill", r"-9|-KILL|-SIGKILL|-1"),
    _rule("runs with another user's rights", r"sudo|doas|su|pkexec|runas"),
    _rule(
        "overwrites what others pushed",
        r"git",
        r"push",
        r"-\w*[fd]\w*|--force.*|--mirror|--delete|\+.+|:.+",
    ),
    _rule("loses uncommitted work", r"git", r"reset", r"--hard|--merge|--keep"),
    _rule("loses uncommitted work", r"git", r"clean|restore"),
    _rule("loses uncommitted work", r"git", r"checkout|switch", r"--|\.|-f|--force|--discard-.*"),
    _rule("loses commits", r"git", r"stash", r"drop|clear"),
    _rule("loses commits", r"git", r"branch", r"-\w*[dD]\w*|--delete"),
    _rule("loses commits", r"git", r"filter-branch|filter-repo|reflog|gc|prune|update-ref"),
    _rule("changes rights of whole folders", r"chmod|chown|chgrp", r"-\w*R\w*|--recursive"),
    _rule("deletes containers or their data", r"docker|podman", r"prune|rmi"),
    _rule("deletes resources", r"kubectl|terraform|tofu|pulumi|helm", r"delete|destroy|uninstall"),
    _rule("deletes scheduled jobs", r"crontab", r"-\w*r\w*"),
    _rule("changes who may log in", r"passwd|userdel|usermod|deluser|visudo"),
    _rule("changes the firewall", r"iptables|ip6tables|nft|ufw"),
)

_SHELLS = r"(?:ba|da|z|k|fi|c|tc)?sh"
_INTERPRETERS = r"(?:python[\d.]*|perl|ruby|node|php)"
# A name's folder, and the wrappers that may stand before it.
_PLACE = r"(?:[^\s|;&]{0,200}/)?"
_WRAPPED = rf"(?:{_PLACE}(?:env|exec|nohup|time|command)\s++)?{_PLACE}"
# Searched with quotes and backslashes removed. Every repetition is possessive or bounded: the time
# is linear whatever the text.
_DESTRUCTIVE_SYNTAX = (
    ("runs what cannot be seen", re.compile(rf"\|&?\s*+{_WRAPPED}{_SHELLS}(?![\w.-])")),
    (
        "runs what cannot be seen",
        re.compile(rf"\|&?\s*+{_WRAPPED}{_INTERPRETERS}\s*+(?:-\s*+)?(?:\Z|[|;&)\n])"),
    ),
    (
        "runs what cannot be seen",
        re.compile(rf"\b(?:{_SHELLS}|{_INTERPRETERS})\s++(?:-[ce]\s++)?(?:<\(|\$\(|`)"),
    ),
    ("runs what cannot be seen", re.compile(r"(?:^|[;&|(\n])[ \t]*+eval\s")),
    ("starts itself over and over", re.compile(r":\s*+\(\s*+\)\s*+\{")),
    ("starts itself over and over", re.compile(r"\|\s*+[\w:.]++\s*+&\s*+\}")),
    ("writes to a device", re.compile(r">[|&]?\s*+/dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)")),
    (
        "writes to a file that decides what runs",
        re.compile(
            r">[|&]?\s*+[^\s>]{0,200}?"
            r"(?:\.ssh/|\.(?:ba|z|k)?shrc|\.(?:bash_|z)?(?:profile|login|env)|\.git/)"
        ),
    ),
)
