"""What a request really is to a llama.cpp server, in tokens, over one connection."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from aish_lsp.models.providers.openai import request_body
from aish_lsp.models.request import ModelRequest

#: What a chat completion and its template both look at.
_TEMPLATED = ("messages", "tools", "chat_template_kwargs")


class RealCounts:
    """Asks a server at ``url`` for its own counts. Use it in ``with``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=100)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _at: TracebackType | None
    ) -> None:
        self._connection.close()

    def request(self, request: ModelRequest) -> int:
        """Return the tokens of the prompt that the server makes of a request, as it is sent.

        Raises:
            RuntimeError: its template does not take the request.
        """
        body = request_body(request, request.preset.model)
        asked = {name: body[name] for name in _TEMPLATED if name in body}
        prompt = self._post("/apply-template", asked)["prompt"]
        return self.text(prompt, add_special=True, parse_special=True)

    def text(self, text: str, **options: Any) -> int:
        """Return the tokens of a text."""
        return len(self._post("/tokenize", {"content": text, **options})["tokens"])

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        content = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request("POST", path, content, headers)
            reply = self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            # The server ends a connection that was idle for some seconds, or served very many.
            self._connection.close()
            self._connection.request("POST", path, content, headers)
            reply = self._connection.getresponse()
        data = reply.read()
        if reply.status != 200:
            raise RuntimeError(data.decode(errors="replace"))
        return json.loads(data)
