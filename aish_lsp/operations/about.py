"""``about``: what a report of a problem has to say of this server."""

from __future__ import annotations

import platform
import sys

from aish_lsp import __version__
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import config_file
from aish_lsp.operations.operation import Answer, Caller, Target, operation


@dataclass(frozen=True, slots=True)
class About:
    """The server's version, its Python with its version, and the path of config.toml."""

    version: str
    python: str
    python_version: str
    config: str


@operation("about", Target, shows=True)
async def about(_caller: Caller, _params: Target) -> Answer[About]:
    """The server's version, its Python, and where its configuration is.

    The file may not exist yet.
    """
    python = platform.python_version()
    return Answer(About(__version__, sys.executable, python, str(config_file())))
