"""What the user has granted: DATA/trust.json.

A grant is for one hash of contents; changed contents are not granted. If anything is wrong with the
file, it grants nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from aish_lsp.foundation.errors import StoreUnavailable
from aish_lsp.foundation.files import data_dir
from aish_lsp.foundation.jsonl import SharedFile, now
from aish_lsp.foundation.locks import locked

#: What a grant is for. Consents to a provider or a key are the user's own, not a workspace's.
What = Literal["overlay", "server", "settings", "tool", "norris", "command"]

#: The maximum size of the file in bytes: enough for tens of thousands of grants.
_LARGEST: Final = 16 << 20

#: What the user agrees to or not: using a provider, and sending a key unencrypted.
Consent = Literal["provider", "key"]

_ANSWERS: Final = {"granted": True, "denied": False}


def trust_file() -> Path:
    """Return the path of the user's grants."""
    return data_dir() / "trust.json"


class TrustStore:
    """The user's grants. A change by another process takes effect at once.

    All methods block briefly; reading takes one ``stat`` if the file has not changed.
    """

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path, "grants", list, _LARGEST)
        self._seen: tuple[int, ...] | None = None
        self._document: dict[str, Any] = {}
        self._trouble: str | None = None

    def trouble(self) -> str | None:
        """Return what is wrong with the file, for the user; None if nothing is."""
        self._refresh()
        return self._trouble

    def granted(self, workspace: Path, what: What, name: str, contents: str) -> bool:
        """Return whether exactly these ``contents`` (a hash) of ``name`` were granted."""
        about = {"workspace": _place(workspace), "what": what, "name": name, "hash": contents}
        return bool(self._grants(about))

    def definition(self, workspace: Path, what: What, name: str) -> str | None:
        """Return what was stored with the grant of ``name``; None if nothing is granted."""
        grants = self._grants({"workspace": _place(workspace), "what": what, "name": name})
        return str(grants[-1].get("definition", "")) if grants else None

    def times(self, workspace: Path, what: What) -> dict[str, str]:
        """Return when each of a workspace's grants of this kind was given, by its name."""
        grants = self._grants({"workspace": _place(workspace), "what": what})
        return {str(grant.get("name")): str(grant.get("at")) for grant in grants}

    def grant(
        self, workspace: Path, what: What, name: str, contents: str, *, definition: str = ""
    ) -> None:
        """Grant these ``contents`` of ``name``, in place of those granted before.

        ``definition`` is kept with the grant, to show later what has changed.

        Raises:
            StoreUnavailable: the file is from a newer version, or cannot be written.
            Busy: another process holds it.
        """
        about = {"workspace": _place(workspace), "what": what, "name": name}
        more = {"definition": definition} if definition else {}
        self._replace(about, {**about, "hash": contents, **more, "at": now()})

    def revoke(self, workspace: Path, what: What | None = None, name: str | None = None) -> int:
        """Revoke the workspace's grants (all, or those of a kind or a name); return how many.

        Raises:
            StoreUnavailable, Busy: as ``grant``.
        """
        about = {"workspace": _place(workspace), "what": what, "name": name}
        return self._replace({key: value for key, value in about.items() if value is not None})

    def workspaces(self) -> Counter[str]:
        """Return how many grants each workspace has; the keys are the URIs of their real paths."""
        return Counter(str(grant.get("workspace") or "") for grant in self._grants({}))

    def answer(self, what: Consent, name: str, place: str) -> bool | None:
        """Return the user's answer about sending to ``place`` for ``name``; None if not asked."""
        about = {"workspace": None, "what": what, "name": name, "hash": _digest(place)}
        grants = self._grants(about)
        return _ANSWERS.get(str(grants[-1].get("answer"))) if grants else None

    def keep_answer(self, what: Consent, name: str, place: str, *, granted: bool) -> None:
        """Store the user's answer.

        Raises:
            StoreUnavailable, Busy: as ``grant``.
        """
        answer = next(word for word, meant in _ANSWERS.items() if meant is granted)
        about = {"workspace": None, "what": what, "name": name}
        self._replace(about, {**about, "hash": _digest(place), "answer": answer, "at": now()})

    def _grants(self, about: Mapping[str, str | None]) -> list[dict[str, Any]]:
        """Return the grants that match all of ``about``."""
        self._refresh()
        return [grant for grant in self._document.get("grants", ()) if _is_about(grant, about)]

    def _replace(self, about: Mapping[str, str | None], *grants: dict[str, Any]) -> int:
        """Replace the grants that match ``about`` with ``grants``; return how many matched."""
        with locked(self._file.path):
            document = self._file.read_to_write(self._file.empty())
            others = [grant for grant in document["grants"] if not _is_about(grant, about)]
            count = len(document["grants"]) - len(others)
            if count or grants:
                self._file.write({**document, "grants": [*others, *grants]})
                self._seen = None
            return count

    def _refresh(self) -> None:
        """Read the file if it has changed; remember what is wrong with it."""
        try:
            seen = self._file.state()
            if seen == self._seen:
                return
            self._seen, self._document, self._trouble = seen, {}, None
            self._document = self._file.read()
        except StoreUnavailable as error:
            self._seen, self._document = None, {}
            self._trouble = f"{error.message} Nothing is granted by it."
        except ValueError as error:
            self._trouble = f"{self._file.path}: {error}; nothing is granted by it"


def _is_about(grant: object, about: Mapping[str, str | None]) -> bool:
    return isinstance(grant, dict) and about.items() <= grant.items()


def _place(workspace: Path) -> str:
    """Return the name of a workspace in the file: the URI of its real path."""
    return Path(os.path.realpath(workspace)).as_uri()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
