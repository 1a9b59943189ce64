"""A clause that leaves something out, or is a condition, is never passed over by an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline import is_unknown
from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion


@pytest.mark.parametrize(
    "question",
    [
        "undo my last commit but keep only main.py",
        "extract backup.tar.gz but skip the docs folder",
        "kill the process on port 3000 unless it is mine",
        "restart nginx only if the config is valid",
        "remove the container web provided it is stopped",
        "upgrade everything apart from docker",
        "revert all files other than README.md",
    ],
)
def test_an_answer_that_leaves_out_a_clause_is_not_given(tmp_path: Path, question: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "backup.tar.gz").touch()
    assert is_unknown(reply(TypedQuestion(question), tmp_path))


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("show the git log without merges", "--no-merges"),
        ('commit with the message "skip the docs"', "skip the docs"),
        ("search for hello in a.txt ignoring case", "grep"),
    ],
)
def test_a_clause_that_the_answer_has_or_that_is_quoted_does_not_silence_it(
    tmp_path: Path, question: str, command: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.txt").touch()
    assert command in reply(TypedQuestion(question), tmp_path)


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("I have a file a.txt here and want to know how many lines it has", "wc -l a.txt"),
        (
            "before I delete the tmp folder I want to make sure how much space it takes",
            "du -sh tmp",
        ),
        (
            "given a.txt, I would like to see the three people with the highest score in column 2",
            "sort -nr -k 2,2 a.txt | head -n 3",
        ),
    ],
)
def test_what_the_situation_names_is_meant_by_the_request_after_it(
    tmp_path: Path, question: str, command: str
) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "tmp").mkdir()
    assert f"CMD: {command}" in reply(TypedQuestion(question), tmp_path).splitlines()


@pytest.mark.parametrize(
    "question",
    [
        "I only use the first ten lines of a.txt and want to sort it",
        "my a.txt is fine except for line 3 and I want to delete it",
    ],
)
def test_a_situation_that_limits_the_request_is_not_left_out(tmp_path: Path, question: str) -> None:
    (tmp_path / "a.txt").touch()
    told = reply(TypedQuestion(question), tmp_path)
    assert "CMD: sort a.txt" not in told
    assert "CMD: rm" not in told


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (
            "I have a folder full of logs and would like to get rid of those older than a month",
            "find logs -type f -mtime +30 -delete",
        ),
        (
            "there are some empty files lying around in logs, how do I delete them?",
            "find logs -type f -empty -delete",
        ),
        (
            "my disk is getting full so I want to know which files over 10 MB I have in here",
            "find . -type f -size +10M",
        ),
        (
            "I need to find a file, I forgot where I put it but its name ends with utils.py",
            "find . -type f -name '*utils.py'",
        ),
        (
            "the folder logs contains files with the extension tmp, I would like to delete them",
            "find logs -type f -name '*.tmp' -delete",
        ),
        (
            "I need the 2 newest files in logs because I want to send them to support",
            "find logs -type f -printf '%T@ %p\\n' | sort -rn | head -n 2 | cut -d ' ' -f 2-",
        ),
        (
            "somebody put a lot of .bak files all over the project and I want them gone",
            "find . -type f -name '*.bak' -delete",
        ),
        (
            "I have a folder full of logs, how many of them were written in the last month?",
            "find logs -type f -mtime -30 | wc -l",
        ),
        (
            "I was wondering if you could tell me how to find symlinks that don't point to a file",
            "find . -type l -xtype l",
        ),
        (
            "so I got this data.csv by mail and I only need the second column of it, sorted",
            "awk -F , '{print $2}' data.csv | sort",
        ),
        (
            "I want a backup of logs, so please pack it into logs.tar.gz",
            "tar -caf logs.tar.gz logs",
        ),
        (
            "sorry for the newbie question, but how can I make a copy of a.txt named b.txt?",
            "cp -i a.txt b.txt",
        ),
    ],
)
def test_a_long_question_is_answered_by_the_request_in_it(
    tmp_path: Path, question: str, command: str
) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "logs").mkdir()
    assert f"CMD: {command}" in reply(TypedQuestion(question), tmp_path).splitlines()


@pytest.mark.parametrize(
    "question",
    [
        "my logs have an empty first line and I want to delete it",
        "some files in logs are empty, how do I delete what is in there",
        "I want to delete it",
    ],
)
def test_a_condition_that_is_told_before_the_request_is_not_dropped(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / "logs").mkdir()
    told = reply(TypedQuestion(question), tmp_path)
    assert "CMD: find logs -type f -delete" not in told
    assert "CMD: rm" not in told


@pytest.mark.parametrize(
    "question",
    ["how many functions are in main.py", "show my shell history with timestamps"],
)
def test_an_answer_that_leaves_much_of_the_question_unexplained_is_not_given(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / "main.py").touch()
    assert is_unknown(reply(TypedQuestion(question), tmp_path))


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("create a folder called x inside logs", "mkdir -p logs/x"),
        ("run a.txt with python3.11", "python3.11 a.txt"),
        ("delete lines 2 and 4 of a.txt", "sed -i '2d;4d' a.txt"),
        ("show the first and last line of a.txt", "sed -n '1p;$p' a.txt"),
        ("print only lines that occur once in a.txt", "sort a.txt | uniq -u"),
        (
            "print the line with the largest number in column 2 of a.txt",
            "sort -nr -k 2,2 a.txt | head -n 1",
        ),
        ('search for the string "import" in logs', "grep -rH import logs"),
        ("show lines 2, 3 and 5 of a.txt", "sed -n '2p;3p;5p' a.txt"),
        (
            'find all files in logs whose name contains "a" but not "m"',
            "find logs -type f -name '*a*' -not -name '*m*'",
        ),
        (
            "find the word TODO in logs, excluding .js files",
            "find logs -type f -not -name '*.js' -exec grep -H TODO {} +",
        ),
        (
            "find all files in logs that have the extension py or js",
            "find logs -type f \\( -name '*.py' -o -name '*.js' \\)",
        ),
        ("find all executables in logs", "find logs -type f -executable"),
        ("append the word done to every line of a.txt", "sed -i 's/$/done/' a.txt"),
        ("everything in a.txt in capitals", "tr '[:lower:]' '[:upper:]' < a.txt"),
        ("a.txt: column 2 only", "awk '{print $2}' a.txt"),
        ("print the line after each line that matches ERROR in a.txt", "grep -A 1 ERROR a.txt"),
        (
            "find all text files in logs and count the lines of each",
            "find logs -type f -name '*.txt' -exec wc -l {} +",
        ),
    ],
)
def test_each_word_of_a_request_is_in_the_command(
    tmp_path: Path, question: str, command: str
) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "logs").mkdir()
    assert f"CMD: {command}" in reply(TypedQuestion(question), tmp_path).splitlines()


@pytest.mark.parametrize(
    "question",
    [
        "count the characters in each line of a.txt",
        "print the second and last columns of a.txt",
        "replace every occurrence of foo with bar in a.txt but do not save the file",
    ],
)
def test_a_word_that_makes_it_another_request_is_not_left_out(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.txt").touch()
    told = reply(TypedQuestion(question), tmp_path)
    assert is_unknown(told) or told.startswith("Perhaps")


@pytest.mark.parametrize(
    "question",
    [
        "delete the files in logs so that I keep only the newest",
        "delete all files in logs because I only need app.log",
        "delete the files in logs, since we keep those of this week",
    ],
)
def test_a_reason_that_names_what_is_to_stay_is_not_dropped(tmp_path: Path, question: str) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "app.log").touch()
    told = reply(TypedQuestion(question), tmp_path)
    for everything in ("find logs -type f -delete", "find logs -mindepth 1 -delete", "rm "):
        assert f"CMD: {everything}" not in told


@pytest.mark.parametrize(
    "clause",
    [
        ", it needs to keep the timestamps",
        ", and it has to be signed",
        " but i also want to keep the signature",
        " but keep the newest",
        ", not the empty ones",
        ", nothing older than the release",
        " so that nobody but me can see it",
        " so that only bob can use it",
    ],
)
@pytest.mark.parametrize(
    "question",
    [
        "unpack backup.tar.gz",
        "compress a.txt with gzip",
        "sort a.txt",
        "find all python files",
        "delete the folder tmp",
        "show the last commit",
        "count the lines of a.txt",
    ],
)
def test_a_clause_that_follows_the_request_and_is_not_understood_is_never_dropped(
    tmp_path: Path, question: str, clause: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "tmp").mkdir()
    for name in ("backup.tar.gz", "a.txt"):
        (tmp_path / name).touch()
    alone = reply(TypedQuestion(question), tmp_path)
    assert "CMD: " in alone
    told = reply(TypedQuestion(question + clause), tmp_path)
    assert told.startswith("Perhaps") or told != alone


@pytest.mark.parametrize(
    "question",
    [
        "there are huge log files in logs, please delete them",
        "we have lots of old files in logs and I want them gone",
        "I have some secret files in logs, please delete them",
        "I have a lot of files with weird names in logs and would like to delete them",
    ],
)
def test_what_is_told_of_files_that_are_to_go_is_not_left_out(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / "logs").mkdir()
    assert is_unknown(reply(TypedQuestion(question), tmp_path))
