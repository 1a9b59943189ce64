"""Markdown as text for a terminal, block by block as it arrives: words wrapped, code coloured.

rich renders each block as soon as it is finished, and what it renders is written here: visible
characters and the attributes of text, nothing else. Whatever a reply says, it cannot send a control
sequence or a link to the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Final

from markdown_it import MarkdownIt
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, ListItem, Markdown
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.theme import Theme

from aish_lsp.cli.blocks import Block, CommandBlock, suggestion
from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import visible
from aish_lsp.shell.blocks import PREFIX, is_shell
from aish_lsp.shell.suggestions import ENDS_COMMAND, Suggestion
from aish_lsp.shell.unfinished import Unfinished

#: Lines of a table and of a paragraph that are rendered together.
_MOST_LINES: Final = 100
#: Lines of code before a line that decide how it is coloured.
_LINES_BEFORE: Final = 30
#: Characters of a block, and of a line of code, that are shown as they are if there are more.
_MOST: Final = 16_384
_MOST_OF_CODE: Final = 2_000

_FENCE: Final = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)")
_ITEM: Final = re.compile(r"(?:[-+*]|(?P<number>\d{1,9})[.)])(?:\s|$)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:\s|$)")
#: Quotes and lists in each other, more deeply than the parser follows them.
_DEEP: Final = re.compile(r"^(?:[ \t]*(?:[>*+-]|\d+[.)])){12}|^ {40}", re.MULTILINE)
_DELIMITER: Final = re.compile(r"[\s|:-]*-[\s|:-]*")

_THEME: Final = Theme(
    {
        "markdown.code": "cyan",
        "markdown.block_quote": "dim",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.hr": "dim",
        "markdown.item.number": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_CODE_INDENT: Final = "    "

# HTML and references are text here, and images are links: nothing of a text is left out.
_PARSER: Final = MarkdownIt("commonmark", {"html": False})
_PARSER.enable(["strikethrough", "table"]).disable(["image", "reference"])


class _Heading(Heading):
    LEVEL_ALIGN = {}  # noqa: RUF012 - as rich has it: all are at the left


class _Item(ListItem):
    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        """Render a numbered item; rich leaves the dot out, for which a column more is made."""
        shown = [*super().render_number(console, options, number, last_number * 10)]
        if not shown:  # An item without a text.
            yield Segment(f"{number}.".rjust(len(str(last_number * 10)) + 1))
            yield Segment.line()
            return
        numeral, *rest = shown
        assert isinstance(numeral, Segment)
        yield numeral._replace(text=f"{number}. ".rjust(len(numeral.text)))
        yield from rest


class _Markdown(Markdown):
    elements = {  # noqa: RUF012 - as rich has it
        **Markdown.elements,
        "heading_open": _Heading,
        "list_item_open": _Item,
    }


@dataclass(slots=True)
class _Code:
    """A block of code that is open: its fence, its tag, its indent.

    ``lines`` are its latest ones, the first of which are ``shown``.
    """

    fence: str
    info: str
    indent: int
    lines: list[str] = field(default_factory=list)
    shown: int = 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class Renderer:
    """Renders Markdown that arrives in pieces, a block as soon as it is finished.

    ``width`` returns the columns of the terminal, which may change. Without ``colours`` the text
    has no attributes at all. With ``commands`` what may be a suggestion is told apart.
    """

    def __init__(self, width: Callable[[], int], *, colours: bool, commands: bool = False) -> None:
        self._width, self._has_colours, self._tells_commands = width, colours, commands
        self._console = Console(force_terminal=True, theme=_THEME, highlight=False, width=80)
        self._rest = ""
        self._lines: list[str] = []
        self._code: _Code | None = None
        self._command: Unfinished | None = None
        # Whether something was shown, whether a blank line is due, and whether a list is open.
        self._has_shown = self._is_apart = self._in_list = False

    def for_reply(self) -> Renderer:
        """Return a renderer for a reply, which tells what may be a suggestion apart."""
        return Renderer(self._width, colours=self._has_colours, commands=True)

    def feed(self, text: str) -> Iterator[Block]:
        """Yield the blocks that ``text`` completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            yield from self._line(visible(line.rstrip("\r")))
        if len(self._rest) > _MOST:
            line, self._rest = self._rest, ""
            yield from self._line(visible(line))
        if self._code:
            yield from self._code_so_far(self._code)

    def finish(self) -> Iterator[Block]:
        """Yield what is left of the text, which has ended."""
        line, self._rest = self._rest, ""
        if line:
            yield from self._line(visible(line.rstrip("\r")))
        yield from self._end_command()
        yield from self._flush()
        if self._code:
            yield from self._end_code(self._code)
        self._is_apart = self._in_list = False

    def whole(self, text: str) -> str:
        """Return a whole text, rendered."""
        blocks = [*self.feed(text), *self.finish()]
        return "".join(block for block in blocks if isinstance(block, str))

    def _line(self, line: str) -> Iterator[Block]:
        if self._code:
            yield from self._code_line(self._code, line)
            return
        fence = _FENCE.fullmatch(line)
        is_command = self._tells_commands and line.startswith(PREFIX) and line != PREFIX
        if self._command:
            if self._command.in_heredoc or not (fence or ENDS_COMMAND.match(line)):
                self._command.add(line)
                yield from self._end_command(unless_open=True)
                return
            yield from self._end_command()
        if fence and self._opens(fence):
            yield from self._flush()
            self._code = _Code(fence["fence"], fence["info"].strip(), len(fence["indent"]))
        elif is_command:
            yield from self._flush()
            self._command = Unfinished(line.removeprefix(PREFIX))
            yield from self._end_command(unless_open=True)
        elif not line.strip():
            yield from self._flush()
            self._is_apart = True
        else:
            yield from self._text_line(line)

    def _opens(self, fence: re.Match[str]) -> bool:
        """Return whether a line opens a block of code here: in a list, it may be indented."""
        return (self._is_in_list or len(fence["indent"]) < 4) and (
            fence["fence"][0] == "~" or "`" not in fence["info"]
        )

    @property
    def is_in_code(self) -> bool:
        """Whether a block of code is open."""
        return self._code is not None

    @property
    def _is_in_list(self) -> bool:
        """Whether the next line may belong to a list, which was shown or is still open."""
        return self._in_list or bool(self._lines and _ITEM.match(self._lines[0]))

    def _text_line(self, line: str) -> Iterator[Block]:
        item = None if _DELIMITER.fullmatch(line) else _ITEM.match(line)
        if item and (self._is_in_list or item["number"] in {None, "1"}):
            # An item of a list ends the one before it.
            yield from self._flush()
        self._lines.append(line)
        if _HEADING.match(line):
            *before, heading = self._lines
            self._lines = before
            yield from self._flush()
            self._lines = [heading]
            yield from self._flush()
        elif len(self._lines) >= _MOST_LINES:
            is_table = "|" in self._lines[0] and _DELIMITER.fullmatch(self._lines[1])
            head = self._lines[:2] if is_table else []
            yield from self._flush()
            self._lines = head

    def _flush(self) -> Iterator[Block]:
        """Yield the text up to here."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        indent = _indent(lines[0])
        if not indent:
            self._in_list = bool(_ITEM.match(lines[0]))
        elif self._in_list:
            # It belongs to an item that has been shown: as a text of its own it is none of code.
            lines = [line[min(indent, _indent(line)) :] for line in lines]
            yield self._before() + self._rendered(lines, min(indent, 12))
            return
        yield self._before() + self._rendered(lines, 0)

    def _before(self) -> str:
        """Return the blank line between two blocks, if there is to be one."""
        before = "\n" if self._is_apart and self._has_shown else ""
        self._has_shown, self._is_apart = True, False
        return before

    def _rendered(self, lines: list[str], indent: int) -> str:
        text = "\n".join(lines)
        if len(text) > _MOST or _DEEP.search(text):
            return f"{text}\n"
        markdown = _Markdown("", hyperlinks=False)
        markdown.parsed = _PARSER.parse(text)
        # What is quoted is mostly output: its lines stay lines, and so do commands.
        has_rows = text.lstrip().startswith(">") or any(line.startswith(PREFIX) for line in lines)
        for token in markdown.parsed:
            for child in token.children or ():
                if child.type == "softbreak" and has_rows:
                    child.type = "hardbreak"
                elif child.type == "code_inline" and not self._has_colours:
                    child.content = f"`{child.content}`"
        width = max(self._width() - indent, 20)
        options = self._console.options.update(width=width)
        rows = self._rows(self._console.render(markdown, options))
        while rows and not rows[-1]:
            rows.pop()
        while rows and not rows[0]:
            del rows[0]
        return "".join(f"{' ' * indent if row else ''}{row}\n" for row in rows)

    def _rows(self, segments: Iterable[Segment]) -> list[str]:
        """Return the lines of what was rendered, without blanks at their ends."""
        rows = []
        for line in Segment.split_lines(segments):
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                last = line.pop()
                line.append(last._replace(text=last.text.rstrip(" ")))
            rows.append(
                "".join(self.styled(text, style) for text, style, control in line if not control)
            )
        return rows

    def styled(self, text: str, style: str | Style | None) -> str:
        """Return ``text``, on one line or with tabs, with the attributes of a style: no others."""
        text = visible(text)
        if style is None or not self._has_colours or not text:
            return text
        style = Style.parse(style) if isinstance(style, str) else style.update_link(None)
        return style.render(text, color_system=ColorSystem.STANDARD)

    def _code_line(self, code: _Code, line: str) -> Iterator[Block]:
        closing = line.strip()
        if closing.startswith(code.fence) and not closing.strip(code.fence[0]):
            yield from self._end_code(code)
            return
        code.lines.append(line[min(code.indent, _indent(line)) :])

    def _code_so_far(self, code: _Code) -> Iterator[Block]:
        """Yield the new lines of a block of code at once, unless the block may be a suggestion.

        Each line is coloured as what follows the few before it.
        """
        if self._may_be_command(code) or code.shown == len(code.lines):
            return
        yield self._before() + self._coloured(code)
        code.lines = code.lines[-_LINES_BEFORE:]
        code.shown = len(code.lines)

    def _end_code(self, code: _Code) -> Iterator[Block]:
        self._code = None
        if self._may_be_command(code):
            yield CommandBlock(code.lines, self._before(), code.info)
        else:
            yield from self._code_so_far(code)
        self._is_apart = True

    def _may_be_command(self, code: _Code) -> bool:
        return self._tells_commands and is_shell(code.info)

    def _end_command(self, *, unless_open: bool = False) -> Iterator[Block]:
        command = self._command
        if command and not (unless_open and command.missing and command.may_go_on):
            self._command = None
            yield CommandBlock(command.lines, self._before())

    def _coloured(self, code: _Code) -> str:
        """Return the lines of a block of code that were not shown yet."""
        lines = code.lines[code.shown :]
        if self._has_colours and max(map(len, lines)) <= _MOST_OF_CODE:
            lexer = code.info.split()[0] if code.info else "text"
            text = Syntax("", lexer, theme="ansi_dark").highlight("\n".join(code.lines))
            rows = self._rows(text.render(self._console, end="\n"))
            lines = rows[code.shown : len(code.lines)]
        return "".join(f"{_CODE_INDENT}{line}\n" for line in lines)

    def plain(self, command: CommandBlock) -> str:
        """Return what turned out to suggest nothing."""
        if not command.info:
            rows = [f"{PREFIX}{command.lines[0]}", *command.lines[1:]]
            return command.before + "".join(f"{row}\n" for row in rows)
        return command.before + "".join(f"{_CODE_INDENT}{line}\n" for line in command.lines)

    def suggested(self, command: CommandBlock, one: Suggestion) -> str:
        """Return what a suggestion is shown as in place of the lines that it comes from."""
        rows = suggestion(one, self.styled)
        if not command.info:
            rest = command.lines[len(one.info.text.split("\n")) :]
            return command.before + rows + "".join(f"{line}\n" for line in rest)
        if "\n".join(command.lines).strip() == one.info.text.strip():
            return command.before + rows
        # A session at a terminal also has what was printed.
        return self.plain(command) + rows

    def difference(self, text: str) -> str:
        """Return a text with the lines of a diff that is indented in it coloured."""
        styles = {f"{_CODE_INDENT}+": "green", f"{_CODE_INDENT}-": "red"}
        return "\n".join(self.styled(line, styles.get(line[:5])) for line in text.split("\n"))
