"""The tools that ask the editor about the code: problems, symbols, and where a name is defined."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aish_lsp.foundation.errors import InvalidArgument, NotFound
from aish_lsp.foundation.ports import Lookup
from aish_lsp.foundation.redaction import is_secret_file
from aish_lsp.foundation.text import shown_path
from aish_lsp.tools.calling import ToolResult
from aish_lsp.tools.workplace import OUTPUTS, Place, bounded, locate, number_of, text_of

if TYPE_CHECKING:
    from aish_lsp.foundation.ports import Found
    from aish_lsp.tools.calling import Around
    from aish_lsp.tools.reading import Looking
    from aish_lsp.tools.workplace import Workplace

#: Places that an answer tells at most, and characters of what is said of one.
_MOST: Final = 200
_SAID: Final = 300


class EditorLookups:
    """Asks the editor on a model's behalf, about files that the model may read.

    Of what the editor finds elsewhere the model is told the place alone.
    """

    def __init__(self, workplace: Workplace, looking: Looking) -> None:
        self._at = workplace
        self._looking = looking

    async def diagnostics(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return the problems that the editor has for a file, or for the whole workspace.

        Raises:
            AishError: there is no such file, or the model may not see it.
        """
        place = await self._file(arguments)
        lookup = Lookup("diagnostics", place.path if place else None)
        return await self._answer(lookup, "The editor has no errors and no warnings there.", around)

    async def symbols(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return what a file defines, or what the workspace does by a name like ``query``.

        Raises:
            AishError: there is no such file, or neither it nor a query is given.
        """
        place = await self._file(arguments)
        query = text_of(arguments, "query", "")
        if place is None and not query:
            raise InvalidArgument("`query` or `path` is needed.", path="query")
        lookup = Lookup("symbols", place.path if place else None, query)
        return await self._answer(lookup, "Nothing by such a name was found.", around)

    async def definition(self, arguments: Mapping[str, Any], around: Around) -> ToolResult:
        """Return where the name at a place is defined.

        Raises:
            AishError: there is no such file or place.
        """
        place = await self._file(arguments)
        line, character = number_of(arguments, "line"), number_of(arguments, "character", 1)
        if place is None or line is None:
            raise InvalidArgument("`path` and `line` are needed.", path="path")
        assert character is not None
        lookup = Lookup("definition", place.path, line=line - 1, character=character - 1)
        return await self._answer(lookup, "No definition was found.", around)

    async def _file(self, arguments: Mapping[str, Any]) -> Place | None:
        """Return the file that is asked about; None where none is named.

        Raises:
            AishError: there is no such file, or the model may not see it.
        """
        named = text_of(arguments, "path", "")
        place = await locate(self._at.root, named)
        if not place.name:
            return None
        await self._looking.may_be_read(place, named)
        return place

    async def _answer(self, lookup: Lookup, nothing: str, around: Around) -> ToolResult:
        found = await self._at.look_up(lookup)
        if found is None:
            raise NotFound("The editor cannot tell: no language server answers there. Use search.")
        root = (await locate(self._at.root, "")).path
        inside = {
            one.path.relative_to(root).as_posix() for one in found if one.path.is_relative_to(root)
        }
        hidden = {name for name in inside if name.startswith(OUTPUTS) or is_secret_file(name)}
        rest = inside - hidden
        hidden |= await self._at.files.left_out(rest) if rest else set()
        rows = [_row(one, root, inside - hidden) for one in found[:_MOST]]
        if not rows:
            return ToolResult(nothing)
        if len(found) > _MOST:
            rows.append(f"[aish: {len(found) - _MOST} more]")
        return ToolResult(await bounded("\n".join(rows) + "\n", around, self._at))


def _row(one: Found, root: Path, shown: set[str]) -> str:
    name = one.path.relative_to(root).as_posix() if one.path.is_relative_to(root) else ""
    place = f"{shown_path(name or str(one.path))}:{one.line + 1}"
    if name not in shown:
        return f"{place} (outside of the project)"
    return f"{place}: {' '.join(one.text.split())[:_SAID]}"
