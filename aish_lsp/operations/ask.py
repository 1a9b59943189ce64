"""``ask``, ``retry``, ``cancel`` and ``prompt.show``: a question to the model."""

from __future__ import annotations

import json
from dataclasses import asdict, field, replace
from typing import Any

from aish_lsp.agent.session import Ask
from aish_lsp.agent.turn import AskResult
from aish_lsp.agent.turn import ask as begin
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.job import Job
from aish_lsp.foundation.text import shown_path
from aish_lsp.models.request import RequestMessage
from aish_lsp.operations.markdown import quoted
from aish_lsp.operations.operation import (
    Answer,
    Caller,
    Line,
    SessionTarget,
    Token,
    operation,
    whole,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a document, counted from 0, in the negotiated encoding."""

    line: int = field(metadata={"minimum": 0})
    character: int = field(metadata={"minimum": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A part of a document; ``end`` is exclusive."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A diagnostic from any server, as the editor has it. The last four fields are ignored."""

    range: Range
    message: str
    severity: int | None = None
    source: str | None = None
    code: str | int | None = None
    code_description: Any = None
    related_information: Any = None
    tags: Any = None
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskParams(SessionTarget):
    """``model`` names a preset for this question; an ``ephemeral`` question leaves no trace.

    ``range`` is the part of the document ``uri`` that the question is about; an empty range means
    its line. ``diagnostics`` are those that the editor shows there.
    """

    prompt: str
    range: Range | None = None
    diagnostics: list[Problem] = field(default_factory=list)
    model: str | None = None
    ephemeral: bool = False
    partial_result_token: Token | None = None


@operation("ask", AskParams, needs_settings=True, selects=True, title="aish answers")
async def ask(caller: Caller, params: AskParams) -> Job[AskResult]:
    """Ask the model.

    The reply streams to the token if there is one, else into the chat document. The text in the
    `range` of the document `uri` is sent along as the editor has it, with the definition around it
    and what the `diagnostics` say; an empty range means its line. Files that the prompt names are
    sent along too: `@src/app.py`, `@src/app.py:10-20`. `attached` says what was sent: `selection`,
    `definition`, `problems` or `file`, with `cut` if some of it was left out. Lines count from 1,
    and are 0 for a whole file. With a `uri`, the prompt includes the instruction files of the
    folders above that file, until a question comes from another file.

    Raises:
        InvalidArgument: the question is empty, or the range cannot be read.
        Denied: the selection is from a file of keys, and the user did not let it be sent.
        BackendUnavailable, BackendRejected, OverBudget, CostCap: no model answered.
        StoreUnavailable: the question cannot be saved.
    """
    if not params.prompt.strip():
        raise InvalidArgument("The question is empty.", path="prompt")
    notice = f"Asked in {shown_path(caller.workspace.folder)}, {caller.guess}."
    question = Ask(
        params.prompt,
        params.model,
        params.ephemeral,
        notice if caller.guess else "",
        caller.subject.attached,
        caller.subject.file,
    )
    return begin(caller.session, question)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryParams(SessionTarget):
    """``turn_id`` names the exchange, by default the last one; ``model`` names a preset."""

    turn_id: str | None = None
    model: str | None = None
    partial_result_token: Token | None = None


@operation(
    "retry",
    RetryParams,
    Line(
        "retry",
        "[MODEL]",
        "ask the last question again; `:retry NAME` asks another model",
        whole(RetryParams, "model"),
    ),
    title="aish answers again",
    needs_settings=True,
)
async def retry(caller: Caller, params: RetryParams) -> Job[AskResult]:
    """Ask the question of an exchange again, with everything that was sent along with it.

    The old answer is no longer sent once there is a new one; until then nothing changes. A question
    that got no answer can be asked again as long as it is the last. An exchange that was evicted is
    `notFound`.

    Raises:
        NotFound: no exchange that is still sent has this id.
    """
    return begin(caller.session, caller.session.asked_again(params.turn_id, params.model))


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelParams(SessionTarget):
    """``turn_id`` is the id of a turn or a command; without it, everything is stopped."""

    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """How many turns and commands were stopped."""

    cancelled: int


@operation("cancel", CancelParams, at_once=True)
async def cancel(caller: Caller, params: CancelParams) -> Answer[Cancelled]:
    """Stop a turn or a command, or everything that runs in the workspace or in one `session`."""
    meant = [caller.session] if params.session is not None else caller.workspace.sessions.open
    stopped = sum(session.jobs.cancel(params.turn_id) for session in meant)
    return Answer(Cancelled(stopped), f"Stopped {stopped}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParams(SessionTarget):
    """``prompt`` is a question to show in the request; it is not asked."""

    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request, and its size in tokens. ``tools`` are ``{name, description, parameters}`` each."""

    messages: tuple[RequestMessage, ...]
    tools: tuple[dict[str, Any], ...]
    tokens: int


@operation(
    "prompt.show",
    PromptParams,
    Line(
        "prompt",
        "[QUESTION]",
        "the exact request that would be sent",
        whole(PromptParams, "prompt"),
    ),
    shows=True,
    needs_settings=True,
)
async def show_prompt(caller: Caller, params: PromptParams) -> Answer[Prompt]:
    """The exact request that would be sent with a question, or what is known of it without one.

    Its messages come in the order in which the model sees them, and `tokens` is the size of all of
    it. Files that the question names are in it, unless they usually hold keys. Nothing is sent.
    """
    session = caller.session
    caller.tell(await session.refresh())
    attachments = await caller.workspace.named(params.prompt)
    attached = [
        replace(part, text=caller.workspace.without_keys(part.text))
        for part in attachments.attached
        if part.path not in attachments.secret
    ]
    upcoming = session.next_request(params.prompt, attached)
    tools = tuple(map(asdict, session.tools_for(session.preset, upcoming.limit)))
    await upcoming.count()
    messages = upcoming.messages()
    parts = [f"**{message.role}**\n\n{quoted(message.content)}" for message in messages]
    if tools:
        schemas = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        parts.append(f"**tools**\n\n{quoted(schemas)}")
    return Answer(Prompt(messages, tools, upcoming.size.total), "\n\n".join(parts))
