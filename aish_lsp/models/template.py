"""What a chat template adds to the texts of a request, learned from a few short conversations.

A template's source is not looked at: how many tokens the server makes of each conversation, less
the tokens of its texts, is what the template added to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias, TypeVar

from aish_lsp.foundation.errors import AishError
from aish_lsp.models.tokenize_api import Messages, NotACountError, Post, TokenizeApi, is_busy

#: What a call costs where the template takes none of ours: JSON around it, and two marks.
ASSUMED_CALL = 12

#: A template that adds more than this to a message is not believed.
MOST_ADDED = 4096

_Counts: TypeAlias = Mapping[str, int | None]
_T = TypeVar("_T")

# A text's end may make a token with the mark behind it, where marks are no tokens of their own: one
# that ends in a letter never does, one that ends in a period may. Real texts end in either.
_SYSTEM_TEXT = "You are a shell assistant"
_USER_TEXT = "Which files are here"
_ASSISTANT_TEXT = "There are three of them."
_CALL_NAME = "list_files"
_CALL_ARGUMENTS = '{"path": "src"}'
_RESULT_TEXT = "main.py"

# Nine letters: the only form of an id that every template takes.
_CALL_ID = "abcdefghi"

_SYSTEM = {"role": "system", "content": _SYSTEM_TEXT}
_USER = {"role": "user", "content": _USER_TEXT}
_ASSISTANT = {"role": "assistant", "content": _ASSISTANT_TEXT}
_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": _CALL_ID,
            "type": "function",
            "function": {"name": _CALL_NAME, "arguments": _CALL_ARGUMENTS},
        }
    ],
}
_RESULT = {"role": "tool", "content": _RESULT_TEXT, "tool_call_id": _CALL_ID}


@dataclass(frozen=True, slots=True)
class TemplateOverhead:
    """Tokens that a chat template adds: to a request, to a message of each role, to a tool call.

    What precedes the first message and what opens the reply is in ``request``. Only sums can be
    learned of some: ``request`` and ``system``, which are in every request, and ``tool`` and
    ``call``, which come in pairs. There ``system`` and ``tool`` are taken to be as ``user``.
    """

    request: int
    system: int
    user: int
    assistant: int
    tool: int
    call: int


@dataclass(frozen=True, slots=True)
class _Probe:
    """A conversation, and the texts in it that are counted by themselves."""

    messages: Messages
    texts: tuple[str, ...]


_SYSTEM_ALONE = _Probe((_SYSTEM,), (_SYSTEM_TEXT,))
_QUESTION = _Probe((_SYSTEM, _USER), (_SYSTEM_TEXT, _USER_TEXT))
_DIALOG = _Probe(
    (*_QUESTION.messages, _ASSISTANT, _USER), (*_QUESTION.texts, _ASSISTANT_TEXT, _USER_TEXT)
)
_TOOL_CALL = _Probe(
    (*_QUESTION.messages, _CALL, _RESULT),
    (*_QUESTION.texts, _CALL_NAME, _CALL_ARGUMENTS, _RESULT_TEXT),
)


async def learn_overhead(
    api: TokenizeApi, post: Post, options: Mapping[str, Any]
) -> TemplateOverhead | None:
    """Return what the server's template adds, or None where it does not take our conversations.

    ``options`` are the fields of a request that the template looks at.

    Raises:
        ExceptionGroup: of AishError; the server is busy, and may tell later.
    """
    probes = (_SYSTEM_ALONE, _QUESTION, _DIALOG, _TOOL_CALL)
    texts = tuple(dict.fromkeys(text for probe in probes for text in probe.texts))

    def ask(probe: _Probe) -> Awaitable[int]:
        return api.count_messages(post, probe.messages, options)

    def ask_text(text: str) -> Awaitable[int]:
        return api.count(post, text)

    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(_unless_refused(ask_text, text)) for text in texts]
        totals = [group.create_task(_unless_refused(ask, probe)) for probe in probes]
    count_of = dict(zip(texts, (task.result() for task in counts), strict=True))
    system, question, dialog, call = (
        _added(probe, task.result(), count_of) for probe, task in zip(probes, totals, strict=True)
    )
    if question is None or dialog is None:
        return None
    overhead = _overhead(system, question, dialog, call)
    return overhead if max(astuple(overhead)) <= MOST_ADDED else None


async def _unless_refused(ask: Callable[[_T], Awaitable[int]], what: _T) -> int | None:
    """Return what the server answers, None where it does not take ``what``.

    Raises:
        AishError: the server is busy.
    """
    try:
        return await ask(what)
    except NotACountError:
        return None
    except AishError as error:
        # A template's own refusal ("roles must alternate") comes as a fault of the server.
        if is_busy(error) and error.data.get("status") != 500:
            raise
        return None


def _added(probe: _Probe, total: int | None, counts: _Counts) -> int | None:
    """Return what the template added to a conversation, None where that is not known."""
    for text in probe.texts:
        tokens = counts[text]
        if total is None or tokens is None:
            return None
        total -= tokens
    return total


def _overhead(system: int | None, question: int, dialog: int, call: int | None) -> TemplateOverhead:
    """Return the parts of what was added to the probes.

    A template may drop a text or move it into another message, so that a difference is no
    message's own. Each part is kept within what it is a part of: a sum may get too large by that.
    """
    first = max(0, question)
    exchange = max(0, dialog - question)
    user = first - system if system is not None else -1
    if not 0 <= user <= exchange:
        user = exchange // 2
    user = min(user, first)
    as_system = min(user, first - user)
    return TemplateOverhead(
        request=first - user - as_system,
        system=as_system,
        user=user,
        assistant=exchange - user,
        tool=user,
        call=ASSUMED_CALL if call is None else max(0, call - question - exchange),
    )
