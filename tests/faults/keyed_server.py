"""The server on a machine with no model server of its own, whatever listens on its ports."""

from __future__ import annotations

import sys

from aish_lsp.__main__ import serve
from aish_lsp.models import endpoint

if __name__ == "__main__":
    assert endpoint.discover.__kwdefaults__ is not None
    endpoint.discover.__kwdefaults__["ports"] = ()
    sys.exit(serve(sys.argv[1:]))
