"""Long and roundabout questions: what says nothing is passed over, and nothing else is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aish_lsp.offline import is_unknown
from aish_lsp.offline.model import reply
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import Machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("src", "docs", "photos", "tests", "build"):
        (tmp_path / name).mkdir()
    for name in ("notes.txt", "a.txt", "b.txt", "words.txt", "data.csv", "config.ini", "app.log"):
        (tmp_path / name).write_text("age,size\n1,2\n")
    (tmp_path / "backup.tar.gz").write_bytes(b"")
    return tmp_path


def answer(root: Path, question: str) -> str:
    return reply(TypedQuestion(question), root, Machine("linux", "/usr/bin:/bin", root))


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (
            "my boss wants to know how many python files we have in src, not counting the tests",
            "find src -type f -name '*.py' -not -name tests -not -path '*/tests/*' | wc -l",
        ),
        (
            "I need every file in docs that is a png or a jpg, sorted by size",
            r"find docs -type f \( -name '*.png' -o -name '*.jpg' \) -printf '%s %p\n' | sort -rn",
        ),
        (
            "which files in docs mention the word foo, without regard to upper and lower case",
            "grep -rli foo docs",
        ),
        (
            "show me just the second and third columns of data.csv, without the header",
            "tail -n +2 data.csv | cut -d , -f 2,3",
        ),
        (
            "I'm looking for all folders called node_modules, wherever they are",
            "find . -type d -name node_modules",
        ),
        (
            "I need to know which files nobody has touched for more than half a year",
            "find . -type f -not -mtime -180",
        ),
        ("which of my files can be written by everybody", "find . -type f -perm -a+w"),
        (
            "could you list the files in docs together with their sizes, largest first",
            r"find docs -type f -printf '%s %p\n' | sort -rn",
        ),
        (
            "I want to join the files a.txt and b.txt into one file called both.txt",
            "cat a.txt b.txt > both.txt",
        ),
        (
            "count the lines that have the word INFO in app.log but not the ones with DEBUG",
            "grep INFO app.log | grep -v DEBUG | wc -l",
        ),
        (
            "I need the words in words.txt in alphabetical order, each of them once",
            r"tr -cs '[:alnum:]' '\n' < words.txt | sort -u",
        ),
        ("how do I turn the semicolons in data.csv into commas", "sed -i 's/;/,/g' data.csv"),
        (
            "make a list of all the javascript files and store it in js_files.txt",
            "find . -type f -name '*.js' > js_files.txt",
        ),
        ("please tell me what is in the archive backup.tar.gz", "tar -tf backup.tar.gz"),
        (
            "extract only the .md files from backup.tar.gz",
            "tar -xf backup.tar.gz --wildcards '*.md'",
        ),
        ("tell me how many folders there are in src", "find src -mindepth 1 -type d | wc -l"),
        (
            (
                "I have to send the whole docs directory to a customer who only uses Windows, so "
                "can you please pack it as a zip file for me?"
            ),
            "zip -r docs.zip docs",
        ),
        (
            (
                "a friend of mine says that my file might be damaged, he wants me to send him the "
                "sha256 checksum of app.log, how do I get it?"
            ),
            "sha256sum app.log",
        ),
        (
            (
                "there's a process with the id 4242 that doesn't react to anything any more, so "
                "what can I do to kill it for good?"
            ),
            "kill 4242",
        ),
        (
            (
                "I've got a file called backup.tar.gz that a colleague sent me by mail, and before "
                "I unpack it I'd rather look at what is inside. what's the command?"
            ),
            "tar -tf backup.tar.gz",
        ),
        (
            (
                "our team needs a copy, and I'm supposed to clone the repository at "
                "https://github.com/acme/tools.git into a folder named work"
            ),
            "git clone https://github.com/acme/tools.git work",
        ),
        (
            "find files in docs bigger than 100 KB or older than 60 days",
            r"find docs -type f \( -size +100k -o -mtime +60 \)",
        ),
        (
            "delete all the .tmp files in build older than a week, but keep old.tmp",
            "find build -type f -name '*.tmp' -mtime +7 -not -name old.tmp -delete",
        ),
        (
            "for each folder in src, tell me how many files it contains, sorted by that number",
            "find src -type f | sed 's|/[^/]*$||' | sort | uniq -c | sort -rn",
        ),
        (
            "list the 3 largest files in docs together with their sizes in a readable form",
            r"find docs -type f -printf '%s %p\n' | sort -rn | head -n 3",
        ),
        (
            'find every python file in src that contains "import os" but not "pass"',
            (
                "find src -type f -name '*.py' -exec grep -qF -e 'import os' {} \\; "
                "-not -exec grep -qF -e pass {} \\;"
            ),
        ),
        (
            "which three ip addresses appear most often in app.log, and how often",
            (
                r"grep -oE '([0-9]{1,3}\.){3}[0-9]{1,3}' app.log | sort | uniq -c | sort -rn "
                "| head -n 3"
            ),
        ),
        (
            "find all files modified between 2024-01-01 and 2024-02-01",
            "find . -type f -newermt 2024-01-01 -not -newermt '2024-02-01 23:59:59'",
        ),
        (
            "which line of data.csv has the highest value in the second column",
            "sort -nr -t , -k 2,2 data.csv | head -n 1",
        ),
    ],
)
def test_a_long_question_gets_the_command_for_all_that_it_says(
    root: Path, question: str, command: str
) -> None:
    assert answer(root, question).split("\nCMD: ")[1:] == [command]


@pytest.mark.parametrize(
    "question",
    [
        "which files in src are not tracked by git",
        "delete the files that I do not need",
        "delete files i don't need",
        "my boss says not to delete the log files",
        "the manual says delete build",
        "my colleague told me that you can delete the file notes.txt",
        "the error says remove the file notes.txt",
        "delete a number of files in build",
        "make a list of all log files and delete it",
        "delete files in src with no TODO",
        "delete folders without tests",
        "delete folders with no docs",
        "tell me if I can delete build",
        "would it be ok to delete build",
        "my boss says I should not delete the logs in build before friday",
        "somebody told me I should never delete build, why is that",
        "delete the 5 largest files in docs with their sizes",
        "delete files that are empty or named x.tmp",
        "delete files bigger than 1 MB and older than a day or newer than an hour",
    ],
)
def test_a_question_that_only_asks_or_says_too_little_changes_nothing(
    root: Path, question: str
) -> None:
    assert is_unknown(answer(root, question))


@pytest.mark.parametrize(
    "question",
    [
        (
            "is there any way you could tell me how long this computer has been running since its "
            "last reboot? I'm trying to find out when the power went off"
        ),
        (
            "please don't change anything yet, I only want to know which files git would remove if "
            "I cleaned up all the untracked ones"
        ),
    ],
)
def test_what_explains_half_of_a_long_question_is_shown_but_not_as_sure(
    root: Path, question: str
) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    assert answer(root, question).startswith("Perhaps one of these:")


@pytest.mark.parametrize(
    "question",
    [
        "it is friday and my boss wants a report, so count the lines of a.txt, not the empty ones",
        "I want to log in to 10.0.0.5 as the user admin, and its ssh server listens on port 2222",
        "I only care about the python files, so could you tell me how to list what is in src",
    ],
)
def test_no_sure_command_leaves_out_what_a_clause_beside_the_request_limits(
    root: Path, question: str
) -> None:
    told = answer(root, question)
    assert "CMD: wc -l a.txt" not in told
    assert "CMD: ls" not in told
    assert "CMD: ssh -l admin -- 10.0.0.5" not in told


@pytest.mark.parametrize(
    ("question", "not_that"),
    [
        (
            (
                "my disk is nearly full and I was told not to delete anything in src, but could "
                "you show me which folders are the largest?"
            ),
            "du -h -d 1 src",
        ),
        (
            'a colleague said "delete docs and run npm install again" - what does that do?',
            "ls -la docs",
        ),
        ("the separator in data.csv is a semicolon, and I want the third column", "-F ,"),
        ("how many lines of app.log contain ERROR? I don't care about upper or lower case", "-c"),
        ("somebody put spaces in some file names, which files are that", "find . -type f\n"),
        ("can you put a.txt and app.log together in a zip called data.zip", "cat a.txt"),
        ("How do I give every folder under public mode 755 and every file mode 644?", "find ."),
        ("How can I turn the lines of a.txt into a single comma-separated line?", "tr "),
    ],
)
def test_a_long_question_gets_no_command_for_another_place_or_way(
    root: Path, question: str, not_that: str
) -> None:
    assert not_that not in f"{answer(root, question)}\n"


def test_parents_of_a_folder_that_is_made_are_its_own(root: Path) -> None:
    question = "sorry, how do you create a directory together with its parents, like one/two/three?"
    assert answer(root, question).endswith("CMD: mkdir -p one/two/three")


def test_an_average_and_extremes_leave_the_header_out(root: Path) -> None:
    command = answer(root, "the average of the second column of data.csv").split("CMD: ")[1]
    assert "[0-9]" in command


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("find lines containing 'a lot of' in notes.txt", "grep 'a lot of' notes.txt"),
        ('delete the lines with "get rid of" in a.txt', "sed -i '/get rid of/d' a.txt"),
        ("I'm about to delete the folder photos, what is in it", "ls -la photos"),
        ("delete all files in docs. I do not need other files", "find docs -type f -delete"),
        ("do git push", "git push"),
    ],
)
def test_no_rewriting_changes_the_sense(root: Path, question: str, command: str) -> None:
    subprocess.run(["git", "init", "-q", root], check=True)
    assert answer(root, question).split("\nCMD: ")[1:] == [command]


def test_of_what_was_listed_not_all_is_deleted_where_a_condition_is_named(root: Path) -> None:
    question = TypedQuestion(
        "delete all files that don't contain import", earlier=("find all py files in src",)
    )
    assert "-delete" not in reply(question, root, Machine("linux", "/usr/bin:/bin", root))


def test_no_output_overwrites_its_input(root: Path) -> None:
    assert "CMD:" not in answer(root, "combine a.txt and b.txt into one file a.txt")
