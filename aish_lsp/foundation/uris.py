"""The paths of files that URIs name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

_FILE: Final = re.compile(
    r"file:(?://(?P<host>[^/?#]*)|(?!//))(?P<path>/.*)", re.IGNORECASE | re.DOTALL
)
_BEHIND_PATH: Final = re.compile(r"[?#].*", re.DOTALL)


def is_uri(text: str) -> bool:
    """Return whether ``text`` can be parsed as a URI, and its path can be a file's."""
    try:
        return "\0" not in unquote(urlsplit(text).path)
    except ValueError:
        return False


def path_of(uri: str) -> Path | None:
    """Return the path of a file of this machine; None for any other URI.

    ``file:`` may be written in any case, and its host may be ``localhost``. pygls' function takes
    that for the name of another machine, and a drive (``file:///c%3A/w``) for a relative path.
    urllib drops line ends. A client may leave a ``#`` in a name as it is: the name counts if there
    is such a file.
    """
    match = _FILE.fullmatch(uri)
    if match is None or not is_uri(uri) or (match["host"] or "").lower() not in ("", "localhost"):
        return None
    written = match["path"]
    try:
        path, whole = (
            os.fsdecode(unquote_to_bytes(part)) for part in (_BEHIND_PATH.sub("", written), written)
        )
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return Path(whole if path != whole and os.path.lexists(whole) else path)
