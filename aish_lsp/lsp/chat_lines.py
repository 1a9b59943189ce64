"""``aish.chat.line`` and ``aish.chat.complete``: the ``:`` lines, for a client's own chat.

A client that shows its chat by itself, and not the chat document, has all that can be typed there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aish_lsp.chat.colon import COLON_COMMANDS, carry_out, commands_at, files_at, parse
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.events import to_wire
from aish_lsp.lsp.protocol import ChatProposal, ChatProposals, LineResult
from aish_lsp.operations.checklist import checklist
from aish_lsp.operations.operation import Place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aish_lsp.agent.workspace import Workspace
    from aish_lsp.foundation.job import Job
    from aish_lsp.lsp.client import Client
    from aish_lsp.lsp.commands import EditorFace
    from aish_lsp.lsp.configuration import Configurations
    from aish_lsp.lsp.protocol import CompleteParams, LineParams
    from aish_lsp.lsp.registry import Call
    from aish_lsp.lsp.workspaces import Workspaces
    from aish_lsp.operations.operation import Token


class LineFace:
    """A client's own chat, to an operation that was typed there."""

    def __init__(self, editor: EditorFace, listed: str) -> None:
        self._editor = editor
        self._listed = listed
        self.told: list[str] = []

    def tell(self, message: str) -> None:
        """Keep ``message`` for the answer."""
        self.told.append(message)

    async def wait(self, job: Job[Any], title: str) -> Any:
        """Wait for a job, under the client's own progress; cancelling the request stops it."""
        return await self._editor.wait(job, title)

    async def chat_text(self) -> str:
        """Return the last checklist: what ``:memory accept`` reads."""
        return self._listed


@dataclass(frozen=True, slots=True)
class ChatLines:
    """Carries out what is typed in chats of the client's own.

    Attributes:
        stream: sends a job's events to a token, and returns its result.
        face: how the client is spoken to about a workspace.
    """

    client: Client
    configurations: Configurations
    workspaces: Workspaces
    stream: Callable[[Call, Token, Job[Any], str], Awaitable[Any]]
    face: Callable[[Call, Workspace], EditorFace]
    #: The last checklist of candidates for the memory, by workspace.
    _listed: dict[Workspace, str] = field(default_factory=dict, init=False)

    def bind(self) -> None:
        """Answer both commands."""
        self.client.bind("aish.chat.line", self._line)
        self.client.bind("aish.chat.complete", self._complete)
        self.workspaces.on_close(self._closed)

    def _closed(self, workspace: Workspace) -> None:
        self._listed.pop(workspace, None)

    async def _line(self, call: Call, params: LineParams) -> LineResult:
        command = parse(params.line)
        if command is None:
            raise InvalidArgument("A line of the chat begins with a colon.", path="line")
        token = params.partial_result_token
        if token is None and COLON_COMMANDS.find(command).operation.comes_in_pieces:
            raise InvalidArgument("This line needs a token.", path="partialResultToken")
        workspace = self.workspaces.resolve(params)
        await self.configurations.settled(workspace.root)
        session = await workspace.sessions.named(params.session)
        face = LineFace(self.face(call, workspace), self._listed.get(workspace, ""))
        carried = await carry_out(Place(workspace, session, face), command)
        text, result = carried.text, None
        if carried.job is not None and token is not None:
            result = await self.stream(call, token, carried.job, carried.operation.title)
            if carried.operation.comes == "candidates":
                text = self._listed[workspace] = checklist(result.candidates)
        return LineResult(
            workspace.shown.id,
            "\n\n".join(filter(None, [*face.told, text])),
            carried.operation.comes if carried.job is not None else None,
            to_wire(result),
        )

    async def _complete(self, _call: Call, params: CompleteParams) -> ChatProposals:
        workspace = self.workspaces.resolve(params)
        prefix = params.prefix
        named = await files_at(workspace, prefix)
        if named is not None:
            start = _width(prefix[: named.start])
            files = [
                ChatProposal(one.name, one.insert, "", start, "folder" if one.is_folder else "file")
                for one in named.files
            ]
            return ChatProposals(files, is_incomplete=True)
        found = await commands_at(workspace, prefix, self._listed.get(workspace, ""))
        items = [
            ChatProposal(one.label, one.insert, one.detail, _width(prefix[: one.start]), "command")
            for one in found
        ]
        return ChatProposals(items, is_incomplete=False)


def _width(text: str) -> int:
    """Return the UTF-16 code units of a text."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
