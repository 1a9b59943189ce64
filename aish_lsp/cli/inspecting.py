"""``aish-lsp cost|project|tokens|risk|approvals|protocol|config``: show what there is.

``aish-lsp cost``: the tokens used in a workspace, and their cost.

``aish-lsp project``: what the model is told about the project.

``aish-lsp tokens``: how many tokens a text has, and how they were counted.

``aish-lsp risk``: what a command could do, without running it.

``aish-lsp approvals``: what runs without a question; it can be revoked.

``aish-lsp protocol``: the messages between editors and the server.

``aish-lsp config``: the values in force with their origins, the problems, and the schema.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.cli import terminal
from aish_lsp.cli.command import (
    add_command,
    add_operation,
    open_workspace,
    read_input,
    workspace_folder,
    write_result,
)
from aish_lsp.config.keys import json_schema, leaves
from aish_lsp.config.loading import Configuration, Loaded
from aish_lsp.config.schema import Preset
from aish_lsp.config.trust import TrustStore, trust_file
from aish_lsp.context.counter import Counter
from aish_lsp.context.usage import UsageTotals, cost_page
from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.files import config_file
from aish_lsp.foundation.ports import nobody
from aish_lsp.foundation.redaction import is_secret
from aish_lsp.foundation.text import count_of, dotted, escaped, quoted_path
from aish_lsp.operations import OPERATIONS
from aish_lsp.project.files import FolderScan

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from aish_lsp.agent import Workspace
    from aish_lsp.shell.risk import Verdict


_TOKENS: Final = (
    "Count the tokens of files or stdin. With tokenize.use_endpoint, the model's own server counts"
    " them if it can; otherwise they are estimated according to the model's family."
)
_RISK: Final = (
    "Say whether a command is safe (it only reads), caution or destructive, and why. Nothing is"
    " run."
)
_EACH_LINE: Final = "judge each line of stdin; with --json each is a JSON string"
_APPROVALS: Final = (
    "Show which commands you have allowed to run in this folder without being asked again, and"
    " revoke such an approval. Those of a session end with it."
)
_PROTOCOL: Final = (
    "Show all commands with their parameters and results, all events and all errors, as a page;"
    " with --json as JSON Schema (2020-12), from which a client can generate its types."
)


def add_parser(commands: Any) -> None:
    """Add these commands to the command line, except for ``config``."""
    cost = add_command(
        commands, "cost", _cost, "show the tokens used in the last session and their cost"
    )
    cost.add_argument("--all", action="store_true", help="in all sessions of the workspace")

    help_ = "show what the model is told about the project"
    project = add_command(commands, "project", _project, help_)
    project.add_argument("--files", action="store_true", help="show the files it is based on")

    tokens = add_command(commands, "tokens", _tokens, "count the tokens of a text", _TOKENS)
    tokens.add_argument("files", metavar="FILE", nargs="*", default=["-"], help="- is stdin")
    tokens.add_argument(
        "--model",
        metavar="M",
        help="a configured model, or any model's name (default: the active one)",
    )

    risk = add_command(commands, "risk", _risk, "judge what a command could do", _RISK)
    what = risk.add_mutually_exclusive_group(required=True)
    what.add_argument("text", metavar="COMMAND", nargs="?", help="the command, quoted as one word")
    what.add_argument("--lines", action="store_true", help=_EACH_LINE)

    help_ = "what runs without a question"
    approvals = commands.add_parser("approvals", help=help_, description=_APPROVALS)
    actions = approvals.add_subparsers(metavar="ACTION", required=True)
    add_operation(actions, OPERATIONS["approvals.list"], "list the approvals of this folder")
    add_operation(actions, OPERATIONS["approvals.revoke"], "be asked again")

    help_ = "show the messages between editors and the server"
    add_command(commands, "protocol", _protocol, help_, _PROTOCOL)


async def _cost(arguments: argparse.Namespace) -> int:
    """Add up the costs and show them; return the exit code.

    Raises:
        StoreUnavailable: ``usage.jsonl`` cannot be read.
    """
    # Nothing of the project is sent, so the user is not asked whether a key may be used.
    async with open_workspace(arguments, nobody) as workspace:
        calls = workspace.shown.recorder.usage_of_all_sessions()
        if calls and not arguments.all:
            calls = [call for call in calls if call.session == calls[-1].session]
        await workspace.shown.models.choose(None)
        upcoming = workspace.shown.next_request()
        await upcoming.ask_limit()
        report = upcoming.cost(UsageTotals.of(calls))
    page = cost_page(report, detail=True).strip("`\n")
    text = page if calls else "Nothing has been asked in this workspace yet."
    return write_result(arguments, report, text)


async def _project(arguments: argparse.Namespace) -> int:
    """Show what the model is told about the project; return the exit code."""
    if arguments.files:
        listed = await FolderScan(workspace_folder(arguments), limit=None).listing()
        if listed.truncated:
            terminal.tell(f"not all files are listed: {listed.reason}")
        names = listed.names
        return write_result(
            arguments, {"files": names}, "\n".join(map(quoted_path, names)), indent=None
        )
    async with open_workspace(arguments) as workspace:
        await workspace.project.refresh(workspace.config.project, patience=None)
        block = workspace.project.block
    if arguments.json:
        return write_result(arguments, block, "", indent=None)
    terminal.out.write(block.block)
    cut = ", truncated" if block.truncated else ""
    terminal.tell(f"{count_of(block.files, 'file')}{cut}")
    return 0


async def _tokens(arguments: argparse.Namespace) -> int:
    """Count the tokens and show them; return the exit code.

    Raises:
        StoreUnavailable: a file cannot be read. Nothing is written then.
    """
    # Invalid UTF-8 is replaced, as it would be before it is sent to a model.
    texts = [(file, read_input(file).decode("utf-8", "replace")) for file in arguments.files]
    async with open_workspace(arguments) as workspace:
        preset = _preset_named(workspace, arguments.model)
        tokenizer = workspace.services.tokenizer(preset, workspace.config.tokenize)
        counter = Counter(preset, tokenizer)
        await counter.fetch([text for _, text in texts], (), ())
        rows = [_token_row(file, text, counter) for file, text in texts]
    lines = (f"{row['tokens']:>10,}  {escaped(row['file'])}  ({row['method']})" for row in rows)
    return write_result(arguments, rows, "\n".join(lines))


def _token_row(file: str, text: str, counter: Counter) -> dict[str, Any]:
    tokens = counter.text(text)
    method = "heuristic" if tokens.estimated else counter.name
    return {"file": file, "tokens": counter.settled(tokens), "method": method}


def _preset_named(workspace: Workspace, name: str | None) -> Preset:
    """Return the preset called ``name``, or one for a model of that name; by default the active."""
    if not name:
        return workspace.shown.preset
    return workspace.config.models.get(name) or Preset(name=name, model=name)


async def _risk(arguments: argparse.Namespace) -> int:
    """Judge the commands and show the verdicts; return the exit code.

    Raises:
        InvalidArgument: a line is not a JSON string.
    """
    async with open_workspace(arguments) as workspace:
        texts = (
            _lines_of_stdin(as_json=arguments.json) if arguments.lines else iter([arguments.text])
        )
        # Some commands are only safe when confined.
        await workspace.services.confinement.support()
        for text in texts:
            verdict = workspace.judge(text)
            judged = {"risk": verdict.risk, "reasons": verdict.reasons}
            write_result(arguments, judged, _risk_line(text, verdict), indent=None)
    return 0


def _risk_line(text: str, verdict: Verdict) -> str:
    reasons = "; ".join(verdict.reasons)
    return f"{verdict.risk:<11}  {escaped(text)}{f'  ({reasons})' if reasons else ''}"


def _lines_of_stdin(*, as_json: bool) -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, 1):
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not as_json:
            yield line
            continue
        if not line.strip():
            continue
        try:
            text = json.loads(line)
        except (ValueError, RecursionError):
            text = None
        if not isinstance(text, str):
            msg = f"Line {number} of stdin is not a JSON string."
            raise InvalidArgument(msg, path=f"line {number}")
        yield text


def _protocol(arguments: argparse.Namespace) -> int:
    """Write the schema or the page; return the exit code."""
    from aish_lsp.lsp import reference  # noqa: PLC0415 - imports the server

    if arguments.json:
        terminal.out.as_json(reference.schema(), indent=2)
    else:
        terminal.out.write(reference.render())
    return 0


#: Replaces possible secrets, and the values of headers and of tool servers' variables.
_HIDDEN = "(hidden)"


def add_config(commands: Any) -> None:
    """Add ``config show|check|schema`` to the command line."""
    config = commands.add_parser("config", help="show and check the configuration")
    actions = config.add_subparsers(metavar="ACTION", required=True)
    for name, run, text in (
        ("show", _show_config, "show the values in force and their origins"),
        ("check", _check_config, "show what is wrong; exits with 1 if anything is"),
        ("schema", _config_schema, "print the keys as a JSON schema"),
    ):
        add_command(actions, name, run, text)


def _show_config(arguments: argparse.Namespace) -> int:
    loaded = _load(workspace_folder(arguments))
    values = list(values_in_force(loaded))
    if arguments.json:
        terminal.out.as_json(
            {
                "values": {path: {"value": value, "origin": at} for path, value, at in values},
                "asked": _asked(loaded),
                "problems": [str(problem) for problem in loaded.problems],
            }
        )
        return 0
    for path, value, origin in values:
        text = "(not set)" if value is None else json.dumps(value, ensure_ascii=False)
        terminal.out.line(f"{f'{path} = {text}':<48}  # {origin}")
    for problem in loaded.problems:
        terminal.err.line(str(problem))
    for request in _asked(loaded):
        if not request["granted"]:
            terminal.err.line(f"Not granted to this workspace: {json.dumps(request['keys'])}")
    return 0


def _check_config(arguments: argparse.Namespace) -> int:
    problems = _load(workspace_folder(arguments)).problems
    if arguments.json:
        listed = [dataclasses.asdict(problem) for problem in problems]
        terminal.out.as_json({"ok": not problems, "file": str(config_file()), "problems": listed})
    else:
        for problem in problems:
            terminal.out.line(str(problem))
        if not problems:
            missing = "" if config_file().exists() else " (it does not exist: the defaults apply)"
            terminal.out.line(f"Nothing is wrong. Your file is {config_file()}{missing}.")
    return 1 if problems else 0


def _config_schema(_: argparse.Namespace) -> int:
    terminal.out.as_json(json_schema(), indent=2)
    return 0


def _load(workspace: Path) -> Loaded:
    """Return the configuration that a server started here, without an editor, would use."""
    return Configuration(workspace, TrustStore(trust_file())).loaded


def values_in_force(loaded: Loaded) -> Iterator[tuple[str, Any, str]]:
    """Yield (path, value, origin) of each key in force; possible secrets are hidden."""
    for keys, value in leaves(dataclasses.asdict(loaded.config)):
        if keys[0] == "models" and keys[2:] == ("name",):
            continue  # It is the name of the table.
        path = dotted(keys)
        yield path, _without_secrets(keys, value), loaded.origins[path]


def _asked(loaded: Loaded) -> list[dict[str, Any]]:
    return [
        {
            "what": request.what,
            "name": request.name,
            "granted": request.granted,
            "keys": {
                one.key: _without_secrets(tuple(one.key.split(".")), one.value)
                for one in request.asked
            },
        }
        for request in loaded.requests
    ]


def _without_secrets(keys: tuple[str, ...], value: Any) -> Any:
    if {"env", "extra_headers"} & set(keys[:-1]):
        return _HIDDEN
    if isinstance(value, list):
        return [_without_secrets(keys, item) for item in value]
    return _HIDDEN if isinstance(value, str) and is_secret(value) else value
