"""Our dataclasses against those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from aish_lsp.foundation.dataclass import dataclass

Decorator = Callable[..., Any]

#: Arguments of the two instances that are compared.
PAIRS: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    ((1, "a"), (1, "a")),
    ((1, "a"), (1, "b")),
    ((1, "a", 3), (1, "a", 4)),
    ((1, "a", 0, 5), (1, "a", 0, 6)),
    ((float("inf"), "a"), (float("inf"), "a")),
]


@dataclass(frozen=True, slots=True)
class Picklable:
    """At module level, as pickle needs it."""

    number: int
    names: tuple[str, ...] = ()


def made(decorate: Decorator, **options: bool) -> Any:
    """Return a class with fields of each kind."""

    @decorate(**options)
    class Sample:
        number: float
        name: str
        ignored: int = field(default=0, compare=False)
        hidden: int = field(default=0, repr=False)
        unhashed: list[int] = field(default_factory=list, hash=False)

    return Sample


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("slots", [True, False])
def test_frozen_instances_compare_hash_and_read_as_standard_ones(
    one: tuple[Any, ...], other: tuple[Any, ...], slots: bool
) -> None:
    ours = made(dataclass, frozen=True, slots=slots)
    standard = made(dataclasses.dataclass, frozen=True, slots=slots)
    assert (ours(*one) == ours(*other)) is (standard(*one) == standard(*other))
    assert (hash(ours(*one)) == hash(ours(*other))) is (
        hash(standard(*one)) == hash(standard(*other))
    )
    assert repr(ours(*one)) == repr(standard(*one))
    assert ours(*one) != standard(*one)
    assert dataclasses.asdict(ours(*one)) == dataclasses.asdict(standard(*one))


def test_instance_that_is_not_frozen_compares_but_has_no_hash() -> None:
    ours = made(dataclass, slots=True)
    assert ours(1, "a") == ours(1, "a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(ours(1, "a"))


def test_class_of_no_fields_equals_only_its_own() -> None:
    @dataclass(frozen=True, slots=True)
    class One:
        pass

    @dataclass(frozen=True, slots=True)
    class Other(One):
        pass

    assert One() == One()
    assert One() != Other()
    assert len({One(), One(), Other()}) == 2


def test_inherited_fields_count_and_a_subclass_is_something_else() -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        a: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        b: int = 0

    assert Derived(a=1, b=2) == Derived(a=1, b=2) != Derived(a=2, b=2)
    assert Derived(a=1) != Base(1)
    assert repr(Derived(a=1)).endswith("Derived(a=1, b=0)")


def test_methods_of_the_class_itself_are_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.a % 2 == other.a % 2

        def __hash__(self) -> int:
            return self.a % 2

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(3) != Own(2)
    assert len({Own(1), Own(3)}) == 1
    assert repr(Own(1)) == "own"


def with_methods(decorate: Decorator, *names: str, **options: bool) -> Any:
    """Return a class that has methods of these names itself."""
    methods = {"__eq__": lambda _, other: other == 1, "__hash__": lambda _: 1}
    own = {name: methods[name] for name in names}
    return decorate(**options)(type("Own", (), {"__annotations__": {"a": int}, **own}))


@pytest.mark.parametrize("names", [("__eq__",), ("__hash__",), ("__eq__", "__hash__")])
@pytest.mark.parametrize("frozen", [True, False])
def test_methods_of_the_class_itself_count_as_with_the_standard_decorator(
    names: tuple[str, ...], frozen: bool
) -> None:
    ours = with_methods(dataclass, *names, frozen=frozen)
    standard = with_methods(dataclasses.dataclass, *names, frozen=frozen)
    assert (ours(2) == 1) is (standard(2) == 1)
    assert (ours(2) == ours(2)) is (standard(2) == standard(2))
    if standard.__hash__ is None:
        assert ours.__hash__ is None
    else:
        assert (hash(ours(2)) == 1) is (hash(standard(2)) == 1)
        assert hash(ours(2)) == hash(ours(2))


@pytest.mark.parametrize("option", ["eq", "order", "unsafe_hash", "repr", "init", "match_args"])
def test_option_that_is_not_supported_is_refused_by_its_name(option: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        made(dataclass, frozen=True, **{option: True})


def test_instance_that_holds_itself_is_shown() -> None:
    @dataclass(slots=True)
    class Node:
        children: list[Any]

    node = Node([])
    node.children.append(node)
    assert repr(node).endswith("Node(children=[...])")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copy_equals_its_original(copied: Callable[[Picklable], Picklable]) -> None:
    original = Picklable(1, ("a",))
    assert copied(original) == original
    assert dataclasses.replace(original, number=2) == Picklable(2, ("a",))


def test_name_that_is_no_field_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        Picklable(1).unknown = 1  # type: ignore[attr-defined]
