"""What can be chosen in a session: its mode and its model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from acp import schema

Mode = Literal["ask", "act"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

_ABOUT: Final[dict[Mode, str]] = {
    "ask": "Tools that only read; a suggested command runs when you say /run",
    "act": "You are asked about each suggested command and about each change",
}


def options_of(mode: Mode, model: str, names: Iterable[str]) -> list[Any]:
    """Return the options of a session, with their values; ``names`` are those of the models."""
    modes = [
        {"value": one, "name": one.title(), "description": about} for one, about in _ABOUT.items()
    ]
    models = [{"value": name, "name": name} for name in dict.fromkeys([*names, model])]
    return [_select("mode", mode, modes), _select("model", model, models)]


def _select(name: Literal["mode", "model"], value: str, options: list[dict[str, str]]) -> Any:
    option = {"type": "select", "id": name, "name": name.title(), "category": name}
    return schema.SessionConfigOptionSelect.model_validate(
        {**option, "currentValue": value, "options": options}
    )


def modes_of(current: Mode) -> schema.SessionModeState:
    """Return the modes as clients read them that know no options."""
    modes = [
        {"id": mode, "name": mode.title(), "description": about} for mode, about in _ABOUT.items()
    ]
    return schema.SessionModeState.model_validate(
        {"currentModeId": current, "availableModes": modes}
    )
