"""The payloads of our commands: the public contract with clients.

A command exists when it stands in ``COMMANDS``; docs/protocol.md is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from aish_lsp.lsp.registry import CommandSpec

Token = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which workspace is meant: its folder's URI, else the folder of ``uri``, else the last."""

    workspace: str | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in a document, from 0, in the negotiated encoding."""

    line: int = field(metadata={"minimum": 0})
    character: int = field(metadata={"minimum": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A part of a document; its end is not in it."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A diagnostic of any server, as the editor has it. The last four fields are not looked at."""

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
class AskParams(Target):
    """``model`` names a preset for this question; ``ephemeral`` leaves no trace.

    ``range`` is the part of the document ``uri`` that the question is about, an empty one the line;
    ``diagnostics`` are what the editor complains of there.
    """

    prompt: str
    range: Range | None = None
    diagnostics: list[Problem] = field(default_factory=list)
    model: str | None = None
    ephemeral: bool = False
    partial_result_token: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryParams(Target):
    """``turn_id`` is the exchange's, by default the last one's; ``model`` names a preset."""

    turn_id: str | None = None
    model: str | None = None
    partial_result_token: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceParams(Target):
    """``block`` counts, from 0, those of the reply to ``turn_id`` that may stand there."""

    turn_id: str
    block: int = field(default=0, metadata={"minimum": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelParams(Target):
    """``turn_id`` is a turn's or a command's; without it all of the workspace is stopped."""

    turn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParams(Target):
    """``edited`` is run in place of the suggestion; ``timeout`` is in seconds (an hour if none).

    ``cwd`` is a folder in the workspace: relative to it, absolute, or a URI.
    """

    command_id: str | None = None
    text: str | None = None
    edited: str | None = None
    cwd: str | None = None
    timeout: float | None = field(default=None, metadata={"minimum": 0.001})
    partial_result_token: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DismissParams(Target):
    """The suggestion to drop."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyParams(Target):
    """The suggestion to copy."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatParams(Target):
    """``prompt`` is put under the last heading by *open*, and sent by *send*.

    It takes the place of a prompt that *open* put there and nobody changed. A draft of the user's
    stays: *open* then puts nothing and tells them; *send* writes its prompt above the draft.
    """

    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUseParams(Target):
    """The preset that answers from now on."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAddParams(Target):
    """``choice`` is what follows ``:model add``: a number of its list or an address, a model."""

    choice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAddParams(Target):
    """``force`` keeps what looks like a secret."""

    kind: Literal["fact", "pref", "context"]
    content: str
    tags: list[str] = field(default_factory=list)
    scope: Literal["workspace", "user"] = "workspace"
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryListParams(Target):
    """``query`` is looked for in contents and tags, whatever the case."""

    scope: Literal["workspace", "user"] | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryForgetParams(Target):
    """``scope`` is needed where the id is active in both."""

    id: int
    scope: Literal["workspace", "user"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEditParams(Target):
    """``content`` takes the place of the item's; ``scope`` as for *forget*."""

    id: int
    content: str
    scope: Literal["workspace", "user"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryClearParams(Target):
    """``confirmed``: the user has said yes already; else the server asks."""

    scope: Literal["workspace", "user"] | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummarizeParams(Target):
    """With a token, events and then the result; without, the candidates come in the chat."""

    partial_result_token: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedCandidate:
    """A candidate as the user wants it; ``duplicate_of`` and ``flags`` may stay, and do nothing."""

    kind: Literal["fact", "pref", "context"]
    content: str
    tags: list[str] = field(default_factory=list)
    scope: Literal["workspace", "user"] = "workspace"
    duplicate_of: int | None = None
    flags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAcceptParams(Target):
    """What the user keeps, edited at will. Where one is refused, none is stored."""

    candidates: list[AcceptedCandidate]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectParams(Target):
    """Another depth (folders) or size (characters) than the configured one, kept from now on."""

    depth: int | None = field(default=None, metadata={"minimum": 1})
    max_chars: int | None = field(default=None, metadata={"minimum": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListParams(Target):
    """``query`` is looked for in titles, names and messages."""

    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParams(Target):
    """``id`` is a session's id, or the name it was saved under."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSaveParams(Target):
    """The name of the open session, which no other one may have."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHistoryParams(Target):
    """``id`` is a session's id or name; the open one is shown without."""

    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostParams(Target):
    """``detail`` adds a row a model; ``all_sessions`` adds the sessions before this one."""

    detail: bool = False
    all_sessions: bool = False


_SPECS = (
    CommandSpec(
        "aish.ask",
        AskParams,
        "{turnId, sessionId, model, text, reasoning, commands[], usage, finishReason, "
        "error, evictedTurns, context, attached: [{kind, path, first, last, cut}]}; "
        "without a token {turnId} at once",
        "Ask the model. With a token the reply streams to it; without, into the chat document.\n"
        "What stands in the `range` of the document `uri` goes along, as the editor has it, with\n"
        "the definition around it and what the `diagnostics` say; an empty range means its line.\n"
        "So do files that the prompt names: `@src/app.py`, `@src/app.py:10-20`. `attached` says\n"
        "what went along: `selection`, `definition`, `problems` or `file`; `cut` where not all\n"
        "of it did. Lines count from 1, and are 0 for a whole file. With a `uri` the instruction\n"
        "files of the folders on the way to it are in the prompt, until another file is at hand.",
    ),
    CommandSpec(
        "aish.retry",
        RetryParams,
        "as aish.ask",
        "Ask an exchange again, with all that its question carried. Once there is an answer the\n"
        "old one is no longer sent; until then nothing changes. A question that got no answer is\n"
        "asked again like any other, as long as it is the last. `notFound` where it was evicted.",
    ),
    CommandSpec(
        "aish.selection.replace",
        ReplaceParams,
        "{applied}",
        "Put a fenced block of a reply where the text stands that its question was about: the\n"
        "server asks, and only a yes counts. `notFound` where the text is another by now,\n"
        "or its document is not open; edits around it are followed. A block is indented as the\n"
        "selection is; one of changes (`diff`), of a console or with `CMD: ` lines does not count.",
    ),
    CommandSpec(
        "aish.cancel",
        CancelParams,
        "{cancelled}",
        "Stop a turn or a command, or all.",
    ),
    CommandSpec(
        "aish.run",
        RunParams,
        "{commandId, text, exitCode, signal, output, truncated, durationMs, finishReason, "
        "outputUri}; without a token {commandId} at once",
        "Run a suggested command, or a text. A suggestion with `placeholders` is run with\n"
        "`edited` alone. `output` holds head and tail of more than 64 KiB (`truncated`);\n"
        "`outputUri` is a file with all of an output of more than 60 lines or 32,000 characters,\n"
        "without secrets, else null.",
    ),
    CommandSpec(
        "aish.commands.list",
        Target,
        "{commands: [{id, text, line, endLine, source, placeholders[], risk, reasons[]}]}",
        "The commands suggested and not yet run or dismissed.",
    ),
    CommandSpec(
        "aish.commands.copy",
        CopyParams,
        "{text, copied}",
        "Put a suggestion into the clipboard of the machine that the server runs on. Where there\n"
        "is none that it knows, the text is shown to the user. A client with a clipboard of its\n"
        "own may do it instead.",
    ),
    CommandSpec(
        "aish.commands.dismiss",
        DismissParams,
        "{}",
        "Drop a suggestion.",
    ),
    CommandSpec(
        "aish.chat.open",
        ChatParams,
        "{uri}",
        "Show the chat document. `prompt` is put under the last `## You`, in place of one\n"
        "that was put there before; a message of the user's stays there, and they are told.",
    ),
    CommandSpec(
        "aish.chat.send",
        ChatParams,
        "{turnId}, null where no turn was begun",
        "Send what stands under the last `## You`, or run it where it is a `:` command.\n"
        "A `prompt` is sent in its place; what stands there stays for the next message.",
    ),
    CommandSpec(
        "aish.model.list",
        Target,
        "{active, models: [{name, provider, model, endpoint, source}]}",
        "The models there are.",
    ),
    CommandSpec(
        "aish.model.use",
        ModelUseParams,
        "{active, models: [{name, provider, model, endpoint, source}]}",
        "Answer with this model from now on.",
    ),
    CommandSpec(
        "aish.model.add",
        ModelAddParams,
        "{added, active, models: [{name, provider, model, endpoint, source}]}",
        "Set a model up: of the servers on this machine and the keys in the environment the user\n"
        "chooses one, or it is the `choice`. It is added to config.toml, where no key is ever\n"
        "written, asked one question, and answers from now on. A client that cannot ask gets the\n"
        "list in the chat. `added` is null where none was added.",
    ),
    CommandSpec(
        "aish.memory.add",
        MemoryAddParams,
        "{id}",
        "Remember something.",
    ),
    CommandSpec(
        "aish.memory.list",
        MemoryListParams,
        "{items: [{id, ts, kind, content, tags, source, scope, injected}]}",
        "What is remembered, newest first.",
    ),
    CommandSpec(
        "aish.memory.forget",
        MemoryForgetParams,
        "{forgotten}",
        "Forget an item.",
    ),
    CommandSpec(
        "aish.memory.edit",
        MemoryEditParams,
        "{id}",
        "Replace what an item says. It gets a new id; where another item says the same already,\n"
        "the result is that one's.",
    ),
    CommandSpec(
        "aish.memory.clear",
        MemoryClearParams,
        "{forgotten}",
        "Forget every item of a scope, or of both. Unless `confirmed`, the user is asked, and\n"
        "only a yes counts.",
    ),
    CommandSpec(
        "aish.memory.summarize",
        MemorySummarizeParams,
        "{candidates: [{kind, content, duplicateOf, flags[]}]}",
        "Have a model (`memory.summarizer_model`) find what is worth remembering in the log of\n"
        "this session, since its last reset: ten candidates at most. Nothing is stored.\n"
        "`duplicateOf` is the item that says the same; `flags` say what to look at twice: what\n"
        "looks like a secret, what reads like an instruction, what stands only in the output of a\n"
        "command or tool. Without a token the answer is `{turnId}`, and the candidates come as a\n"
        "checklist in the chat, where code actions keep and drop them.",
    ),
    CommandSpec(
        "aish.memory.accept",
        MemoryAcceptParams,
        "{ids[]}",
        "Remember candidates, by the user's word. `ids` are in their order; of what is\n"
        "known already it is the id that is there.",
    ),
    CommandSpec(
        "aish.memory.inject",
        Target,
        "{injected, dropped, characters}",
        "Read the memory anew for the prompt.",
    ),
    CommandSpec(
        "aish.project.show",
        ProjectParams,
        "{block, files, truncated}",
        "What the model is told about the project.",
    ),
    CommandSpec(
        "aish.project.refresh",
        ProjectParams,
        "{block, files, truncated}",
        "Look anew.",
    ),
    CommandSpec(
        "aish.project.off",
        ProjectParams,
        "{block, files, truncated}",
        "Tell the model nothing about the project.",
    ),
    CommandSpec(
        "aish.project.on",
        ProjectParams,
        "{block, files, truncated}",
        "Tell the model about the project again.",
    ),
    CommandSpec(
        "aish.context.show",
        Target,
        "{total, tokenBudget, contextWindow, outputReserve, free, percent, basis, "
        "breakdown, lastCall, newSince, accuracy, compactions, tokenizer}",
        "Where the tokens of the next request go.",
    ),
    CommandSpec(
        "aish.context.reset",
        Target,
        "{}",
        "Forget the conversation; memory, project and costs stay.",
    ),
    CommandSpec(
        "aish.context.compact",
        Target,
        "{evictedTurns, context}",
        "Summarize now what an eviction would: all that was said before the last question.\n"
        "`evictedTurns` counts messages, `context` is as for aish.context.show. Where no summary\n"
        "comes of it nothing is lost, `evictedTurns` is 0, and the user is told why.",
    ),
    CommandSpec(
        "aish.cost.show",
        CostParams,
        "{models: {NAME: {CATEGORY: {input, output, reasoning, cacheRead, cacheWrite, "
        "calls, cost, local, unpriced}}}, total, warnAtDollars, warnAtTokens, "
        "capAtDollars, line}",
        "What was used and what it cost.",
    ),
    CommandSpec(
        "aish.cost.reset",
        CostParams,
        "as aish.cost.show",
        "Count this session's use from nothing.",
    ),
    CommandSpec(
        "aish.session.list",
        SessionListParams,
        "{sessions: [{id, name, title, created, updated, questions, turns, model, cost}]}",
        "The sessions of the workspace, the one last written to first. `questions` counts what\n"
        "the user asked, what was asked again once; `turns` counts all messages; `cost` is in\n"
        "dollars. A session is listed from its first question on. With a `query`, those in which\n"
        "all of its words stand, whatever the case, in the title and the name or in one message;\n"
        "each has a `snippet` of where then.",
    ),
    CommandSpec(
        "aish.session.new",
        Target,
        "{id}",
        "Begin a new session. Turns, summary, pending output, suggestions and costs begin anew;\n"
        "memory, project and model stay. `busy` while a question is answered or a command runs.",
    ),
    CommandSpec(
        "aish.session.resume",
        SessionParams,
        "{id, turns}",
        "Go on with an earlier session, in its file: with its turns, summary, pending output,\n"
        "costs, the suggestions of its last reply that were not run, and the model that it was\n"
        "switched to. `turns` counts the messages in force. `busy` while a question is answered\n"
        "or a command runs here, or where another editor has it open. What is damaged is left\n"
        "out, and told; one from a newer version goes on in a copy, whose `id` is the result.",
    ),
    CommandSpec(
        "aish.session.save",
        SessionSaveParams,
        "{id, name}",
        "Give the open session a name.",
    ),
    CommandSpec(
        "aish.session.delete",
        SessionParams,
        "{deleted}",
        "Delete a session for good: the server asks, and only a yes counts. `deleted` is\n"
        "1, or 0 after a no. `busy` where it is open, here or in another editor.",
    ),
    CommandSpec(
        "aish.session.history",
        SessionHistoryParams,
        "{turns: [{n, ts, role, content, exec[], attached[], model, finish, commands[], "
        "toolCalls[], toolCallId, inForce}]}",
        "All that was said in a session, the oldest first. `inForce` is false for what is sent no\n"
        "more: it was evicted or reset, or got no answer.",
    ),
    CommandSpec(
        "aish.trust.show",
        Target,
        "{trusted, requests: [{what, name, asked: [{key, value}], hash, granted}]}",
        "What the workspace's own configuration (`overlay`) and the editor's settings "
        "(`settings`)\n"
        "ask for beyond what is harmless, and what of it is granted.",
    ),
    CommandSpec(
        "aish.trust.grant",
        Target,
        "as aish.trust.show",
        "Grant it: the server asks, showing every key with its value, and only a yes\n"
        "counts. A grant is for exactly what was shown.",
    ),
    CommandSpec(
        "aish.trust.revoke",
        Target,
        "as aish.trust.show",
        "Take back all that was granted to the workspace.",
    ),
    CommandSpec(
        "aish.undo",
        Target,
        "{restored[], removed[], conflicts[]}",
        "Undo what the last command of this session that is not undone yet did to the files of\n"
        "the work tree. Where none is left, the user is asked about the last one of an earlier\n"
        "session. Names are relative to the workspace. Of what was changed since, the user is\n"
        "asked; where nobody can be, nothing is done, and `conflicts` names it. `busy` while a\n"
        "command runs, `notFound` where no command has changed a file.",
    ),
    CommandSpec(
        "aish.redo",
        Target,
        "{restored[], removed[], conflicts[]}",
        "Do again what was undone last in this session, as long as no command ran since. As for\n"
        "`aish.undo`; `notFound` where there is nothing to do again.",
    ),
    CommandSpec(
        "aish.status",
        Target,
        "{model, busy, context: {total, budget}, cost, commands, trusted, servers}",
        "The workspace at a glance.",
    ),
)

COMMANDS: dict[str, CommandSpec] = {spec.name: spec for spec in _SPECS}
