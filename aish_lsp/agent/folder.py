"""One folder's context: its configuration, memory, project picture and undo.

Sessions use it, and do not know about each other. A ``Workspace`` has both.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import platform
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aish_lsp.config.variables import secret_variables_of
from aish_lsp.context.attached import named_files, named_terminal
from aish_lsp.context.prompt import (
    Blocks,
    Surroundings,
    base_prompt,
    instructions_part,
    summary_block,
    tree_part,
)
from aish_lsp.foundation.errors import AishError, InvalidArgument, NotFound
from aish_lsp.foundation.files import config_file, data_dir, expanded, workspace_dir
from aish_lsp.foundation.masking import MASK, Mask, withhold
from aish_lsp.foundation.redaction import is_telling, redact
from aish_lsp.foundation.text import shown, shown_path
from aish_lsp.foundation.uris import path_of
from aish_lsp.memory.scopes import MemoryScopes, background_text, select
from aish_lsp.project.picture import FileNames, ProjectPicture
from aish_lsp.shell.environment import command_environment, secret_values, shell_for
from aish_lsp.shell.risk import Verdict, classify
from aish_lsp.shell.runner import inside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from aish_lsp.agent.services import Services
    from aish_lsp.config.loading import Configuration
    from aish_lsp.config.schema import Config
    from aish_lsp.context.attached import Attachments
    from aish_lsp.shell.folder_environment import FolderEnvironment
    from aish_lsp.tools.servers import ToolServers
    from aish_lsp.undo import Undo


class FolderContext:
    """The context of one folder; if ``root`` is None, of the user without an open folder.

    Attributes:
        configuration: the configuration with its sources, and the settings that await a grant.
        data: the folder in which the workspace's data is kept.
    """

    def __init__(self, root: Path | None, services: Services, configuration: Configuration) -> None:
        self.root = root
        self.services = services
        self.configuration = configuration
        self.project = ProjectPicture(root)
        self.files = FileNames(root, self.project, lambda: self.config.project)
        self.data = workspace_dir(root) if root else data_dir() / "workspaces" / "user"
        self._memory_path = self._configured_memory()
        self.memory = self._open_memory()
        self._masking: tuple[tuple[object, ...], Mask] | None = None
        self._login: Mapping[str, str] | None = None
        self._environ: Mapping[str, str] | None = None
        self._listeners: list[Callable[[], None]] = []
        #: Made by the first session that may use them.
        self.tool_servers: ToolServers | None = None

    # State

    @cached_property
    def undo(self) -> Undo:
        """What was in the files before the commands that ran here; most sessions run none."""
        from aish_lsp.undo import Undo  # noqa: PLC0415 - when a command first runs

        return Undo(self.folder, self.without_secrets, self.services.edit_open)

    @property
    def config(self) -> Config:
        """The current configuration of this folder."""
        return self.configuration.config

    @property
    def folder(self) -> Path:
        """Where commands run: the root, or the user's home if no folder is open."""
        return self.root or Path.home()

    def folder_for(self, wanted: str | None) -> Path:
        """Return the real path of the folder to run a command in; None means the workspace's own.

        Raises:
            InvalidArgument: it is not inside the workspace.
            NotFound: it is gone.
        """
        root = self.folder
        if not root.is_dir():
            raise NotFound(f"The folder {shown_path(root)} is gone.")
        wanted = wanted or ""
        named = path_of(wanted)
        folder = named or root / wanted
        try:
            is_inside = (named or not wanted.startswith("file:")) and inside(root, folder)
        except ValueError:
            # It contains a NUL or half a character.
            is_inside = False
        if not is_inside:
            message = f"The folder {shown(wanted)} is not inside the workspace."
            raise InvalidArgument(message, path="cwd")
        if not os.path.isdir(folder):  # noqa: PTH112 - the other one raises if the name is too long
            raise NotFound(f"{shown_path(folder)} is not a folder, or is gone.")
        return Path(os.path.realpath(folder))

    def blocks(self, summary: str, wording: str) -> Blocks:
        """Return the prompt's blocks as of now, for a conversation with this summary.

        ``wording``, if not empty, replaces the text of the base prompt.
        """
        config = self.config
        project = self.project if self.project.shown(config.project) else None
        instructions = project.instructions if project else ()
        selected = select(self.memory.items(), config.memory.inject_max_chars)
        system = {"Darwin": "macOS"}.get(platform.system(), platform.system())
        today = dt.datetime.now().astimezone().date().isoformat()
        around = Surroundings(system, config.safety.shell, today, self.folder.name or "/")
        return Blocks(
            base=base_prompt(around, wording or config.context.system_prompt),
            background=background_text(selected.items),
            tree=tree_part(project.block.block, project.tasks) if project else "",
            instructions="\n".join(instructions_part(one.name, one.text) for one in instructions),
            summary=summary_block(summary),
        )

    async def named(self, question: str) -> Attachments:
        """Return what a question names: files, and the last command of the terminal."""
        attachments = await named_files(question, self.files, self.services.open_text)
        printed, notice = await named_terminal(question, self.services.read_terminal)
        attachments.attached += printed
        if notice:
            attachments.notices.append(notice)
        return attachments

    def secret_names(self) -> list[str]:
        """Return the environment variables that hold keys of configured models."""
        return [p.api_key_env for p in self.config.models.values() if p.api_key_env]

    def _mask(self) -> Mask:
        """Return the mask for the current keys and the other secrets that we know."""
        servers = self.config.tools.servers.values()
        given_to_servers = (name for one in servers for name in secret_variables_of(one))
        names, printed = frozenset([*self.secret_names(), *given_to_servers]), frozenset[str]()
        if any(p.api_key_env or p.api_key_command for p in self.config.models.values()):
            from aish_lsp.models.keys import printed_keys  # noqa: PLC0415 - not needed by all

            printed = self.services.keys.stored.union(printed_keys())
        environ = self.environ
        if self._masking is None or self._masking[0] != (names, printed, environ):
            # Our own environment does not change.
            secrets = secret_values(self.services.environ, names) | secret_values(environ, names)
            values = {*filter(is_telling, secrets | printed)}
            self._masking = (names, printed, environ), Mask(values)
            withhold(values)
        return self._masking[1]

    def without_keys(self, text: str) -> str:
        """Return ``text`` with our keys and the secrets of the environment masked."""
        return self._mask().whole(text, MASK)

    def without_secrets(self, text: str) -> str:
        """Return ``text`` with our keys, and everything that looks like a secret, masked.

        This is how a text is logged, and how a model sees a command.
        """
        # Our keys first: if only part of a key looked like a secret, the rest would remain.
        return redact(self.without_keys(text))

    def output_without_secrets(self, text: str) -> str:
        """Return an output like ``without_secrets``, even if a secret was cut in two."""
        return redact(self._mask().of_output(text, MASK))

    def _configured_memory(self) -> Path:
        """Return the file of this workspace's memory.

        A configured path is relative to the configuration's folder.
        """
        configured = self.config.memory.path
        if not configured:
            return self.data / "memory.jsonl"
        return config_file().parent / expanded(configured)

    def _open_memory(self) -> MemoryScopes:
        return MemoryScopes.open(data_dir() / "memory.jsonl", self._memory_path, self._holds_key)

    def _holds_key(self, text: str) -> bool:
        return self.without_keys(text) != text

    async def refresh(self) -> list[str]:
        """Reload the configuration, memory and project if they changed. Return any warnings."""
        warnings = await self.reload()
        looks: list[Awaitable[list[str] | None]] = [self.refresh_memory()]
        if self.project.shown(self.config.project):
            looks.append(self.project.refresh(self.config.project))
        for more in await asyncio.gather(*looks):
            warnings += more or []
        return warnings

    async def reload(self) -> list[str]:
        """Reload the configuration if it has changed. Return any warnings."""
        return await asyncio.to_thread(self.configuration.reload)

    async def refresh_memory(self) -> list[str]:
        """Reload what other processes added or forgot. Return any warnings."""
        if (path := self._configured_memory()) != self._memory_path:
            self._memory_path = path
            self.memory = self._open_memory()
        self.memory.prune_older_than_days = self.config.memory.prune_older_than_days
        return await asyncio.to_thread(self.memory.refresh)

    def judge(
        self,
        text: str,
        folder: Path | None = None,
        shell: str = "",
        *,
        confined: bool | None = None,
        kept: Path | None = None,
    ) -> Verdict:
        """Return the risk of running ``text`` in ``folder``, by default the workspace's own.

        ``shell`` is the shell that runs it, by default the user's own. ``confined`` says whether it
        would run confined, by default if confinement is available. ``kept`` is as for ``classify``.
        """
        if confined is None:
            confined = self.config.safety.confine and self.services.confinement.available
        safety = self.config.safety
        return classify(
            text,
            shell or safety.shell,
            rules=safety.rules,
            folder=folder or self.folder,
            confined=confined,
            path=self.command_environment().get("PATH"),
            kept=kept,
        )

    async def load_environment(self) -> str:
        """Read the login shell's environment and the folder's, if commands are to run with them.

        Return what the user should know about them, once; else an empty text.
        """
        if not self.config.shell.login:
            return ""
        notices = []
        if self._login is None:
            try:
                self._login = await self.services.login_environment()
            except AishError as error:
                self._login = self.services.environ
                notices = [f"Commands run with the editor's environment: {error.message}."]
        self._environ, more = await self._folder_environment.over(self._login, self.secret_names())
        return "\n\n".join(map(self.without_secrets, notices + more))

    @cached_property
    def _folder_environment(self) -> FolderEnvironment:
        from aish_lsp.shell.folder_environment import (  # noqa: PLC0415 - not needed by default
            FolderEnvironment,
        )

        return FolderEnvironment(self.folder, lambda: self.services.confinement)

    def command_environment(self) -> dict[str, str]:
        """Return the environment that commands run with; see ``load_environment``."""
        return command_environment(self.environ, self.secret_names())

    @property
    def user_environ(self) -> Mapping[str, str]:
        """The environment that tool servers begin with: nothing in it comes from the project.

        They run unconfined and unasked once they are granted, and a variable can lead to code.
        """
        if self._login is None or not self.config.shell.login:
            return self.services.environ
        return self._login

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that commands begin with: the editor's, or what was read instead."""
        if self._environ is None or not self.config.shell.login:
            return self.services.environ
        return self._environ

    async def can_confine(self) -> bool:
        """Return whether safe commands run confined here."""
        if not self.config.safety.confine:
            return False
        return (await self.services.confinement.support()).available

    async def why_no_undo(self) -> str:
        """Return why a command that runs now could not be undone; empty if it could be."""
        if not self.config.safety.snapshot:
            return "safety.snapshot is off"
        return await self.undo.prospect()

    async def undo_hint(self) -> str:
        """Return a sentence on whether, and how, a command that runs now could be undone."""
        if why_not := await self.why_no_undo():
            return f"This cannot be undone: {why_not}."
        return (
            "`:undo` restores the files of this git work tree, except those that git ignores and"
            " git's own; nothing outside it."
        )

    def shell_for(self, named: str) -> tuple[str, str]:
        """Return a shell, and why it cannot be used, else empty.

        ``named`` is the shell that a command is for, empty for the user's own.
        """
        path = self.command_environment().get("PATH")
        return shell_for(named, self.config.safety.shell, path)

    # Listeners and closing

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever suggestions or the status change."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Notify the listeners that something they may show has changed."""
        for listener in self._listeners:
            listener()

    async def aclose(self) -> None:
        """Stop the tool servers, and stop watching the project."""
        if self.tool_servers is not None:
            await self.tool_servers.aclose()
        await self.project.aclose()
