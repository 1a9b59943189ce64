"""The prompt: the system message composed from its blocks, and the messages as they are sent.

Only this module decides what a model is sent (seed: aish-context-lua; formats.md, "The prompt").
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import one_line, well_formed, without_hidden
from aish_lsp.models.providers import goes_back
from aish_lsp.models.request import RequestMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aish_lsp.config.schema import Compress, Preset
    from aish_lsp.context.messages import Attached, ExecOutput, Message


@cache
def wording(name: str) -> str:
    """Return a text of ``prompts.toml``: what models are told, word by word."""
    texts = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text("utf-8"))
    return str(texts[name])


#: Headings that only aish writes. A line of data that looks like one gets a leading blank.
_HEADINGS = re.compile(
    r"^(?=\[(?:background|project|earlier conversation summary|exec output|result|aish"
    r"|selection|definition|problems|file|terminal|piped|norris)\]|\[tool:|\[NORRIS )",
    re.MULTILINE | re.IGNORECASE,
)


#: What may follow a fence: only the name of a language.
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the commands will run, as the base prompt describes it."""

    system: str
    shell: str
    date: str
    folder: str

    def line(self) -> str:
        """Return the base prompt's last line."""
        return (
            f"System: {self.system}. Shell: {self.shell}. Date: {self.date}. "
            f"Workspace folder: {as_data(self.folder, on_one_line=True)}."
        )


@dataclass(frozen=True, slots=True)
class Blocks:
    """The parts of the system message, in order. An empty part leaves no trace."""

    base: str
    background: str = ""
    tree: str = ""
    instructions: str = ""
    summary: str = ""
    norris: str = ""

    def in_force(self) -> Blocks:
        """Return the blocks that are sent: while Norris runs, the middle ones are left out."""
        return Blocks(base=self.base, norris=self.norris) if self.norris else self

    def text(self) -> str:
        """Return the system message."""
        sent = self.in_force()
        project = "\n".join(part for part in (sent.tree, sent.instructions) if part)
        if project:
            project = f"[project]\n{project}"
        parts = (sent.base, sent.background, project, sent.summary, sent.norris)
        return "\n\n".join(part for part in parts if part)


def norris_block(goal: str, steps: Iterable[str] = ()) -> str:
    """Return the prompt for a model that pursues ``goal``; it no longer sees ``steps``."""
    rows = [f"- {as_data(step, on_one_line=True)}" for step in steps]
    before = ["Earlier steps, which are not shown any more:", *rows] if rows else []
    return "\n".join(
        ["[NORRIS MODE]", f"Goal: {as_data(goal, on_one_line=True)}", wording("goal"), *before]
    )


def base_prompt(surroundings: Surroundings, role: str = "") -> str:
    """Return the base prompt; ``role``, if any, replaces ours, but never the contract."""
    return "\n".join((role.strip() or wording("role"), wording("contract"), surroundings.line()))


def tree_part(tree: str, tasks: str = "") -> str:
    """Return the file tree as it appears under ``[project]``, and the line of tasks after it."""
    parts = (fenced(tree) if tree.strip() else "", as_data(tasks, on_one_line=True))
    return "\n".join(filter(None, parts))


def instructions_part(name: str, text: str) -> str:
    """Return the workspace's instruction file as it appears under ``[project]``."""
    return f"{as_data(name, on_one_line=True)}:\n{fenced(text)}" if text.strip() else ""


def summary_block(summary: str) -> str:
    """Return ``[earlier conversation summary]``, or nothing for an empty summary."""
    return f"[earlier conversation summary]\n{as_data(summary)}" if summary.strip() else ""


def as_data(text: str, *, on_one_line: bool = False) -> str:
    """Return ``text`` so that it cannot imitate one of aish's headings or hide what it says."""
    clean = without_hidden(well_formed(text))
    return _HEADINGS.sub(" ", one_line(clean) if on_one_line else clean)


def fenced(text: str, info: str = "") -> str:
    """Return ``text`` as data in a fence that nothing in it can close, with ``info`` after it."""
    data = as_data(text).rstrip()
    longest = max((len(run) for run in re.findall(r"`{3,}", data)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{info}\n{data}\n{fence}"


def exec_block(output: ExecOutput) -> str:
    """Return one ``[exec output]`` block."""
    command = as_data(output.command, on_one_line=True)
    return f"[exec output]\n$ {command} (exit {output.exit})\n{as_data(output.output).rstrip()}"


def attached_block(attached: Attached) -> str:
    """Return one block of what is attached to a question."""
    source = as_data(attached.place, on_one_line=True)
    info = attached.language if _LANGUAGE.fullmatch(attached.language) else ""
    return f"[{attached.kind}] {source}\n{fenced(attached.text, info)}"


def user_text(message: Message) -> str:
    """Return a user message as the model sees it: what ran, what is attached, then the text."""
    if not message.exec and not message.attached:
        return message.content
    blocks = "\n".join((*map(exec_block, message.exec), *map(attached_block, message.attached)))
    return f"{blocks}\n\n{message.content}" if message.content else blocks


def request_messages(
    blocks: Blocks,
    messages: Sequence[Message],
    preset: Preset,
    compress: Compress,
) -> tuple[RequestMessage, ...]:
    """Return all messages of a request, in the form that ``preset`` wants. Nothing is changed."""
    return as_sent(blocks, in_force(messages, blocks, preset, compress), preset)


def as_sent(blocks: Blocks, sent: Iterable[Message], preset: Preset) -> tuple[RequestMessage, ...]:
    """Return the messages that are in force, in the form that ``preset`` wants."""
    rendered = [request_message(message, preset) for message in sent]
    if not preset.use_tool_role:
        rendered = list(_folded(rendered))
    return (RequestMessage("system", blocks.text()), *rendered)


def in_force(
    messages: Sequence[Message], blocks: Blocks, preset: Preset, compress: Compress
) -> Sequence[Message]:
    """Return the messages that are sent: all, or for a ``local_compress`` preset the last ones.

    Only the conversation is compressed, never Norris.
    """
    return (
        compressed(messages, compress) if preset.local_compress and not blocks.norris else messages
    )


def compressed(messages: Sequence[Message], compress: Compress) -> list[Message]:
    """Return the last messages, each cut to its end, beginning with a user message (seed: #87).

    The last ``keep_turns`` are extended back to their exchange's user message, so that a reply
    or a tool's result never comes first.
    """
    start = max(0, len(messages) - compress.keep_turns)
    while start > 0 and messages[start].role != "user":
        start -= 1
    return [_cut(message, compress.max_turn_chars) for message in messages[start:]]


def _cut(message: Message, limit: int) -> Message:
    """Return ``message`` with at most the last ``limit`` characters of what it says."""
    if message.role != "user":
        return (
            message
            if len(message.content) <= limit
            else replace(message, content=message.content[-limit:])
        )
    text = user_text(message)
    if len(text) > limit and message.attached:
        message = _cut_attached(message, limit)
        text = user_text(message)
    if len(text) <= limit:
        return message
    tail = text[-limit:]
    # The cut may expose the middle of a line of data that looks like one of aish's headings.
    if _HEADINGS.match(tail) and text[-limit - 1] != "\n":
        tail = tail[1:]
    return replace(message, content=tail, exec=(), attached=())


def _cut_attached(message: Message, limit: int) -> Message:
    """Return ``message`` with the end of each attached text, or with none of them.

    With the question they fit into ``limit`` characters, so no fence is ever cut open.
    """
    room = limit
    while room:
        ends = tuple(replace(part, text=part.text[-room:]) for part in message.attached)
        if len(user_text(replace(message, exec=(), attached=ends))) <= limit:
            return replace(message, attached=ends)
        room = room * 3 // 4
    return replace(message, attached=())


def request_message(message: Message, preset: Preset) -> RequestMessage:
    """Return a message as it is sent; reasoning goes back only to the provider it came from."""
    reasoning = message.reasoning
    if reasoning is not None and not goes_back(reasoning, preset):
        reasoning = None
    content = user_text(message) if message.role == "user" else message.content
    return RequestMessage(
        role=message.role,
        content=as_data(content) if message.role == "tool" else well_formed(content),
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        reasoning=reasoning,
    )


def _folded(rendered: Iterable[RequestMessage]) -> Iterable[RequestMessage]:
    """Yield the messages with calls and their results folded into one assistant text.

    This is for chat templates without a tool role; adjacent assistant texts merge.
    """
    for is_reply, group in groupby(rendered, key=lambda message: message.role != "user"):
        if not is_reply:
            yield from group
            continue
        reply = list(group)
        # A reply that is only text is sent as it is, with its reasoning.
        alone = len(reply) == 1 and not reply[0].tool_calls
        yield reply[0] if alone else _as_text(reply)


def _as_text(reply: Sequence[RequestMessage]) -> RequestMessage:
    """Return one assistant text for all that answers a user message."""
    parts: list[str] = []
    results: dict[str | None, int] = {}
    for message in reply:
        if message.role == "assistant":
            if message.content:
                parts.append(message.content)
            for call in message.tool_calls:
                name, arguments = as_data(call.name, on_one_line=True), as_data(call.arguments)
                results[call.id] = len(parts)
                parts.append(f"[tool: {name}]\n{arguments}\n[result]\n")
        elif message.tool_call_id in results:
            parts[results.pop(message.tool_call_id)] += message.content
    return RequestMessage("assistant", "\n".join(parts))
