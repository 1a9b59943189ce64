"""One ``workspace/executeCommand`` request while it is answered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aish_lsp.lsp.messages import MessageId
from aish_lsp.lsp.progress import Progress

if TYPE_CHECKING:
    from aish_lsp.lsp.server import AishServer

logger = logging.getLogger(__name__)


class Call:
    """What a command's handler knows about the request that it answers.

    Attributes:
        server: the server that was asked.
        request_id: the request's id.
        work_done_token: the client's token for progress of this request, or None.
        cancelled: whether the client has asked to stop.
    """

    def __init__(
        self,
        server: AishServer,
        request_id: MessageId,
        work_done_token: MessageId | None,
        stop: Callable[[], object],
    ) -> None:
        self.server = server
        self.request_id = request_id
        self.work_done_token = work_done_token
        self.cancelled = False
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
        token = self.work_done_token
        progress = Progress(title, lambda value: self.server.send_progress(token, value))
        progress.open()
        return progress

    def _run(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("what was to stop a command failed")
