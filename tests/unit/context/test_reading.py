"""The files that a question names, read from a real folder."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swapping import swapped

from aish_lsp.config.schema import ProjectSettings
from aish_lsp.context import attached as reading
from aish_lsp.context.attached import Attachments, named_files, sent_along
from aish_lsp.context.selection import EACH_END
from aish_lsp.foundation.ports import nobody
from aish_lsp.project import current
from aish_lsp.project.picture import FileNames, ProjectPicture


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder with sources, in a repository and out of one."""
    root = tmp_path / "wörk space"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("def f():\n    return 1\n\nx = 2\n")
    (root / "a b.txt").write_text("with a blank\n")
    (root / ".gitignore").write_text("*.secret\n")
    (root / "keys.secret").write_text("hush\n")
    (root / "link.txt").symlink_to("a b.txt")
    (root / "to-secret").symlink_to("keys.secret")
    (root / "out").symlink_to("../outside.txt")
    (tmp_path / "outside.txt").write_text("not yours\n")
    (root / "bytes").write_bytes(b"a\0b")
    (root / "dos.txt").write_bytes("é 1\r\né 2\r\n".encode())
    (root / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    (root / "empty.txt").write_text("")
    if request.param == "git":
        subprocess.run(["git", "init", "-q", root], check=True)
    return root


async def named(
    root: Path | None, question: str, text_of: Callable[[Path], str | None] = lambda _: None
) -> Attachments:
    async def open_text(path: Path) -> str | None:
        return text_of(path)

    files = FileNames(root, ProjectPicture(root), ProjectSettings)
    return await named_files(question, files, open_text)


async def test_a_file_is_read(root: Path) -> None:
    found = await named(root, "what is @src/app.py, and @./link.txt?")
    assert found.notices == []
    app, linked = found.attached
    assert (app.kind, app.path, app.language) == ("file", "src/app.py", "py")
    assert app.text == (root / "src" / "app.py").read_text()
    assert (linked.path, linked.text) == ("a b.txt", "with a blank\n")


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("sum up @my quarterly report.txt, please", "my quarterly report.txt"),
        ("why is @Button (copy).tsx here?", "Button (copy).tsx"),
        ("@my quarterly report.txt", "my quarterly report.txt"),
        ("**@my quarterly report.txt**", "my quarterly report.txt"),
        ("lines @my quarterly report.txt:1-2 only", "my quarterly report.txt"),
        ("@my docs/to do.md的错误", "my docs/to do.md"),
        ("is @my the file?", "my"),
        ("@my\nquarterly report.txt", "my"),
    ],
)
async def test_a_name_has_blanks_if_there_is_such_a_file(
    root: Path, question: str, name: str
) -> None:
    (root / "my docs").mkdir()
    for one in ("my", "my quarterly report.txt", "Button (copy).tsx", "my docs/to do.md"):
        (root / one).write_text(f"{one}\n")
    found = await named(root, question)
    assert found.notices == []
    assert [(part.path, part.text) for part in found.attached] == [(name, f"{name}\n")]


async def test_a_name_with_blanks_that_goes_on_is_told(root: Path) -> None:
    found = await named(root, "see @a b.txt.bak and @alice c.txt")
    assert found.notices == ["There is no file a b.txt.bak: a b.txt was sent."]
    assert [part.path for part in found.attached] == ["a b.txt"]


async def test_many_names_of_one_kind_in_a_pasted_text_are_one(root: Path) -> None:
    pasted = "\n".join(f"@Override public void f{number}()" for number in range(300))
    found = await named(root, f"{pasted}\n@src/app.py")
    assert found.notices == []
    assert [part.path for part in found.attached] == ["src/app.py"]


async def test_what_is_named_twice_is_sent_once(root: Path) -> None:
    found = await named(root, '@"a b.txt", @./link.txt; @src/app.py:1 @src/app.py:2')
    assert [(part.kind, part.first) for part in found.attached] == [
        ("file", 0),
        ("selection", 1),
        ("definition", 1),
        ("selection", 2),
    ]


async def test_lines_of_it_come_with_the_definition_around_them(root: Path) -> None:
    [lines, around] = (await named(root, "@src/app.py:2")).attached
    assert (lines.kind, lines.text, lines.first, lines.last) == (
        "selection",
        "    return 1\n",
        2,
        2,
    )
    assert (around.kind, around.text) == ("definition", "def f():\n    return 1")
    assert (around.first, around.last) == (1, 2)
    [rest] = (await named(root, "@src/app.py:4-999")).attached
    assert rest.text == "x = 2\n"


async def test_of_a_long_definition_the_first_line_goes_and_that_is_told(root: Path) -> None:
    (root / "long.py").write_text("def f():\n" + "    x = 1\n" * 1000)
    found = await named(root, "@long.py:5")
    assert found.attached[1].text == "def f():\n[...]"
    assert ", ".join(map(str, sent_along(found.attached))) == (
        "long.py, line 5, the definition around it (long.py, lines 1-1001), cut short"
    )


async def test_names_with_blanks_and_absolute_ones(root: Path) -> None:
    for question in ('@"a b.txt"', r"@a\ b.txt", f'@"{root}/a b.txt"'):
        [found] = (await named(root, question)).attached
        assert found.path == "a b.txt"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("@keys.secret", "ignored"),
        ("@to-secret", "ignored"),
        ("@.git/config", "ignored|no file"),
        ("@out", "is outside the workspace"),
        ("@../outside.txt", "is outside the workspace"),
        ("@/etc/passwd", "is outside the workspace"),
        ("@src", "is a folder"),
        ("@src/.", "is a folder"),
        ("@bytes", "binary"),
        ("@src/nope.py", "no file src/nope.py"),
        ("@../nope.py", "no file ../nope.py"),
        ("@" + "n/" * 400 + "a.py", "no file"),
        ("@a\0b.py", "no file"),
        ("@src/app.py:99", "has 4 lines: line 99"),
        ("@src/app.py:3", "blank"),
        ("@empty.txt:1", "blank"),
    ],
)
async def test_what_is_not_sent_is_told(root: Path, name: str, told: str) -> None:
    found = await named(root, f"see {name}.")
    assert found.attached == []
    [notice] = found.notices
    assert any(part in notice for part in told.split("|"))


async def test_an_empty_file_is_told_of_and_sent(root: Path) -> None:
    found = await named(root, "@empty.txt")
    assert [part.text for part in found.attached] == [""]
    assert found.notices == ["empty.txt is empty."]


async def test_what_is_no_path_is_not_complained_of(root: Path) -> None:
    assert await named(root, "why is it @dataclass, and who is @somebody?") == Attachments()


async def test_line_ends_and_bytes_are_made_text(root: Path) -> None:
    found = await named(root, "@dos.txt @latin.txt")
    [dos, latin] = found.attached
    assert dos.text == "é 1\né 2\n"
    assert latin.text == "caf\ufffd\n"
    [notice] = found.notices
    assert notice.startswith("latin.txt is not UTF-8: ")
    (root / "wide.txt").write_text("café\n", "utf-16")
    found = await named(root, "@wide.txt")
    assert (found.attached, found.notices) == (
        [],
        ["wide.txt is UTF-16, not UTF-8, and was not sent."],
    )


APP = [("src/app.py", 0)]


@pytest.mark.parametrize(
    ("question", "sent"),
    [
        ("请解释@src/app.py的错误", APP),
        ("解释 @src/app.py。", APP),
        ("请看「@src/app.py」、@dos.txt\uff0c谢谢", [*APP, ("dos.txt", 0)]),
        ("„@src/app.py“", APP),
        ("@\u2018src/app.py\u2019", APP),
        ("«@src/app.py»", APP),
        ('"@src/app.py"', APP),
        ("'@src/app.py's end", APP),
        ("**@src/app.py**", APP),
        ("_@src/app.py_ and __@dos.txt__", [*APP, ("dos.txt", 0)]),
        ("[it](@src/app.py)", APP),
        ("<@src/app.py>", APP),
        ("@src/app.py,@dos.txt", [*APP, ("dos.txt", 0)]),
        ("@src/app.py/@dos.txt", [*APP, ("dos.txt", 0)]),
        ("curl -d=@dos.txt", [("dos.txt", 0)]),
        ("@src/app.py:1:5", [("src/app.py", 1)]),
        ("@src/app.py:4\uff0c为什么", [("src/app.py", 4)]),
        ("(@src/app.py#L4)", [("src/app.py", 4)]),
        ("@src\\app.py", APP),
        ("@src\\app.py的", APP),
        ('@"a b.txt"的', [("a b.txt", 0)]),
        ("@a\\ b.txt的", [("a b.txt", 0)]),
        ("@src/app.pyは@./link.txtと同じ?", [*APP, ("a b.txt", 0)]),
        ("@caf\u00e9.md @u\u0308n/i.md", [("cafe\u0301.md", 0), ("\u00fcn/i.md", 0)]),
        ("me@dos.txt \\@dos.txt", []),
        ("`@src/app.py` @dos", []),
    ],
)
async def test_the_longest_beginning_that_is_a_file_counts(
    root: Path, question: str, sent: list[tuple[str, int]]
) -> None:
    (root / "cafe\u0301.md").write_text("decomposed\n")
    (root / "\u00fcn").mkdir()
    (root / "\u00fcn" / "i.md").write_text("composed\n")
    found = await named(root, question)
    first = {part.path: part.first for part in found.attached if part.kind != "definition"}
    assert [*first.items()] == sent
    assert found.notices == []


@pytest.mark.parametrize("name", ["a.py,@b", "a", "a.py的", "node/@types/x.ts", "a:1:5", "a_"])
async def test_a_longer_name_comes_before_a_shorter_one(root: Path, name: str) -> None:
    for other in ("a.py", "b", "types/x.ts", "a", name):
        (root / other).parent.mkdir(parents=True, exist_ok=True)
        (root / other).write_text(f"{other}\n")
    found = await named(root, f"see @{name}, now")
    assert [part.path for part in found.attached] == [name]


#: What would name lines or another file, or begin code.
NAME_GOES_ON = re.compile(r"[A-Za-z0-9_:#/.\\]|.*`", re.DOTALL)


@given(
    st.sampled_from(["", "请", "(", "**", "„", "x=", "é", "\n", "¿"]),
    st.text(max_size=12).filter(
        lambda text: not re.match(r"[A-Za-z0-9_:#`/.@\\]|.*[`\r]", text, re.DOTALL)
    ),
)
@settings(max_examples=60, deadline=None)
def test_whatever_stands_around_a_file_it_is_sent(before: str, behind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "src").mkdir()
        (root / "src" / "app.py").write_text("x = 1\n")
        found = asyncio.run(named(root, f"{before}@src/app.py{behind}"))
    assert [part.path for part in found.attached] == ["src/app.py"]


async def test_a_file_that_is_named_as_if_it_went_on_is_sent_and_that_is_told(root: Path) -> None:
    found = await named(root, "@src/app.py.bak, and @src/app.pyc")
    assert [part.path for part in found.attached] == ["src/app.py"]
    assert [notice.partition(";")[0] for notice in found.notices] == [
        "There is no file src/app.py.bak: src/app.py was sent.",
        "There is no file src/app.pyc in the workspace",
    ]


async def test_a_file_that_is_also_a_secret_is_not_sent(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    key = root.parent / ".ssh" / "id_work"
    key.parent.mkdir()
    key.write_text("key\n")
    (root / "notes.txt").hardlink_to(key)
    found = await named(root, "@notes.txt", lambda _: "key\n")
    assert found.attached == []
    assert found.notices == ["notes.txt is also a file in a secret place, and was not sent."]


@pytest.mark.slow
async def test_a_folder_that_is_swapped_with_a_link_sends_nothing_from_outside(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("stolen\n")
    files = FileNames(root, ProjectPicture(root), ProjectSettings)
    sent: list[str] = []
    with swapped(root / "src", outside):
        for _ in range(100):
            found = await named_files("@src/app.py", files, nobody)
            sent += (part.text for part in found.attached)
    assert "stolen\n" not in sent


async def test_the_editors_text_comes_before_the_disks(root: Path) -> None:
    texts = {root / "src" / "app.py": "unsaved = 1\n", root / "src" / "new.py": "new = 1\n"}
    found = await named(root, "@src/app.py @src/new.py", texts.get)
    assert [part.text for part in found.attached] == ["unsaved = 1\n", "new = 1\n"]
    assert found.notices == []


async def test_an_ignored_file_is_not_sent_though_it_is_open(root: Path) -> None:
    found = await named(root, "@keys.secret", lambda _: "hush")
    assert found.attached == []


async def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    found = await named(root, "@./pipe")
    assert found.notices == ["./pipe is not a regular file and was not sent."]


async def test_a_huge_file_is_not_sent_and_a_long_one_cut(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "long.txt").write_text("".join(f"line {n}\n" for n in range(10_000)))
    [part] = (await named(root, "@long.txt")).attached
    assert part.cut
    assert part.text.startswith("line 0\n")
    assert part.text.endswith("line 9999\n")
    assert len(part.text) < 2 * EACH_END + 60
    monkeypatch.setattr(reading, "LARGEST", 1000)
    found = await named(root, "@long.txt")
    assert found.attached == []
    assert "larger than" in found.notices[0]


async def test_only_so_many_are_looked_at(root: Path) -> None:
    found = await named(root, " ".join(f"@src/{n}.py" for n in range(30)))
    assert len(found.notices) == 1 + reading.MOST
    assert "first 20" in found.notices[0]


async def test_without_a_folder_nothing_is_read() -> None:
    found = await named(None, "@src/app.py")
    assert found.attached == []
    assert "No folder is open" in found.notices[0]
    assert await named(None, "@somebody") == Attachments()


async def test_a_file_that_nobody_told_of_is_looked_for(root: Path) -> None:
    picture = ProjectPicture(root)
    files = FileNames(root, picture, ProjectSettings)
    assert picture.files is not None
    picture.files.watch()
    for name in ("src/later.py", "src/later.secret", "src/later.py"):
        (root / name).write_text("x\n")
        found = await named_files(f"@{name}", files, nobody)
        assert bool(found.attached) == name.endswith(".py")
    # What it took in is in the picture, too.
    await picture.refresh(ProjectSettings(), patience=None)
    assert "later.py" in picture.block.block


async def test_of_a_list_that_is_not_whole_the_rules_decide(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "FILE_LIMIT", 4)
    (root / "src" / "deep").mkdir()
    for name in ("a.py", "b.py", "c.secret"):
        (root / "src" / "deep" / name).write_text("x\n")
    found = await named(root, "@src/deep/a.py @src/deep/c.secret @.git/HEAD")
    assert [part.path for part in found.attached] == ["src/deep/a.py"]


async def test_names_are_known_to_somebody_who_types(root: Path) -> None:
    picture = ProjectPicture(root)
    assert "src/app.py" in await FileNames(root, picture, ProjectSettings).lately()
    assert await FileNames(None, ProjectPicture(None), ProjectSettings).lately() == ()
    await picture.aclose()
