"""The tools of ours, in a real workspace with git: what they show, change and refuse."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.agent import Workspace
from aish_lsp.agent.services import Services
from aish_lsp.agent.tool_use import tools_of
from aish_lsp.config.loading import Configuration
from aish_lsp.config.schema import Preset
from aish_lsp.foundation.events import Event
from aish_lsp.foundation.ports import (
    Choice,
    CodeLocation,
    EditOutcome,
    LookUp,
    Lookup,
    Question,
    UserAnswer,
)
from aish_lsp.models.request import ToolCall
from aish_lsp.shell.runner import RunResult
from aish_lsp.tools import Around, Seen, ToolResult, writing
from aish_lsp.tools import Place as Located
from aish_lsp.tools.reading import Looking
from aish_lsp.tools.titles import call_title
from aish_lsp.tools.toolbox import call_tool
from aish_lsp.tools.writing import write_keeping

pytestmark = pytest.mark.slow

PRESET = Preset(name="m", endpoint="http://127.0.0.1:9", model="tested")


class Editor(LookUp):
    """Knows of the code what it is told to know, and keeps what it was asked."""

    def __init__(self) -> None:
        self.offered = False
        self.knows: list[CodeLocation] | None = []
        self.asked: list[Lookup] = []

    def is_offered(self) -> bool:
        return self.offered

    async def __call__(self, lookup: Lookup, /) -> list[CodeLocation] | None:
        self.asked.append(lookup)
        return self.knows


class Place:
    """A workspace, its user's answer, and what they were asked and told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answer: UserAnswer = True
        self.asked: list[Question] = []
        self.told: list[str] = []
        self.open: dict[Path, str] = {}
        self.edited: list[tuple[Path, str, str]] = []
        self.editor = Editor()
        self.choice: int | None = None
        self.chosen: list[Choice] = []
        self.config = root / "config.toml"
        self.config.write_text("")
        self.folder = root / "workspace"
        self.folder.mkdir()
        services = Services(
            self.ask,
            {"AISH_DISCOVERY": "off", "PATH": os.environ["PATH"]},
            self.open_text,
            self.choose,
            edit_open=self.edit,
            look_up=self.editor,
            tools_of=tools_of,
        )
        configuration = Configuration(self.folder, services.trust, services.environ)
        self.workspace = Workspace(self.folder, services, configuration)

    async def ask(self, question: Question) -> UserAnswer:
        self.asked.append(question)
        return self.answer

    async def open_text(self, path: Path) -> str | None:
        return self.open.get(path)

    async def choose(self, choice: Choice) -> int | None:
        self.chosen.append(choice)
        return self.choice

    async def edit(self, path: Path, before: str, after: str) -> EditOutcome:
        self.edited.append((path, before, after))
        self.open[path] = after
        return EditOutcome("unsaved")

    def put(self, name: str, content: str | bytes, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    async def call(self, name: str, limit: int = 4000, **arguments: Any) -> ToolResult:
        async def emit(event: Event) -> None:
            pass

        async def warn(message: str) -> None:
            self.told.append(message)

        call = ToolCall("c", name, json.dumps(arguments))
        return await call_tool(self.tools, call, Around(emit, warn, "group", limit))

    @property
    def tools(self) -> Any:
        return self.workspace.shown.tools

    async def undo(self) -> Any:
        session = self.workspace.shown
        return await self.workspace.undo.undo(session.id, self.ask)


@pytest.fixture
async def place(own_files: Path) -> AsyncIterator[Place]:
    made = Place(own_files)
    subprocess.run(["git", "init", "-q", str(made.folder)], check=True)
    made.put(".gitignore", "ignored/\n*.log\n")
    yield made
    await made.workspace.aclose()
    await made.workspace.services.aclose()


# Reading


async def test_an_argument_that_there_is_not_is_told(place: Place) -> None:
    result = await place.call("list_files", file_path="src")
    assert result.status == "failed"
    assert result.text == 'list_files has no argument "file_path". It takes: path, depth.'


async def test_a_file_or_a_part_of_it_is_read(place: Place) -> None:
    place.put("a.txt", "one\r\ntwo\r\nthree\r\n")
    whole = await place.call("read_file", path="a.txt")
    assert whole == ToolResult("[a.txt, lines 1-3 of 3]\none\ntwo\nthree")
    part = await place.call("read_file", path="./a.txt", start="2", end=2.0)
    assert part.text == "[a.txt, lines 2-2 of 3]\ntwo"
    for wrong in ({"start": 4}, {"start": 0}, {"start": 3, "end": 2}, {"start": True}):
        assert (await place.call("read_file", path="a.txt", **wrong)).status == "failed"
    assert (await place.call("read_file", path=7)).text == "`path` has to be a text."


async def test_a_long_file_is_read_piece_by_piece(place: Place) -> None:
    place.put("long.txt", "".join(f"line {n}\n" for n in range(1, 1001)))
    seen: list[str] = []
    start = 1
    while True:
        text = (await place.call("read_file", path="long.txt", start=start)).text
        lines = text.split("\n")[1:]
        seen += [line for line in lines if line.startswith("line")]
        assert len(text) < 4200
        if "start=" not in lines[-1]:
            break
        start = int(lines[-1].partition("start=")[2].split(" ")[0])
    assert seen == [f"line {n}" for n in range(1, 1001)]


async def test_the_text_of_the_editor_is_read(place: Place) -> None:
    path = place.put("a.txt", "on the disk\n")
    place.open[path] = "unsaved\n"
    assert "unsaved" in (await place.call("read_file", path="a.txt")).text
    place.open[place.folder / "new.txt"] = "never saved\n"
    assert "never saved" in (await place.call("read_file", path="new.txt")).text


async def test_what_is_no_file_of_the_project_is_not_shown(place: Place) -> None:
    (place.root / "outside.txt").write_text("outside")
    (place.folder / "link").symlink_to(place.root / "outside.txt")
    place.put("ignored/a.txt", "hidden")
    place.put("b.bin", b"\0\1\2")
    place.put("src/name.py", "x = 1\n")
    os.mkfifo(place.folder / "pipe")
    for path, why in {
        "../outside.txt": "outside of the workspace",
        str(place.root / "outside.txt"): "outside of the workspace",
        "link": "outside of the workspace",
        "ignored/a.txt": "is ignored",
        ".git/config": "is ignored",
        "b.bin": "is binary",
        "src": "is a folder",
        "pipe": "not a regular file",
        "name.py": "Did you mean src/name.py?",
        "a\0b": "No file can be called",
        "x" * 5000: "No file can be called",
    }.items():
        result = await place.call("read_file", path=path)
        assert (result.status, why in result.text) == ("failed", True), (path, result)


async def test_a_file_of_keys_is_read_when_the_user_lets_it_go(place: Place) -> None:
    place.put(".env", "NAME=value\n")
    place.answer = False
    result = await place.call("read_file", path=".env")
    assert (result.status, "value" in result.text) == ("failed", False)
    assert "not sent" in place.told[0]
    place.answer = True
    assert "NAME=value" in (await place.call("read_file", path=".env")).text
    assert len(place.asked) == 2
    await place.call("read_file", path=".env")
    assert len(place.asked) == 2


async def test_files_are_listed_to_a_depth(place: Place) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.py", "ignored/e.py"):
        place.put(name, "")
    all_of_it = (await place.call("list_files")).text
    assert all_of_it.split("\n")[:-1] == [
        *(".gitignore", "a.py", "src/b.py", "src/deep/c.py", "src/deep/d.py"),
    ]
    assert (await place.call("list_files", path="src", depth=1)).text == (
        "src/b.py\nsrc/deep/ (2 files)\n"
    )
    assert (await place.call("list_files", path="ignored")).text.startswith("No file")
    assert (await place.call("list_files", path="..")).status == "failed"


RIPGREP = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")


@pytest.mark.parametrize("with_ripgrep", [pytest.param(True, marks=RIPGREP), False])
async def test_text_is_found_where_the_model_may_see_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, with_ripgrep: bool
) -> None:
    if not with_ripgrep:
        monkeypatch.setattr("aish_lsp.tools.reading._RIPGREP", "no-ripgrep-here")
    place.put("a.py", "needle = 1\nother\n")
    place.put("src/-b: c.py", "# a needle: here\n")
    for hidden in ("ignored/x.py", ".env", "y.log", ".git/needle"):
        place.put(hidden, "needle\n")
    (place.root / "out").mkdir()
    (place.root / "out" / "f").write_text("needle\n")
    (place.folder / "link").symlink_to(place.root / "out")
    found = await place.call("search", pattern="needle")
    assert found.text == "a.py:1: needle = 1\nsrc/-b: c.py:1: # a needle: here\n"
    assert (await place.call("search", pattern="-n", path="a.py")).text == "Nothing was found."
    assert (await place.call("search", pattern="needle", path="src")).text.count("\n") == 1
    assert (await place.call("search", pattern="a", path="../out")).status == "failed"
    by_regex = await place.call("search", pattern="^need.e =", regex=True)
    assert by_regex.text.startswith("a.py:1:" if with_ripgrep else "Regular expressions cannot")
    broken = await place.call("search", pattern="(", regex=True)
    assert broken.status == "failed"
    assert (await place.call("search", pattern="(")).text == "Nothing was found."


@pytest.mark.parametrize(
    ("name", "found"), [("a.py", "a.py:1: needle\na.py:9: needle\n"), (".env", "")]
)
async def test_a_search_whose_output_was_cut_says_that_there_is_more(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, found: str
) -> None:
    async def read(_command: str) -> RunResult:
        rows = [f"./{name}\x00{line}:needle\n" for line in (1, 9)]
        return RunResult(0, None, "[aish: 9 bytes left out here]\n".join(rows), True, 1, "stop")

    place.put(name, "needle\n" * 9)
    monkeypatch.setattr("aish_lsp.tools.reading._RIPGREP", "sh")
    looking = Looking(replace(place.tools._own[0]._workplace, read=read))

    async def quiet(_: object) -> None:
        pass

    around = Around(quiet, quiet, "group", 4_000)
    result = await looking.search({"pattern": "needle"}, around)
    assert result.text.startswith(f"{found}[aish: there is more;")


async def test_an_output_too_long_to_be_read_at_once_is_read_in_parts(place: Place) -> None:
    place.put(".aish/output/long.txt", "".join(f"{n:08}\n" for n in range(1, 300_001)))
    path = ".aish/output/long.txt"
    whole = (await place.call("read_file", path=path, limit=1_000_000)).text
    assert whole.startswith(f"[{path}, lines 1-4000]\n00000001\n")
    assert whole.endswith("\n00004000\n[aish: not all; read_file with start=4001 goes on]")
    part = (await place.call("read_file", path=path, start=4001, end=4002, limit=1_000)).text
    assert part == f"[{path}, lines 4001-4002]\n00004001\n00004002"
    last = (await place.call("read_file", path=path, start=300_000, limit=1_000)).text
    assert last == f"[{path}, lines 300000-300000]\n00300000"
    beyond = await place.call("read_file", path=path, start=300_001, limit=1_000)
    assert (beyond.status, beyond.text) == ("failed", f"{path} has fewer than 300001 lines.")


async def test_a_long_result_is_cut_and_all_of_it_can_be_read(place: Place) -> None:
    for number in range(300):
        place.put(f"folder/file_{number:03}.txt", "")
    cut = (await place.call("list_files", limit=2000)).text
    assert len(cut) < 2200
    assert cut.startswith(".gitignore\nfolder/file_000.txt\n")
    assert cut.endswith("folder/file_299.txt\n")
    file = cut.partition("read_file ")[2].split(" ")[0]
    assert file.startswith(".aish/output/")
    assert stat.S_IMODE((place.folder / file).stat().st_mode) == 0o600
    rest = await place.call("read_file", path=file, start=150, end=152, limit=2000)
    assert "folder/file_149.txt\nfolder/file_150.txt" in rest.text


# Writing


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("e\u0301tude", "\u00e9tude"),
        ("\u00e9tude", "e\u0301tude"),
        ("10\u00a0km", "10 km"),
        ("\u201cit\u2019s\u201d", '"it\'s"'),
        ("1\u20132 \u2014 so", "1-2 - so"),
    ],
)
async def test_an_edit_finds_what_only_reads_like_it_if_nothing_is_the_same(
    place: Place, text: str, old: str
) -> None:
    path = place.put("a.txt", f"one\r\n{text}\r\n")
    result = await place.call("edit_file", path="a.txt", old=f"{old}\n", new="\u00b5\n")
    assert result.status == "done", result
    assert path.read_bytes() == "one\r\n\u00b5\r\n".encode()
    path = place.put("b.txt", f"{text}\n{old}\n")
    await place.call("edit_file", path="b.txt", old=old, new="same")
    assert path.read_text() == f"{text}\nsame\n"
    place.put("c.txt", f"{text}\n{text}\n")
    result = await place.call("edit_file", path="c.txt", old=old, new="same")
    assert "occurs 2 times in c.txt, in lines 1, 2" in result.text


async def test_an_edit_keeps_mode_line_ends_and_all_else(place: Place) -> None:
    before = b"\xef\xbb\xbfone\r\ntwo\r\nmixed\nend"
    path = place.put("a.txt", before, 0o754)
    result = await place.call("edit_file", path="a.txt", old="one\ntwo\n", new="1\n2\n")
    assert result.status == "done", result
    assert result.diff == "-one\n-two\n+1\n+2\n mixed\n end"
    title = call_title("aish", "edit_file", '{"path": "a.txt"}', "done", result.text)
    assert title == "Edited a.txt, +2 \N{MINUS SIGN}2"
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nmixed\nend"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    [question] = place.asked
    assert question.message.startswith("Change a.txt (caution)?")
    assert "    -one" in question.message
    assert question.approval is not None
    assert question.approval.diff is not None
    assert question.approval.diff.before == "one\ntwo\nmixed\nend"
    assert (await place.undo()).restored == ["a.txt"]
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


async def test_a_text_that_is_not_there_once_is_told(place: Place) -> None:
    path = place.put("a.txt", "x\ny\nx\n")
    twice = await place.call("edit_file", path="a.txt", old="x", new="z")
    assert "occurs 2 times in a.txt, in lines 1, 3" in twice.text
    assert "does not occur" in (await place.call("edit_file", path="a.txt", old="q", new="")).text
    assert "is empty" in (await place.call("edit_file", path="a.txt", old="", new="")).text
    assert "Nothing would" in (await place.call("edit_file", path="a.txt", old="y", new="y")).text
    missing = await place.call("edit_file", path="b.txt", old="x", new="z")
    assert missing.text.startswith("There is no file b.txt: write_file makes one.")
    assert place.asked == []
    every = await place.call("edit_file", path="a.txt", old="x", new="z", all=True)
    assert (every.status, path.read_text()) == ("done", "z\ny\nz\n")


async def test_a_new_file_is_made_and_undone(place: Place) -> None:
    result = await place.call("write_file", path="docs/deep/new.md", content="# New\n")
    assert result.diff == "+# New"
    title = call_title("aish", "write_file", '{"path": "new.md"}', "done", result.text)
    assert title == "Wrote new.md, 1 line"
    path = place.folder / "docs/deep/new.md"
    assert (result.status, path.read_text()) == ("done", "# New\n")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    assert (await place.undo()).removed == ["docs/deep/new.md"]
    assert not path.exists()


async def test_a_file_that_the_model_has_not_seen_is_not_overwritten(place: Place) -> None:
    path = place.put("a.txt", "precious\r\n")
    assert "read_file first" in (await place.call("write_file", path="a.txt", content="x")).text
    await place.call("read_file", path="a.txt")
    path.write_bytes(b"changed since\r\n")
    assert "read_file first" in (await place.call("write_file", path="a.txt", content="x")).text
    await place.call("read_file", path="a.txt")
    assert (await place.call("write_file", path="a.txt", content="x\ny\n")).status == "done"
    assert path.read_bytes() == b"x\r\ny\r\n"
    assert (await place.call("write_file", path="a.txt", content="z\n")).status == "done"


async def test_a_file_that_changed_while_the_user_was_asked_is_left_alone(place: Place) -> None:
    path = place.put("a.txt", "one\n")

    async def ask(_question: Question) -> bool:
        path.write_text("one, and more\n")
        return True

    place.workspace.services.ask_user = ask
    # The session's tools were made with the way to ask as it was.
    place.workspace.shown.tools = tools_of(place.workspace.shown)
    result = await place.call("edit_file", path="a.txt", old="one", new="two")
    assert (result.status, "changed in the meantime" in result.text) == ("failed", True)
    assert path.read_text() == "one, and more\n"


@pytest.mark.parametrize(
    "name",
    [
        *(".aish.toml", ".AISH.toml", ".aish/x", ".git/hooks/pre-commit", ".git/HEAD"),
        *(".vscode/settings.json", ".envrc", ".githooks/x", "sub/.git/config"),
        *("../outside.txt", "link/x.txt", "linked.txt", "src/../../outside.txt"),
        *("binary.bin", "latin.txt", "ignored/old.txt", "ignored/new.txt", "folder", ""),
    ],
)
async def test_what_a_tool_does_not_write(place: Place, name: str) -> None:
    (place.root / "out").mkdir()
    outside = place.root / "outside.txt"
    outside.write_text("outside")
    (place.folder / "link").symlink_to(place.root / "out")
    (place.folder / "linked.txt").symlink_to(outside)
    place.put("binary.bin", b"a\0b")
    place.put("latin.txt", b"caf\xe9")
    place.put("ignored/old.txt", "a")
    place.put("folder/x", "a")
    tries: list[tuple[str, dict[str, Any]]] = [
        ("write_file", {"content": "evil"}),
        ("edit_file", {"old": "a", "new": "evil"}),
    ]
    for tool, arguments in tries:
        result = await place.call(tool, path=name, **arguments)
        assert result.status == "failed", result
    assert place.asked == []
    assert not [
        path for path in place.root.rglob("*") if path.is_file() and b"evil" in path.read_bytes()
    ]


async def test_our_own_configuration_is_not_written_wherever_it_lies(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISH_CONFIG", str(place.folder / "my settings.toml"))
    monkeypatch.setenv("AISH_DATA_DIR", str(place.folder / "data"))
    for name in ("my settings.toml", "data/trust.json"):
        result = await place.call("write_file", path=name, content="x")
        assert "aish's own" in result.text
    assert place.asked == []


@pytest.mark.parametrize("answer", [False, None])
async def test_nothing_is_written_without_a_yes(place: Place, *, answer: bool | None) -> None:
    place.answer = answer
    path = place.put("a.txt", "one\n")
    result = await place.call("edit_file", path="a.txt", old="one", new="two")
    assert (result.status, path.read_text()) == ("denied", "one\n")


async def test_a_file_that_is_open_is_changed_in_the_editor_alone(place: Place) -> None:
    path = place.put("a.txt", "one\r\n")
    place.open[path] = "# unsaved\none\n"
    result = await place.call("edit_file", path="a.txt", old="one\n", new="two\n")
    assert "not saved yet" in result.text
    assert place.edited == [(path, "# unsaved\none\n", "# unsaved\ntwo\n")]
    assert path.read_bytes() == b"one\r\n"
    assert (await place.undo()).restored == ["a.txt"]
    assert place.open[path] == "# unsaved\none\n"


@pytest.mark.parametrize("what", ["saved", "a link", "made"])
async def test_what_changes_during_the_snapshot_is_left_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = place.put("lib/a.txt", "one\n")
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("one\n")
    before = place.workspace.undo.before

    async def meanwhile(*given: Any) -> None:
        await before(*given)
        if what == "saved":
            path.write_text("mine\n")
        elif what == "a link":
            path.parent.rename(place.folder / "away")
            path.parent.symlink_to(outside)
        else:
            (place.folder / "new.txt").write_text("mine\n")

    monkeypatch.setattr(place.workspace.undo, "before", meanwhile)
    if what == "made":
        result = await place.call("write_file", path="new.txt", content="theirs\n")
        assert (place.folder / "new.txt").read_text() == "mine\n"
    else:
        result = await place.call("edit_file", path="lib/a.txt", old="one", new="two")
        assert (outside / "a.txt").read_text() == "one\n"
        assert "two" not in path.read_text()
    assert result.status == "failed"


async def test_a_large_file_of_rows_alike_is_compared_at_once(place: Place) -> None:
    rows = [f"row {number * 7919 % 120}" for number in range(12_000)]
    place.put("a.txt", "\n".join(rows))
    await place.call("read_file", path="a.txt", limit=1_000_000)
    # Compared each with each it took minutes.
    result = await place.call("write_file", path="a.txt", content="\n".join(rows[::-1]))
    assert result.status == "done"
    assert place.asked[-1].whole.count("\n") > 20_000


async def test_a_write_that_was_begun_is_ended_and_can_be_undone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place.put("a.txt", "one\n")
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(*given: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.3)
        write_keeping(*given)

    monkeypatch.setattr(writing, "write_keeping", slowly)
    calling = asyncio.create_task(place.call("edit_file", path="a.txt", old="one", new="two"))
    await begun.wait()
    calling.cancel()
    assert (await calling).status == "done"
    assert path.read_text() == "two\n"
    assert (await place.undo()).restored == ["a.txt"]
    assert path.read_text() == "one\n"


async def test_an_edit_tells_nothing_of_a_file_of_keys(place: Place) -> None:
    place.put(".env", "API_TOKEN=zx81\n")
    place.answer = False
    for old in ("API_TOKEN=zx81", "API_TOKEN=other"):
        result = await place.call("edit_file", path=".env", old=old, new=old)
        assert "it is not shown" in result.text
    assert place.asked


async def test_a_file_of_which_a_line_was_shown_is_not_written_over(place: Place) -> None:
    place.put("a.txt", "one\ntwo\nthree\n")
    await place.call("read_file", path="a.txt", start=1, end=1)
    result = await place.call("write_file", path="a.txt", content="new\n")
    assert "holds something else than you were" in result.text


@pytest.mark.parametrize("number", ["9" * 5000, 10**400, 10**10, "0", -1, 1.5, True])
async def test_a_number_that_is_none_is_told(place: Place, number: Any) -> None:
    place.put("a.txt", "one\n")
    result = await place.call("read_file", path="a.txt", start=number)
    assert result.text == "`start` has to be a whole number from 1."
    result = await place.call("run_command", command="ls", timeout=number)
    assert result.text == "`timeout` has to be a whole number from 1."


async def test_what_stands_for_a_secret_is_not_written(place: Place) -> None:
    place.put("settings.py", 'DB_PASSWORD = "zx81kq-7r"\nx = 1\n')
    await place.call("read_file", path="settings.py")
    content = 'DB_PASSWORD = "[redacted]"\nx = 2\n'
    result = await place.call("write_file", path="settings.py", content=content)
    assert "stands for a secret" in result.text
    assert place.asked == []
    assert (await place.call("edit_file", path="settings.py", old="x = 1", new="x = 2")).status


async def test_half_a_character_is_told(place: Place) -> None:
    result = await place.call("write_file", path="a.txt", content="\ud800")
    assert "half a character" in result.text
    assert place.asked == []


# Commands


async def test_a_command_is_asked_about_unless_it_only_reads(place: Place) -> None:
    place.put("a.txt", "x")
    seen = await place.call("run_command", command="ls")
    assert (seen.status, "a.txt" in seen.text) == ("done", True)
    is_confined = await place.workspace.can_confine()
    assert len(place.asked) == (0 if is_confined else 1)
    place.asked.clear()
    made = await place.call("run_command", command="echo hi > new.txt; exit 3")
    assert made == ToolResult("[exit 3]\n", "failed")
    assert len(place.asked) == 1
    assert (await place.undo()).removed == ["new.txt"]
    place.answer = False
    assert (await place.call("run_command", command="touch b")).status == "denied"
    assert (await place.call("run_command", command="ls", cwd="..")).status == "failed"
    assert (await place.call("run_command", command=" ")).status == "failed"


async def test_what_a_command_prints_answers_the_call_alone(place: Place) -> None:
    command = "seq 1 5000; rm -f nothing"
    result = await place.call("run_command", command=command, limit=2000)
    assert result.text.startswith("[exit 0]\n1\n2\n")
    assert result.text.rstrip().endswith("\n5000")
    file = result.text.partition("read_file ")[2].split(" ")[0]
    assert (place.folder / file).read_text() == "".join(f"{n}\n" for n in range(1, 5001))
    assert place.workspace.shown.conversation.pending == []


async def test_changes_of_one_exchange_are_one_undo(place: Place) -> None:
    path = place.put("a.txt", "one\n")
    await place.call("edit_file", path="a.txt", old="one", new="two")
    await place.call("run_command", command="echo three >> a.txt")
    await place.call("write_file", path="b.txt", content="new\n")
    undone = await place.undo()
    assert (undone.restored, undone.removed) == (["a.txt"], ["b.txt"])
    assert path.read_text() == "one\n"


# Which are offered


async def test_the_same_call_again_and_again_asks(place: Place) -> None:
    place.answer = False
    place.put("a.txt", "x")
    results = [await place.call("read_file", path="a.txt") for _ in range(6)]
    assert [one.status for one in results] == ["done"] * 4 + ["denied", "done"]
    assert len(place.asked) == 1
    assert "for the 5th time" in place.asked[0].message
    await place.tools.begin()
    for number in range(8):
        await place.call("read_file", path="a.txt", start=1, end=1 + number)
    assert len(place.asked) == 1


async def test_a_small_window_is_told_names_alone_or_nothing(place: Place) -> None:
    own = [tool.schema.name for tool in place.tools.server("aish").tools]
    assert [tool.name for tool in place.tools.definitions(PRESET, 32768)] == own
    [search] = place.tools.definitions(PRESET, 4096)
    assert search.name == "tool_search"
    assert all(f"\n{name}: " in search.description for name in own)
    [names] = place.tools.definitions(PRESET, 1024)
    assert f"\n{', '.join(own)}" in names.description
    [counts] = place.tools.definitions(PRESET, 900)
    assert counts.description.endswith("\naish: 6 tools")
    assert place.tools.definitions(PRESET, 512) == ()
    found = await place.call("tool_search", query="edit_file or write something")
    assert '"old"' in found.text
    offered = [tool.name for tool in place.tools.definitions(PRESET, 4096)]
    assert offered[:2] == ["tool_search", "edit_file"]
    # One that was named and not fetched can be called all the same.
    assert (await place.call("list_files")).status == "done"
    assert (await place.call("tool_search", query="zzz")).text.startswith("No tool fits")


async def test_none_are_offered_where_they_cannot_be_called(place: Place) -> None:
    offline = Preset(name="o", provider="offline", model="offline")
    grammar = Preset(name="g", endpoint="http://x", model="m", extra_body={"grammar": "root"})
    for preset in (offline, grammar):
        assert place.tools.definitions(preset, 1 << 20) == ()


async def test_one_line_switches_a_tool_or_all_of_ours_off(place: Place) -> None:
    place.config.write_text('[tools.servers.aish]\noff = ["run_command"]\n')
    await place.workspace.reload()
    assert "run_command" not in place.tools.names()
    assert (await place.call("run_command", command="ls")).status == "failed"
    place.tools.switch("aish", "run_command", on=True)
    assert "run_command" in place.tools.names()
    place.config.write_text("[tools.servers.aish]\nenabled = false\n")
    await place.workspace.reload()
    assert list(place.tools.names()) == []
    assert (await place.call("read_file", path="a")).text.endswith("There are none.")


def test_a_new_files_mode_is_had_without_touching_the_processs_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").touch()
    usual = (tmp_path / "made").stat().st_mode
    # It is one for all threads: what another made meanwhile would get the wrong mode.
    monkeypatch.delattr("os.umask")
    place = Located(tmp_path / "new" / "file", "new/file")
    write_keeping(tmp_path, Seen(place, ""), b"text")
    assert (tmp_path / "new" / "file").stat().st_mode == usual
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
