"""One ``workspace/executeCommand`` request while it is answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aish_lsp.lsp.messages import MessageId
from aish_lsp.lsp.progress import Progress

logger = logging.getLogger(__name__)


class Call:
    """What a command's handler knows about the request that it answers.

    ``send`` sends a value under a progress token; ``stop`` cancels the request's task.

    Attributes:
        request_id: the request's id.
        work_done_token: the client's token for progress of this request, or None.
        cancelled: whether the client has asked to stop.
    """

    def __init__(
        self,
        send: Callable[[MessageId, Mapping[str, Any]], None],
        request_id: MessageId,
        work_done_token: MessageId | None,
        stop: Callable[[], object],
    ) -> None:
        self.request_id = request_id
        self.work_done_token = work_done_token
        self.cancelled = False
        self._send = send
        self._stop = stop
        self._callbacks: list[Callable[[], object]] = []

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when the client cancels, or now if it has.

        The handler is then left to end by itself and its answer is sent. With no callback it is
        cancelled, and the request is answered with RequestCancelled (-32800).
        """
        if self.cancelled:
            self._run(callback)
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """Stop the work, as the client asked; a second time does nothing."""
        if self.cancelled:
            return
        self.cancelled = True
        if not self._callbacks:
            self._stop()
        for callback in self._callbacks:
            self._run(callback)

    def progress(self, title: str) -> Progress:
        """Begin progress under the client's ``workDoneToken``; silent where there is none."""
        if self.work_done_token is None:
            return Progress.silent()
        progress = Progress(title, partial(self._send, self.work_done_token))
        progress.open()
        return progress

    def _run(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("what was to stop a command failed")
