from __future__ import annotations

import pytest

from aish_lsp.foundation import errors
from aish_lsp.foundation.errors import AishError, InvalidArgument, OverBudget

CLASSES = [cls for cls in AishError.__subclasses__() if cls.__module__ == errors.__name__]
CODES = {
    "invalidArgument": -32602,
    "backendUnavailable": 1001,
    "backendRejected": 1002,
    "overBudget": 1003,
    "costCap": 1004,
    "denied": 1006,
    "busy": 1007,
    "storeUnavailable": 1008,
    "notFound": 1009,
}


def test_kinds_and_codes_are_the_protocols() -> None:
    assert {cls.kind: cls.code for cls in CLASSES} == CODES


@pytest.mark.parametrize("cls", CLASSES)
def test_each_kind_stands_in_the_modules_overview(cls: type[AishError]) -> None:
    assert errors.__doc__ is not None
    (line,) = (line for line in errors.__doc__.splitlines() if cls.__name__ in line)
    assert str(cls.code) in line.split()


def test_an_error_carries_its_message_and_data() -> None:
    error = OverBudget("Too large.", total=5)
    assert (str(error), error.message, error.data) == ("Too large.", "Too large.", {"total": 5})
    assert error.to_wire() == {"kind": "overBudget", "message": "Too large."}


def test_the_bad_field_is_named() -> None:
    with pytest.raises(AishError) as caught:
        raise InvalidArgument("The question is empty.", path="prompt")
    assert caught.value.data["path"] == "prompt"
