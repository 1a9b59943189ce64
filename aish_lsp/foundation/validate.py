"""Plain JSON or TOML data into our dataclasses, strictly and with words that a person can act on.

Nothing is coerced: "5" is not a number, 1 is not a truth value; a whole number may stand for a
number. Unknown fields are refused. The bounds ``minimum`` and ``maximum`` of a field stand in its
metadata.

``converter`` returns what does it; ``structure`` and ``sift`` are what others call.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.events import camel_case as to_camel_case
from aish_lsp.foundation.text import (
    LARGEST,
    KeyPath,
    accepted,
    arms,
    dotted,
    hidden,
    nearest,
    shown,
)

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

#: Problems that an error carries; more help nobody.
PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at ``path``; the path is empty where the whole of the data is meant.

    ``where`` is the place of it for a person (``config.toml:12``), as far as it is known.
    """

    path: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.message) if part)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A problem, and what has to go so that the rest can stand."""

    path: KeyPath
    message: str
    drop: KeyPath


def structure(data: object, cls: type[T], *, camel_case: bool) -> T:
    """Return ``data`` as a ``cls``. With ``camel_case`` a field ``some_name`` is ``someName``.

    Raises:
        InvalidArgument: the message tells the first problem; ``data`` holds its ``path`` and the
            first PROBLEMS of them as ``problems``, each ``{"path", "message"}``.
    """
    try:
        return converter(camel_case=camel_case).structure(data, cls)
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


def sift(data: object, cls: type) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return the part of ``data`` that ``structure`` takes for a ``cls``, and what is wrong.

    The keys are those of the fields, each of which must have a default: a bad one counts as absent.
    A bad element of a list makes the whole list bad; a bad entry of a table leaves its others.
    Only the first PROBLEMS are told: data may be a stranger's, and large.
    """
    problems: list[Problem] = []
    while True:
        try:
            converter(camel_case=False).structure(data, cls)
        except Exception as error:  # noqa: BLE001 - as above
            failures = list(_failures(error, (), camel_case=False))
        else:
            assert isinstance(data, Mapping)
            return data, problems[:PROBLEMS]
        problems += [_problem(failure) for failure in failures[:PROBLEMS]]
        data = without(data, [failure.drop for failure in failures])


def without(data: object, paths: Iterable[KeyPath]) -> object:
    """Return ``data`` with the keys at ``paths`` left out; an empty path leaves nothing.

    A place in a list stands for the whole list. What is not on the way of a path is shared, not
    copied.
    """
    paths = {_key(path) for path in paths}
    if () in paths:
        return {}
    if not paths or not isinstance(data, Mapping):
        return data
    below: dict[str | int, list[KeyPath]] = {}
    for first, *rest in paths:
        below.setdefault(first, []).append(tuple(rest))
    return {
        key: without(value, below.get(key, ()))
        for key, value in data.items()
        if () not in below.get(key, ())
    }


def _problem(failure: _Failure) -> Problem:
    return Problem(dotted(failure.path), failure.message)


def _failures(error: Exception, path: KeyPath, *, camel_case: bool) -> Iterator[_Failure]:
    """Yield what is wrong, in the order of the fields, out of the tree of errors of cattrs."""
    from cattrs import BaseValidationError, ForbiddenExtraKeysError  # noqa: PLC0415 - see strict.converter

    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            place, kind = _place(inner, path, camel_case=camel_case)
            if isinstance(inner, KeyError):
                yield _Failure(place, f"missing; accepted: {accepted(kind)}", path)
            else:
                yield from _failures(inner, place, camel_case=camel_case)
    elif isinstance(error, ForbiddenExtraKeysError):
        known = list(field_names(error.cl, camel_case=camel_case).values())
        for count, name in enumerate(sorted(error.extra_fields)):
            place = (*path, name)
            # Looking for near names is slow, and nobody reads the thousandth.
            hint = nearest(name, known) if count < PROBLEMS else ""
            yield _Failure(place, f"unknown; {hint}", place)
    elif isinstance(error, StructureError):
        yield _Failure(path, error.told(path), path)
    elif isinstance(error, ValueError):
        # A dataclass that looks at itself in __post_init__.
        yield _Failure(path, str(error), path)
    else:
        raise error


def _place(error: Exception, path: KeyPath, *, camel_case: bool) -> tuple[KeyPath, Any]:
    """Return where ``error`` happened below ``path`` and the type wanted there, from its notes."""
    from cattrs import AttributeValidationNote, IterableValidationNote  # noqa: PLC0415 - as above

    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            name = to_camel_case(note.name) if camel_case else note.name
            return (*path, name), note.type
        if isinstance(note, IterableValidationNote):
            return (*path, note.index), note.type
    return path, None


def _key(path: KeyPath) -> KeyPath:
    """Return the longest beginning of ``path`` that names a key, and not a place in a list."""
    for index, part in enumerate(path):
        if isinstance(part, int):
            return path[:index]
    return path


Hook: TypeAlias = Callable[[Any, Any], Any]

#: Free data (``extra_body``) deeper than this is refused: writing it as JSON would fail.
DEEPEST: Final = 64


class StructureError(Exception):
    """A value is not what its field accepts."""

    def __init__(self, found: object, accepted: str) -> None:
        super().__init__(accepted)
        self.found = found
        self.accepted = accepted

    def told(self, path: KeyPath) -> str:
        """Return the message for a value at ``path``."""
        found = "a value that is not shown" if hidden(path, self.found) else shown(self.found)
        return f"found {found}; accepted: {self.accepted}"


@cache
def field_names(cls: type, *, camel_case: bool) -> dict[str, str]:
    """Return the key of each field in the data."""
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    return {name: to_camel_case(name) if camel_case else name for name in names}


@cache
def converter(*, camel_case: bool) -> Converter:
    """Return the converter for one of the two spellings; it keeps what it generated per class."""
    from cattrs import Converter  # noqa: PLC0415 - loaded when something is checked

    strict = Converter(detailed_validation=True, forbid_extra_keys=True)
    for kind, check in (
        (str, _text),
        (bool, _truth),
        (int, _whole_number),
        (float, _number),
        (types.NoneType, _nothing),
    ):
        strict.register_structure_hook(kind, check)
    strict.register_structure_hook_func(lambda kind: kind is Any, _free)
    strict.register_structure_hook_func(lambda kind: _origin(kind) is Literal, _choice)
    strict.register_structure_hook_factory(lambda kind: len(arms(kind)) > 1, _union)
    strict.register_structure_hook_factory(lambda kind: _origin(kind) in {list, tuple}, _sequence)
    strict.register_structure_hook_factory(lambda kind: _origin(kind) is dict, _table)
    strict.register_structure_hook_factory(
        dataclasses.is_dataclass, partial(_record, camel_case=camel_case)
    )
    return strict


def _origin(kind: Any) -> object:
    """Return ``get_origin(kind)``, which mypy takes for nothing that a type could be."""
    return get_origin(kind)


def _text(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise StructureError(value, "a string")
    if not value.isascii() and not _encodable(value):
        raise StructureError(
            value, "a string of whole characters (this one holds half a surrogate pair)"
        )
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _truth(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise StructureError(value, "true or false")
    return value


def _whole_number(value: object, _: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise StructureError(value, "a whole number")
    if abs(value) > LARGEST:
        raise StructureError(value, "a whole number of 64 bits, signed")
    return value


def _number(value: object, _: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise StructureError(value, "a number")
    if not math.isfinite(value) if isinstance(value, float) else abs(value) > LARGEST:
        raise StructureError(value, "a finite number")
    return float(value)


def _nothing(value: object, _: object) -> None:
    if value is not None:
        raise StructureError(value, "null")


def _object(value: object) -> None:
    if not isinstance(value, Mapping):
        raise StructureError(value, "an object")
    if not all(isinstance(name, str) for name in value):
        raise StructureError(value, "an object with strings for keys")


def _free(value: object, _: object) -> object:
    """Return ``value`` when it can be written as JSON."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEEPEST:
            raise StructureError(value, f"data that is nested at most {DEEPEST} deep")
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
            raise StructureError(item, "a value that JSON knows")
    return value


def _choice(value: object, kind: Any) -> object:
    for choice in get_args(kind):
        if type(choice) is type(value) and choice == value:
            return choice
    raise StructureError(value, accepted(kind))


def _union(kind: Any, converter: Converter) -> Hook:
    """Return a hook that takes the first alternative that fits."""
    from cattrs import BaseValidationError  # noqa: PLC0415 - see converter

    alternatives = [(arm, converter.get_structure_hook(arm)) for arm in get_args(kind)]

    def hook(value: object, _: object) -> object:
        for arm, structure_arm in alternatives:
            try:
                return structure_arm(value, arm)
            except (StructureError, BaseValidationError):
                continue
        raise StructureError(value, accepted(kind))

    return hook


def _sequence(kind: Any, converter: Converter) -> Hook:
    from cattrs.cols import (  # noqa: PLC0415 - see converter
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
            raise StructureError(value, accepted(kind))
        return build(value, kind)

    return hook


def _table(kind: Any, converter: Converter) -> Hook:
    from cattrs.cols import mapping_structure_factory  # noqa: PLC0415 - see converter

    build: Hook = mapping_structure_factory(kind, converter)

    def hook(value: object, _: object) -> object:
        _object(value)
        return build(value, kind)

    return hook


def _record(cls: type, converter: Converter, *, camel_case: bool) -> Hook:
    """Return the hook of a dataclass: cattrs' own, with our keys and our bounds."""
    from cattrs.gen import make_dict_structure_fn, override  # noqa: PLC0415 - see converter

    kinds = get_type_hints(cls)
    names = field_names(cls, camel_case=camel_case)
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
        except StructureError:
            raise StructureError(value, words) from None
        if number is not None and not low <= number <= high:
            raise StructureError(value, words)
        return number

    return bounded
