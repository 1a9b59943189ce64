from __future__ import annotations

from pathlib import Path

import pytest

from aish_lsp.offline.choosing import acts_on_its_shell
from aish_lsp.offline.matching import probabilities, score, weights
from aish_lsp.offline.model import is_unknown, reply
from aish_lsp.offline.tokens import cut
from aish_lsp.offline.understanding import TypedQuestion
from aish_lsp.offline.workspace import WorkspaceFacts


def asked(root: Path, question: str) -> str:
    return reply(TypedQuestion(question), root)


def test_two_that_are_as_likely_make_one_another_less_sure() -> None:
    good = {"overlay": 1.0, "likeness": 1.0, "matched": 10.0, "like": 1.0}
    alone = probabilities([good], ["a"])[0]
    beside = probabilities([good, good], ["a", "b"])
    assert alone > 0.5 > beside[0] == beside[1]
    assert probabilities([good, good], ["a", "a"])[0] > alone


def test_what_does_not_fit_makes_less_sure() -> None:
    for name in ("ignored", "unfilled", "unknown", "missing", "not asked to", "the opposite"):
        assert weights()[name] < 0, name
        assert score({name: 1.0}) < score({})


@pytest.mark.parametrize(
    "question",
    ["create a branch called topic and push it", "create the branch topic and set the upstream"],
)
def test_the_second_of_two_things_is_done_with_the_same_program(
    tmp_path: Path, question: str
) -> None:
    (tmp_path / ".git").mkdir()
    answer = asked(tmp_path, question)
    assert "docker" not in answer
    assert "git push" in answer


def test_what_is_to_be_installed_is_not_removed(tmp_path: Path) -> None:
    answer = asked(tmp_path, "Install the program ffmpeg with apt.")
    assert "install" in answer
    assert "remove" not in answer


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("my disk is nearly full, how much space is left?", "df -h"),
        ("i have like 50 exited docker containers lying around, delete them", "container prune"),
    ],
)
def test_a_clause_that_tells_how_things_are_is_no_hindrance(
    tmp_path: Path, question: str, command: str
) -> None:
    assert command in asked(tmp_path, question)


def test_a_clause_is_an_aside_where_another_asks(tmp_path: Path) -> None:
    tokens = cut("i deleted a.txt by accident, restore b.txt", WorkspaceFacts(tmp_path))
    assert [token.text for token in tokens if not token.aside] == ["restore", "b.txt"]
    assert not any(token.aside for token in cut("i deleted a.txt", WorkspaceFacts(tmp_path)))


@pytest.mark.parametrize(
    "question", ["go to the folder src", "set the variable FOO to bar", "alias ll to 'ls -la'"]
)
def test_what_acts_on_the_own_shell_is_not_run_from_here(tmp_path: Path, question: str) -> None:
    (tmp_path / "src").mkdir()
    answer = asked(tmp_path, question)
    assert not is_unknown(answer)
    assert "CMD: " not in answer
    assert "```sh\n" in answer
    assert "your own terminal" in answer


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("cd src", True),
        ("cd", True),
        ("export A=b", True),
        (". ./env", True),
        ("echo $?", True),
        ("source .venv/bin/activate", True),
        ("cdrecord x", False),
        ("./run.sh", False),
        ("echo '$?'", False),
        ("setfacl -m u:x:r a", False),
        ("exportfs", False),
        ("(cd src && make)", False),
    ],
)
def test_commands_that_act_on_their_shell(command: str, does: bool) -> None:
    assert acts_on_its_shell(command) is does


@pytest.mark.parametrize(
    "question",
    [
        "What is the difference between TCP and UDP?",
        "how do I declare a list in Python?",
        "write a haiku about spring",
        "what is the capital of France?",
        "recommend a good movie for tonight",
        "how do I implement a linked list in C?",
        "who won the football game yesterday?",
    ],
)
def test_what_no_command_answers_is_unknown(tmp_path: Path, question: str) -> None:
    answer = asked(tmp_path, question)
    assert is_unknown(answer), answer
    assert "CMD: " not in answer
