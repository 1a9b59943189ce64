"""The command line in this process, for tests that are not about the process itself."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping
from subprocess import CompletedProcess
from typing import TypeAlias

import pytest

from aish_lsp.__main__ import main

#: Runs a command line; keywords are its environment, in addition to that of the test.
CommandLine: TypeAlias = Callable[..., "CompletedProcess[str]"]


def run_main(
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
    environment: Mapping[str, str] | None = None,
) -> CompletedProcess[str]:
    """Return the output and the exit code of ``aish-lsp`` with ``arguments``; stdin is empty."""
    with pytest.MonkeyPatch.context() as patch:
        if environment is not None:
            for name in os.environ.keys() - environment.keys():
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
    out, err = capsys.readouterr()
    return CompletedProcess(list(arguments), code, out, err)
