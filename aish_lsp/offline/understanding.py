"""What a conversation asks for: one intent or several, or a variation of what was asked before.

``read_question`` returns the last message and its context, ``read`` what it means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.models.request import RequestMessage
from aish_lsp.offline.deeds import INQUIRES, risk_of, tells
from aish_lsp.offline.matching import PERHAPS, THRESHOLD, are_names, understood
from aish_lsp.offline.names import is_verb
from aish_lsp.offline.overlay import Match
from aish_lsp.offline.ranking import ranking
from aish_lsp.offline.results import Ran
from aish_lsp.offline.spelling import corrected
from aish_lsp.offline.table import FREE, SLOT, kind_of
from aish_lsp.offline.tokens import Token, cut, is_name
from aish_lsp.offline.words import group, pattern, words
from aish_lsp.offline.workspace import WorkspaceFacts

#: The most characters of a question that are read.
_QUESTION_LIMIT = 2000

#: The most user messages that are read.
_MESSAGES: Final = 12

#: The head of a block as the prompt writes it; no line of an output begins in this way.
_HEAD = re.compile(r"^\[exec output\]\n\$ (.*) \(exit (-?\d+)\)$", re.MULTILINE)

#: The head of the text that the question is about, which follows the output, and its whole block.
_ABOUT = re.compile(r"^\[(?:selection|definition|problems|file)\] ", re.MULTILINE)
_BLOCK = re.compile(rf"{_ABOUT.pattern}.*\n(`{{3,}}).*\n(?:.*\n)*?\1$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """The last user message: its text, the last command run, and how the two are related.

    ``ran_since`` says that the command was run after the previous message. ``earlier`` has the
    previous questions, the oldest first.
    """

    text: str
    ran: Ran | None = None
    ran_since: bool = False
    earlier: tuple[str, ...] = ()


def read_question(messages: Sequence[RequestMessage]) -> TypedQuestion:
    """Return what the last user message asks."""
    contents = [message.content for message in messages if message.role == "user"]
    if not contents:
        return TypedQuestion("")
    ran, text = _split(contents[-1])
    before = [_split(content) for content in contents[-_MESSAGES:-1]]
    known = ran or next((command for command, _ in reversed(before) if command), None)
    earlier = tuple(_readable(said) for _, said in before)
    return TypedQuestion(_readable(text), known, ran is not None, earlier)


#: What a command cannot contain; JSON may contain half a surrogate pair.
_NOT_IN_COMMANDS: Final = re.compile("[\0\ud800-\udfff]")


def _readable(text: str) -> str:
    """Return the part of a question that is read, without what a command cannot contain."""
    return _NOT_IN_COMMANDS.sub("", text[:_QUESTION_LIMIT])


def _split(content: str) -> tuple[Ran | None, str]:
    """Return the last command whose output a user message contains, and the message's own text.

    After an output, which may contain blank lines, the last paragraph is the text. The blocks that
    the question is about are fenced and left out.
    """
    about = _ABOUT.search(content)
    heads = list(_HEAD.finditer(content, 0, about.start() if about else len(content)))
    if not (heads and heads[0].start() == 0) and not (about and about.start() == 0):
        return None, content.strip()
    before, _, text = content.rstrip().rpartition("\n\n")
    if about:
        before, text = content[: about.start()], _BLOCK.sub("", content[about.start() :])
    if not heads:
        return None, text.strip()
    head = heads[-1]
    return Ran(head[1], int(head[2]), before[head.end() :].strip("\n")), text.strip()


#: The most earlier questions that a follow-up may refer to.
_EARLIER: Final = 6

#: At this confidence or above, a question counts as one, even with an "and" in it.
_SURELY_ONE: Final = 0.85

#: The confidence that each of several things needs, since that there are several is also a guess.
_SURELY_ASKED: Final = 0.75

#: What is added to the confidence in the second of two things if it uses the program of the first.
_GOING_ON: Final = 0.4

_MOST_SPLITS: Final = 8

#: A question of so many words is long. From such a probability on, what loses nothing may be meant
#: by it although it explains just this part of it.
_LONG: Final = 12
_MOST_LIKELY: Final = 0.8
_EXPLAINS_HALF: Final = 0.5
#: The most weight of words that what may be meant leaves unexplained, and the least likeness to it.
_MOST_UNEXPLAINED: Final = 1.2
_LEAST_LIKE: Final = 0.3
#: The most weight of words that only it has, unless it is worded like this.
_MOST_MISSING: Final = 2.5
_ALIKE: Final = 0.6
#: The part of a question that it has to explain otherwise.
_SAYS_IT: Final = 0.85

#: Actions that take the output of the command that was suggested last.
_OF_ANY_OUTPUT: Final = {"count": " | wc -l", "sort": " | sort", "save": " > {file9}"}


@dataclass(frozen=True, slots=True)
class Reading:
    """What was understood, or else what may be meant, the likeliest first."""

    meant: tuple[Match, ...]
    perhaps: tuple[Match, ...] = ()


def read(
    text: str, earlier: Sequence[str], workspace: WorkspaceFacts, *, is_long: bool = False
) -> Reading:
    """Return what ``text`` asks for; ``earlier`` has the previous questions, the oldest first.

    ``is_long`` says that it is the request of a long question.
    """
    text = corrected(text, workspace)
    if earlier and any(pattern(one).search(text) for one in ("goes_on", "pronoun", "some_of_them")):
        before = read(earlier[-1], earlier[:-1][-_EARLIER:], workspace)
        if before.meant:
            going_on = _following(text, before.meant[-1], workspace)
            if going_on is not None:
                return Reading((going_on,))
            return _by_itself_or_both(text, earlier[-1], before.meant[-1], workspace)
    return _by_itself(text, workspace, is_long=is_long)


def _by_itself_or_both(
    text: str, earlier: str, before: Match, workspace: WorkspaceFacts
) -> Reading:
    """Return what ``text`` asks for if it has a verb, or else together with the question before.

    By itself, "only main.py" says nothing.
    """
    start = pattern("goes_on").match(text)
    rest = text[start.end() :] if start else text
    alone = _by_itself(rest, workspace)
    asks = INQUIRES.match(rest) or any(is_verb(token) for token in cut(rest, workspace))
    if asks and alone.meant:
        return alone
    found = _matches(f"{earlier.rstrip('?.! ')} {rest}", workspace)
    if found and found[0].confidence >= THRESHOLD and not found[0].ignored:
        kept = set(before.values.values()) <= set(found[0].values.values())
        if kept and _programs(found[0]) & _programs(before):
            return Reading((found[0],))
    is_sure = alone.meant and alone.meant[0].confidence >= _SURELY_ONE
    return alone if asks or is_sure else Reading(())


def _by_itself(text: str, workspace: WorkspaceFacts, *, is_long: bool = False) -> Reading:
    whole = _matches(text, workspace)
    sure = whole[0].confidence if whole else 0.0
    if sure < _SURELY_ONE:
        parts = _in_parts(text, workspace, sure)
        if parts:
            return Reading(tuple(parts))
    if sure >= THRESHOLD:
        return Reading((whole[0],))
    is_long = is_long or len(text.split()) >= _LONG
    return Reading((), tuple(one for one in whole if _may_be_meant(one, is_long=is_long)))


def _may_be_meant(match: Match, *, is_long: bool) -> bool:
    """Return whether an intent is likely enough to be shown beside another one.

    Not if it can lose something, leaves out what the question names, does not know a telling word
    of it, or takes a word for a name that may be none. It has to be worded like the question, or,
    if it changes nothing, to say nearly all of it and no more. Of a long question, which tells
    much besides, half is enough if nothing else is likely.
    """
    found, risk = match.evidence, risk_of(match.intent)
    says_it = risk == "safe" and found["coverage"] >= _SAYS_IT and not found["missing"]
    if (
        is_long
        and risk != "destructive"
        and found.get("likely", 0.0) >= _MOST_LIKELY
        and found["coverage"] >= _EXPLAINS_HALF
        and not (match.ignored or found["missing"] or found["unfilled"])
        and are_names(match.values)
    ):
        return True
    return (
        match.confidence >= PERHAPS
        and risk != "destructive"
        and found["unknown"] <= _MOST_UNEXPLAINED
        and found["like"] >= _LEAST_LIKE
        and (found["missing"] <= _MOST_MISSING or found["likeness"] > _ALIKE)
        and (found["likeness"] >= _LEAST_LIKE or says_it)
        and not match.ignored
        and are_names(match.values)
    )


def _matches(text: str, workspace: WorkspaceFacts) -> list[Match]:
    bare = words().bare(text)
    return understood(cut(bare, workspace), bare)


def _in_parts(text: str, workspace: WorkspaceFacts, sure: float) -> list[Match]:
    """Return two or more things that ``text`` asks for, if that explains it better than one."""
    best: list[Match] = []
    for at, split in enumerate(pattern("next_request").finditer(text)):
        if at >= _MOST_SPLITS:
            break
        told = tells(text[: split.start()])  # "I only have the name of a program, ..."
        if told or not _asks_more(text[split.end() :], split[0], workspace):
            continue
        left = _matches(text[: split.start()], workspace)
        if not left or left[0].confidence < _SURELY_ASKED:
            continue
        rest = _with_names(text[split.end() :], left[0].values)
        right = _in_the_same_program(_matches(rest, workspace), left[0])
        parts = [left[0], *right[:1]]
        if right and right[0].confidence < _SURELY_ONE:
            more = _in_parts(rest, workspace, right[0].confidence)
            parts = [left[0], *more] if more else parts
        if len(parts) < 2:
            continue
        least = min(part.confidence for part in parts)
        if (
            least >= max(_SURELY_ASKED, sure + 0.05)
            and parts[0].intent.number != parts[1].intent.number
        ):
            best, sure = parts, least
    return best


def _asks_more(rest: str, separator: str, workspace: WorkspaceFacts) -> bool:
    """Return whether ``rest`` asks for something itself, and does not continue the request.

    After just a comma it has to begin with a verb: ", biggest on top" and ", last 50" do not.
    """
    tokens = cut(words().bare(rest), workspace)
    if separator.strip() == ",":
        return bool(tokens) and is_verb(tokens[0])
    return any(token.term and (token.text.isalpha() or not token.kinds) for token in tokens)


def _in_the_same_program(matches: list[Match], before: Match) -> list[Match]:
    """Return ``matches``, first those that go on with the program of ``before``: git, docker."""
    programs = _programs(before)
    return sorted(
        matches, key=lambda match: -match.confidence - _GOING_ON * bool(programs & _programs(match))
    )


def _programs(match: Match) -> set[str]:
    return {command.split()[0] for way in match.intent.ways for command in way.run}


#: A word for several things mentioned before.
_SEVERAL: Final = re.compile(r"\b(?:them|those|these|they)\b", re.IGNORECASE)


def _with_names(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with the last of ``values`` for its first pronoun."""
    value = _it(values)
    files = {value for name, value in values.items() if kind_of(name) == "file"}
    if value is None or "`" in value or (len(files) > 1 and _SEVERAL.search(text)):
        return text
    return pattern("pronoun").sub(lambda _: f"`{value}`", text, count=1)


def _it(values: Mapping[str, str]) -> str | None:
    """Return the value that "it" most likely means."""
    for kind in ("file", "archive", "folder", "path", "branch", "container", "service", "process"):
        for name, value in values.items():
            if kind_of(name) == kind and value != ".":
                return value
    return next(filter(None, map(_fetched, values.items())), None)


def _fetched(named: tuple[str, str]) -> str | None:
    """Return the file or folder that downloading or cloning a value creates, if it is a URL."""
    slot, value = named
    base = value.rstrip("/").rpartition("/")[2]
    if kind_of(slot) == "repository":
        return base.removesuffix(".git") or None
    return base if kind_of(slot) == "url" and re.search(r"\w\.\w+$", base) else None


def _following(text: str, before: Match, workspace: WorkspaceFacts) -> Match | None:
    """Return what ``text`` asks for as a follow-up to ``before``, or None if it is not one."""
    found = _some_of_them(text, before, workspace)
    again = pattern("again").match(text)
    if found is None and again is not None:
        found = _with_other_values(text[again.end() :], before, workspace)
    if found is not None:
        return found
    if pattern("pronoun").search(text):
        return _acting(text, before, workspace) or _of_it(text, before, workspace)
    start = pattern("goes_on").match(text)
    if start is None or not start[0].strip():
        return None
    return _with_other_values(text[start.end() :], before, workspace)


def _of_it(text: str, before: Match, workspace: WorkspaceFacts) -> Match | None:
    """Return what ``text`` asks for if "it" stands for a value of ``before``."""
    named = _with_names(text, before.values)
    if named == text:
        return None
    found = _matches(named, workspace)
    return found[0] if found and found[0].confidence >= THRESHOLD else None


def _with_other_values(text: str, before: Match, workspace: WorkspaceFacts) -> Match | None:
    """Return ``before`` with the values in ``text``, or None if it has no slots for them."""
    values = _changed(cut(_unprefixed(text), workspace), before)
    return None if values is None else replace(before, values=values)


def _some_of_them(text: str, before: Match, workspace: WorkspaceFacts) -> Match | None:
    """Return ``before`` with the first or last few of what it prints, if ``text`` asks for that."""
    match = pattern("some_of_them").match(text)
    if match is None:
        return None
    tokens = cut(match["number"], workspace)
    number = tokens[0].kinds.get("number") if tokens else None
    if number is None:
        return None
    if (match["end"] or "").lower() in _BY_RANK and not _is_ranked(before):
        return None  # The first ones of a list are not the largest.
    slots = (*before.values, *_slots(before))
    slot = next((slot for slot in slots if kind_of(slot) == "number"), "")
    if slot:
        values = {**before.values, slot: number}
        return replace(before, values=values)
    end = "tail" if (match["end"] or "").lower() in ("last", "bottom") else "head"
    head = " | tail -n +2" if _has_a_header(before) else ""
    values = {**before.values, "number9": number}
    suffix = f"{before.suffix}{head} | {end} -n {{number9}}"
    return replace(before, values=values, suffix=suffix)


#: Which of the things listed are meant by their size or age.
_BY_RANK: Final = frozenset({"biggest", "largest", "newest", "latest"})


def _is_ranked(before: Match) -> bool:
    """Return whether what ``before`` prints is in the order of size or age."""
    ways = before.ways or before.intent.ways
    return all(re.search(r"\bsort\b|\bls -\w*[St]|--sort", way.run[-1]) for way in ways)


def _has_a_header(before: Match) -> bool:
    """Return whether the output of ``before`` begins with a header line."""
    ways = before.ways or before.intent.ways
    return any(command.startswith("ls -l") for way in ways for command in way.run)


def _unprefixed(text: str) -> str:
    """Return ``text`` without prepositions and articles at its beginning."""
    while (shorter := pattern("place").sub("", text)) != text:
        text = shorter
    return text


_RELATIVE: Final = re.compile(
    r"\b(?:that|those|these)\s+(?:are|is|was|were|do|does|don['\u2019]?t|doesn['\u2019]?t|has|have"
    r"|contain\w*|match\w*|end\w*|start\w*|begin\w*|with\w*|not|older|newer|larger|smaller|bigger)\b",
    re.IGNORECASE,
)


def _acting(text: str, before: Match, workspace: WorkspaceFacts) -> Match | None:
    """Return an action on what ``before`` lists: "now delete them", "how many are there?"."""
    if _RELATIVE.search(text):  # "delete all files that are empty": not all that were listed
        return None
    tokens = cut(text, workspace)
    denied = " ".join(one.text for one in tokens if one.behind in group("denying"))
    for name, asks in words().actions.items():
        if not asks.search(text):
            continue
        if asks.search(denied):  # "do not kill it"
            return None
        ways = before.intent.after.get(name)
        kinds = (one.kinds for one in tokens)
        target = next((at[kind] for at in kinds for kind in ("file", "folder") if kind in at), None)
        values = dict(before.values)
        if ways is not None:
            if before.suffix:  # It is done with all that is listed, not with some of them.
                return None
            if target is not None:
                values["path2"] = target
            return replace(before, values=values, ways=ways, suffix="", sentence=f"To {name} them:")
        suffix = _OF_ANY_OUTPUT.get(name)
        if suffix is not None and (name != "save" or target is not None):
            if name == "save" and target is not None:
                values["file9"] = target
            suffix = f"{before.suffix}{suffix}"
            return replace(before, values=values, suffix=suffix, sentence="So:")
    return None


def _changed(tokens: Sequence[Token], before: Match) -> dict[str, str] | None:
    """Return the values of ``before`` replaced by those of ``tokens``; None if these do not fit."""
    values = dict(before.values)
    slots = list(dict.fromkeys((*values, *_slots(before))))
    phrasings = ranking().phrasings_of(before.intent.number)
    asked = {"file", "folder", "one"}.union(*(phrasing.terms for phrasing in phrasings))
    changed = False
    for token in tokens:
        if not token.is_telling:
            continue
        if token.term in asked and not token.kinds and not token.quoted:
            continue
        name = next(_takers(token, slots), None)
        if name is None:
            return None
        value = _as(kind_of(name), token)
        if kind_of(name) in FREE and not token.quoted and not is_name(value):
            return None
        values[name] = value
        changed = True
    return values if changed else None


def _takers(token: Token, slots: Sequence[str]) -> Iterator[str]:
    """Yield the slots that accept the value of ``token``."""
    for slot in slots:
        kind = kind_of(slot)
        if (
            kind in token.kinds
            or (kind == "glob" and "extension" in token.kinds)
            or (kind == "path" and ("folder" in token.kinds or "file" in token.kinds))
        ):
            yield slot
    for slot in slots:
        if kind_of(slot) in FREE and (token.quoted or not token.kinds):
            yield slot


def _as(kind: str, token: Token) -> str:
    if kind == "glob" and "extension" in token.kinds:
        return f"*.{token.kinds['extension']}"
    if kind == "path":
        return token.kinds.get("folder") or token.kinds["file"]
    return token.kinds.get(kind, token.text)


def _slots(before: Match) -> Iterator[str]:
    """Yield the slots that the commands of ``before`` have."""
    intent = before.intent
    for way in before.ways or intent.ways:
        for command in way.run:
            yield from (name for name, _ in SLOT.findall(command))
