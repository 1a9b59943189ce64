"""Which model a turn asks, with which prompt, and what is said of it: routing and fallback."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aish_lsp.agent import Workspace
from aish_lsp.agent.events import Notice, Reasoning, Route, Start, Usage
from aish_lsp.agent.services import Services
from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import AskResult
from aish_lsp.agent.turn import ask as begin_turn
from aish_lsp.config.loading import Configuration
from aish_lsp.config.schema import Preset
from aish_lsp.context.prompt import wording
from aish_lsp.foundation.errors import AishError, BackendUnavailable, InvalidArgument, NotFound
from aish_lsp.foundation.events import Event
from aish_lsp.models.request import Finish, ModelEvent, ModelRequest, Text

CONFIG = """
default_model = "plain"
[models.plain]
endpoint = "http://127.0.0.1:9"
context_window = 8192
[models.fast]
endpoint = "http://127.0.0.1:9"
context_window = 4096
[models.deep]
endpoint = "http://127.0.0.1:9"
context_window = 16384
[project]
auto_tree = false
[context]
system_prompt = "For all."
[routing]
classes = {shell = "fast", code = "deep", chat = "offline"}
system_prompts = {shell = "You know shells.", reasoning = "You think."}
"""

SHELL, CODE, CHAT = "how do I run the tests?", "fix the bug in the parser", "hello"
REASONING = "why is the sky blue?"


class Place:
    """A workspace whose models answer at once, unless they are down."""

    def __init__(self, root: Path) -> None:
        self.config = root / "config.toml"
        self.requests: list[ModelRequest] = []
        self.down: dict[str, Exception] = {}
        self.reply: tuple[ModelEvent, ...] = (Text("Well."), Finish("stop"))
        self.events: list[Event] = []
        services = Services(environ={"AISH_DISCOVERY": "off", "OPENAI_API_KEY": "x" * 9})
        folder = root / "workspace"
        folder.mkdir()
        self.config.write_text(CONFIG)
        self.workspace = Workspace(
            folder, services, Configuration(folder, services.trust, services.environ)
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        if request.preset.name in self.down:
            raise self.down[request.preset.name]
        for event in self.reply:
            yield event

    async def ask(self, prompt: str, **fields: Any) -> AskResult:
        job = begin_turn(self.workspace.shown, Ask(prompt, **fields))
        self.events = [event async for event in job.events()]
        return await job.result()

    @property
    def start(self) -> Start:
        [start] = [event for event in self.events if isinstance(event, Start)]
        return start

    @property
    def system(self) -> str:
        return self.requests[-1].messages[0].content

    @property
    def question(self) -> str:
        return self.requests[-1].messages[-1].content


@pytest.fixture
async def place(own_files: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    made = Place(own_files)

    def open_model(_: Preset) -> Place:
        return made

    monkeypatch.setattr(made.workspace.shown, "open_model", open_model)
    yield made
    await made.workspace.aclose()
    await made.workspace.services.aclose()


@pytest.mark.parametrize(
    ("question", "class_", "model", "why"),
    [
        (SHELL, "shell", "fast", "routing.classes.shell, as the question asks what to run"),
        (CODE, "code", "deep", "routing.classes.code, as the question asks for work on code"),
        (CHAT, "chat", "offline", "routing.classes.chat, as the question matches none of the"),
        (REASONING, "reasoning", "plain", "the default model"),
    ],
)
async def test_the_class_chooses_the_model(
    place: Place, question: str, class_: str, model: str, why: str
) -> None:
    result = await place.ask(question)
    assert result.model == place.start.model == place.requests[-1].preset.name == model
    assert place.start.route.class_ == class_
    assert place.start.route.why.startswith(why)
    # Who answers when nothing is known of the question stays the same.
    assert place.workspace.shown.preset.name == "plain"


async def test_each_has_its_own_window_and_budget(place: Place) -> None:
    await place.ask(SHELL)
    assert place.start.token_budget == 4096 - 1024
    await place.ask(CODE)
    assert place.start.token_budget == 16384 - 1024


async def test_what_the_user_says_comes_first(place: Place) -> None:
    await place.ask(SHELL, model="deep")
    assert (place.start.model, place.start.route) == ("deep", Route("shell", "named by you"))
    await place.ask(f"@deep {SHELL}")
    assert (place.start.model, place.question) == ("deep", SHELL)
    await place.ask(f"@deep {SHELL}", model="plain")
    assert (place.start.model, place.question) == ("plain", SHELL)
    await place.ask(SHELL)
    assert place.start.model == "fast"
    await place.workspace.shown.use_model("deep")
    await place.ask(SHELL)
    assert place.start.model == "deep"
    await place.ask(f"@fast {SHELL}")
    assert place.start.model == "fast"
    with pytest.raises(NotFound):
        await place.ask(SHELL, model="nobody")


async def test_what_names_no_model_is_part_of_the_question(place: Place) -> None:
    for question in ("@README.md what is this?", "@deep", "mail me @deep or not"):
        await place.ask(question)
        assert place.question == question


async def test_a_name_counts_as_soon_as_it_is_configured(place: Place) -> None:
    place.config.write_text(f'{CONFIG}\n[models.new]\nendpoint = "http://127.0.0.1:9"\n')
    await place.ask("@new hello")
    assert (place.start.model, place.question) == ("new", "hello")
    place.config.write_text("nonsense = 1")
    with pytest.raises(InvalidArgument, match="empty"):
        await place.ask("  ")


@pytest.mark.slow
async def test_the_name_is_not_in_the_log(place: Place, tmp_path: Path) -> None:
    await place.ask("@deep hello there")
    [log] = (tmp_path / "AISH_DATA_DIR").glob("workspaces/*/sessions/*.jsonl")
    _, question, reply = (json.loads(line) for line in log.read_text().splitlines()[:3])
    assert question["content"] == "hello there"
    assert reply["model"] == "deep"


async def test_the_class_has_its_own_words_and_the_contract_stays(place: Place) -> None:
    for question, words in [
        (SHELL, "You know shells."),
        (REASONING, "You think."),
        (CODE, "For all."),
        (SHELL, "You know shells."),
    ]:
        await place.ask(question)
        assert place.system.startswith(f"{words}\n{wording('contract')}\nSystem: ")
        assert wording("role") not in place.system
        # What is shown afterwards is what was sent.
        report = place.workspace.shown.next_request()
        assert report.messages()[0].content == place.system


async def test_the_words_of_the_class_count_in_the_breakdown(place: Place) -> None:
    await place.ask(CODE)
    before = place.workspace.shown.next_request().context().breakdown.system
    text = json.dumps("You know shells. " * 100)
    place.config.write_text(CONFIG.replace('"You know shells."', text))
    await place.ask(SHELL)
    assert place.workspace.shown.next_request().context().breakdown.system > before + 200


async def test_an_unknown_class_is_refused(place: Place) -> None:
    place.config.write_text(CONFIG.replace("shell =", "shel ="))
    [trouble, *more] = await place.workspace.reload()
    assert "routing.classes.shel" in trouble
    assert "accepted: shell, code, chat, reasoning" in trouble
    assert "routing.system_prompts.shel" in "".join([trouble, *more])


async def test_what_was_only_found_cannot_step_in_unasked(place: Place) -> None:
    place.config.write_text(CONFIG + 'fallback = ["openai"]\n')
    [trouble] = await place.workspace.reload()
    assert "routing.fallback" in trouble
    assert "no such preset" in trouble


async def test_where_all_fail_each_reason_is_told(place: Place) -> None:
    place.config.write_text(CONFIG + 'fallback = ["deep"]\n')
    place.down = {
        "fast": BackendUnavailable("The fast one is down."),
        "deep": BackendUnavailable("The deep one is down."),
        "offline": BackendUnavailable("The folder is gone."),
    }
    with pytest.raises(BackendUnavailable) as caught:
        await place.ask(SHELL)
    assert caught.value.message == (
        "No model answers. fast: The fast one is down. deep: The deep one is down. "
        "offline: The folder is gone."
    )
    assert [request.preset.name for request in place.requests] == ["fast", "deep", "offline"]
    place.down = {}
    await place.ask(SHELL)
    assert [message.role for message in place.requests[-1].messages] == ["system", "user"]


async def test_an_ephemeral_question_leaves_no_trace_with_whoever_answers_it(place: Place) -> None:
    place.config.write_text(CONFIG + 'fallback = ["deep"]\n')
    await place.ask(SHELL)
    place.down = {"fast": BackendUnavailable("The fast one is down.")}
    result = await place.ask(SHELL, ephemeral=True)
    assert (result.text, result.model) == ("Well.", "deep")
    assert [message.role for message in place.workspace.shown.conversation.messages] == [
        "user",
        "assistant",
    ]


async def test_a_fault_of_ours_is_not_hidden_by_another_model(place: Place) -> None:
    place.config.write_text(CONFIG + 'fallback = ["deep"]\n')
    place.down = {"fast": RuntimeError("a bug")}
    with pytest.raises(AishError, match="aish itself failed"):
        await place.ask(SHELL)
    assert [request.preset.name for request in place.requests] == ["fast"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ((Text("Well."), Finish("stop")), None),
        ((Finish("stop"),), "The model's answer is empty. Ask again."),
        (
            (Reasoning("Hm."), Usage(99, 3), Finish("stop")),
            "The model reasoned, and gave no answer.",
        ),
        ((Text("Well"), Usage(99, 1024), Finish("length")), "cut at 1,024 tokens, its `max_output"),
        (
            (Text(" ".join(map(str, range(1024)))), Finish("length")),
            "The reply from plain was cut at 1,024 tokens",
        ),
        ((Text("Well " * 1024), Finish("stop")), "its text kept repeating itself"),
        ((Reasoning("Well " * 1024), Finish("stop")), "its reasoning kept repeating itself"),
        (
            (Reasoning("Hm"), Usage(99, 1024), Finish("length")),
            "before it began to answer: its reasoning",
        ),
        ((Finish("length"),), "before it began to answer"),
        ((Text("Well"), Usage(99, 77), Finish("length")), "its window was full, or its server"),
        ((Finish("refusal"),), "plain refused to answer."),
        ((Text("Well"), Finish("refusal")), "plain refused to continue."),
        ((Text("I look."), Finish("tool", "tool_calls")), "its server sent no call. Ask again."),
    ],
)
async def test_an_end_that_is_none_is_told_with_what_to_do(
    place: Place, reply: tuple[ModelEvent, ...], told: str | None
) -> None:
    place.reply = reply
    await place.ask(REASONING)
    notices = [event.message for event in place.events if isinstance(event, Notice)]
    # What is empty is asked for once more.
    again = sum("Trying again" in notice for notice in notices)
    assert again == (reply == (Finish("stop"),))
    assert len(notices) - again == (told is not None)
    assert told is None or told in notices[-1]
