"""Carries out what a user asks for: the one way in, whichever face it comes from.

A face says who asks (``Caller``) and what for; it gets an answer, or a job whose events it shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from aish_lsp.foundation.job import Job
from aish_lsp.foundation.validate import structure
from aish_lsp.operations import OPERATIONS
from aish_lsp.operations.operation import Answer

if TYPE_CHECKING:
    from aish_lsp.operations.operation import Caller, Line, Operation

#: What an operation gives back.
Reply: TypeAlias = Answer[Any] | Job[Any]


async def dispatch(operation: Operation, params: Any, caller: Caller) -> Reply:
    """Carry out an operation with its parameters, or with JSON data that is checked against them.

    Raises:
        InvalidArgument: the data does not fit the parameters.
        NotFound: the session that they name is not open.
        AishError: the operation refused or failed.
    """
    if isinstance(params, Mapping):
        params = structure(params, operation.params, camel_case=True)
    if operation.selects:
        caller = replace(caller, subject=await caller.face.subject(params))
    session: str | None = getattr(params, "session", None)
    caller = await _settled(operation, caller, session)
    return await _run(operation, params, caller, session)


async def begin(name: str, params: Any, caller: Caller) -> Job[Any]:
    """Carry out the operation ``name``, which always begins a job; see ``dispatch``."""
    job = await dispatch(OPERATIONS[name], params, caller)
    assert isinstance(job, Job)
    return job


async def dispatch_line(
    operation: Operation, line: Line, argument: str, caller: Caller, session: str | None = None
) -> Reply:
    """Carry out an operation that was typed as a ``line`` of the chat, in an open ``session``.

    Raises:
        InvalidArgument: the line does not take such an argument.
        NotFound: the session is not open.
        AishError: the operation refused or failed.
    """
    caller = await _settled(operation, caller, session)
    params = line.read(caller, argument) if line.read else operation.params()
    if inspect.isawaitable(params):
        params = await params
    return await _run(operation, params, caller, session)


async def _settled(operation: Operation, caller: Caller, session: str | None) -> Caller:
    """Wait for the settings that an operation needs; return the caller with the session meant."""
    workspace = caller.workspace
    if operation.needs_settings:
        await workspace.services.settled(workspace.root)
    # An operation that acts at once does not wait for a session that is about to be shown.
    if session is not None or (operation.takes_session and not operation.at_once):
        return replace(caller, session=await workspace.sessions.named(session))
    return replace(caller, session=workspace.shown)


async def _run(operation: Operation, params: Any, caller: Caller, session: str | None) -> Reply:
    if operation.comes_in_pieces and params.partial_result_token is None:
        await caller.face.make_room(operation, caller.session)
        # Another session may be shown by now.
        caller = await _settled(operation, caller, session)
    reply: Reply = await operation.run(caller, params)
    return reply
