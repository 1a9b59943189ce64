"""The commands that a reply suggests: found while it streams in, and kept until they are run.

A suggestion is a line that begins in column 0 with exactly ``CMD: `` and has something other than
white space after it, inside a fence or not, with the lines below that complete it; or a complete
fenced block that is tagged as a shell's, all of whose lines are one command.

A suggestion is pending until it is run or dismissed. ``needs_approval`` says whether the user must
agree before a command runs, and ``question_for`` what they are asked.
"""

from __future__ import annotations

import difflib
import itertools
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.errors import NotFound
from aish_lsp.foundation.ports import Approval, Question, Remember
from aish_lsp.foundation.text import escaped
from aish_lsp.shell.blocks import (
    PREFIX,
    Block,
    FenceScanner,
    FoundCommand,
    Lines,
    Source,
    is_code,
    is_shell,
    placeholders_of,
    shell_block,
)
from aish_lsp.shell.unfinished import Unfinished, may_be_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aish_lsp.foundation.events import Risk
    from aish_lsp.shell.risk import Verdict


#: The names of the tags of reasoning in angle brackets, some with their maker's name in front.
_NAMES: Final = r"(?:\w{1,8}:)?(?:think(?:ing)?|thought|reasoning(?:_scratchpad)?)"

#: The tags of reasoning in a reply's text, as models spell them: in angle brackets, as [THINK],
#: with triangles, as special tokens; and the channels of gpt-oss, of which the last is the answer.
_REASONING_TAG: Final = re.compile(
    rf"(?P<end></{_NAMES}>|\[/THINK\]|\u25c1/think\u25b7|<\|end_(?:of_)?(?:thought|thinking)\|>"
    r"|<channel\|>|<unused95>"
    r"|(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>)"
    rf"|<{_NAMES}>|\[THINK\]|\u25c1think\u25b7|<\|(?:begin|start)_(?:of_)?(?:thought|thinking)\|>"
    r"|<\|channel>thought\b|<unused94>(?:thought\b)?"
    r"|<\|channel\|>(?:analysis|commentary)\b[^<]{0,80}<\|message\|>",
    re.IGNORECASE,
)


class ReasoningFilter:
    """Leaves the reasoning out of a text that arrives in pieces; its line ends stay.

    Servers that do not tell reasoning apart leave its tags in the text, each model's own. Only
    whole lines are returned, so that no tag is split.

    Attributes:
        began_inside: whether the text began with reasoning whose first tag is missing, since the
            chat template has it: what was returned before was reasoning, too.
    """

    def __init__(self) -> None:
        self.began_inside = False
        self._is_inside = False
        self._lines = Lines()

    def feed(self, delta: str) -> str:
        """Return the lines that ``delta`` completes, without the reasoning in them."""
        return self._outside("".join(f"{line}\n" for line in self._lines.feed(delta)))

    def finish(self) -> str:
        """Return the last line, without the reasoning in it."""
        return self._outside(self._lines.rest)

    def _outside(self, text: str) -> str:
        parts: list[str] = []
        start = 0
        for tag in _REASONING_TAG.finditer(text):
            piece = text[start : tag.start()]
            if not self._is_inside and piece.rpartition("\n")[2].strip():
                continue  # The answer is about the tag.
            if tag["end"] and not self._is_inside:
                self.began_inside = True
                parts = ["\n" * "".join([*parts, piece]).count("\n")]
            else:
                parts.append("\n" * piece.count("\n") if self._is_inside else piece)
            start, self._is_inside = tag.end(), not tag["end"]
        rest = text[start:]
        return "".join([*parts, "\n" * rest.count("\n") if self._is_inside else rest])


def without_reasoning(text: str) -> str:
    """Return ``text`` without its reasoning, even if one of a block's tags is missing."""
    parts: list[str] = []
    start, inside = 0, False
    for tag in _REASONING_TAG.finditer(text):
        if tag["end"]:
            if not inside:
                # The chat template began it.
                parts.clear()
            start, inside = tag.end(), False
        elif not inside:
            parts.append(text[start : tag.start()])
            inside = True
    if not inside:
        parts.append(text[start:])
    return "".join(parts)


def suggestions_of(text: str) -> list[FoundCommand]:
    """Return what a whole reply suggests; a line that repeats a fence replaces it.

    Its reasoning suggests nothing.
    """
    scanner, outside = SuggestionScanner(), ReasoningFilter()
    text = outside.feed(text) + outside.finish()
    commands: list[FoundCommand] = []
    for command in [*scanner.feed(text), *scanner.finish()]:
        add(commands, command)
    return commands


def suggestions_in(lines: Sequence[str]) -> Iterator[FoundCommand]:
    """Yield what the ``CMD: `` lines of a document suggest; its fences suggest nothing."""
    end = -1
    for number, line in enumerate(lines):
        if number <= end or not line.startswith(PREFIX):
            continue
        text = line[len(PREFIX) :]
        if not may_be_unfinished(text):
            # Most lines are complete, and a document may have a million.
            if text.strip():
                yield FoundCommand(text.removesuffix("\r"), number)
            continue
        scanner = SuggestionScanner(fences=False)
        for below in itertools.islice(lines, number, None):
            if commands := scanner.feed(f"{below}\n"):
                break
        for command in (commands or scanner.finish())[:1]:
            end = number + command.lines - 1
            yield replace(command, line=number)


def add(commands: list[FoundCommand], command: FoundCommand) -> int:
    """Add ``command``, or replace the fence that it repeats; return its index."""
    for index, other in enumerate(commands):
        if command.repeats(other):
            commands[index] = command
            return index
    commands.append(command)
    return len(commands) - 1


#: What ends a command that is in the middle of a quote, a group or a loop: a blank line, another
#: command, a heading. So does a fence.
ENDS_COMMAND: Final = re.compile(rf"\s*$|{re.escape(PREFIX)}|#{{1,6}}\s")


class SuggestionScanner:
    r"""Scans a text that arrives in pieces; how it was split makes no difference.

    Only ``\n`` ends a line. One ``\r`` right before the line end, or at the end of the text,
    belongs to the line end. Any other ``\r`` stays in the command, where it is visible: a terminal
    would print what follows it over what precedes it.

    A command goes on in the lines below its ``CMD: `` line if that ends in a backslash or begins a
    here-document. If it ends in a quote, a group or a loop, it goes on if it is complete before the
    next blank line, ``CMD: `` line, fence or heading. One that is not completed can only be edited.

    With ``fences`` false, fences suggest nothing.
    """

    def __init__(self, *, fences: bool = True) -> None:
        self._line = -1
        self._lines = Lines()
        self._fences = FenceScanner(is_shell if fences else lambda _: False)
        self._given: set[str] = set()
        # The command whose lines are not complete yet, and its first line.
        self._command: Unfinished | None = None
        self._first = 0

    def feed(self, delta: str) -> list[FoundCommand]:
        """Take the next piece of the text; return the commands whose last lines it completes."""
        return [command for line in self._lines.feed(delta) for command in self._take(line)]

    def finish(self) -> list[FoundCommand]:
        """Return what a last line without a line end suggests; the text is over."""
        commands = [*self._take(line)] if (line := self._lines.rest) else []
        return commands if self._command is None else [*commands, self._give(self._command)]

    def _take(self, line: str) -> Iterator[FoundCommand]:
        """Take the next line; yield the commands that are complete by it."""
        self._line += 1
        was_in_fence = self._fences.is_open
        # What a here-document holds begins no block, unless it is in one itself.
        in_heredoc = self._command is not None and self._command.in_heredoc
        block = self._fences.take("" if in_heredoc and not was_in_fence else line)
        is_fence = was_in_fence != self._fences.is_open
        line = line.removesuffix("\r")
        if self._command is not None:
            if not is_fence and (in_heredoc or not ENDS_COMMAND.match(line)):
                self._command.add(line)
                if not (self._command.missing and self._command.may_go_on):
                    yield self._give(self._command)
                return
            yield self._give(self._command)
        text = line.removeprefix(PREFIX)
        if text != line and text.strip():
            self._command, self._first = Unfinished(text), self._line
            if not self._command.missing or not self._command.may_go_on:
                yield self._give(self._command)
        if block is not None and (found := self._in(block)) is not None:
            yield found

    def _give(self, command: Unfinished) -> FoundCommand:
        """Return a command that is complete, or never will be: then it is to be edited."""
        self._command = None
        lines = command.lines
        if command.missing and command.in_quote:
            # What follows the quote may be prose.
            lines = lines[:1]
        text = "\n".join(lines)
        self._given.add(text.strip())
        missing = [command.missing] if command.missing else []
        # What a here-document holds is to be written as it is. Other forms may be meant on a line.
        named = placeholders_of(lines[0] if "<<" in text else text)
        placeholders = (*missing, *(one for one in named if one.startswith("<")))
        return FoundCommand(text, self._first, len(lines), placeholders=placeholders)

    def _in(self, block: Block) -> FoundCommand | None:
        """Return the command of a block, unless ``CMD: `` lines have already given it.

        A block in which another seems to begin lacks its end, and may contain prose: it is skipped.
        """
        if any(line.lstrip().startswith(block.fence) for line in block.text.split("\n")):
            return None
        command = shell_block(block.info, block.text, block.first)
        return None if command is None or self._is_given(command.text) else command

    def _is_given(self, text: str) -> bool:
        """Return whether ``CMD: `` lines in the block or before it give the same commands."""
        lines = filter(is_code, text.split("\n"))
        return text.strip() in self._given or all(line.strip() in self._given for line in lines)


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A suggested command, of one line or, in a fence, of several.

    ``line`` and ``endLine`` are its first and last line in the reply's text, from 0, those of its
    fence included. With ``placeholders`` it is to be edited before it can run.
    """

    id: str
    text: str
    line: int
    end_line: int
    source: Source
    placeholders: tuple[str, ...]
    risk: Risk
    reasons: tuple[str, ...] = ()


def info_of(
    found: FoundCommand, command_id: str, verdict: Verdict, obstacle: str = ""
) -> CommandInfo:
    """Return what front ends show; ``obstacle`` says why the shell cannot be used."""
    return CommandInfo(
        id=command_id,
        text=found.text,
        line=found.line,
        end_line=found.end_line,
        source=found.source,
        placeholders=found.placeholders,
        risk=verdict.risk,
        reasons=(*verdict.reasons, obstacle) if obstacle else verdict.reasons,
    )


@dataclass(frozen=True, slots=True)
class Command:
    """A suggestion of the reply is complete: its ``CMD: `` line, or its fence."""

    kind: ClassVar[str] = "command"
    command: CommandInfo


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of a running command's output."""

    kind: ClassVar[str] = "output"
    command_id: str
    stream: Literal["stdout", "stderr"]
    delta: str


#: Suggestions that are kept; older ones are dropped first.
KEPT = 200


def new_id() -> str:
    """Return an id that no other session uses: a stale one must never name another command."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A pending suggestion.

    Attributes:
        info: what front ends show.
        turn_id: the turn that it came from.
        number: its place among the suggestions of that turn, from 1.
        shell: the shell that it is for; empty for the user's own.
        obstacle: why that shell cannot be used here; empty if it can.
        unconfined: whether it is to run without confinement.
    """

    info: CommandInfo
    turn_id: str
    number: int
    shell: str = ""
    obstacle: str = ""
    unconfined: bool = False

    @property
    def runs(self) -> bool:
        """Whether it can be run unchanged."""
        return not self.obstacle and not self.info.placeholders


class PendingCommands:
    """The pending suggestions by id, oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[str, Suggestion] = {}
        self._numbered: dict[str, int] = {}

    def add(
        self,
        found: FoundCommand,
        turn_id: str,
        verdict: Verdict,
        *,
        command_id: str | None = None,
        number: int = 0,
        obstacle: str = "",
        unconfined: bool = False,
    ) -> CommandInfo:
        """Keep a suggestion; return it with its id and its risk.

        With ``command_id`` it replaces the suggestion with that id. With ``number`` too, it comes
        from an earlier run and keeps the number that it had. ``unconfined`` says that it is to run
        without confinement, whatever its risk.
        """
        info = info_of(found, command_id or new_id(), verdict, obstacle)
        before = self._waiting.get(info.id)
        number = number or (before.number if before else self._next_number(turn_id))
        self._waiting[info.id] = Suggestion(
            info, turn_id, number, found.shell, obstacle, unconfined
        )
        while len(self._waiting) > KEPT:
            self.remove(next(iter(self._waiting)))
        return info

    def _next_number(self, turn_id: str) -> int:
        number = self._numbered.get(turn_id, 0) + 1
        # Only the latest turn needs new numbers.
        self._numbered = {turn_id: number}
        return number

    def suggestion(self, command_id: str) -> Suggestion:
        """Return a suggestion with everything known about it.

        Raises:
            NotFound: it never existed, was run, or was dismissed.
        """
        waiting = self._waiting.get(command_id)
        if waiting is None:
            near = difflib.get_close_matches(command_id, self._waiting, n=3, cutoff=0.5)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise NotFound(f"No suggested command {command_id[:40]!r} is waiting.{hint}")
        return waiting

    def get(self, command_id: str) -> CommandInfo:
        """Return a suggestion.

        Raises:
            NotFound: as ``suggestion``.
        """
        return self.suggestion(command_id).info

    def remove(self, command_id: str) -> None:
        """Forget a suggestion that was run or dismissed, if it is not already gone."""
        self._waiting.pop(command_id, None)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self._waiting.values())

    def all(self) -> list[CommandInfo]:
        """Return what front ends show of each suggestion, oldest first."""
        return [waiting.info for waiting in self._waiting.values()]

    def of_turn(self, turn_id: str) -> list[Suggestion]:
        """Return the pending suggestions of one turn."""
        return [waiting for waiting in self._waiting.values() if waiting.turn_id == turn_id]

    def clear(self) -> None:
        """Forget all suggestions."""
        self._waiting.clear()
        self._numbered.clear()


#: Where a command's text comes from: one of our replies, the user's typing, or a document.
Origin = Literal["reply", "user", "document"]

#: Characters of a command that a menu shows: whoever clicked a longer one did not see all of it.
LINE_OF_SIGHT: Final = 80


def needs_approval(text: str, verdict: Verdict, origin: Origin, *, always: bool) -> bool:
    """Return whether the user is to be asked before ``text`` runs.

    They are asked about any line of a document, which may be a stranger's, and about any
    destructive command. What a reply suggests runs at the user's click if they could see all of it.
    With ``always`` they are asked about everything.
    """
    if always or origin == "document" or verdict.risk == "destructive":
        return True
    return origin == "reply" and not verdict.only_reads and not _seen_whole(text)


def without_confinement(verdict: Verdict) -> Verdict:
    """Return the verdict on a command that is to run again, this time without confinement."""
    reason = "it would run without confinement"
    if verdict.only_reads:
        return replace(verdict, risk="caution", reasons=(reason,))
    return replace(verdict, reasons=(reason, *verdict.reasons))


def question_for(
    text: str,
    folder: Path,
    verdict: Verdict,
    origin: Origin,
    shell: str = "",
    *,
    undo: str = "",
    covers: Sequence[str] = (),
    works: bool = False,
) -> Question:
    """Return the question, which shows exactly what would run, where, and why the user is asked.

    Args:
        text: the command.
        folder: where it would run.
        verdict: what could happen, and why.
        origin: where the text comes from.
        shell: what runs it, if that is not the user's own.
        undo: a sentence on what an undo could do.
        covers: what is covered if a yes is remembered; nothing if it cannot be.
        works: whether what is covered would run in the profile ``work``.
    """
    reasons = list(verdict.reasons)
    if origin == "document":
        reasons.append("it ran before, or is text in a document: no suggestion waits there")
    elif origin == "reply" and not _seen_whole(text):
        reasons.append("it is long, or has several lines: see all of it here")
    # Indented, so that no line of the command looks like ours about the folder and the reasons.
    lines = [f"    {escaped(line)}" for line in text.split("\n")]
    by = f", by {escaped(shell)}" if shell else ""
    where = ["", f"in {escaped(str(folder))}{by}", *(f"- {escaped(reason)}." for reason in reasons)]
    covered = "; ".join(map(escaped, covers))
    more = [f"Remembered, a yes covers: {covered}"] if covered not in ("", text) else []
    more = ["", undo, *more] if undo else more
    message = "\n".join([f"Run this command ({verdict.risk})?", "", *lines, *where, *more])
    approval = Approval(
        "command", text, folder, verdict.risk, tuple(reasons), undo=undo, covers=covered
    )
    return Question(message, "Run", approval=approval, remember=_remembered(covers, works=works))


def _remembered(covers: Sequence[str], *, works: bool) -> Mapping[Remember, str]:
    """Return how long a yes may be remembered, each with its label."""
    again = "Run, and don't ask again in this"
    if not covers:
        return {}
    if works:
        return {"session": f"{again} session", "folder": f"{again} folder"}
    return {"session": f"{again} session (unconfined)"}


def _seen_whole(text: str) -> bool:
    return "\n" not in text and len(escaped(text)) <= LINE_OF_SIGHT
