from __future__ import annotations

import re
from pathlib import Path

import pytest

from aish_lsp.offline.deeds import deeds_of, only_asks, risk_of, verbs_of
from aish_lsp.offline.model import is_unknown, reply
from aish_lsp.offline.table import SLOT, table
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.shell.risk import classify


def commands(root: Path, question: str) -> list[str]:
    lines = reply(TypedQuestion(question), root).split("\n")
    return [line.removeprefix("CMD: ") for line in lines if line.startswith("CMD: ")]


@pytest.mark.parametrize(
    "question",
    [
        "list all emtpy dirs",
        "do i have swap?",
        "show os version",
        "is the design of this codebase any good?",
        "is notes.txt a text file or an image",
        "which files did i change last?",
        "what is in the folder old",
        "are there any log files older than 7 days",
        "who is root",
        "how many files are there",
        "show files ending in .log",
        "is there an empty folder",
    ],
)
def test_a_question_for_information_gets_no_command_that_loses_something(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "notes.txt").touch()
    for command in commands(tmp_path, question):
        assert classify(command, "bash", confined=True).risk != "destructive", command


@pytest.mark.parametrize(
    "question", ["write a poem about the sea", "translate good morning to japanese"]
)
def test_what_only_sounds_like_a_task_is_unknown(tmp_path: Path, question: str) -> None:
    assert is_unknown(reply(TypedQuestion(question), tmp_path))


@pytest.mark.parametrize(
    "question",
    [
        "push but don't force",
        "pull without rebasing",
        "replace foo with bar in notes.txt but don't change the file",
        "who uses port 3000 >> don't kill it",
        "delete one of the logs",
        "delete all files except images",
        "merge a.txt and b.txt into c.txt and then delete them",
    ],
)
def test_a_denial_or_a_part_of_some_things_is_not_passed_over(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "logs").mkdir()
    for name in ("a.txt", "b.txt", "notes.txt", "image.iso"):
        (tmp_path / name).touch()
    *earlier, last = question.split(" >> ")
    assert is_unknown(reply(TypedQuestion(last, earlier=tuple(earlier)), tmp_path))


@pytest.mark.parametrize("spared", ["all but error.log", "everything except error.log"])
def test_all_but_one_means_one_of_those_that_were_listed(tmp_path: Path, spared: str) -> None:
    asked = TypedQuestion(f"delete {spared}", earlier=("find all log files",))
    assert "CMD: find . -type f -name '*.log' -not -name error.log -delete" in reply(
        asked, tmp_path
    ).split("\n")


def test_a_file_that_was_named_is_not_left_out_of_what_is_lost(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.txt").touch()
    for command in commands(tmp_path, "undo uncommited changes in a.txt"):
        assert "a.txt" in command


def test_deleting_by_name_spares_what_has_another(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    (command,) = commands(tmp_path, "delete all .DS_Store files")
    assert command.startswith("find . -type f -name .DS_Store ")


def test_what_can_lose_something_is_asked_for_with_a_verb() -> None:
    for intent in table().intents:
        if risk_of(intent) == "destructive":
            assert deeds_of(intent.number) or verbs_of(intent.number), intent.name


#: What is said along with a question, and makes no difference to what does it.
SAID_ALONG = {
    "git cherry pick": "branch",
    "git restore deleted file": "number",
    "request with password": "text",
    "wake on lan": "remote",
    "trim journal": "size2",
    "iso date": "date",
}


def test_each_value_of_a_phrasing_is_used() -> None:
    for phrasing in table().phrasings:
        intent = table().intents[phrasing.intent]
        texts = [text for way in intent.ways for text in (*way.run, *way.when)]
        used = {name for text in texts for name, _ in SLOT.findall(text)}
        used |= {name for text in texts for name in text.partition(":")[2].split("|")}
        used |= {name for text in texts for name, equals, _ in [text.partition("=")] if equals}
        unused = {slot.name for slot in phrasing.slots} - used - {SAID_ALONG.get(intent.name)}
        assert intent.topic or not unused, (intent.name, phrasing.wording)


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("which files are large?", True),
        ("is port 80 free?", True),
        ("how do i delete a.txt?", False),
        ("could you please show me how to remove a folder", False),
        ("what is the best way to delete old logs", False),
        ("port 8080 is in use, kill it", False),
        ("is port 8080 in use? if so, kill it", False),
        ("show the log and the errors", True),
    ],
)
def test_a_question_is_told_from_a_task(question: str, *, asks: bool) -> None:
    assert only_asks(question) is asks


def test_no_two_intents_are_asked_for_in_the_same_words() -> None:
    asked: dict[tuple[str, ...], str] = {}
    for phrasing in table().phrasings:
        wording = tuple(re.sub(r"\d\}$", "}", word) for word in phrasing.wording)
        name = table().intents[phrasing.intent].name
        assert asked.setdefault(wording, name) == name, wording


@pytest.mark.parametrize(
    "question",
    [
        "notes.txt from all subfolders",
        "src from all subfolders",
        "orphaned packages",
        "dangling images",
        "images without a name",
        "the last commit completely",
        "old journal entries",
        "files not under version control",
        "backup and temporary files",
        "node_modules is broken",
        "firefox is not responding",
        "this branch identical to abc1234",
        "notes.txt from dev",
        "the pip cache",
        "notes.txt with all occurrences of 'a' replaced by 'b'",
    ],
)
def test_what_destroys_is_not_answered_surely_without_a_verb_for_it(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "notes.txt").write_text("a\n")
    told = reply(TypedQuestion(question), tmp_path).splitlines()
    commands = [line.removeprefix("CMD: ") for line in told if line.startswith("CMD: ")]
    if told[0] != "Perhaps one of these:":
        assert [
            one for one in commands if classify(one, "bash", confined=True).risk == "destructive"
        ] == []
        assert [one for one in commands if re.search(r"\bsed -i\b|\bkill\b|--prune\b", one)] == []
