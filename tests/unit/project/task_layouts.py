"""Small working projects of many kinds, and the answers for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from aish_lsp.project.manifests.rules import Intent


@dataclass(frozen=True)
class Layout:
    """A project, and all answers about it.

    Attributes:
        name: what kind it is.
        files: their text by path; may be indented like the source around it.
        answers: one ``SOURCE: COMMAND`` per line, in the order of the reply; an intent that is
            missing has no command.
        programs: files that are executable.
        needs: what has to be installed before any of it can be run.
        runs: the intents whose first commands are run, one after the other.
        prepare: what to run first, as a user would have done.
    """

    name: str
    files: Mapping[str, str]
    answers: Mapping[Intent, str]
    programs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    runs: tuple[Intent, ...] = ()
    prepare: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> None:
        """Write the project's files below ``root``."""
        for name, text in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).lstrip("\n"))
        for name in self.programs:
            (root / name).chmod(0o755)


#: The question that asks for each intent.
QUESTIONS: Mapping[Intent, str] = {
    "test": "How do I run the tests?",
    "build": "How do I build this?",
    "run": "How do I run it?",
    "lint": "How do I lint the code?",
    "format": "How do I format the code?",
    "install": "How do I install the dependencies?",
    "start": "How do I start the dev server?",
}
