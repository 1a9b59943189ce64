"""What tests of editors share: the pages that users copy from, a server, a place to work."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fork_server
from lsprotocol import converters, types

from aish_lsp.lsp.text_documents import Documents

PAGES = Path(__file__).resolve().parents[2] / "docs" / "editors"

QUESTION = "😀 how do I run the tests here?"


def blocks(page: str, language: str, below: str = "") -> list[str]:
    """Return the code blocks of a page of docs/editors in one language, ``below`` a heading."""
    text = (PAGES / page).read_text(encoding="utf-8").partition(below or "# ")[2]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Conversation:
    """What is said in each editor, and what its session's log holds of it then."""

    question: str = "how do I run the tests here?"
    destructive: str = ":run rm main.py"
    follow_up: str = "did that work?"
    long: str = ":run sleep 600"

    @property
    def expected(self) -> list[str]:
        """What is logged: questions, and commands with how they ended."""
        return [self.question, "make test: done", self.follow_up, "sleep 600: ended"]

    @staticmethod
    def shown_in(records: list[dict[str, Any]]) -> list[str]:
        """Return the same of the records of a log."""
        found = []
        for record in records:
            if record.get("role") == "user":
                found.append(record["content"])
            elif record.get("event") == "exec":
                # One that is stopped may not have begun to sleep.
                found.append(f"{record['command']}: {'done' if record['exit'] == 0 else 'ended'}")
        return found


CONVERSATION = Conversation()


@dataclass(frozen=True)
class Place:
    """A workspace, and on PATH a server that keeps what it is sent.

    Attributes:
        folder: the workspace, a git repository whose name is encoded in URIs.
        sent: the file with all that the editor sent.
        environment: what differs for the editor.
    """

    folder: Path
    sent: Path
    environment: dict[str, str]

    @classmethod
    def make(cls, root: Path, name: str = "wörk 1") -> Place:
        """Return a place in the empty folder ``root``, its workspace called ``name``."""
        folder, home, programs = (root / part for part in (name, "home", "bin"))
        for path in (folder / ".git", home, programs):
            path.mkdir(parents=True, exist_ok=True)
        (folder / "Makefile").write_text("test:\n\t@echo tests ran\n")
        (folder / "main.py").write_text("print()\n")
        sent = root / "sent"
        server = programs / "aish-lsp"
        command = fork_server.command_for([sys.executable, "-m", "aish_lsp"])
        server.write_text(
            f'#!/bin/sh\ntee -a {shlex.quote(str(sent))} | {shlex.join(command)} "$@"\n'
        )
        server.chmod(0o755)
        environment = {
            "HOME": str(home),
            "AISH_CONFIG": str(home / "config.toml"),
            "AISH_DATA_DIR": str(root / "data"),
            "AISH_DISCOVERY": "off",
        }
        return cls(folder, sent, environment)

    @property
    def programs(self) -> Path:
        """The folder with ``aish-lsp``, for PATH."""
        return Path(self.environment["HOME"]).with_name("bin")

    @property
    def config(self) -> Path:
        """The user's configuration of the server."""
        return Path(self.environment["AISH_CONFIG"])

    def ask_always(self) -> None:
        """Have the user asked about every command."""
        self.config.write_text('[safety]\nconfirm = "always"\n')

    def runs(self, command: str) -> bool:
        """Return whether ``command`` runs in this workspace."""
        return bool(self.pids(command))

    def pids(self, command: str) -> list[int]:
        """Return what runs ``command`` in this workspace; other tests may run the same."""
        words = ["pgrep", "-f", command]
        found = subprocess.run(words, capture_output=True, text=True, check=False)
        pids = []
        for pid in found.stdout.split():
            with suppress(OSError):
                if Path(f"/proc/{pid}/cwd").samefile(self.folder):
                    pids.append(int(pid))
        return pids

    def sessions(self) -> list[dict[str, Any]]:
        """Return the records of the sessions' logs, in their order."""
        return [
            json.loads(line)
            for path in sorted(Path(self.environment["AISH_DATA_DIR"]).rglob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]

    @property
    def chat(self) -> Path:
        """The chat document."""
        return self.folder / ".aish" / "chat.md"

    def text_as_told(self, path: Path, encoding: types.PositionEncodingKind) -> str:
        """Return the text that a document has by all that the editor told of it."""
        converter = converters.get_converter()
        documents = Documents(None, position_encoding=encoding)
        for message in messages(self.sent.read_bytes()):
            match message.get("method"):
                case "textDocument/didOpen":
                    opened = converter.structure(message["params"], types.DidOpenTextDocumentParams)
                    documents.put_text_document(opened.text_document)
                case "textDocument/didChange":
                    change = converter.structure(
                        message["params"], types.DidChangeTextDocumentParams
                    )
                    for part in change.content_changes:
                        documents.update_text_document(change.text_document, part)
        return documents.get_text_document(path.as_uri()).source


def messages(stream: bytes) -> list[dict[str, Any]]:
    """Return the messages of a stream in the base protocol; an incomplete last one is left out."""
    found = []
    while match := re.match(
        rb"(?:[^\r\n]+\r\n)*?Content-Length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n", stream
    ):
        end = match.end() + int(match[1])
        if end > len(stream):
            break
        found.append(json.loads(stream[match.end() : end]))
        stream = stream[end:]
    return found
