"""Dataclasses that cost little to import and to make.

The standard decorator compiles up to seven functions for each class, one by one, and we have
hundreds of classes. Here only ``__init__`` is compiled; the others are shared. That a frozen
instance is never changed is left to the type checker, so it is made in a fraction of the time.
What several listeners are handed, the events of a reply, stays with the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        weakref_slot: bool = False,
    ) -> Any:
        """Make ``cls`` a dataclass, as the standard decorator does with these options.

        Fields, the methods of the class itself, comparing, hashes and pickling are as standard; an
        instance that is ``frozen`` has a hash, but can be changed. Other options are a TypeError.
        """
        options = {"slots": slots, "kw_only": kw_only, "weakref_slot": weakref_slot}
        if cls is None:
            return partial(dataclass, frozen=frozen, **options)
        own = dict(vars(cls))
        made = dataclasses.dataclass(cls, eq=False, repr=False, **options)
        if "__repr__" not in own:
            made.__repr__ = _repr
        if "__eq__" not in own:
            made.__eq__ = _equality(made)
        # Python itself gives a class with a comparison of its own no hash.
        if "__hash__" not in own or ("__eq__" in own and own["__hash__"] is None):
            made.__hash__ = _hash(made) if frozen else None
        return made


def _equality(cls: type) -> Callable[[Any, object], bool]:
    fields = dataclasses.fields(cls)
    compared = attrgetter("__class__", *(field.name for field in fields if field.compare))

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - it becomes a method
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(compared(self) == compared(other))

    return __eq__


def _hash(cls: type) -> Callable[[Any], int]:
    fields = dataclasses.fields(cls)
    told = (one.name for one in fields if (one.compare if one.hash is None else one.hash))
    hashed = attrgetter("__class__", *told)
    return lambda self: hash(hashed(self))


@recursive_repr()
def _repr(self: Any) -> str:
    fields = dataclasses.fields(self)
    values = (f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


__all__ = ["dataclass"]
