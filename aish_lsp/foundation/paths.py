"""Where our files lie: the data folder, the configuration file, and a workspace's own folder."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path


def data_dir() -> Path:
    """Return DATA: ``AISH_DATA_DIR``, or the platform's folder for a user's data."""
    moved = os.environ.get("AISH_DATA_DIR")
    if moved:
        return Path(moved).expanduser()
    from platformdirs import user_data_path  # noqa: PLC0415 - not needed by every start

    return user_data_path("aish", appauthor=False)


def recent_log() -> Path:
    """Return the file that keeps what went wrong lately, for a bug report."""
    return data_dir() / "recent.log"


def config_file() -> Path:
    """Return the user's ``config.toml``: ``AISH_CONFIG``, or the platform's place for it."""
    moved = os.environ.get("AISH_CONFIG")
    if moved:
        return Path(moved).expanduser()
    from platformdirs import user_config_path  # noqa: PLC0415 - as above

    return user_config_path("aish", appauthor=False) / "config.toml"


def workspace_key(root: Path) -> str:
    """Return a workspace's key: a readable slug of its name, and a hash of its real path."""
    real = Path(os.path.realpath(root))
    slug = re.sub(r"[^a-z0-9]+", "-", real.name.lower()).strip("-")[:40].strip("-") or "root"
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    return f"{slug}-{digest}"


def workspace_dir(root: Path) -> Path:
    """Return the folder under DATA that holds a workspace's memory, sessions and usage."""
    return data_dir() / "workspaces" / workspace_key(root)
