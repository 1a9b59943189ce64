"""Plain JSON or TOML data into our dataclasses, strictly and with words that a person can act on.

Nothing is coerced: "5" is not a number, 1 is not a truth value; a whole number may stand for a
number. Unknown fields are refused. The bounds ``minimum`` and ``maximum`` of a field stand in its
metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aish_lsp.foundation.errors import InvalidArgument
from aish_lsp.foundation.strict import StructureError, converter, field_names
from aish_lsp.foundation.wire import camel_case as to_camel_case
from aish_lsp.foundation.wording import KeyPath, accepted, dotted, nearest

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
