"""Each intent of the table: a phrasing that leads to it, commands that a shell can read, a risk."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from aish_lsp.offline.choosing import render, suggested
from aish_lsp.offline.deeds import risk_of
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.table import KINDS, SLOT, Intent, kind_of, table
from aish_lsp.offline.understanding import read
from aish_lsp.offline.workspace import Machine, WorkspaceFacts
from aish_lsp.shell.risk import classify
from aish_lsp.shell.risk.words import parse

FAMILIES = sorted(table().titles)

#: A value for each kind; a kind without a shape gets a word that means nothing.
VALUES = {
    "file": "report.pdf",
    "file2": "data.csv",
    "file3": "all.txt",
    "archive": "a.tar.gz",
    "folder": "photos/",
    "folder2": "backup/",
    "path": "report.pdf",
    "path2": "new/x.txt",
    "number": "5",
    "size": "10M",
    "span": "2 hours",
    "port": "3000",
    "port2": "80",
    "first": "2",
    "last": "9",
    "date": "2024-02-03",
    "date2": "2024-05-03",
    "mode": "755",
    "extension": ".py",
    "extension2": ".txt",
    "glob": "*.log",
    "version": "1.2",
    "url": "https://example.org/x",
    "repository": "https://example.org/x.git",
    "host": "example.com",
    "host2": "db.example.com",
    "revision": "HEAD~2",
    "login": "ann@box.example.com",
    "login2": "eve@hop.example.com",
    "remotepath": "ann@box.example.com:/srv/x",
    "sum": "17*3",
    "assignment": "A=b",
}
FULL = os.environ.get("TESTS_FULL") == "1"

#: What slots hold: spans are seconds by then, extensions have no dot.
HELD = {**VALUES, "span": "7200", "extension": "py", "extension2": "txt"}


def intents(family: str) -> list[Intent]:
    return [intent for intent in table().intents if intent.family == family]


def filled(slot: str, values: dict[str, str]) -> str:
    return values.get(slot) or values.get(kind_of(slot)) or ("blub" if slot[-1] == "2" else "zork")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceFacts:
    root = tmp_path_factory.mktemp("world")
    for name in ("photos", "backup"):
        (root / name).mkdir()
    for name in ("report.pdf", "data.csv"):
        (root / name).touch()
    return WorkspaceFacts(root)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
def test_the_first_phrasing_of_an_intent_leads_to_it(family: str, places: WorkspaceFacts) -> None:
    lost = []
    # Each takes 20 ms; `./dev full` tries all.
    for intent in intents(family)[:: 1 if FULL else 4]:
        example = " ".join(ranking().phrasings_of(intent.number)[0].wording)
        if "{first}" in example and "{last}" in example:
            continue  # The two ends of a range are one word of a question.
        question = SLOT.sub(lambda slot: filled(slot[1], VALUES), example)
        meant = [one.intent for one in read(question, (), places).meant]
        if intent not in meant and not any(other.ways == intent.ways for other in meant):
            lost.append((intent.name, question, [other.name for other in meant]))
    assert lost == []


def commands(intent: Intent) -> list[str]:
    """Return each command that may be told for ``intent``, its slots filled."""
    ways = (*intent.ways, *(way for found in intent.after.values() for way in found))
    texts = [text for way in ways for text in way.run]
    names = {name for text in texts for name, _ in SLOT.findall(text) if kind_of(name) in KINDS}
    values = {name: filled(name, HELD) for name in names}
    return [render(text, {**intent.defaults, **values}) for text in texts]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_command_is_one_that_a_shell_can_read(family: str) -> None:
    for intent in intents(family):
        for command in commands(intent):
            # What is left for the user to fill in is written <so>.
            whole = re.sub(r"<[a-z@-]+>", "x", command)
            assert not parse(whole.encode()).has_error, (intent.name, command)
            assert command.isprintable(), (intent.name, command)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_intent_has_a_risk_and_what_destroys_is_never_safe(family: str) -> None:
    for intent in intents(family):
        assert risk_of(intent) in ("safe", "caution", "destructive")
        for command in commands(intent):
            words = command.removeprefix("sudo ").split()
            if words[0] in ("rm", "rmdir", "shred", "dd", "mkfs.ext4", "userdel", "truncate"):
                assert classify(command, "bash", confined=True).risk != "safe", command


@pytest.mark.parametrize(
    ("system", "tools"),
    [
        ("linux", ""),
        ("linux", "apt apt-get apt-cache dpkg lsof ss ip curl wget"),
        ("linux", "dnf rpm"),
        ("linux", "pacman"),
        ("darwin", ""),
        ("darwin", "brew curl lsof"),
    ],
)
def test_each_intent_is_told_on_each_system(system: str, tools: str, tmp_path: Path) -> None:
    found: dict[str, str | None] = {tool: f"/usr/bin/{tool}" for tool in tools.split()}
    here = WorkspaceFacts(tmp_path, Machine(system, "", tmp_path, found))
    for intent in table().intents:
        if intent.topic:
            continue
        texts = [text for way in intent.ways for text in (*way.run, *way.when)]
        names = {name for text in texts for name, _ in SLOT.findall(text) if kind_of(name) in KINDS}
        way = suggested(intent, {name: filled(name, HELD) for name in names}, here)
        assert way is not None, intent.name
        assert all(way.commands), intent.name


def test_a_smaller_file_is_found_by_bytes_since_find_rounds_up_larger_units() -> None:
    assert render("find . -size -{size|bytes}c", {"size": "2G"}) == "find . -size -2147483648c"
    assert render("head -c {size|bytes} a", {"size": "10c"}) == "head -c 10 a"
