"""Messages of every method that is answered, with a value of another kind somewhere in them."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import attrs
import pytest
from client import TIMEOUT, Client, RpcError, execute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsprotocol import types
from lsprotocol.converters import get_converter

from aish_lsp.foundation.events import camel_case
from aish_lsp.lsp.protocol import COMMANDS
from aish_lsp.lsp.server import create_server

get_converter()  # resolves the types of the fields

_INTERNAL_ERROR = -32603
#: They begin or end the session.
_LIFE_CYCLE = {types.INITIALIZE, types.INITIALIZED, types.SHUTDOWN, types.EXIT}

_URIS = ("file:///w/a.md", "untitled:1", "file://[", "https://[x", "file:///%00", "", "a\nb")
_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((-1, 2**31, 2**70, 1.5, 1e300, "", "x", "\0", "\n", "\ud800", *_URIS)),
    st.sampled_from(([], {}, [1], [[]], [None], {"a": 1}, [{}])),
)


def registered() -> list[str]:
    return sorted({*create_server().protocol.fm.features} - _LIFE_CYCLE)


def valid(kind: Any, name: str = "", depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that LSP has for a field: of type ``kind``, called ``name``."""
    if get_origin(kind) is Union:
        arms = [arm for arm in get_args(kind) if arm is not type(None)]
        return st.one_of(*(valid(arm, name, depth) for arm in arms))
    if get_origin(kind) is not None:
        inner = get_args(kind)[0] if issubclass(get_origin(kind), Sequence) else None
        return st.just({}) if inner is None else st.lists(valid(inner, name, depth), max_size=2)
    if isinstance(kind, type) and attrs.has(kind):
        return fields_of(kind, depth)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from([member.value for member in kind])
    if kind is str:
        is_uri = name in ("uri", "document") or name.endswith("_uri")
        return st.sampled_from(_URIS) if is_uri else st.sampled_from(("", "a", ":m", "a\r\nb"))
    simple = {int: st.integers(0, 3), bool: st.booleans(), float: st.floats(0, 1)}
    return simple.get(kind, _JUNK)


def fields_of(kind: type, depth: int) -> st.SearchStrategy[Any]:
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for field in attrs.fields(kind):
        wanted = required if field.default is attrs.NOTHING else optional
        if wanted is required or depth < 3:
            wanted[camel_case(field.name)] = valid(field.type, field.name, depth + 1)
    return st.fixed_dictionaries(required, optional=optional)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from places(value[key], (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """Return ``value`` with ``new`` at one place."""
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = put(value[at[0]], at[1:], new)
    return copy


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, Any]:
    """Return a method and its params, of which one part or none is something else."""
    method = draw(st.sampled_from(METHODS))
    kind = types.METHOD_TO_TYPES[method][2]
    params = draw(valid(kind))
    if method == types.WORKSPACE_EXECUTE_COMMAND and draw(st.booleans()):
        # Nothing that could run has a text here.
        names = ("workspace", "uri", "session", "id", "name", "query", "range", "commandId", "cwd")
        argument = draw(st.dictionaries(st.sampled_from(names), _JUNK, max_size=3))
        params = execute(draw(st.sampled_from(sorted(COMMANDS))), argument)
    if draw(st.booleans()):
        params = put(params, draw(st.sampled_from([*places(params)])), draw(_JUNK))
    return method, params


METHODS = registered()


@pytest.fixture
def run(clean_home: Path, folder: Path) -> Iterator[Any]:
    """Return what sends one message to a server that goes on from one to the next."""
    with asyncio.Runner() as runner:
        client = runner.run(Client().start())
        runner.run(client.initialize(folder))

        async def send(method: str, params: Any, *, as_request: bool) -> None:
            if as_request:
                _, answer = await client.begin(method, params)
                await asyncio.wait([answer], timeout=TIMEOUT)
                assert getattr(answer.exception(), "code", None) != _INTERNAL_ERROR, params
            else:
                await client.notify(method, params)
            # It goes on, in the same workspace.
            await client.command_result("aish.status", {"workspace": folder.as_uri()})
            assert "Traceback" not in client.stderr, client.stderr

        yield lambda *args, **options: runner.run(send(*args, **options))
        runner.run(client.stop())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=messages(), as_request=st.booleans())
def test_no_shape_of_a_message_is_an_internal_error(
    run: Any, message: tuple[str, Any], as_request: bool
) -> None:
    run(*message, as_request=as_request)


TOKEN = "window/workDoneProgress/cancel"


@pytest.mark.parametrize("token", [[], {}, [1], {"a": 1}, None, True, 1.5])
async def test_a_token_that_is_none_is_passed_over(folder: Path, token: Any) -> None:
    async with Client() as client:
        await client.initialize(folder)
        await client.notify(TOKEN, {"token": token})
        with pytest.raises(RpcError) as refused:
            await client.request(
                "workspace/executeCommand", execute("aish.status", workDoneToken=[1])
            )
        assert refused.value.code == -32602
        assert refused.value.data == {"kind": "invalidArgument", "path": "workDoneToken"}
        assert "a whole number or a string" in refused.value.message
        await client.command_result("aish.status")
        assert "Traceback" not in client.stderr


async def test_a_request_is_no_notification_and_the_other_way_round(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        await client.notify("workspace/executeCommand", execute("aish.memory.clear"))
        await client.notify("shutdown")
        for method in ("exit", "textDocument/didClose", TOKEN):
            with pytest.raises(RpcError) as refused:
                await client.request(method, {"token": 1})
            assert (refused.value.code, refused.value.message) == (
                -32600,
                f"{method} is a notification",
            )
        assert await client.command_result("aish.status")
        assert "ignored workspace/executeCommand" in client.stderr
        assert "Traceback" not in client.stderr


@pytest.mark.parametrize("uri", ["file://[", "file:///%00", "https://[x"])
async def test_a_folder_whose_address_is_none_leaves_the_others_alone(
    folder: Path, uri: str
) -> None:
    both = [{"uri": uri, "name": "x"}, {"uri": folder.as_uri(), "name": "w"}]
    async with Client() as client:
        await client.initialize(workspaceFolders=both)
        await client.notify(
            "workspace/didChangeWorkspaceFolders", {"event": {"added": both[:1], "removed": []}}
        )
        assert await client.command_result("aish.status")
        for argument in ({"workspace": uri}, {"cwd": uri, "text": "true"}):
            name = "aish.run" if "cwd" in argument else "aish.status"
            with pytest.raises(RpcError) as refused:
                await client.command_result(name, argument)
            assert refused.value.code in (-32602, 1009)
        opened = await client.command_result("aish.chat.open")
        assert Path(opened["uri"].removeprefix("file://")).parent.parent == folder
        assert "Traceback" not in client.stderr
