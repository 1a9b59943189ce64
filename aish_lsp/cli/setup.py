"""``aish-lsp setup``: find a model, write it into ``config.toml``, and ask it one question."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.agent.events import Text
from aish_lsp.cli import terminal
from aish_lsp.cli.command import add_command, open_workspace
from aish_lsp.cli.terminal import read_line, read_secret
from aish_lsp.config.writing import lines_of
from aish_lsp.foundation.errors import AishError, BackendRejected
from aish_lsp.foundation.events import to_wire
from aish_lsp.foundation.files import config_file
from aish_lsp.foundation.text import escaped
from aish_lsp.models.address import host, is_loopback
from aish_lsp.models.faults import is_bad_key
from aish_lsp.models.providers import describe
from aish_lsp.operations.models import (
    QUESTION,
    ModelCandidate,
    at_address,
    candidates,
    configured_as,
    in_file,
    key_name,
    lacking,
    needs_default,
    on_this_machine,
    try_out,
    write,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from aish_lsp.agent import Workspace
    from aish_lsp.agent.events import Usage
    from aish_lsp.config.schema import Preset
    from aish_lsp.models.endpoint import KeyOffer
    from aish_lsp.models.fetching import Fetcher, SmallModel

_DESCRIPTION: Final = (
    "Look for model servers on this machine and for keys in the environment, ask which model"
    " should answer, add it to config.toml without changing anything else, and ask it one question."
    " A key that you paste is kept in the system's keyring, or else in keys.env beside config.toml;"
    " config.toml itself only names its variable."
)

_START: Final = """\
Run `aish-lsp setup` again to get a small model for this machine, or when you have a provider's key
or started a server (`llama-server -m MODEL.gguf`, `ollama serve`). Until then the offline model
answers what it can: everyday shell tasks, and those of your project."""


class _Stopped(Exception):
    """The user gave no answer, so nothing is written."""


def add_parser(commands: Any) -> None:
    """Add ``setup`` to the command line."""
    description = f"{_DESCRIPTION} With --json, only report what was found."
    help_ = "find a model, write config.toml, try it"
    add_command(commands, "setup", run, help_, description)


async def run(arguments: argparse.Namespace) -> int:
    """Set a model up; return the exit code."""
    async with open_workspace(arguments) as workspace:
        for problem in await workspace.reload():
            _say(problem)
        _say("Looking for model servers on this machine and for keys in the environment ...")
        listed = await candidates(workspace)
        if arguments.json:
            rows = [{"preset": one.preset, "models": one.models} for one in listed]
            terminal.out.as_json({"found": to_wire(rows)}, indent=2)
            return 0
        if not terminal.can_ask():
            return _explain(workspace, listed)
        try:
            name = await _set_up(workspace, listed)
        except _Stopped:
            _say("Nothing was written.")
            return 1
        return await _try(workspace, name) if name else 0


def _explain(workspace: Workspace, listed: Sequence[ModelCandidate]) -> int:
    """Say what was found and what to configure, since nobody can be asked; return 1."""
    terminal.out.line("\n".join(map(str, listed)) or "Nothing was found.")
    _say("`aish-lsp setup` asks questions: run it in a terminal.")
    if listed:
        preset = listed[0].preset
        default = needs_default(workspace.config, preset.name)
        _say(f"Or add this to {_file()}:\n")
        terminal.err.line(lines_of(preset, default=default))
    else:
        _say(_START)
    _say("\n".join(["", *(_key_steps(one) for one in lacking(workspace))]))
    return 1


async def _set_up(workspace: Workspace, listed: Sequence[ModelCandidate]) -> str:
    """Ask the user and write; return the model's name, empty for the offline model."""
    chosen = await _choose(workspace, listed)
    if chosen is None:
        _say(f"Nothing needed to be written. {_START}")
        return ""
    if chosen.preset.file is None and chosen.preset.provider != "ollama":
        chosen = await _with_window(workspace, chosen.serving(await _model(chosen)))
    configured = workspace.config.models
    if configured_name := configured_as(workspace.config, chosen.preset):
        _say(f"It is already configured as {escaped(configured_name)}.")
        return configured_name
    name = await _asked("A name for it in config.toml", chosen.preset.name)
    while name in configured:
        _say(f"There is already a model called {escaped(name)}.")
        name = await _asked("Another name", chosen.preset.name)
    preset = replace(chosen.preset, name=name)
    default = needs_default(workspace.config, name)
    if configured:
        now = workspace.shown.preset.name
        default = await _yes(f"Should it answer by default, in place of {escaped(now)}?")
    if not is_loopback(preset.endpoint):
        _say(
            "Your questions, with the file names and command output that accompany them, will be"
            f" sent to {host(preset.endpoint)}."
        )
    _say(f"\nTo be added to {_file()}:\n")
    terminal.err.line(lines_of(preset, default=default))
    if not await _yes("Write it?"):
        raise _Stopped
    if preset.api_key_env and workspace.services.keys.is_given(preset.api_key_env):
        await _store_key(workspace, preset.api_key_env)
    await write(workspace, preset, default=default)
    return name


async def _choose(workspace: Workspace, listed: Sequence[ModelCandidate]) -> ModelCandidate | None:
    """Return the user's choice; None for the offline model."""
    _say("")
    for number, one in enumerate(listed, 1):
        _say(f"  {number}  {one}")
    other, small, offline = (len(listed) + more for more in (1, 2, 3))
    _say(f"  {other}  another server, by its address, or a model in a GGUF file, by its path")
    _say(f"  {small}  a small model that is fetched and runs on this machine")
    _say(f"  {offline}  none: the offline model answers, from the project's own files\n")
    providers = lacking(workspace)
    if providers:
        _say("Providers, with a key that you paste (choose one to see where to get it):\n")
        for number, offer in enumerate(providers, offline + 1):
            _say(f"  {number:<2} {offer.label}, {offer.preset.model}")
        _say("")
    usual = 1 if listed else await _usual(workspace, small, offline + bool(providers))
    question = "Which one should answer?"
    while True:
        number = await _number(question, offline + len(providers), usual)
        if number <= len(listed):
            return listed[number - 1]
        if number == offline:
            return None
        if number == other:
            choice = await _elsewhere(workspace)
        elif number == small:
            choice = await _small(workspace)
        else:
            choice = await _with_key(workspace, providers[number - offline - 1])
        if choice:
            return choice
        question = "Which one, then?"
        usual = usual if listed else offline  # Another Enter does not ask the same again.


async def _usual(workspace: Workspace, small: int, key: int) -> int:
    """Return what an empty machine can do: fetch a small model, if something runs it, or a key."""
    from aish_lsp.models.fetching import Fetcher, small_models  # noqa: PLC0415 - for this alone

    services = workspace.services
    runs = small_models() and await Fetcher.find(services.http, services.environ)
    return small if runs else key


async def _number(question: str, most: int, usual: int = 1) -> int:
    """Ask until the answer is a number from 1 to ``most``, and return it."""
    while True:
        answer = await _asked(question, str(usual))
        if answer.isascii() and answer.isdigit() and 1 <= int(answer[:9]) <= most:
            return int(answer[:9])
        _say(f"Type a number from 1 to {most}.")
        question = "Which one, then?"


def _key_steps(offer: KeyOffer) -> str:
    """Return how to get a provider's key, and what to do with it."""
    return (
        f"{offer.label}: get a key at {offer.keys}, add this line with it to ~/.profile (or to what"
        " else your shell and your editor get their environment from), log in again, and run"
        f" `aish-lsp setup`:\n\n    export {offer.variable}=YOUR-KEY\n"
    )


async def _with_key(workspace: Workspace, offer: KeyOffer) -> ModelCandidate | None:
    """Ask for a provider's key; return the provider, or None without a key."""
    _say(f"\n{offer.label}: get a key at {offer.keys}")
    if not await _read_key(workspace, offer.variable):
        return None
    return ModelCandidate(offer.preset)


async def _read_key(workspace: Workspace, variable: str, which: str = "the") -> bool:
    """Ask for a key and keep it in this process; return whether one was given."""
    question = f"Paste {which} key (it is not shown; if you have none, press Enter) "
    while True:
        typed = await read_secret(question)
        if typed is None:
            raise _Stopped
        if not typed:
            return False
        try:
            workspace.services.keys.give(variable, typed)
        except AishError as error:
            _say(error.message)
        else:
            return True


async def _store_key(workspace: Workspace, variable: str) -> None:
    _say(f"The key is now in {await workspace.services.keys.store(variable)}.")


async def _elsewhere(workspace: Workspace) -> ModelCandidate | None:
    """Ask for the address of a server; return it, or None if it cannot be used."""
    address = await _asked("Its address (such as 127.0.0.1:8080), or the file's path:", "")
    variable = ""
    if not address.endswith(".gguf"):
        variable = await _asked(
            "The environment variable that holds its key (if none, press Enter)", ""
        )
    while True:
        try:
            if address.endswith(".gguf"):
                return await in_file(workspace, address)
            return await at_address(workspace, address, variable)
        except BackendRejected as error:
            _say("The server wants a key." if not variable else error.message)
            variable = variable or key_name(address)
            # The environment comes before what is pasted.
            if variable in os.environ or not await _read_key(workspace, variable):
                return None
        except AishError as error:
            _say(error.message)
            return None


async def _small(workspace: Workspace) -> ModelCandidate | None:
    """Fetch a small model, if the user agrees; return it, or None if there is none."""
    from aish_lsp.models.fetching import (  # noqa: PLC0415 - for this alone
        TOO_LITTLE_MEMORY,
        Fetcher,
        no_engine,
        small_models,
    )

    fetcher = await Fetcher.find(workspace.services.http, workspace.services.environ)
    if fetcher is None:
        _say(f"\n{no_engine()}")
        return None
    models = small_models()
    if not models:
        _say(TOO_LITTLE_MEMORY)
        return None
    for number, one in enumerate(models, 1):
        _say(f"  {number}  {one}")
    model = models[await _number("Which model?", len(models)) - 1]
    if problem := fetcher.lacking_space(model):
        _say(problem)
        return None
    if not await _yes(fetcher.question(model), default=False):
        return None
    preset = await _fetched(fetcher, model)
    return on_this_machine(workspace, preset) if preset else None


async def _fetched(fetcher: Fetcher, model: SmallModel) -> Preset | None:
    """Fetch a model; None if that fails, or after Ctrl-C. A second Ctrl-C ends the program."""

    async def tell(progress: str) -> None:
        _say(progress)

    loop = asyncio.get_running_loop()
    fetching = asyncio.create_task(fetcher.fetch(model, tell))

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        fetching.cancel()

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        return await fetching
    except asyncio.CancelledError:
        _say("\nStopped. What has arrived is kept: choose the model again to go on.")
    except AishError as error:
        _say(error.message)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return None


async def _model(chosen: ModelCandidate) -> str:
    """Ask which of the server's models to use, and return its name."""
    question, default, most = "Which model?", chosen.preset.model, 0
    if len(chosen.models) > 1:
        for number, name in enumerate(chosen.models, 1):
            _say(f"  {number}  {escaped(name)}")
        question, default = "Which of its models? A number, or a name", "1"
        most = len(chosen.models)
    refused = ""
    while True:
        answer = await _asked(question, default)
        question = "Which one, then?"
        if most and answer.isascii() and answer.isdigit():
            if 1 <= int(answer[:9]) <= most:
                return chosen.models[int(answer[:9]) - 1]
            _say(f"Type a number from 1 to {most}.")
        elif answer == refused or not (problem := chosen.unlisted(answer)):
            return answer
        else:
            _say(f"{problem}\nTo use it all the same, type it again.")
            refused = answer


async def _with_window(workspace: Workspace, chosen: ModelCandidate) -> ModelCandidate:
    """Ask for the window of a model whose server does not tell it."""
    preset = chosen.preset
    info = await describe(workspace.services.http, preset, workspace.services.keys)
    if preset.context_window or info.context_window or info.refuses_key:
        return chosen
    name = escaped(preset.model) or "the model"
    _say(f"Nothing here says how many tokens {name} takes at once, its context window.")
    question = "How many? (If you do not know, press Enter)"
    while answer := await _asked(question, ""):
        digits = answer.replace(",", "").replace("_", "")
        if digits.isascii() and digits.isdigit() and int(digits[:12]) > 0:
            return replace(chosen, preset=replace(preset, context_window=int(digits[:12])))
        question = "How many, then? A number, like 32768 (if you do not know, press Enter)"
    return chosen


async def _try(workspace: Workspace, name: str) -> int:
    """Ask the model one question and show its answer; return the exit code."""
    _say(f"\nAsking {escaped(name)} (nothing from your project is sent): {QUESTION}\n")

    async def show(event: Text | Usage) -> None:
        if isinstance(event, Text):
            terminal.out.write(event.delta)

    try:
        await try_out(workspace.shown, name, show)
    except AishError as error:
        variable = workspace.config.models[name].api_key_env or ""
        if is_bad_key(error.data) and workspace.services.keys.is_given(variable):
            _say(f"{error.message}\n")
            if await _read_key(workspace, variable, "another"):
                await _store_key(workspace, variable)
                return await _try(workspace, name)
        _say(f"{error.message}\n\n{escaped(name)} is configured, but did not answer.")
        _say("`aish-lsp doctor` says more; `aish-lsp setup` chooses another one.")
        return 1
    terminal.out.end_line()
    _say('\nIt works. Ask it in your editor, or here: aish-lsp ask "how do I run the tests?"')
    return 0


async def _asked(question: str, default: str) -> str:
    """Return the user's answer, or ``default`` if it is empty."""
    shown = f" [{escaped(default)}]" if default else ""
    answer = await read_line(f"{question}{shown} ")
    if answer is None:
        raise _Stopped
    return answer.strip() or default


async def _yes(question: str, *, default: bool = True) -> bool:
    answer = await _asked(f"{question} [{'Y/n' if default else 'y/N'}]", "")
    return answer.lower() in ("y", "yes") if answer else default


def _file() -> str:
    return terminal.from_home(config_file())


def _say(text: str) -> None:
    terminal.err.line(terminal.wrapped(text) if terminal.can_ask() else text)
