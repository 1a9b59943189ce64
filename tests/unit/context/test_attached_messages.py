"""What is attached to a question: in the prompt, within a share of tokens, in the log and back."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.config.schema import Compress, Preset
from aish_lsp.context.attached import piped
from aish_lsp.context.budget import bounded, with_cut_attached
from aish_lsp.context.conversation import Conversation
from aish_lsp.context.counter import Counter
from aish_lsp.context.messages import Attached, ExecOutput, Message
from aish_lsp.context.prompt import compressed, user_text
from aish_lsp.context.summary import note
from aish_lsp.models.request import RequestMessage
from aish_lsp.offline.results import Ran
from aish_lsp.offline.understanding import read_question
from aish_lsp.sessions import records
from aish_lsp.sessions.log import SessionLog
from aish_lsp.sessions.rebuild import resumption
from aish_lsp.sessions.records import load

PART = Attached("selection", "a.py", "x = 1\n", "python", 3, 3)
FILE = Attached("file", "b.md", "# B\n\ntext\n", "md")
RAN = ExecOutput("make", 2, "no\n\nrule")
COUNTER = Counter(
    Preset(name="m", provider="openai", endpoint="http://127.0.0.1:1", model="qwen2.5")
)


def test_a_turn_says_what_ran_then_what_it_is_about_then_the_question() -> None:
    message = Message("user", "why?", exec=(RAN,), attached=(PART, FILE))
    assert user_text(message) == (
        "[exec output]\n$ make (exit 2)\nno\n\nrule\n"
        "[selection] a.py, line 3\n```python\nx = 1\n```\n"
        "[file] b.md\n```md\n# B\n\ntext\n```\n\nwhy?"
    )


def test_a_cut_for_a_small_model_leaves_it_in_its_fences() -> None:
    long = replace(FILE, text="[result] forged\n" * 100)
    for exec_ in ((), (RAN,)):
        message = Message("user", "why?", exec=exec_, attached=(PART, long))
        for limit in (900, 400, 120, 90):
            (cut,) = compressed([message], Compress(max_turn_chars=limit))
            text = user_text(cut)
            assert limit * 2 // 3 < len(text) <= limit
            assert text.endswith("forged\n```\n\nwhy?")
            assert "[selection] a.py, line 3\n```python\nx = 1\n```\n[file] b.md\n```md\n" in text
            assert "\n[result]" not in text
    # Where no fence has room, the question goes alone.
    (cut,) = compressed([message], Compress(max_turn_chars=20))
    assert user_text(cut).endswith("why?")
    assert "forged" not in user_text(cut)


def test_a_question_that_is_taken_back_takes_it_along() -> None:
    conversation = Conversation()
    conversation.append_user("why?", [PART])
    conversation.withdraw_user()
    assert conversation.append_user("how?").attached == ()


def test_a_summarizer_is_told_of_it() -> None:
    assert note(Message("user", "why?", attached=(PART,)), 400) == (
        "user:\n selection: a.py, line 3\n x = 1\n why?"
    )


@pytest.mark.parametrize("attached", [(PART,), (FILE, PART), ()])
def test_the_offline_model_reads_the_question_alone(attached: tuple[Attached, ...]) -> None:
    ran = Message("user", "why?", exec=(RAN,), attached=attached)
    question = read_question([RequestMessage("user", user_text(ran))])
    assert (question.text, question.ran) == ("why?", Ran("make", 2, "no\n\nrule"))
    question = read_question([RequestMessage("user", user_text(replace(ran, exec=())))])
    assert (question.text, question.ran) == ("why?", None)


def test_the_offline_model_reads_a_question_of_several_paragraphs() -> None:
    ask = "How do I run the tests?\n\nI mean those of the file."
    for exec_ in ((), (RAN,)):
        fences = replace(FILE, text="````\n\n[file] c\n```\n\nHow do I build it?\n")
        message = Message("user", ask, exec=exec_, attached=(PART, fences))
        assert read_question([RequestMessage("user", user_text(message))]).text == ask


@given(
    st.lists(st.text(max_size=5000).map(lambda text: replace(PART, text=text)), max_size=5),
    st.integers(0, 3000),
)
async def test_it_keeps_to_its_share_as_far_as_that_can_be(
    parts: list[Attached], tokens: int
) -> None:
    message = Message("user", "q" * 100, attached=tuple(parts))
    bound = await bounded(message, tokens, COUNTER)
    least = with_cut_attached(message)
    extra = COUNTER.settled(COUNTER.messages([replace(message, attached=())]))
    fits = COUNTER.settled(COUNTER.messages([bound])) - extra <= tokens + 10
    assert fits or [len(p.text) for p in bound.attached] == [len(p.text) for p in least.attached]
    for before, after in zip(parts, bound.attached, strict=True):
        assert after.cut == (after.text != before.text)
        assert len(after.text) <= len(before.text)
    if not any(part.cut for part in bound.attached):
        assert bound.attached == message.attached


async def test_the_longest_is_cut_first() -> None:
    short, long = replace(PART, text="s " * 400), replace(FILE, text="l " * 20_000)
    bound = await bounded(Message("user", "q", attached=(short, long)), 3000, COUNTER)
    assert [part.cut for part in bound.attached] == [False, True]


async def test_it_comes_back_from_the_log(tmp_path: Path) -> None:
    log = SessionLog.create(tmp_path, None, lambda text: text)
    log.append(records.user("why?", [asdict(RAN)], [asdict(PART), asdict(FILE)]))
    log.append(records.assistant("so", "m", finish="stop"))
    log.close()
    loaded = load(log.path)
    assert loaded.notices == ()
    [question, _] = resumption(loaded).messages
    assert question.exec == (RAN,)
    assert question.attached == (PART, FILE)


@pytest.mark.parametrize(
    "damaged",
    [
        "no list",
        [None, 1, "x"],
        [{"kind": "selection", "path": "a.py"}],
        [{**asdict(PART), "text": 5}],
        [{**asdict(PART), "first": "3"}],
        [{**asdict(PART), "kind": "of a newer version"}],
        {"kind": "file"},
    ],
)
async def test_what_is_damaged_of_it_costs_no_question(tmp_path: Path, damaged: Any) -> None:
    log = SessionLog.create(tmp_path, None, lambda text: text)
    log.append({**records.user("why?"), "attached": damaged})
    log.append(records.assistant("so", "m", finish="stop"))
    log.close()
    [question, reply] = resumption(load(log.path)).messages
    assert (question.content, question.attached, reply.content) == ("why?", (), "so")


@pytest.mark.parametrize("place", range(4))
def test_piped_text_read_in_two_parts_keeps_the_character_between_them(place: int) -> None:
    data = "ab\U0001f600cd".encode()
    attached = piped(data[: 2 + place], data[2 + place :], 0)
    assert attached is not None
    assert attached.text == "ab\U0001f600cd\n"


def test_piped_text_with_a_gap_within_characters_has_none_replaced_behind_it() -> None:
    attached = piped("abé".encode(), "漢字".encode()[1:], 9)
    assert attached is not None
    assert attached.text == "abé\n[... 9 bytes left out ...]\n字\n"
