"""Plain JSON or TOML data into our dataclasses, strictly and with words that a person can act on.

Nothing is coerced: "5" is no number, 1 is no truth value; a whole number may stand for a number.
Unknown fields are refused. The bounds ``minimum`` and ``maximum`` of a field stand in its metadata.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from aish_lsp.errors import InvalidArgument
from aish_lsp.events import camel_case as to_camel_case

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

Hook: TypeAlias = Callable[[Any, Any], Any]
Path: TypeAlias = tuple[str | int, ...]

#: Whole numbers are those of TOML and of most JSON readers: 64 bits.
LARGEST = 2**63 - 1
#: Free data (``extra_body``) deeper than this is refused: writing it as JSON would fail.
DEEPEST = 64
#: Characters of a value or of a name that a message shows.
SHOWN = 40
#: Problems that an error carries; more help nobody.
PROBLEMS = 50

_SECRET_WORD = re.compile(
    r"key|secret|passw(or)?d|passphrase|authorization|credentials?|cookie|bearer|apikey|auth",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(sk|pk|rk|gsk|hf|ghp|gho|ghs|ghu|glpat|github_pat|xox[abeprs]|nvapi|r8|tp|csk|pplx|xai)[-_]\S{12}"
    r"|AIza\S{20}|AKIA[0-9A-Z]{12}|eyJ\S{20}|(bearer|basic)\s+\S{8}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at ``path``; the path is empty where the whole of the data is meant."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class _Failure:
    """A problem, and what has to go so that the rest can stand."""

    path: Path
    message: str
    drop: Path


class _Wrong(Exception):
    """A value is not what its field accepts."""

    def __init__(self, found: object, accepted: str) -> None:
        super().__init__(accepted)
        self.found = found
        self.accepted = accepted

    def told(self, path: Path) -> str:
        """Return the message for a value at ``path``."""
        found = "a value that is not shown" if _hidden(path, self.found) else shown(self.found)
        return f"found {found}; accepted: {self.accepted}"


def structure(data: object, cls: type[T], *, camel_case: bool) -> T:
    """Return ``data`` as a ``cls``. With ``camel_case`` a field ``some_name`` is ``someName``.

    Raises:
        InvalidArgument: the message tells the first problem; ``data`` holds its ``path`` and the
            first PROBLEMS of them as ``problems``, each ``{"path", "message"}``.
    """
    try:
        return _converter(camel_case=camel_case).structure(data, cls)
    except Exception as error:  # noqa: BLE001 - sorted by _failures, which raises what it cannot tell
        failures = list(_failures(error, (), camel_case=camel_case))
    problems = [_problem(failure) for failure in failures]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    raise InvalidArgument(
        f"{problems[0]}{more}",
        path=problems[0].path,
        problems=[
            {"path": problem.path, "message": problem.message} for problem in problems[:PROBLEMS]
        ],
    )


def structure_tolerant(data: object, cls: type[T]) -> tuple[T, list[Problem]]:
    """Return ``data`` as a ``cls`` and what is wrong with it: a bad key counts as absent.

    The keys are those of the fields. Every field of ``cls`` must have a default. A bad element of a
    list makes the whole list bad; a bad entry of a table leaves its other entries.
    """
    problems: list[Problem] = []
    while True:
        try:
            return _converter(camel_case=False).structure(data, cls), problems
        except Exception as error:  # noqa: BLE001 - as above
            failures = list(_failures(error, (), camel_case=False))
        problems += [_problem(failure) for failure in failures]
        for failure in failures:
            data = _without(data, failure.drop) if failure.drop else {}


def secret_name(name: str) -> bool:
    """Return whether a field, header or variable of this name is likely to hold a secret."""
    words = re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", name)
    # A token is a secret where the name ends in it (auth_token), and a unit elsewhere (max_tokens).
    return words[-1].lower() == "token" or any(_SECRET_WORD.fullmatch(word) for word in words)


def secret_value(text: str) -> bool:
    """Return whether ``text`` has the look of a key, whatever its field is named."""
    return _SECRET_VALUE.search(text) is not None


def nearest(name: str, known: list[str]) -> str:
    """Return the words that help somebody who wrote ``name`` where one of ``known`` was meant."""
    near = difflib.get_close_matches(name[:SHOWN], known, n=3)
    if near:
        return "did you mean " + " or ".join(f'"{other}"' for other in near) + "?"
    if not known:
        return "there are none"
    return "known: " + ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")


def accepted(kind: Any, minimum: float | None = None, maximum: float | None = None) -> str:
    """Return in words what a field of type ``kind`` accepts: ``a whole number of at least 1``."""
    words = _accepted_kind(kind)
    if minimum is not None and maximum is not None:
        return f"{words} from {minimum:g} to {maximum:g}"
    if minimum is not None:
        return f"{words} of at least {minimum:g}"
    return words if maximum is None else f"{words} of at most {maximum:g}"


def shown(value: object) -> str:
    """Return ``value`` for a message: short, in one line, with nothing invisible in it."""
    if isinstance(value, str):
        text = json.dumps(value[:SHOWN], ensure_ascii=False)
        text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
        return text if len(value) <= SHOWN else f"{text}... ({len(value)} characters)"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a whole number of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def dotted(path: Path) -> str:
    """Return a path as it is written in TOML, list places in brackets: ``models."a b".stop[0]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        bare = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", part)
        text += ("." if text else "") + (part if bare else shown(part))
    return text


def _problem(failure: _Failure) -> Problem:
    return Problem(dotted(failure.path), failure.message)


def _without(data: object, path: Path) -> object:
    """Return ``data`` with the key at ``path`` left out; what is not on the way is shared."""
    if not isinstance(data, Mapping):
        return data
    first, *rest = path
    if not rest:
        return {key: value for key, value in data.items() if key != first}
    return {
        key: _without(value, tuple(rest)) if key == first else value for key, value in data.items()
    }


def _failures(error: Exception, path: Path, *, camel_case: bool) -> Iterator[_Failure]:
    """Yield what is wrong, in the order of the fields, out of the tree of errors of cattrs."""
    from cattrs import BaseValidationError, ForbiddenExtraKeysError  # noqa: PLC0415 - see _converter

    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            place, kind = _place(inner, path, camel_case=camel_case)
            if isinstance(inner, KeyError):
                yield _Failure(place, f"missing; accepted: {accepted(kind)}", _droppable(path))
            else:
                yield from _failures(inner, place, camel_case=camel_case)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = list(_names(error.cl, camel_case=camel_case).values())
        for name in sorted(error.extra_fields):
            place = (*path, name)
            yield _Failure(place, f"unknown; {nearest(name, known)}", _droppable(place))
    elif isinstance(error, _Wrong):
        yield _Failure(path, error.told(path), _droppable(path))
    elif isinstance(error, ValueError):
        # A dataclass that looks at itself in __post_init__.
        yield _Failure(path, str(error), _droppable(path))
    else:
        raise error


def _place(error: Exception, path: Path, *, camel_case: bool) -> tuple[Path, Any]:
    """Return where ``error`` happened below ``path`` and the type wanted there, from its notes."""
    from cattrs import AttributeValidationNote, IterableValidationNote  # noqa: PLC0415 - as above

    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            name = to_camel_case(note.name) if camel_case else note.name
            return (*path, name), note.type
        if isinstance(note, IterableValidationNote):
            return (*path, note.index), note.type
    return path, None


def _hidden(path: Path, value: object) -> bool:
    """Return whether ``value`` may be a secret, by where it stands or by its look."""
    if not isinstance(value, str):
        return False
    return secret_value(value) or any(isinstance(part, str) and secret_name(part) for part in path)


def _droppable(path: Path) -> Path:
    """Return the longest beginning of ``path`` that names a key, and not a place in a list."""
    for index, part in enumerate(path):
        if isinstance(part, int):
            return path[:index]
    return path


@cache
def _names(cls: type, *, camel_case: bool) -> dict[str, str]:
    """Return the key of each field in the data."""
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    return {name: to_camel_case(name) if camel_case else name for name in names}


@cache
def _converter(*, camel_case: bool) -> Converter:
    """Return the converter for one of the two spellings; it keeps what it generated per class."""
    from cattrs import Converter  # noqa: PLC0415 - 70 ms that `aish-lsp --version` need not pay

    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    for kind, check in (
        (str, _text),
        (bool, _truth),
        (int, _whole_number),
        (float, _number),
        (types.NoneType, _nothing),
    ):
        converter.register_structure_hook(kind, check)
    converter.register_structure_hook_func(lambda kind: kind is Any, _free)
    converter.register_structure_hook_func(lambda kind: _origin(kind) is Literal, _choice)
    converter.register_structure_hook_factory(lambda kind: len(_arms(kind)) > 1, _union)
    converter.register_structure_hook_factory(
        lambda kind: _origin(kind) in {list, tuple}, _sequence
    )
    converter.register_structure_hook_factory(lambda kind: _origin(kind) is dict, _table)
    converter.register_structure_hook_factory(
        dataclasses.is_dataclass, partial(_record, camel_case=camel_case)
    )
    return converter


def _origin(kind: Any) -> object:
    return get_origin(kind)


def _text(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise _Wrong(value, "a string")
    if not value.isascii() and not _encodable(value):
        raise _Wrong(value, "a string of whole characters (this one holds half a surrogate pair)")
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _truth(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(value, "true or false")
    return value


def _whole_number(value: object, _: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong(value, "a whole number")
    if abs(value) > LARGEST:
        raise _Wrong(value, "a whole number of 64 bits, signed")
    return value


def _number(value: object, _: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _Wrong(value, "a number")
    if not math.isfinite(value) if isinstance(value, float) else abs(value) > LARGEST:
        raise _Wrong(value, "a finite number")
    return float(value)


def _nothing(value: object, _: object) -> None:
    if value is not None:
        raise _Wrong(value, "null")


def _object(value: object) -> None:
    if not isinstance(value, Mapping):
        raise _Wrong(value, "an object")
    if not all(isinstance(name, str) for name in value):
        raise _Wrong(value, "an object with strings for keys")


def _free(value: object, _: object) -> object:
    """Return ``value`` when it can be written as JSON."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEEPEST:
            raise _Wrong(value, f"data that is nested at most {DEEPEST} deep")
        if isinstance(item, Mapping):
            waiting += [(part, depth + 1) for part in (*item.keys(), *item.values())]
            _object(item)
        elif isinstance(item, list):
            waiting += [(part, depth + 1) for part in item]
        elif isinstance(item, str):
            _text(item, str)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            _number(item, float)
        elif item is not None and not isinstance(item, bool):
            raise _Wrong(item, "a value that JSON knows")
    return value


def _choice(value: object, kind: Any) -> object:
    for choice in get_args(kind):
        if type(choice) is type(value) and choice == value:
            return choice
    raise _Wrong(value, accepted(kind))


def _union(kind: Any, converter: Converter) -> Hook:
    """Return a hook that takes the first alternative that fits."""
    from cattrs import BaseValidationError  # noqa: PLC0415 - see _converter

    arms = [(arm, converter.get_structure_hook(arm)) for arm in get_args(kind)]

    def hook(value: object, _: object) -> object:
        for arm, structure_arm in arms:
            try:
                return structure_arm(value, arm)
            except (_Wrong, BaseValidationError):
                continue
        raise _Wrong(value, accepted(kind))

    return hook


def _sequence(kind: Any, converter: Converter) -> Hook:
    from cattrs.cols import (  # noqa: PLC0415 - see _converter
        homogenous_tuple_structure_factory,
        list_structure_factory,
    )

    fixed = None
    if get_origin(kind) is list:
        build: Hook = list_structure_factory(kind, converter)
    elif get_args(kind)[-1] is Ellipsis:
        build = homogenous_tuple_structure_factory(kind, converter)
    else:
        fixed = len(get_args(kind))
        build = converter.gen_structure_hetero_tuple(kind)

    def hook(value: object, _: object) -> object:
        if not isinstance(value, list | tuple) or (fixed is not None and len(value) != fixed):
            raise _Wrong(value, accepted(kind))
        return build(value, kind)

    return hook


def _table(kind: Any, converter: Converter) -> Hook:
    from cattrs.cols import mapping_structure_factory  # noqa: PLC0415 - see _converter

    build: Hook = mapping_structure_factory(kind, converter)

    def hook(value: object, _: object) -> object:
        _object(value)
        return build(value, kind)

    return hook


def _record(cls: type, converter: Converter, *, camel_case: bool) -> Hook:
    """Return the hook of a dataclass: cattrs' own, with our keys and our bounds."""
    from cattrs.gen import make_dict_structure_fn, override  # noqa: PLC0415 - see _converter
    from typing_extensions import get_type_hints  # noqa: PLC0415

    kinds = get_type_hints(cls)
    names = _names(cls, camel_case=camel_case)
    overrides: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.name not in names:
            continue
        minimum, maximum = field.metadata.get("minimum"), field.metadata.get("maximum")
        hook = converter.get_structure_hook(kinds[field.name])
        if minimum is not None or maximum is not None:
            hook = _bounded(hook, kinds[field.name], minimum, maximum)
        overrides[field.name] = override(rename=names[field.name], struct_hook=hook)
    build: Hook = make_dict_structure_fn(cls, converter, **overrides)

    def record(value: object, _: object) -> object:
        _object(value)
        return build(value, cls)

    return record


def _bounded(hook: Hook, kind: Any, minimum: float | None, maximum: float | None) -> Hook:
    """Return ``hook`` with bounds; they also stand in what it says of a wrong type."""
    words = accepted(kind, minimum, maximum)
    low = -math.inf if minimum is None else minimum
    high = math.inf if maximum is None else maximum

    def bounded(value: object, expected: Any) -> object:
        try:
            number = hook(value, expected)
        except _Wrong:
            raise _Wrong(value, words) from None
        if number is not None and not low <= number <= high:
            raise _Wrong(value, words)
        return number

    return bounded


def _arms(kind: Any) -> list[Any]:
    """Return the alternatives of a union, None apart; nothing for what is no union."""
    if get_origin(kind) not in {Union, types.UnionType}:
        return []
    return [arm for arm in get_args(kind) if arm is not types.NoneType]


def _accepted_kind(kind: Any) -> str:
    if arms := _arms(kind):
        return " or ".join(_accepted_kind(arm) for arm in arms)
    if get_origin(kind) is Literal:
        return " or ".join(shown(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple and get_args(kind)[-1] is not Ellipsis:
        return f"a list of {len(get_args(kind))}"
    simple = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
    return simple.get(kind) or {
        list: f"a list of {_plural(kind)}",
        tuple: f"a list of {_plural(kind)}",
    }.get(get_origin(kind), "an object" if kind is not Any else "any value")


def _plural(kind: Any) -> str:
    """Return what the elements of a list are."""
    element = get_args(kind)[0] if get_args(kind) else Any
    plurals = {str: "strings", int: "whole numbers", float: "numbers", bool: "true or false"}
    return plurals.get(element, "objects" if dataclasses.is_dataclass(element) else "values")
