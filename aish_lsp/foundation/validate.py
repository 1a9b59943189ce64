"""Converts JSON or TOML data into dataclasses, strictly and with helpful messages.

Nothing is coerced: "5" is not a number and 1 is not a boolean, but a whole number is accepted as a
float. Unknown fields are refused. A field's metadata holds its bounds, ``minimum`` and ``maximum``.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from functools import cache
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from aish_lsp.foundation.dataclass import dataclass
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

T = TypeVar("T")

#: The maximum number of problems that an error carries.
PROBLEMS = 50

#: Free-form data (``extra_body``) with deeper nesting is refused: writing it as JSON would fail.
DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong at ``path``; an empty path means all of the data.

    ``where`` is the place for a person (``config.toml:12``), if known.
    """

    path: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.message) if part)


def structure(data: object, cls: type[T], *, camel_case: bool) -> T:
    """Return ``data`` as a ``cls``. With ``camel_case``, ``someName`` is the key of ``some_name``.

    Raises:
        InvalidArgument: the message describes the first problem; ``data`` holds its ``path`` and
            the first PROBLEMS problems as ``problems``, each ``{"path", "message"}``.
    """
    reading = _Reading(camel_case=camel_case)
    structured = reading.value(data, cls, ())
    if not reading.failures:
        return cast("T", structured)
    problems = reading.problems()
    more = f" (and {len(reading.failures) - 1} more)" if len(reading.failures) > 1 else ""
    raise InvalidArgument(
        f"{problems[0]}{more}",
        path=problems[0].path,
        problems=[{"path": problem.path, "message": problem.message} for problem in problems],
    )


def sift(data: object, cls: type) -> tuple[Mapping[str, Any], list[FieldProblem]]:
    """Return the part of ``data`` that ``structure`` accepts as a ``cls``, and the problems.

    Every field of ``cls`` must have a default, as a bad key counts as absent. A bad element makes
    its whole list bad; a bad entry of a table does not affect the others. Only the first PROBLEMS
    are returned, since the data may be large and untrusted.

    Raises:
        TypeError: a field of ``cls`` has no default.
    """
    problems: list[FieldProblem] = []
    while True:
        reading = _Reading(camel_case=False)
        reading.value(data, cls, ())
        if not reading.failures:
            assert isinstance(data, Mapping)
            return data, problems[:PROBLEMS]
        if data == {}:
            # Nothing is left to drop.
            raise TypeError(f"{cls.__name__} has a field without a default")
        problems += reading.problems()
        data = without(data, [failure.drop for failure in reading.failures])


def without(data: object, paths: Iterable[KeyPath]) -> object:
    """Return ``data`` without the keys at ``paths``; an empty path removes everything.

    An index into a list removes the whole list. Parts that no path touches are shared, not copied.
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


def _key(path: KeyPath) -> KeyPath:
    """Return ``path`` up to its first list index."""
    for index, part in enumerate(path):
        if isinstance(part, int):
            return path[:index]
    return path


class _Failure(NamedTuple):
    """A problem, and what must be dropped so that the rest is valid."""

    path: KeyPath
    message: str
    drop: KeyPath


class _UnfitError(Exception):
    """A value is not accepted."""

    def __init__(self, value: object, accepted: str) -> None:
        super().__init__(accepted)
        self.value = value
        self.accepted = accepted


@cache
def _fields(cls: type, *, camel_case: bool) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """Return the fields of a dataclass and their types, by key in the data."""
    kinds = get_type_hints(cls)
    return {
        to_camel_case(field.name) if camel_case else field.name: (field, kinds[field.name])
        for field in dataclasses.fields(cls)
        if field.init
    }


class _Reading:
    """Reads data in one of the two spellings, and collects what is wrong with it."""

    def __init__(self, *, camel_case: bool) -> None:
        self.failures: list[_Failure] = []
        self._camel_case = camel_case

    def problems(self) -> list[FieldProblem]:
        """Return the first PROBLEMS failures."""
        return [FieldProblem(dotted(one.path), one.message) for one in self.failures[:PROBLEMS]]

    def _fail(self, path: KeyPath, message: str, *, drop: KeyPath | None = None) -> None:
        self.failures.append(_Failure(path, message, path if drop is None else drop))

    def value(
        self,
        value: object,
        kind: Any,
        path: KeyPath,
        minimum: float | None = None,
        maximum: float | None = None,
    ) -> object:
        """Return a value as a ``kind`` within bounds; on failure, note it and return None."""
        bounded = minimum is not None or maximum is not None
        try:
            taken: Any = self._as_kind(value, kind, path)
            if bounded and taken is not None and not _is_within(taken, minimum, maximum):
                raise _UnfitError(value, "")  # noqa: TRY301 - one place reports all
        except _UnfitError as error:
            # The message about a wrong type includes the bounds.
            words = accepted(kind, minimum, maximum) if bounded else error.accepted
            text = "a value that is not shown" if hidden(path, error.value) else shown(error.value)
            self._fail(path, f"found {text}; accepted: {words}")
            return None
        return taken

    def _as_kind(self, value: object, kind: Any, path: KeyPath) -> object:
        """Return a value as a ``kind``, and note what is wrong inside it.

        Raises:
            _UnfitError: the value itself is wrong.
        """
        check = _CHECKS.get(kind)
        if check is not None:
            return check(value)
        if alternatives := arms(kind):
            return self._union(value, kind, alternatives, path)
        if dataclasses.is_dataclass(kind):
            return self._record(value, cast("type", kind), path)
        if get_origin(kind) is Literal:
            return _choice(value, kind)
        if get_origin(kind) is dict:
            return self._table(value, get_args(kind)[1], path)
        return self._sequence(value, kind, path)

    def _union(self, value: object, kind: Any, alternatives: list[Any], path: KeyPath) -> object:
        """Return the first alternative that fits."""
        if value is None and types.NoneType in get_args(kind):
            return None
        if len(alternatives) == 1:
            return self._as_kind(value, alternatives[0], path)
        for alternative in alternatives:
            attempt = _Reading(camel_case=self._camel_case)
            taken = attempt.value(value, alternative, path)
            if not attempt.failures:
                return taken
        raise _UnfitError(value, accepted(kind))

    def _record(self, value: object, cls: type, path: KeyPath) -> object:
        data = _object(value)
        before = len(self.failures)
        fields = _fields(cls, camel_case=self._camel_case)
        values: dict[str, object] = {}
        for key, (field, kind) in fields.items():
            if key in data:
                bounds = field.metadata.get("minimum"), field.metadata.get("maximum")
                values[field.name] = self.value(data[key], kind, (*path, key), *bounds)
            elif field.default is MISSING and field.default_factory is MISSING:
                self._fail((*path, key), f"missing; accepted: {accepted(kind)}", drop=path)
        for count, name in enumerate(sorted(data.keys() - fields.keys())):
            # Finding similar names is slow.
            hint = nearest(name, list(fields)) if count < PROBLEMS else ""
            self._fail((*path, name), f"unknown; {hint}")
        if len(self.failures) > before:
            return None
        try:
            return cls(**values)
        except ValueError as error:
            # The class checks itself in __post_init__.
            self._fail(path, str(error))
            return None

    def _table(self, value: object, kind: Any, path: KeyPath) -> dict[object, object]:
        return {
            self.value(name, str, (*path, name)): self.value(item, kind, (*path, name))
            for name, item in _object(value).items()
        }

    def _sequence(self, value: object, kind: Any, path: KeyPath) -> object:
        make: Any = get_origin(kind)
        kinds = get_args(kind)
        if not isinstance(value, list | tuple):
            raise _UnfitError(value, accepted(kind))
        if make is list or kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(value)
        elif len(kinds) != len(value):
            raise _UnfitError(value, accepted(kind))
        return make(
            self.value(item, wanted, (*path, index))
            for index, (item, wanted) in enumerate(zip(value, kinds, strict=True))
        )


def _is_within(number: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or minimum <= number) and (maximum is None or number <= maximum)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _UnfitError(value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        words = "a string of whole characters (this one holds half a surrogate pair)"
        raise _UnfitError(value, words) from None
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise _UnfitError(value, "true or false")
    return value


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _UnfitError(value, "a whole number")
    if abs(value) > LARGEST:
        raise _UnfitError(value, "a whole number of 64 bits, signed")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _UnfitError(value, "a number")
    if not math.isfinite(value) if isinstance(value, float) else abs(value) > LARGEST:
        raise _UnfitError(value, "a finite number")
    return float(value)


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _UnfitError(value, "an object")
    if not all(isinstance(name, str) for name in value):
        raise _UnfitError(value, "an object with strings for keys")
    return value


def _free(value: object) -> object:
    """Return ``value`` if it can be written as JSON."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEEPEST:
            raise _UnfitError(value, f"data that is nested at most {DEEPEST} deep")
        if isinstance(item, Mapping):
            waiting += [(part, depth + 1) for part in (*item.keys(), *item.values())]
            _object(item)
        elif isinstance(item, list):
            waiting += [(part, depth + 1) for part in item]
        elif isinstance(item, str):
            _text(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            _number(item)
        elif item is not None and not isinstance(item, bool):
            raise _UnfitError(item, "a JSON value")
    return value


def _choice(value: object, kind: Any) -> object:
    for choice in get_args(kind):
        if type(choice) is type(value) and choice == value:
            return choice
    raise _UnfitError(value, accepted(kind))


_Check: TypeAlias = Callable[[object], object]

#: The check for each simple type.
_CHECKS: Final[Mapping[Any, _Check]] = {
    str: _text,
    bool: _truth,
    int: _whole_number,
    float: _number,
    Any: _free,
}
