"""``:`` commands: read, found, run, completed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.chat.colon import (
    ColonCommand,
    CommandTable,
    complete,
    help_text,
    parse,
    run_block,
)
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.operations.operation import Answer, Caller, Line, Nothing, Operation
from aish_lsp.operations.run import block_of


async def no_run(_place: Caller, _params: object) -> Answer[Nothing]:
    return Answer(Nothing())


def made(name: str, *lines: Line) -> Operation:
    return Operation(name, Nothing, no_run, lines)


@pytest.fixture
def registry() -> CommandTable:
    return CommandTable(
        [
            made("model.list", Line("model", help="choose a model")),
            made("model.use", Line("model", "NAME")),
            made("memory.list", Line("memory list", help="memory")),
            made("memory.forget", Line("memory forget", "ID")),
            made("reset", Line("reset", help="start anew")),
        ]
    )


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (":help", ColonCommand("help", "")),
        (":help  ", ColonCommand("help", "")),
        ("\n:model  a b \r\n", ColonCommand("model", "a b")),
        (":run\tls -la", ColonCommand("run", "ls -la")),
        (":run echo :x", ColonCommand("run", "echo :x")),
        (":", ColonCommand("", "")),
        (":)", ColonCommand(")", "")),
        (": x", ColonCommand("", "x")),
        ("help", None),
        ("", None),
        (" :help", None),
        ("\\:help", None),
        (":run a\nb", None),
        (":run a\rb", None),
        ("why?\n:help", None),
        (":run\n```sh\na\n\nb\n```\n", ColonCommand("run", "```sh\na\n\nb\n```")),
        (":run \r\n```\r\na\r\n```", ColonCommand("run", "```\r\na\r\n```")),
        (":run\n```sh\na\n```\nand", None),
        (":run\n```sh\na\n", None),
        (":run\na", None),
        (":model\n```\na\n```", None),
    ],
)
def test_parse(message: str, command: ColonCommand | None) -> None:
    assert parse(message) == command


@given(st.text())
def test_only_one_line_from_the_first_column_is_a_command(message: str) -> None:
    line = message.strip("\r\n")
    is_command = line.startswith(":") and not {"\n", "\r"} & set(line.rstrip())
    assert (parse(message) is not None) == is_command


@given(st.text(alphabet="ab`~\n \\:$").filter(lambda text: text == text.strip("\n") != ""))
def test_a_command_of_several_lines_is_read_as_it_was_written(text: str) -> None:
    command = parse(run_block(text, "sh"))
    assert command is not None
    block = block_of(command.argument)
    assert block is not None
    assert (block.info, block.text) == ("sh", f"{text}\n")


def test_a_command_that_takes_no_argument_refuses_one(registry: CommandTable) -> None:
    with pytest.raises(InvalidArgument, match="`:reset` takes no argument"):
        registry.find(ColonCommand("reset", "now"))
    with pytest.raises(InvalidArgument, match="`:memory list` takes no argument"):
        registry.find(ColonCommand("memory", "list all"))
    assert registry.find(ColonCommand("reset", "")).operation.name == "reset"


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("", ("model.list", "")),
        ("a b", ("model.use", "a b")),
        ("forget", ("model.use", "forget")),
    ],
)
def test_a_command_means_an_operation(
    registry: CommandTable, argument: str, found: tuple[str, str]
) -> None:
    meant = registry.find(ColonCommand("model", argument))
    assert (meant.operation.name, meant.argument) == found


def test_a_verb_means_an_operation(registry: CommandTable) -> None:
    meant = registry.find(ColonCommand("memory", "forget  12 "))
    assert (meant.operation.name, meant.argument) == ("memory.forget", "12")


@pytest.mark.parametrize("argument", ["", "learn x"])
def test_what_is_not_understood_is_told_what_is(registry: CommandTable, argument: str) -> None:
    with pytest.raises(InvalidArgument, match="Use one of `:memory list`, `:memory forget ID`"):
        registry.find(ColonCommand("memory", argument))


@pytest.mark.parametrize("name", ["modle", "MODEL", "mode"])
def test_an_unknown_command_is_told_with_the_nearest(registry: CommandTable, name: str) -> None:
    with pytest.raises(NotFound, match=f"`:{name}`. Did you mean `:model`.*`:help all` lists all"):
        registry.find(ColonCommand(name, ""))


@pytest.mark.parametrize("name", ["", "xyzzy", "`" * 1000])
def test_nothing_near(registry: CommandTable, name: str) -> None:
    with pytest.raises(NotFound) as error:
        registry.find(ColonCommand(name, ""))
    assert "mean" not in error.value.message
    assert len(error.value.message) < 120


def test_help(registry: CommandTable) -> None:
    assert help_text(registry) == (
        "**Questions and models**\n\n"
        "- `:model [NAME]`: choose a model\n"
        "\n"
        "**What the model is told**\n\n"
        "- `:memory list|forget ID`: memory\n"
        "- `:reset`: start anew\n"
        "\n"
        "A command is a message of one line.\n"
    )


def proposals(registry: CommandTable, line: str) -> list[str]:
    """Return the line as each proposal would leave it."""
    words = {"model": ["big", "basic", "small"], "memory forget": ["12", "13"], "memory": ["list"]}
    values = {command: dict.fromkeys(following, "") for command, following in words.items()}
    return [
        line[: completion.start] + completion.insert
        for completion in complete(registry, line, values)
    ]


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        (":", [":model ", ":memory ", ":reset"]),
        (":m", [":model ", ":memory "]),
        (":res", [":reset"]),
        (":model ", [":model big", ":model basic", ":model small"]),
        (":model b", [":model big", ":model basic"]),
        (":memory f", [":memory forget"]),
        (":memory ", [":memory list", ":memory forget"]),
        (":memory forget 1", [":memory forget 12", ":memory forget 13"]),
        (":memory  forget ", [":memory  forget 12", ":memory  forget 13"]),
        (":model big x", []),
        (":reset ", []),
        (":nothing ", []),
        (": ", []),
        ("", []),
        ("model", []),
        (" :m", []),
    ],
)
def test_completion(registry: CommandTable, line: str, completed: list[str]) -> None:
    assert proposals(registry, line) == completed


def test_a_proposal_says_what_it_does(registry: CommandTable) -> None:
    (first,) = complete(registry, ":mo", {})
    assert (first.label, first.detail, first.start) == (":model [NAME]", "choose a model", 0)
