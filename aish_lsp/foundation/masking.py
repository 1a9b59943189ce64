"""Masks secrets with known values, in every form that is cheap to search for.

They are found unchanged, in any case, in hexadecimal, base64 and base32, escaped for a URL, JSON,
HTML or a shell, with any white space in between, as `fold` and `base64` insert it.
"""

from __future__ import annotations

import base64
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from aish_lsp.foundation.redaction import Span, marked, merged

#: Replaces a known secret.
MASK: Final = "[secret]"

#: How many consecutive characters of a form count as a part of the secret.
_PART: Final = 8

#: The shortest line of a secret with several lines (a private key) that is a secret by itself.
_LINE: Final = 24

#: Marks where the middle of an output was left out.
_LEFT_OUT: Final = re.compile(r"^(\[aish: \d+ bytes left out here\])$", re.MULTILINE)

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

#: What servers show in place of a key's middle (``sk-ab...wxyz``), and what delimits its ends.
_MIDDLE: Final = re.compile(r"[*•#]{2,}|\.{2,}|…+")
_DELIMITER: Final = re.compile(r"[\s\"'`,;:!?()<>*•#.…]")
#: The shortest head or tail that identifies a key.
_END: Final = 4

#: What common URL encoders leave unescaped, in addition to letters, digits and ``_.-~``.
_LEFT_IN_URLS: Final = ("", "/", "!'()*", "/!'()*", ":/?#[]@!$&'()*+,;=")

#: Secrets of all workspaces that must not be logged.
_withheld: set[str] = set()


def withhold(secrets: Iterable[str]) -> None:
    """Keep ``secrets`` out of the log from now on."""
    _withheld.update(secrets)


def withheld() -> frozenset[str]:
    """Return all secrets that are kept out of the log."""
    return frozenset(_withheld)


class Mask:
    """Masks ``secrets`` in texts. Creating it costs more than using it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = frozenset(filter(None, secrets))
        forms = {_lowered("".join(f.split())) for one in self._secrets for f in _forms(one)}
        self._forms = tuple(sorted(forms - {""}))
        self._backwards = tuple(form[::-1] for form in self._forms)
        self._longest = max(map(len, self._forms), default=0)
        self._parts: frozenset[str] | None = None

    def whole(self, text: str, mark: str) -> str:
        """Return ``text`` with ``mark`` in place of each secret, in linear time."""
        if not self._forms:
            return text
        squeezed = _squeezed(text)
        spans = [span for form in self._forms for span in _places(form, squeezed)]
        # Adjacent secrets stay separate.
        return marked(text, _origins(text, merged(spans)), mark) if spans else text

    def of_output(self, text: str, mark: str) -> str:
        """Do what ``whole`` does for an output, which may have been cut within a secret.

        It may be cut at its ends, and where it says that a part was left out.
        """
        if not self._forms:
            return text
        masked = self.whole(text, mark)
        # Most outputs are whole, and long ones take long to search for lines.
        pieces = _LEFT_OUT.split(masked) if "[aish: " in masked else [masked]
        pieces[::2] = (self._without_ends(piece, mark) for piece in pieces[::2])
        return "".join(pieces)

    def parts(self, text: str, mark: str) -> str:
        """Return ``text`` with ``mark`` also in place of parts of secrets (8 characters or more).

        Abridged secrets are masked too. This is for errors and the log, as it may mask a harmless
        word.
        """
        if not self._forms:
            return text
        if self._parts is None:
            self._parts = frozenset(
                form[at : at + _PART]
                for form in self._forms
                for at in range(max(1, len(form) - _PART + 1))
            )
        text = self.whole(text, mark)
        text = marked(text, merged(self._abridged(text)), mark)
        lowered, last = _lowered(text), len(text) - _PART
        starts = (at for at in range(last + 1) if lowered[at : at + _PART] in self._parts)
        spans = [(at, at + _PART) for at in starts]
        return marked(text, merged(spans), mark)

    def _abridged(self, text: str) -> Iterator[Span]:
        """Yield the spans of secrets shown without their middles."""
        for middle in _MIDDLE.finditer(text):
            start, end = middle.span()
            head = _DELIMITER.split(text[max(0, start - self._longest) : start])[-1]
            tail = _DELIMITER.split(text[end : end + self._longest], maxsplit=1)[0]
            if any(
                (len(head) >= _END and secret.startswith(head))
                or (len(tail) >= _END and secret.endswith(tail))
                for secret in self._secrets
            ):
                yield start - len(head), end + len(tail)

    def _without_ends(self, text: str, mark: str) -> str:
        """Return ``text`` with the partial secrets at its ends masked."""
        text = self._without_end(text, self._forms, mark)
        start = text[: 2 * self._longest][::-1]
        end = self._without_end(start, self._backwards, mark[::-1])
        return text if end == start else end[::-1] + text[len(start) :]

    def _without_end(self, text: str, forms: Iterable[str], mark: str) -> str:
        first = max(0, len(text) - 2 * self._longest)
        tail = _squeezed(text[first:])
        length = max((_overlap(tail, form) for form in forms), default=0)
        if not length:
            return text
        [(start, end)] = _origins(text[first:], [(len(tail) - length, len(tail))])
        return f"{text[: first + start]}{mark}{text[first + end :]}"


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear."""
    for value in (secret, *_lines(secret)):
        data = value.encode("utf-8", "surrogatepass")
        yield from (value, value.upper(), value.lower())
        yield from _escaped(value)
        for separator in ("", ":", "-", ",", r"\x", "%"):
            # A form that starts with the separator is found without it.
            yield separator.join(f"{byte:02x}" for byte in data)
        yield from _in_digits(data, base64.b64encode, 6)
        yield from _in_digits(data, base64.urlsafe_b64encode, 6)
        yield from _in_digits(data, base64.b32encode, 5)


def _lines(secret: str) -> list[str]:
    lines = secret.split("\n")
    long = (line.strip() for line in lines if len(line) >= _LINE and not line.startswith("-----"))
    return [*long] if len(lines) > 1 else []


def _escaped(value: str) -> Iterator[str]:
    """Yield a value as several formats escape it; most leave most values unchanged."""
    import html  # noqa: PLC0415 - not needed at the start

    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield html.escape(value)
    yield shlex.quote(value).strip("'")
    yield value.replace("'", r"'\''")
    for pattern in (r"([\"\\$`])", r"(['\\])"):
        yield re.sub(pattern, r"\\\1", value)
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)
    encoded = value.encode("utf-8", "surrogatepass")
    for safe in _LEFT_IN_URLS:
        yield quote(encoded, safe=safe)
    yield quote_plus(encoded)


def _in_digits(data: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """Yield the digits of ``data``, for each alignment, that do not depend on adjacent bytes.

    Each digit stands for ``bits`` bits, so the first one may start within a byte.
    """
    whole = bits // math.gcd(bits, 8)
    for before in range(whole):
        digits = encode(bytes(before) + data).decode("ascii")
        yield digits[-(-before * 8 // bits) : (before + len(data)) * 8 // bits]


def _lowered(text: str) -> str:
    """Return ``text`` with its ASCII letters in lower case, which changes no length."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def _squeezed(text: str) -> str:
    """Return ``text`` without its white space, in lower case."""
    return _lowered("".join(text.split()))


def _origins(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans of ``text`` that spans of what is left of it by ``_squeezed`` come from."""
    origins = [at for at, character in enumerate(text) if not character.isspace()]
    for start, end in spans:
        yield origins[start], origins[end - 1] + 1


def _places(form: str, text: str) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _overlap(text: str, form: str) -> int:
    """Return how many characters at the end of ``text`` are the start of ``form``."""
    at = text.find(form[:_PART], max(0, len(text) - len(form)))
    while at >= 0:
        if form.startswith(text[at:]):
            return len(text) - at
        at = text.find(form[:_PART], at + 1)
    return 0
