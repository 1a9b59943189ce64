"""``aish-lsp demo``: a whole conversation through the real server, without a key or a model."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aish_lsp.cli import terminal
from aish_lsp.cli.command import add_command
from aish_lsp.foundation.errors import AishError
from aish_lsp.lsp.stream import CHUNK, FrameReader, frame

if TYPE_CHECKING:
    import argparse

#: The project that the demo asks about.
_PROJECT = {
    "pyproject.toml": '[project]\nname = "greeter"\nversion = "1.0"\n',
    "greeter.py": 'def greet(name: str) -> str:\n    return f"Hello, {name}!"\n',
    "tests/__init__.py": "",
    "tests/test_greeter.py": (
        "import unittest\n\nfrom greeter import greet\n\n\n"
        "class GreeterTest(unittest.TestCase):\n"
        "    def test_greets_by_name(self) -> None:\n"
        '        self.assertEqual(greet("aish"), "Hello, aish!")\n'
    ),
}

_TOKEN = "demo"  # noqa: S105 - a progress token


def add_parser(commands: Any) -> None:
    """Add ``demo`` to the command line."""
    parser = add_command(commands, "demo", run, "show a whole conversation through the real server")
    parser.add_argument(
        "--protocol", action="store_true", help="name the LSP request or command of each step"
    )


async def run(arguments: argparse.Namespace) -> int:
    """Show the conversation in a small example project; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="aish-demo-") as folder:
        root = _write_project(Path(folder))
        environment = {
            "AISH_DATA_DIR": f"{folder}/data",
            "AISH_CONFIG": str(_write_config(Path(folder))),
            "AISH_DISCOVERY": "off",
        }
        show = _Json() if arguments.json else _Screen(with_protocol=arguments.protocol)
        async with connected(root, environment, show) as editor:
            return await _converse(editor, root, show)


def _write_project(folder: Path) -> Path:
    """Write the demo's project into ``folder``; return its root."""
    root = folder.resolve() / "greeter"
    for name, text in _PROJECT.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _write_config(folder: Path) -> Path:
    """Write the demo's configuration into ``folder``, with which each command asks first."""
    path = folder / "config.toml"
    path.write_text('[safety]\nconfirm = "always"\n')
    return path


async def _converse(editor: DemoEditor, root: Path, show: _Screen) -> int:
    """Hold the conversation; return 0 if everything worked.

    The demo sends what an editor sends, and shows what an editor receives.
    """

    async def ask(prompt: str) -> Any:
        result = await editor.command("aish.ask", prompt=prompt, partialResultToken=_TOKEN)
        show.end_of_reply(result["commands"])
        return result

    say = show.say
    question = "How do I run the tests here?"
    say("You ask in the chat, from a project with a test", "aish.ask", question)
    first = await ask(question)

    actions = await _code_actions(editor, root)
    titles = "\n".join(action["title"] for action in actions)
    say("Your editor's menu offers", "textDocument/codeAction", titles)
    run = next((action for action in actions if action["title"].startswith("Run: ")), None)
    if run is None:
        show.end(_MISSING)
        return 1

    say("You choose", "aish.run", run["title"])
    argument = {**run["command"]["arguments"][0], "partialResultToken": _TOKEN}
    report = await editor.command(run["command"]["command"], **argument)
    ended = f"exit {report['exitCode']} after {report['durationMs'] / 1000:.1f} s"
    say("The command has ended", "finished", ended)

    question = "Did that work?"
    say("You ask again, and the command's output goes along", "aish.ask", question)
    second = await ask(question)

    context = await editor.command("aish.context.show")
    say(
        "The next question would send",
        "aish.context.show",
        f"{context['total']} of {context['tokenBudget']} tokens: "
        + ", ".join(f"{k} {v}" for k, v in context["breakdown"].items() if v),
    )
    held = bool(first["commands"]) and report["exitCode"] == 0 and "0" in second["text"]
    show.end(_NEXT if held else _MISSING)
    return 0 if held else 1


async def _code_actions(editor: DemoEditor, root: Path) -> list[dict[str, Any]]:
    position = {"line": 0, "character": 0}
    params = {
        "textDocument": {"uri": (root / "greeter.py").as_uri()},
        "range": {"start": position, "end": position},
        "context": {"diagnostics": []},
    }
    actions: list[dict[str, Any]] = await editor.request("textDocument/codeAction", params)
    return actions


_NEXT = (
    "`aish-lsp chat` is the same in a terminal, with a project of yours; docs/getting-started.md"
    " connects your editor.\n`aish-lsp setup` connects a model."
)

_MISSING = "Something is missing above; please report it."


class _Screen:
    """Shows the demo to a person: headings for the steps, the reply as it streams in."""

    def __init__(self, *, with_protocol: bool = False) -> None:
        self._with_protocol = with_protocol

    def say(self, what: str, protocol: str, text: str) -> None:
        """Show a step, which the protocol calls ``protocol``."""
        terminal.out.line("")
        terminal.out.styled(f"▌{what}{f' ({protocol})' if self._with_protocol else ''}", "1;36")
        if text:
            terminal.out.line(text)

    def end(self, text: str) -> None:
        """Show how the demo ended, and what to do next."""
        terminal.out.line("")
        terminal.out.line(text)

    def event(self, event: dict[str, Any]) -> None:
        """Show an event of a turn or a run."""
        if event["kind"] == "start":
            self.say(f"{event['model'].capitalize()} answers", "aish.ask", "")
        elif event["kind"] in ("text", "output"):
            terminal.out.write(event["delta"])
        elif event["kind"] == "notice":
            terminal.out.styled(event["message"], "2")

    def end_of_reply(self, commands: list[dict[str, Any]]) -> None:
        """End a reply's last line, and show its commands that can be run."""
        terminal.out.end_line()
        for command in commands:
            terminal.out.styled(f"↳ {command['text']} ({command['risk']})", "32")


class _Json(_Screen):
    """Writes one JSON object per line."""

    def say(self, what: str, protocol: str, text: str) -> None:
        self.event({"kind": "demo", "step": protocol, "text": text})

    def end(self, text: str) -> None:
        self.say("", "the end", text)

    def event(self, event: dict[str, Any]) -> None:
        terminal.out.as_json(event)

    def end_of_reply(self, commands: list[dict[str, Any]]) -> None:
        pass  # The events have shown this.


# A minimal editor, which starts the real server and speaks LSP to it.


class DemoEditor:
    """A connection to a server process over its stdin and stdout, which shows what arrives."""

    def __init__(self, process: asyncio.subprocess.Process, show: _Screen) -> None:
        self._process = process
        self._show = show
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._reading = asyncio.create_task(self._read())

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request; return its result.

        Raises:
            AishError: the server answered with an error, or ended without an answer.
        """
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._send({"id": number, "method": method, "params": params})
        await asyncio.wait([answer, self._reading], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            self._reading.result()
            raise AishError("The server ended unexpectedly. `aish-lsp doctor` may say why.")
        return answer.result()

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._send({"method": method, "params": {}})

    async def command(self, name: str, **argument: Any) -> Any:
        """Execute a command of the server with one object as its argument."""
        params = {"command": name, "arguments": [argument]}
        return await self.request("workspace/executeCommand", params)

    def close(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    async def _read(self) -> None:
        """Handle the server's messages until it closes the connection."""
        assert self._process.stdout is not None
        frames = FrameReader()
        while data := await self._process.stdout.read(CHUNK):
            for body in frames.feed(data):
                if isinstance(body, bytes):
                    await self._take(json.loads(body))

    async def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": "$/progress", "params": params}:
                self._show.event(params["value"])
            case {"method": str(method), "id": number}:
                answer = None
                if method == "window/showMessageRequest":
                    answer = self._press(message["params"])
                await self._send({"id": number, "result": answer})
            case {"id": number, "error": error}:
                self._answers.pop(number).set_exception(AishError(error["message"]))
            case {"id": number}:
                self._answers.pop(number).set_result(message.get("result"))

    def _press(self, params: dict[str, Any]) -> Any:
        """Act as a user who reads the question and presses the first button."""
        action = params["actions"][1]  # the first one does nothing
        asked = f"{params['message']}\n→ {action['title']}"
        self._show.say("Your editor asks", "window/showMessageRequest", asked)
        return action

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        # A server that has ended is noticed by the task that reads.
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(frame(json.dumps({"jsonrpc": "2.0"} | message).encode()))
            await self._process.stdin.drain()


@contextlib.asynccontextmanager
async def connected(
    root: Path, environment: Mapping[str, str], show: _Screen
) -> AsyncIterator[DemoEditor]:
    """Start the server for the folder ``root``; shut it down at the end, as an editor does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aish_lsp",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    editor = DemoEditor(process, show)
    try:
        await editor.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": root.as_uri(),
                "capabilities": {"window": {"showMessage": {}}},
                "workspaceFolders": [{"uri": root.as_uri(), "name": root.name}],
            },
        )
        await editor.notify("initialized")
        yield editor
        await editor.request("shutdown")
        await editor.notify("exit")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 10)
    finally:
        editor.close()
        if process.returncode is None:
            process.kill()
            await process.wait()
