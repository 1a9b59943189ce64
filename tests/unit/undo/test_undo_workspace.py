"""Undo as a workspace has it: commands side by side, ends that come early, words for people."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from undo_parts import commit, records, repository, write

from aish_lsp import undo as undo_module
from aish_lsp.foundation.errors import Busy, NotFound
from aish_lsp.foundation.ports import EditOutcome, Question, nobody
from aish_lsp.undo import Undo
from aish_lsp.undo.git import NoUndo, Nowhere
from aish_lsp.undo.records import undo_folder
from aish_lsp.undo.reverting import Reverted
from aish_lsp.undo.work import Worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
]


def of(root: Path) -> Undo:
    return Undo(root, lambda text: text.replace("KEY", "[masked]"))


async def test_commands_that_run_beside_each_other_are_one_undo(root: Path) -> None:
    repository(root, a="one", b="one")
    undo = of(root)
    await undo.before("first", "first", root, "s")
    write(root, {"a": "two"})
    await undo.before("second", "second", root, "s")
    write(root, {"b": "two"})
    assert await undo.after() == []
    with pytest.raises(Busy):
        await undo.undo("s", nobody)
    write(root, {"new": "x"})
    assert await undo.after() == []
    undone = await undo.undo("s", nobody)
    assert (undone.restored, undone.removed) == (["a", "b"], ["new"])
    assert undone.message.splitlines() == ["Undone: first", "Put back: a, b", "Removed: new"]


def test_the_name_of_a_file_that_failed_is_escaped(root: Path) -> None:
    done = Reverted(root, "label", "group", failed={b"a\nb": "Busy"})
    message = of(root)._undone(done, "undo", {}).message
    assert message.splitlines() == [
        "Undone: label",
        "Changed since, left alone: a\\nb",
        "a\\nb: Busy",
    ]


async def test_names_are_told_relative_to_the_workspace_in_any_bytes(root: Path) -> None:
    repository(root, **{"inner/a": "one", "b": "one"})
    undo = of(root / "inner")
    await undo.before("one", "x", root, "s")
    write(root, {"inner/a": "two", "b": "two", "inner/\udcff": "x"})
    await undo.after()
    undone = await undo.undo("s", nobody)
    assert (undone.restored, undone.removed) == (["../b", "a"], ["\\xff"])


async def test_secrets_and_line_ends_of_a_command_are_not_written_down(root: Path) -> None:
    repository(root, a="one")
    undo = of(root)
    await undo.before("one", "curl -H KEY \\\n  > a", root, "s")
    write(root, {"a": "two"})
    await undo.after()
    [path] = undo_folder(root).glob("*.record")
    record = json.loads(path.read_text().partition("\n")[2])
    assert record["label"] == r"curl -H [masked] \\n  > a"
    assert "KEY" not in path.read_text()


async def test_what_changes_while_the_user_thinks_is_not_overwritten(root: Path) -> None:
    repository(root, a="one", b="one", c="one")
    undo = of(root)
    await undo.before("one", "x", root, "s")
    write(root, {"a": "two", "b": "two", "c": "two"})
    await undo.after()
    write(root, {"a": "mine"})

    async def slowly(question: Question) -> bool:
        assert "a" in question.message
        write(root, {"b": "mine too"})
        return True

    undone = await undo.undo("s", slowly)
    assert (undone.restored, undone.conflicts) == (["a", "c"], ["b"])
    assert (root / "b").read_text() == "mine too"


async def test_another_command_does_not_wait_for_the_users_answer(root: Path) -> None:
    repository(root, a="one")
    undo = of(root)
    await undo.before("one", "x", root, "s")
    write(root, {"a": "two"})
    await undo.after()
    write(root, {"a": "mine"})

    async def meanwhile(_: Question) -> bool:
        await undo.before("two", "y", root, "s")
        return True

    with pytest.raises(Busy):
        await undo.undo("s", meanwhile)
    assert (root / "a").read_text() == "mine"
    await undo.after()


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.04, 0.08])
async def test_a_cancelled_snapshot_leaves_the_next_one_free(root: Path, seconds: float) -> None:
    repository(root, a="one")
    undo = of(root)
    task = asyncio.create_task(undo.before("one", "x", root, "s"))
    await asyncio.wait([task], timeout=seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
        await undo.after()  # it was faster
    assert records(root) == []
    await undo.before("two", "y", root, "s")
    write(root, {"a": "two"})
    await undo.after()
    assert (await undo.undo("s", nobody)).restored == ["a"]


async def test_what_is_too_slow_once_is_not_waited_for_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root, a="one")
    undo = of(root)
    with monkeypatch.context() as patch:
        patch.setattr(undo_module, "SNAPSHOT_SECONDS", 0)
        with pytest.raises(NoUndo, match="takes more than 0 s"):
            await undo.before("one", "x", root, "s")
    with pytest.raises(NoUndo, match="takes more than 0 s"):
        await undo.before("one", "x", root, "s")
    assert "takes more than 0 s" in await undo.prospect()


async def test_what_goes_wrong_here_stops_no_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(root, a="one")
    undo = of(root)
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "begin", lambda *_: 1 / 0)
        with pytest.raises(NoUndo, match=r"aish itself failed \(ZeroDivisionError\)"):
            await undo.before("one", "x", root, "s")
    await undo.before("one", "x", root, "s")
    write(root, {"a": "two"})
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "finish", lambda *_: 1 / 0)
        [told] = await undo.after()
    assert told.endswith("`:undo` asks first.")
    assert (await undo.undo("s", nobody)).conflicts == ["a"]


async def test_what_a_command_does_to_gits_own_folder_is_told(root: Path) -> None:
    repository(root, a="one")
    undo = of(root)
    await undo.before("one", "rm -rf .git/hooks", root, "s")
    shutil.rmtree(root / ".git" / "hooks")
    [told] = await undo.after()
    assert told.startswith("`:undo` cannot bring back .git/hooks: it leaves out")
    await undo.before("two", "rm -rf *", root, "s")
    shutil.rmtree(root / ".git")
    (root / "a").unlink()
    [told] = await undo.after()
    assert told.startswith("`:undo` cannot bring back .git: it leaves out")
    assert (await undo.undo("s", nobody)).restored == ["a"]


async def test_ignored_files_that_are_gone_are_told_but_not_those_that_come_and_go(
    root: Path,
) -> None:
    repository(root, **{".gitignore": "*.log\n.*.tmp\n.*.swp\n"})
    passing = [root / ".chat.md.7fa55cc508d1.tmp", root / ".a.py.swp"]
    undo = of(root)
    gone = [root / "a.log", *passing]
    for path in gone:
        path.touch()
    await undo.before("one", "python3 x.py", root, "s")
    for path in gone:
        path.unlink()
    [told] = await undo.after()
    assert told.startswith("`:undo` cannot bring back a.log: it leaves out")


async def test_whether_there_is_an_undo_is_known_before_a_command_runs(root: Path) -> None:
    root.mkdir()
    undo = of(root)
    assert await undo.prospect() == "the folder is not in a git work tree"
    with pytest.raises(Nowhere):
        await undo.before("one", "x", root, "s")
    with pytest.raises(NotFound, match="not in a git work tree"):
        await undo.undo("s", nobody)
    repository(root, a="one")
    assert await undo.prospect() == ""


async def test_what_undo_cannot_put_back_is_told(root: Path) -> None:
    repository(root, a="one")
    undo = of(root)
    await undo.before("one", "git commit", root, "s")
    (root / "a").unlink()
    write(root, {"a/x": "x"})
    commit(root)
    await undo.after()
    write(root, {"a/mine": "x"})
    undone = await undo.undo("s", nobody)
    assert (undone.removed, undone.conflicts) == (["a/x"], ["a"])
    told = undone.message.splitlines()
    assert told[2] == "Changed since, left alone: a"
    assert told[3].startswith("a: ")
    assert told[4].startswith("HEAD was at main (")
    assert told[4].endswith("only files are undone.")


class OpenTexts:
    """An editor's open texts."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    async def edit(self, path: Path, before: str, after: str) -> EditOutcome:
        if path.name not in self.texts:
            return EditOutcome("on disk")
        if self.texts[path.name] != before:
            return EditOutcome("refused")
        self.texts[path.name] = after
        return EditOutcome("unsaved")


async def edit_both(root: Path, undo: Undo, editor: OpenTexts) -> None:
    """Change a file, and another one in the editor, twice."""
    await undo.before("one", "edit", root, "s")
    write(root, {"a": "two"})
    for before, after in (("one\n", "two\n"), ("two\n", "three\n")):
        assert (await editor.edit(root / "b", before, after)).state == "unsaved"
        undo.edited(root / "b", before, after)
    await undo.after()


async def test_what_was_changed_in_the_editor_is_taken_back_there(root: Path) -> None:
    repository(root, a="one", b="one\n")
    editor = OpenTexts(b="one\n")
    undo = Undo(root, str, editor.edit)
    await edit_both(root, undo, editor)
    # Another process knows it too.
    undone = await Undo(root, str, editor.edit).undo("s", nobody)
    assert undone.restored == ["a", "b"]
    assert "Of these changed in the editor, and not saved: b" in undone.message
    assert (editor.texts["b"], (root / "a").read_text()) == ("one\n", "one")
    redone = await undo.redo("s", nobody)
    assert redone.restored == ["a", "b"]
    assert (editor.texts["b"], (root / "a").read_text()) == ("three\n", "two")
    await undo.undo("s", nobody)
    assert (editor.texts["b"], (root / "b").read_text()) == ("one\n", "one\n")


async def test_an_edit_in_the_editor_alone_is_an_undo(root: Path) -> None:
    repository(root, b="one\n")
    editor = OpenTexts(b="one\n")
    undo = Undo(root, str, editor.edit)
    await undo.before("one", "edit", root, "s")
    await editor.edit(root / "b", "one\n", "two\n")
    undo.edited(root / "b", "one\n", "two\n")
    await undo.after()
    assert (await undo.undo("s", nobody)).restored == ["b"]
    assert editor.texts == {"b": "one\n"}
    with pytest.raises(NotFound):
        await undo.undo("s", nobody)
    assert (await undo.redo("s", nobody)).restored == ["b"]
    assert editor.texts == {"b": "two\n"}


async def test_a_text_that_was_changed_since_is_left_alone(root: Path) -> None:
    repository(root, a="one", b="one\n")
    editor = OpenTexts(b="one\n")
    undo = Undo(root, str, editor.edit)
    await edit_both(root, undo, editor)
    editor.texts["b"] = "mine\n"
    undone = await undo.undo("s", nobody)
    assert (undone.restored, undone.conflicts) == (["a"], ["b"])
    assert editor.texts["b"] == "mine\n"


@pytest.mark.parametrize("saved", ["three\n", "three\r\n", "\ufeffthree\n", "mine\n"])
async def test_a_file_that_is_closed_by_now_is_taken_back_on_the_disk(
    root: Path, saved: str
) -> None:
    repository(root, a="one", b="one\n")
    editor = OpenTexts(b="one\n")
    undo = Undo(root, str, editor.edit)
    await edit_both(root, undo, editor)
    editor.texts.clear()
    (root / "b").write_bytes(saved.encode())
    (root / "b").chmod(0o755)
    undone = await undo.undo("s", nobody)
    assert (root / "b").read_bytes().decode() == saved.replace("three", "one")
    assert (root / "b").stat().st_mode & 0o777 == 0o755
    assert undone.conflicts == (["b"] if saved == "mine\n" else [])
