"""The syntax of PowerShell and cmd: names that are known to destroy, and nothing else.

There is no grammar of theirs here: a name counts wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from aish_lsp.shell.risk.review import UNSEEN, Input, Review, texts
from aish_lsp.shell.risk.words import HOLE

SHELLS: Final = frozenset({"pwsh", "powershell", "cmd"})

_WORD: Final = r"(?:^|[\s;|&({,'\"=])(?:[\w.:\\/]*[\\/])?"
_NAMES: Final = tuple(
    (
        reason,
        re.compile(rf"{_WORD}(?:{pattern})(?=$|[\s;|&)}}'\",./])", re.IGNORECASE | re.MULTILINE),
    )
    for reason, pattern in (
        (
            "deletes files",
            r"remove-item(?:property)?|ri|rm|rmdir|rd|del|erase|unlink|clear-recyclebin",
        ),
        (
            "empties files",
            r"clear-(?:content|item)|clc|cli|set-content|out-file|sdelete|cipher\s+/w\S*",
        ),
        (
            "wipes disks, or what lies on them",
            (
                r"format(?:\.com)?\s+[\w\"]+:?.*|format-volume|clear-disk|initialize-disk|remove-partition"
                r"|diskpart|reset-physicaldisk|remove-virtualdisk|mountvol\s+.*/d|fsutil|bcdedit|bootrec"
            ),
        ),
        (
            "deletes copies for a restore, or logs",
            (
                r"vssadmin\s+delete.*|wbadmin\s+delete.*|wmic\s+.*delete.*|clear-eventlog|wevtutil\s+cl.*"
                r"|disable-computerrestore|remove-eventlog|clear-history"
            ),
        ),
        (
            "stops programs, services or the machine",
            (
                r"stop-(?:process|computer|service)|restart-computer|spps|kill|taskkill|shutdown|logoff"
                r"|sc(?:\.exe)?\s+(?:delete|stop|config).*|net\s+stop.*|remove-service|suspend-service"
                r"|(?:set|disable)-service.*"
            ),
        ),
        (
            "changes who may do what",
            (
                r"net\s+(?:user|localgroup|share)\s+.*(?:/add|/delete|/active\S*|\s\S+\s+\S+).*"
                r"|(?:remove|disable|set|new)-(?:local|ad)user|takeown|icacls|cacls|set-acl|runas"
                r"|set-executionpolicy|add-localgroupmember|(?:set|disable|remove)-net\w*firewall\w*"
                r"|netsh\s+(?:adv)?firewall.*|set-mppreference|add-mppreference|disable-windowsoptionalfeature"
            ),
        ),
        (
            "deletes settings, tasks or programs",
            (
                r"reg(?:\.exe)?\s+(?:delete|import|add|restore).*|remove-(?:psdrive|module|appxpackage"
                r"|windowsfeature|vm|aduser|adobject|computer|itemproperty|scheduledtask|website|azure\w*|az\w+)"
                r"|unregister-scheduledtask|schtasks\s+.*/(?:delete|create|change).*|uninstall-\w+"
                r"|choco\s+uninstall.*|winget\s+uninstall.*"
            ),
        ),
        (
            UNSEEN,
            (
                r"invoke-expression|iex|invoke-command|icm|downloadstring|-e(?:nc|ncodedcommand|c)?\s+[\w+/=]{12,}"
                r"|frombase64string|add-type|invoke-(?:wmimethod|cimmethod)|start-process.*-verb\s+runas"
                r"|mshta|regsvr32|rundll32|certutil\s+.*-(?:urlcache|decode).*|bitsadmin"
            ),
        ),
        ("overwrites files", r"(?:move|copy)-item.*-force.*|robocopy.*/(?:mir|purge|mov\w*).*"),
    )
)


def is_windows_shell(shell: str) -> bool:
    """Return whether ``shell``, a name or a path, reads PowerShell's or cmd's language."""
    name = re.split(r"[\\/]", shell)[-1].casefold()
    return PurePath(name).name.removesuffix(".exe") in SHELLS


def look_through(review: Review, text: str) -> None:
    """Take down the destructive names in ``text``; without any it is ``caution``."""
    bare = text.replace("`", "").replace("^", "")
    for reason, pattern in _NAMES:
        if pattern.search(bare):
            review.destructive(reason)
    review.caution("the grammar of this shell is not known")


def opened(review: Review, words: Sequence[str], _depth: int, given: Input) -> bool:
    """``pwsh -Command TEXT``, ``cmd /c TEXT``."""
    rest = texts(words[1:])
    if given is not None:
        rest += "\n" + (given if isinstance(given, str) else given())
    if HOLE in rest:
        review.destructive(UNSEEN)
    look_through(review, rest)
    return True
