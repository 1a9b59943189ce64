"""The ``:`` commands: each does what its ``aish.*`` command does and answers in Markdown.

A command exists when a handler stands here; the editor's chat document and the terminal share them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from aish_lsp.agent.compaction import compact
from aish_lsp.agent.execution import RunRequest, approve, run
from aish_lsp.agent.turn import ask
from aish_lsp.chat.colon import ColonCommand, ColonRegistry, block_of, help_text
from aish_lsp.chat.markdown import fence_for
from aish_lsp.chat.memory import USAGE, VERBS, memory_command, remember
from aish_lsp.chat.model_adding import ADD, add_model
from aish_lsp.chat.sessions import USAGE as SESSION_USAGE
from aish_lsp.chat.sessions import VERBS as SESSION_VERBS
from aish_lsp.chat.sessions import session_command
from aish_lsp.chat.trust import USAGE as TRUST_USAGE
from aish_lsp.chat.trust import VERBS as TRUST_VERBS
from aish_lsp.chat.trust import trust_command
from aish_lsp.chat.undo import REDO_USAGE, REDO_WAYS, redo_command, undo_command
from aish_lsp.chat.undo import USAGE as UNDO_USAGE
from aish_lsp.chat.undo import WAYS as UNDO_WAYS
from aish_lsp.context.report import context_page, cost_page
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.ports import Question
from aish_lsp.foundation.text import cut, escaped
from aish_lsp.shell.blocks import SHELL_TAGS, tag_of

if TYPE_CHECKING:
    from aish_lsp.agent.execution import RunReport
    from aish_lsp.agent.extractor import Extracted
    from aish_lsp.agent.session import Session
    from aish_lsp.agent.turn import AskResult
    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.foundation.job import Job
    from aish_lsp.shell.approval import Origin


R = TypeVar("R")


class Wait(Protocol):
    """Wait for a job to end, with a word on what it does; return its result."""

    async def __call__(self, job: Job[R], title: str) -> R:
        """Wait for ``job``, showing ``title`` meanwhile."""


@dataclass(frozen=True, slots=True)
class Chat:
    """Where a ``:`` command was typed: in which session, and how it is answered.

    ``follow`` shows a command's output while it runs, ``offer`` what is found worth remembering;
    ``shown`` returns the chat's text. ``answer`` shows a reply as it comes; ``wait`` waits for a
    job, with a word on what it does. ``is_typed``: the user was seen typing it.
    """

    session: Session
    follow: Callable[[Job[RunReport]], None]
    offer: Callable[[Job[Extracted]], None]
    shown: Callable[[], Awaitable[str]]
    answer: Callable[[Job[AskResult]], None]
    wait: Wait
    is_typed: bool = True

    @property
    def workspace(self) -> Workspace:
        """The context of the session's folder."""
        return self.session.workspace


#: Commands that change nothing, and those that change nothing without an argument.
_SHOW: Final = frozenset({"help", "context", "prompt", "history", "sessions"})
_SHOW_ALONE: Final = frozenset({"cost", "memory", "model", "session", "tree"})
#: Commands that ask by themselves, with all there is to know; and one whose argument nobody can
#: have written down before, since we make it up as we ask.
_ASK: Final = frozenset({"run", "trust", "approve"})

_UNSEEN: Final = "was not seen being typed in this editor, and may have come with the folder"
#: Characters of a message that a question shows.
_SHOWN: Final = 2_000

COLON_COMMANDS: ColonRegistry[Chat] = ColonRegistry()
colon = COLON_COMMANDS.colon


async def carry_out(chat: Chat, command: ColonCommand) -> str:
    """Carry out what was sent, after a question where nobody was seen typing it.

    Returns its answer, Markdown that is not escaped yet.

    Raises:
        Denied: the user said no, or could not be asked.
        AishError: as ``ColonRegistry.run``.
    """
    name = COLON_COMMANDS.find(command.name).name
    only_shows = name in _SHOW or (name in _SHOW_ALONE and not command.argument)
    if not (chat.is_typed or only_shows or name in _ASK):
        await _consent(chat, f":{name} {command.argument}".rstrip())
    return await COLON_COMMANDS.run(chat, command)


async def _consent(chat: Chat, message: str) -> None:
    """Ask the user whether a message is theirs. Raises Denied where it is not, or nobody says."""
    asked = f"This message of the chat {_UNSEEN}. Carry it out?"
    text = escaped(message)
    whole = text if len(text) > _SHOWN else ""
    question = Question(f"{asked}\n\n    {cut(text, _SHOWN)}", "Carry out", whole=whole)
    answer = await chat.workspace.services.ask_user(question)
    if answer is None:
        again = "Type it again under the next heading"
        raise Denied(f"Not carried out: nobody could be asked. It {_UNSEEN}. {again}.")
    if not answer:
        raise Denied("Not carried out.")


@colon(
    "help",
    usage="[offline]",
    help="what can be typed here, or what the offline model knows",
    choices=("offline",),
)
async def _help(_chat: Chat, argument: str) -> str:
    if argument not in ("", "offline"):
        raise InvalidArgument("Use `:help` or `:help offline`.")
    if argument:
        from aish_lsp.offline.known import known  # noqa: PLC0415 - its table, for this alone

        return known()
    return help_text(COLON_COMMANDS)


@colon(
    "model",
    usage="[NAME|add]",
    help="list the models, use one from now on, or add one",
    choices=(ADD,),
)
async def _model(chat: Chat, argument: str) -> str:
    session, workspace = chat.session, chat.workspace
    verb, _, rest = argument.partition(" ")
    if verb == ADD:
        return (await add_model(session, rest.strip())).told
    # The file may have been written a moment ago, as by `aish-lsp setup`.
    told = await workspace.reload()
    if argument:
        return "\n\n".join([*told, f"{await session.use_model(argument)} answers from now on."])
    models = await workspace.services.catalog.list(workspace.config)
    rows = [
        f"- {f'**{row.name}**' if row.name == session.active_model else row.name}"
        f" ({row.source}): {row.model or 'its only model'}"
        f"{f' at {row.endpoint}' if row.endpoint else ''}"
        for row in models
    ]
    how = "`:model NAME` chooses one, `:model add` sets another one up."
    return "\n\n".join([*told, "\n".join(rows), how])


@colon("remember", usage="TEXT", help="remember a fact in this workspace")
async def _remember(chat: Chat, argument: str) -> str:
    return await remember(chat.session, "fact", argument)


@colon("memory", usage=USAGE, help="what is remembered across sessions", choices=VERBS)
async def _memory(chat: Chat, argument: str) -> str:
    if argument == "summarize":
        from aish_lsp.agent.extractor import extract  # noqa: PLC0415 - the models' room, for this alone

        chat.offer(extract(chat.session))
        return ""
    return await memory_command(chat.session, argument, chat.shown)


@colon(
    "tree",
    usage="[refresh|off|on]",
    help="what the model is told about the project",
    choices=("refresh", "off", "on"),
)
async def _tree(chat: Chat, argument: str) -> str:
    workspace = chat.workspace
    if argument in ("on", "off"):
        workspace.project.switch(on=argument == "on")
    elif argument == "refresh":
        workspace.project.renew()
    elif argument:
        raise InvalidArgument("Use `:tree`, `:tree refresh`, `:tree off` or `:tree on`.")
    if not workspace.project.shown(workspace.config.project):
        return "The model knows nothing about the project now. `:tree on` changes that."
    await workspace.project.refresh(workspace.config.project, patience=None)
    block = workspace.project.block
    if not block.block:
        return "There is nothing to show: the folder is empty, or no folder is open."
    cut = ", cut to fit" if block.truncated else ""
    return f"```\n{block.block.rstrip()}\n```\n\n{block.files} files{cut}."


@colon("context", help="where the tokens of the next request go")
async def _context(chat: Chat, _argument: str) -> str:
    troubles = await chat.session.refresh()
    upcoming = chat.session.next_request()
    await upcoming.count()
    return "\n\n".join([*troubles, context_page(upcoming.context(), upcoming.messages())])


@colon(
    "cost",
    usage="[detail|reset]",
    help="what was used and what it cost",
    choices=("detail", "reset"),
)
async def _cost(chat: Chat, argument: str) -> str:
    if argument not in ("", "detail", "reset"):
        raise InvalidArgument("Use `:cost`, `:cost detail` or `:cost reset`.")
    if argument == "reset":
        await chat.session.reset_costs()
    return cost_page(chat.session.next_request().cost(), detail=argument == "detail")


@colon("reset", help="forget the conversation; memory, project and costs stay")
async def _reset(chat: Chat, _argument: str) -> str:
    await chat.session.reset()
    return "The conversation starts over."


@colon("compact", help="summarize now all that was said before the last question")
async def _compact(chat: Chat, _argument: str) -> str:
    done = await chat.wait(compact(chat.session), "aish summarizes the conversation")
    return done.told


@colon(
    "retry", usage="[MODEL]", help="ask the last question again; `:retry NAME` asks another model"
)
async def _retry(chat: Chat, argument: str) -> str:
    chat.answer(ask(chat.session, chat.session.asked_again(model=argument or None)))
    return ""


@colon(
    "session",
    usage=SESSION_USAGE,
    help="earlier sessions, and how to continue one",
    choices=SESSION_VERBS,
)
async def _session(chat: Chat, argument: str) -> str:
    return await session_command(chat.session, argument)


@colon("sessions", usage="[TEXT]", help="the sessions of this workspace, or those about TEXT")
async def _sessions(chat: Chat, argument: str) -> str:
    return await session_command(chat.session, f"list {argument}")


@colon("save", usage="NAME", help="give this session a name")
async def _save(chat: Chat, argument: str) -> str:
    return await session_command(chat.session, f"save {argument}")


@colon("resume", usage="[ID]", help="continue an earlier session, by its id or name; else the last")
async def _resume(chat: Chat, argument: str) -> str:
    return await session_command(chat.session, f"resume {argument}")


@colon("history", usage="[ID] [PAGE]", help="what was said in this session, or in another: a page")
async def _history(chat: Chat, argument: str) -> str:
    return await session_command(chat.session, f"history {argument}")


@colon(
    "run",
    usage="N|COMMAND",
    help="run suggestion N of the last reply, or a command; its output goes with your next message",
)
async def _run(chat: Chat, argument: str) -> str:
    chat.follow(run(chat.session, _to_run(chat, argument)))
    return ""


def _to_run(chat: Chat, argument: str) -> RunRequest:
    """Return what the argument of ``:run`` asks for: a number, a command, or a block of one."""
    if not argument:
        raise InvalidArgument("Say what to run: `:run COMMAND`, or `:run N` for a suggestion.")
    if argument.isdecimal():
        number = _numbered(chat.session, int(argument))
        return RunRequest(command_id=number, origin="reply" if chat.is_typed else "document")
    origin: Origin = "user" if chat.is_typed else "document"
    block = block_of(argument)
    if block is None:
        return RunRequest(text=argument, origin=origin)
    shell = SHELL_TAGS.get(tag_of(block.info), "")
    return RunRequest(text=block.text.removesuffix("\n"), shell=shell, origin=origin)


def _numbered(session: Session, number: int) -> str:
    """Return the id of a suggestion of the last reply, by its place in it, from 1."""
    waiting = {one.number: one.info for one in session.last_turn_suggestions}
    if number in waiting:
        return waiting[number].id
    numbers = ", ".join(map(str, sorted(waiting)))
    there = f"There are {numbers}." if waiting else "None is waiting."
    raise NotFound(f"The last reply has no suggestion {number} that is waiting. {there}")


@colon("approve", usage="ID", help="allow, once, what you were asked about and did not answer")
async def _approve(chat: Chat, argument: str) -> str:
    if places := chat.session.consents.approve(argument):
        return f"{places} may be sent in this session, as it is now. Ask again."
    chat.follow(approve(chat.session, argument))
    return ""


@colon(
    "trust",
    usage=TRUST_USAGE,
    help="what this workspace's own settings ask for, and whether you allow it",
    choices=TRUST_VERBS,
)
async def _trust(chat: Chat, argument: str) -> str:
    # Anybody can work out what is to be pasted to grant: then the user is asked all the same.
    pasted = argument.startswith("grant ") and not chat.is_typed
    return await trust_command(chat.workspace, "grant" if pasted else argument)


@colon(
    "undo",
    usage=UNDO_USAGE,
    help="take back what the last command did to files; again, the one before it",
    choices=UNDO_WAYS,
)
async def _undo(chat: Chat, argument: str) -> str:
    return await undo_command(chat.session, argument)


@colon("redo", usage=REDO_USAGE, help="do again what was last undone", choices=REDO_WAYS)
async def _redo(chat: Chat, argument: str) -> str:
    return await redo_command(chat.session, argument)


@colon("prompt", help="the exact request that would be sent")
async def _prompt(chat: Chat, _argument: str) -> str:
    parts = await chat.session.refresh()
    for message in chat.session.next_request().messages():
        fence = fence_for(message.content)
        parts.append(f"**{message.role}**\n\n{fence}text\n{message.content}\n{fence}")
    return "\n\n".join(parts)
