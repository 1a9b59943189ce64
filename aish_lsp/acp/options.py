"""What can be chosen in a session: its mode and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from acp import schema

from aish_lsp.models.catalog import OFFLINE

if TYPE_CHECKING:
    from aish_lsp.acp.session import AcpSession, Mode

_ABOUT: Final[dict[Mode, str]] = {
    "ask": "Tools that only read; a suggested command runs when you say /run",
    "act": "You are asked about each suggested command and about each change",
}


def options_of(session: AcpSession) -> list[Any]:
    """Return the options of a session, with their values."""
    active = session.session.active_model
    names = dict.fromkeys([*session.workspace.config.models, OFFLINE.name, active])
    models = [schema.SessionConfigSelectOption(value=name, name=name) for name in names]
    modes = [
        schema.SessionConfigSelectOption(value=mode, name=mode.title(), description=about)
        for mode, about in _ABOUT.items()
    ]
    return [_select("mode", session.mode, modes), _select("model", active, models)]


def _select(
    name: Literal["mode", "model"], value: str, options: list[schema.SessionConfigSelectOption]
) -> Any:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=name,
        name=name.title(),
        category=name,
        current_value=value,
        options=options,
    )


def modes_of(session: AcpSession) -> schema.SessionModeState:
    """Return the modes as clients read them that know no options."""
    modes = [
        schema.SessionMode(id=mode, name=mode.title(), description=about)
        for mode, about in _ABOUT.items()
    ]
    return schema.SessionModeState(current_mode_id=session.mode, available_modes=modes)
