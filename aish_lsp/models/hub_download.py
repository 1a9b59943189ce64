"""Fetch a model's file from the Hugging Face hub, in a process that can be stopped.

``python -m aish_lsp.models.hub_download REPOSITORY FILE`` prints how far it is, unless it draws a
bar on a terminal, then where the file is, or why there is none.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from pathlib import Path
from typing import Any, Final, Self

#: The name of a large file's content in the hub's cache: its SHA-256.
DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class _Progress:
    """What of a progress bar the hub's client uses; it prints lines."""

    def __init__(self, *, total: int | None = None, initial: int = 0, **_: object) -> None:
        self._total, self._done = total, initial

    def update(self, count: int = 1) -> None:
        self._done += count
        if self._total:
            sys.stdout.write(f"at {self._done} {self._total}\n")
            sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def main(repository: str, file: str) -> int:
    """Fetch a file; return the exit code."""
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - an extra

    bar: Any = None if sys.stderr.isatty() else _Progress
    try:
        _go_on(repository, file, bar)
        path = hf_hub_download(repository, file, tqdm_class=bar)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        reason = ": ".join(str(one) for one in (error, error.__cause__) if one)
        sys.stdout.write(f"failed {' '.join(reason.split())[:300]}\n")
        return 1
    sys.stdout.write(f"path {path}\n")
    return 0


def _go_on(repository: str, file: str, bar: Any) -> None:
    """Fetch what is missing of a file into the hub's cache.

    The hub's client begins anew each time it is started, and leaves behind what it had.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url  # noqa: PLC0415

    try:
        from huggingface_hub.file_download import http_get, repo_folder_name  # noqa: PLC0415
    except ImportError:  # They are not public: its client then begins anew.
        return

    try:
        known = get_hf_file_metadata(hf_hub_url(repository, file))
    except Exception:  # noqa: BLE001 - its client tells why, unless it has the file
        return
    if not DIGEST.fullmatch(known.etag or ""):
        return
    folder = repo_folder_name(repo_id=repository, repo_type="model")
    blob = Path(constants.HF_HUB_CACHE, folder, "blobs", str(known.etag))
    if blob.exists():
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    part = blob.with_name(f"{blob.name}.incomplete")
    with part.open("ab") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        # Another process may have had the lock, and fetched all of it or more of it.
        if blob.exists():
            return
        if known.size is not None and written.seek(0, os.SEEK_END) > known.size:
            written.truncate(0)
        http_get(
            known.location,
            written,
            resume_size=written.seek(0, os.SEEK_END),
            expected_size=known.size,
            displayed_filename=file,
            tqdm_class=bar,
        )
        written.flush()
        part.replace(blob)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
