"""The built-in tools of ``builtin.toml``, and the methods that carry them out.

This includes those that ask the editor about the code: problems, symbols, definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.config.schema import OWN_TOOLS
from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.ports import Lookup
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import quoted_path, shown
from aish_lsp.models.request import ToolSchema
from aish_lsp.tools import (
    OUTPUTS,
    OfferedTool,
    Place,
    Provider,
    ToolResult,
    bounded,
    locate,
    number_of,
    own_tools,
    text_of,
)
from aish_lsp.tools.reading import Looking
from aish_lsp.tools.writing import Changing

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import CodeLocation
    from aish_lsp.tools import Around, CallTool, Workplace


def _schema(name: str, row: Mapping[str, Any]) -> ToolSchema:
    properties = {one: {"type": kind} for one, kind in row["arguments"].items()}
    required = row.get("required", [])
    parameters = {"type": "object", "properties": properties, "required": required}
    return ToolSchema(name, row["description"], parameters)


#: The most places in an answer, and characters of text for each.
_MOST: Final = 200
_SAID: Final = 300


def asks_editor(name: str) -> bool:
    """Return whether a built-in tool is offered only if the editor can answer it."""
    return bool(own_tools()[name].get("asks_editor"))


class EditorLookups:
    """Asks the editor on a model's behalf about files that the model may read.

    If the editor finds something in another file, the model is told only the place.
    """

    def __init__(self, workplace: Workplace, looking: Looking) -> None:
        self._workplace = workplace
        self._looking = looking

    async def diagnostics(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return the problems that the editor reports for a file, or for the whole workspace.

        Raises:
            AishError: there is no such file, or the model may not see it.
        """
        target = await self._file(arguments)
        lookup = Lookup("diagnostics", target.path if target else None)
        return await self._answer(lookup, "The editor has no errors and no warnings there.", around)

    async def symbols(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return what a file defines, or what the workspace defines under a name like ``query``.

        Raises:
            AishError: there is no such file, or neither it nor a query is given.
        """
        target = await self._file(arguments)
        query = text_of(arguments, "query", "")
        if target is None and not query:
            raise InvalidArgument("`query` or `path` is needed.", path="query")
        lookup = Lookup("symbols", target.path if target else None, query)
        return await self._answer(lookup, "Nothing by such a name was found.", around)

    async def definition(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return where the name at a place is defined.

        Raises:
            AishError: there is no such file or place.
        """
        target = await self._file(arguments)
        line, character = number_of(arguments, "line"), number_of(arguments, "character") or 1
        if target is None or line is None:
            raise InvalidArgument("`path` and `line` are needed.", path="path")
        lookup = Lookup("definition", target.path, line=line - 1, character=character - 1)
        return await self._answer(lookup, "No definition was found.", around)

    async def _file(self, arguments: Mapping[str, Any]) -> Place | None:
        """Return the file that is asked about, or None if none is named.

        Raises:
            AishError: there is no such file, or the model may not see it.
        """
        named = text_of(arguments, "path", "")
        if not (await locate(self._workplace.root, named)).name:
            return None
        return (await self._looking.look(named)).place

    async def _answer(self, lookup: Lookup, nothing: str, around: Around) -> ToolResult:
        answer = await self._workplace.look_up(lookup)
        if answer is None:
            raise NotFound("The editor cannot tell: no language server answers there. Use search.")
        root = (await locate(self._workplace.root, "")).path
        inside = {
            one.path.relative_to(root).as_posix() for one in answer if one.path.is_relative_to(root)
        }
        hidden = {name for name in inside if name.startswith(OUTPUTS) or is_secret_file(name)}
        rest = inside - hidden
        hidden |= await self._workplace.files.left_out(rest) if rest else set()
        rows = [_row(one, root, inside - hidden) for one in answer[:_MOST]]
        if not rows:
            return ToolResult(nothing)
        if len(answer) > _MOST:
            rows.append(f"[aish: {len(answer) - _MOST} more]")
        return ToolResult(await bounded("\n".join(rows) + "\n", around, self._workplace))


def _row(one: CodeLocation, root: Path, shown: set[str]) -> str:
    name = one.path.relative_to(root).as_posix() if one.path.is_relative_to(root) else ""
    position = f"{quoted_path(name or str(one.path))}:{one.line + 1}"
    if name not in shown:
        return f"{position} (outside of the project)"
    return f"{position}: {' '.join(one.text.split())[:_SAID]}"


class BuiltInTools:
    """The built-in tools in one session of a workspace."""

    def __init__(self, workplace: Workplace) -> None:
        looking = Looking(workplace)
        changing = Changing(workplace, looking)
        editor = EditorLookups(workplace, looking)
        self._workplace = workplace
        self._work: dict[str, CallTool] = {
            "read_file": looking.read_file,
            "list_files": looking.list_files,
            "search": looking.search,
            "diagnostics": editor.diagnostics,
            "symbols": editor.symbols,
            "definition": editor.definition,
            "edit_file": changing.edit_file,
            "write_file": changing.write_file,
            "run_command": self._run_command,
        }

        self._tools = tuple(
            self._tool(_schema(name, row), reads=row.get("reads", False))
            for name, row in own_tools().items()
            if name in self._work
        )

    def provider(self) -> Provider:
        """Return the tools, always in the same order; some only if the editor can answer."""
        answers = self._workplace.look_up.is_offered()
        tools = (tool for tool in self._tools if answers or not asks_editor(tool.schema.name))
        return Provider(OWN_TOOLS, tuple(tools))

    def _tool(self, schema: ToolSchema, *, reads: bool) -> OfferedTool:
        async def call(arguments: Mapping[str, Any], around: Around) -> ToolResult:
            properties = schema.parameters["properties"]
            if unknown := [one for one in arguments if one not in properties]:
                # If a `file_path` were ignored, the model would think that the result is about it.
                raise InvalidArgument(
                    f"{schema.name} has no argument {shown(unknown[0])}. It takes:"
                    f" {', '.join(properties)}."
                )
            return await self._work[schema.name](arguments, around)

        return OfferedTool(schema, reads, lambda: reads, call)

    async def _run_command(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        cwd = text_of(arguments, "cwd", "") or None
        seconds = number_of(arguments, "timeout")
        return await self._workplace.run(text_of(arguments, "command"), cwd, seconds, around)
