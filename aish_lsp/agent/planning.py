"""What a command is going to be: its text, its folder and its shell, before anybody is asked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import Denied, InvalidArgument, NotFound
from aish_lsp.foundation.text import shown_path
from aish_lsp.shell.blocks import placeholders_of
from aish_lsp.shell.runner import inside
from aish_lsp.shell.suggestions import Origin

if TYPE_CHECKING:
    from aish_lsp.agent.events import CommandInfo
    from aish_lsp.agent.session import Session
    from aish_lsp.shell.blocks import Source

_NOT_RUNNABLE = re.compile("[\0\ud800-\udfff]")

#: Whether the user has approved a command, nobody has seen it, or it is offered to the user: they
#: are asked whatever its risk, and the model is told of a no.
ApprovalState: TypeAlias = Literal["", "given", "unseen", "offered"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A command to run: a suggestion by its id, or a text.

    ``edited`` is what to run instead of the suggestion; ``shell`` is the shell that the text is
    for, empty for the user's own; ``timeout`` is in seconds. ``approval`` is ``given`` if the user
    has just approved exactly this text, and ``unseen`` if nobody has seen it, so that the user is
    asked unless it is safe and confined; ``offered``: see ``ApprovalState``. ``shown_whole``: the
    user sees the whole output, so it need not be saved. Commands of one ``group`` are undone
    together; by default a command is undone by itself. ``answers_call``: the output is the result
    of a tool call, and is not kept for the next question.
    """

    command_id: str | None = None
    text: str | None = None
    edited: str | None = None
    shell: str = ""
    cwd: str | None = None
    timeout: float | None = None
    origin: Origin = "reply"
    approval: ApprovalState = ""
    shown_whole: bool = False
    group: str = ""
    answers_call: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is going to run, and where. It is fixed before the user is asked.

    ``request`` says how it is run. ``free``: it runs without confinement whatever its risk, since
    the user typed it, or chose to run it without confinement after a confined run failed.

    ``seen`` holds the device and inode of the workspace's folder and of ``cwd``, to notice if
    another folder takes the place of one of them.
    """

    request: RunRequest
    command_id: str
    text: str
    source: Source
    shell: str
    cwd: Path
    seen: tuple[tuple[int, int], ...]
    origin: Origin
    free: bool
    group: str

    @property
    def is_retry(self) -> bool:
        """Whether it is to run without confinement after a confined run failed: that asks."""
        return self.free and self.origin != "user"

    def check_folder(self, root: Path) -> None:
        """Check that no other folder has taken its place, for instance while the user was asked.

        Raises:
            NotFound: the folder is not in the workspace, whose folder is ``root``, any more.
            Denied: another folder is there now.
        """
        if not inside(root, self.cwd):
            raise NotFound(f"The folder {shown_path(self.cwd)} is not in the workspace any more.")
        if _identities(root, self.cwd) != self.seen:
            raise Denied(
                f"Not run: another folder has taken the place of {shown_path(self.cwd)} since"
                " the command was checked. Run it again to have it checked there."
            )


def plan(session: Session, request: RunRequest, command_id: str) -> Plan:
    """Return what ``request`` runs, and where.

    Raises:
        InvalidArgument: there is neither a command nor a text, the folder is outside the workspace,
            or the suggestion has placeholders, which only the user can fill in.
        NotFound: there is no such suggestion, or its folder or shell is gone.
    """
    workspace = session.workspace
    text = request.edited if request.edited is not None else request.text
    source: Source = "cmd"
    named, free = request.shell, request.origin == "user"
    if request.command_id is not None:
        suggestion = session.commands.suggestion(request.command_id)
        named, source = suggestion.shell, suggestion.info.source
        free = request.edited is None and suggestion.unconfined
        text = _filled_in(suggestion.info, text)
        if request.text is not None:
            raise InvalidArgument(
                "Give commandId or text, not both; `edited` replaces a suggestion's text.",
                path="text",
            )
    elif text is not None:
        for waiting in session.last_turn_suggestions:
            if text.strip() == waiting.info.text.strip():
                _filled_in(waiting.info, None)
    if text is None:
        raise InvalidArgument("Say what to run: commandId or text.", path="commandId")
    if not text.strip() or _NOT_RUNNABLE.search(text):
        raise InvalidArgument(
            "The command is empty, or contains a NUL or half a character (a lone surrogate).",
            path="text",
        )
    cwd = workspace.folder_for(request.cwd)
    shell, obstacle = workspace.shell_for(named)
    if obstacle:
        raise NotFound(f"Not run: {obstacle}. Copy it instead.")
    return Plan(
        request,
        command_id=command_id,
        text=text,
        source=source,
        shell=shell,
        cwd=cwd,
        seen=_identities(workspace.folder, cwd),
        # An edited suggestion counts as the user's own text.
        origin="user" if request.command_id and request.edited is not None else request.origin,
        free=free,
        group=request.group or command_id,
    )


def _filled_in(info: CommandInfo, edited: str | None) -> str:
    """Return the text of a suggestion, or what the user made of it.

    Raises:
        InvalidArgument: it has placeholders.
    """
    text = info.text if edited is None else edited
    still = placeholders_of(text)
    gaps = [gap for gap in info.placeholders if text == info.text or gap in still]
    if gaps:
        raise InvalidArgument(
            f"Not run: fill in {', '.join(gaps[:3])} first: edit the command, or type all of it"
            " after `:run`.",
            path="edited",
        )
    return text


def _identities(*folders: Path) -> tuple[tuple[int, int], ...]:
    """Return the device and inode of each folder.

    Raises:
        NotFound: a folder is gone.
    """
    try:
        return tuple((status.st_dev, status.st_ino) for status in map(os.stat, folders))
    except OSError as error:
        raise NotFound(f"{shown_path(os.fsdecode(error.filename))} is gone.") from error
