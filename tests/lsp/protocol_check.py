"""What the server sends of ours, held against what `aish-lsp protocol --json` says."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from aish_lsp.lsp.reference import schema


@cache
def _schema() -> dict[str, Any]:
    return schema()


@cache
def _validator(*path: str) -> Draft202012Validator:
    part: Any = _schema()
    for name in path:
        part = part[name]
    return Draft202012Validator({"$defs": _schema()["$defs"], **part})


def _flaws(what: str, value: Any, *path: str) -> list[str]:
    error = best_match(_validator(*path).iter_errors(value))
    if error is None:
        return []
    return [f"{what}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"]


def result_flaws(command: str, result: Any) -> list[str]:
    """Return what is wrong with the result of a command."""
    return _flaws(f"the result of {command}", result, "commands", command, "result")


def event_flaws(event: Any) -> list[str]:
    """Return what is wrong with an event."""
    kind: Any = event.get("kind") if isinstance(event, dict) else None
    if kind not in _schema()["events"]:
        return [f"an event of an unknown kind: {event!r:.300}"]
    return _flaws(f"the event {kind}", event, "events", kind)


def notification_flaws(method: str, params: Any) -> list[str]:
    """Return what is wrong with a notification of ours."""
    if method not in _schema()["notifications"]:
        return [f"the unknown notification {method}"]
    return _flaws(f"the notification {method}", params, "notifications", method, "params")


def request_flaws(method: str, params: Any) -> list[str]:
    """Return what is wrong with a request of ours."""
    if method not in _schema()["requests"]:
        return [f"the unknown request {method}"]
    return _flaws(f"the request {method}", params, "requests", method, "params")


def error_flaws(command: str, error: dict[str, Any]) -> list[str]:
    """Return what is wrong with how a command refuses."""
    kind = (error.get("data") or {}).get("kind")
    known = _schema()["errors"].get(kind)
    if kind is None or (known is not None and known["code"] == error["code"]):
        return []
    return [f"the error of {command}: {error!r:.300}"]
