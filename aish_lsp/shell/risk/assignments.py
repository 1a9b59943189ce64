"""Variables that change what other commands do."""

from __future__ import annotations

import os
import re
from typing import Final

from aish_lsp.shell.risk.levels import CAUTION, DESTRUCTIVE, SAFE

#: They load code into every program that starts.
_LOADS: Final = re.compile(
    r"LD_PRELOAD|LD_AUDIT|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4]|SHELLOPTS|BASHOPTS|BASH_FUNC.*"
    r"|BASH_XTRACEFD|PERL5OPT|PERL5DB|PERL5LIB|RUBYOPT|PYTHONSTARTUP|PYTHONHOME|GCONV_PATH"
    r"|LESSOPEN|LESSCLOSE|GIT_EXEC_PATH|GIT_CONFIG.*|GIT_TEMPLATE_DIR|RIPGREP_CONFIG_PATH"
)
#: Where the shell writes down what was done.
_REMEMBERS: Final = re.compile("HISTFILE")
#: Their value is a command that some program runs.
_COMMANDS: Final = re.compile(
    r"GIT_(?:SSH(?:_COMMAND)?|PROXY_COMMAND|EXTERNAL_DIFF|ASKPASS|EDITOR|SEQUENCE_EDITOR)|SSH_ASKPASS"
    r"|SUDO_ASKPASS|EDITOR|VISUAL|BROWSER|FCEDIT|RSYNC_RSH|CVS_RSH|SHELL|FZF_\w*COMMAND"
)
_PAGERS: Final = re.compile(r"(?:GIT_|MAN|SYSTEMD_|AWS_|GH_|BAT_|DELTA_)?PAGER")
#: They decide which programs run, and from where.
_LEADS: Final = re.compile(
    r"PATH|CDPATH|\w*_PATH|PYTHON\w+|NODE_\w+|HOME|XDG_\w+|GIT_\w+|LD_\w+|DOCKER_\w+|KUBECONFIG"
    r"|HIST\w+|\w*_(?:CONFIG|CONF|OPTIONS|OPTS|FLAGS|HOOK)|\w*_?[Pp][Rr][Oo][Xx][Yy]|LESS\w*"
    r"|GREP_\w+|TMPDIR|FPATH|GLOBIGNORE|MAIL\w*|HOSTALIASES|AWS_\w+|RUSTC\w*|CC|CXX|MAKEFLAGS"
)
_LEADS_TOO: Final = re.compile(r"_proxy$|^(?:npm|pip|yarn|pnpm|cargo|git)_")
#: The shell's own: what is set is calculated, split by, or obeyed, and may be more than text then.
_SHELLS_OWN: Final = re.compile(
    r"BASH\w*|COMP\w*|COPROC|DIRSTACK|EMACS|EPOCH\w*|EUID|EXECIGNORE|FIGNORE|FUNC\w+|GLOB\w+|GROUPS"
    r"|HOST\w+|IFS|IGNOREEOF|INPUTRC|LINENO|MACHTYPE|MAPFILE|OLDPWD|OPT\w+|OSTYPE|PIPESTATUS"
    r"|POSIXLY_CORRECT|PPID|PROMPT_\w+|PWD|RANDOM|READLINE_\w+|REPLY|SECONDS|SHLVL|SRANDOM"
    r"|TIMEFORMAT|TMOUT|UID|auto_resume|histchars"
)
#: They change how things look and nothing else.
_LOOKS: Final = re.compile(
    r"LC_\w+|LANG|LANGUAGE|TZ|TERM|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|COLUMNS|LINES"
    r"|GIT_TERMINAL_PROMPT|BLOCK_?SIZE|PYTHONIOENCODING|PYTHONUNBUFFERED|DEBUG"
)


def assignment_risk(name: str, *, before_command: bool) -> tuple[int, str, bool]:
    """Return the level, the reason, and whether the value is a command, of setting ``name``."""
    if _LOOKS.fullmatch(name) or (name.islower() and not _SHELLS_OWN.fullmatch(name)):
        return (CAUTION if _LEADS_TOO.search(name) else SAFE), f"sets {name}", False
    for pattern, level, why, is_command in _KINDS:
        if pattern.fullmatch(name):
            return level, f"sets {name}{why}", is_command
    passed_on = before_command or name in os.environ
    return (CAUTION if passed_on else SAFE), f"sets {name}{_MAY_CHANGE}", False


_MAY_CHANGE: Final = ", which may change what other programs do"
_KINDS: Final = (
    (_PAGERS, SAFE, "", True),
    (_COMMANDS, CAUTION, ", which other programs run", True),
    (_REMEMBERS, DESTRUCTIVE, ", which hides what is done", False),
    (_LOADS, DESTRUCTIVE, ", which makes other programs run what cannot be seen", False),
    (_SHELLS_OWN, CAUTION, ", which the shell itself obeys", False),
    (_LEADS, CAUTION, _MAY_CHANGE, False),
)
