"""URIs as clients send them: any text may come, so none is trusted to be one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pygls.uris import to_fs_path


def is_uri(text: str) -> bool:
    """Return whether ``text`` can be taken apart as a URI, and its path can be one of a file."""
    try:
        return "\0" not in unquote(urlsplit(text).path)
    except ValueError:
        return False


def path_of(uri: str) -> Path | None:
    """Return the path of a ``file:`` URI; None for any other, and for one that is malformed."""
    path = to_fs_path(uri) if uri.startswith("file:") and is_uri(uri) else None
    return Path(path) if path else None
