"""The proxies that the environment names, for HTTP clients that take only some of what others take.

Besides models, tool servers are reached through them.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


def environment_proxies(is_pattern: Callable[[str], bool]) -> dict[str, str | None]:
    """Return the address of the proxy for each pattern of httpx's; None for no proxy.

    A ``#`` in a password is encoded, and an address in brackets is one. What cannot be understood
    in NO_PROXY, by ``is_pattern``, is ignored, with a warning in the log.
    """
    from urllib.request import getproxies  # noqa: PLC0415 - brings much; httpx loads it anyway

    given = getproxies()
    if "*" in given.get("no", "").replace(" ", "").split(","):
        return {}
    proxies: dict[str, str | None] = {}
    for scheme in ("http", "https", "all"):
        if url := given.get(scheme):
            url = url.replace("#", "%23") if "@" in url.partition("#")[2] else url
            proxies[f"{scheme}://"] = url if "://" in url else f"http://{url}"
    for entry in given.get("no", "").split(","):
        name = entry.strip().strip("[]")
        if not name:
            continue
        is_name = name != "localhost" and not re.fullmatch(r"[\d./]+", name)
        pattern = f"all://[{name}]" if ":" in name else f"all://{'*' * is_name}{name}"
        if is_pattern(pattern):
            proxies[pattern] = None
        else:
            logger.warning("NO_PROXY: %r is not understood, and ignored", entry.strip())
    return proxies
