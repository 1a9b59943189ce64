"""Masks secrets with known values, in every form that is cheap to search for.

They are found unchanged, reversed, in another case, in hexadecimal, base64 and base32, escaped for
a URL, JSON, HTML or a shell, with any white space in between (as `fold` and `base64` insert it),
and in hex dumps.
"""

from __future__ import annotations

import base64
import json
import math
import re
import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias
from urllib.parse import quote, quote_plus

#: Replaces a known secret.
MASK: Final = "[secret]"

#: Start and end of a part of a text.
_Span: TypeAlias = tuple[int, int]

#: How many consecutive characters of a form count as a part of the secret.
_PART: Final = 8

#: The shortest line of a secret with several lines (a private key) that is a secret by itself.
_LINE: Final = 24

#: Marks where the middle of an output was left out.
_LEFT_OUT: Final = re.compile(r"^(\[aish: \d+ bytes left out here\])$", re.MULTILINE)

#: A line of `hexdump -C`, `xxd` or `od`; the group is the dump, without address and characters.
_DUMP: Final = re.compile(
    r"^[0-9a-f]{8} {2}((?:[0-9a-f]{2} {1,2})+) *\|.*\|$"
    r"|^[0-9a-f]{8}: ((?:[0-9a-f]{2,4} )+) .*$"
    r"|^[0-7]{7} +(\S.*)$",
    re.MULTILINE,
)
_RUN: Final = re.compile(r"\S+")

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
        forms = {_squeezed(form) for secret in self._secrets for form in _forms(secret)}
        self._forms = tuple(sorted(forms - {""}))
        self._backwards = tuple(form[::-1] for form in self._forms)
        self._longest = max(map(len, self._forms), default=0)
        self._parts: frozenset[str] | None = None

    def whole(self, text: str, mark: str) -> str:
        """Return ``text`` with ``mark`` in place of each secret, in linear time."""
        squeezed = _squeezed(text)
        # Where each run is has to be known only for a text that holds a secret; most hold none.
        spans = (
            self._spans(text, _runs(text)) if any(map(squeezed.__contains__, self._forms)) else []
        )
        if self._forms:
            spans += self._dumped(text)
        return _marked(text, _merged(spans), mark) if spans else text

    def _spans(self, text: str, runs: Sequence[_Span]) -> list[_Span]:
        """Return the spans of secrets in ``runs`` of the text, joined together."""
        joined = "".join([text[start:end] for start, end in runs])
        found = [span for form in self._forms for span in _places(form, joined)]
        # Adjacent secrets stay separate.
        return [*_spread(runs, _merged(found))] if found else []

    def _dumped(self, text: str) -> Iterator[_Span]:
        """Yield the lines of hex dumps that contain secrets."""
        dumped = [found.span(found.lastindex or 0) for found in _DUMP.finditer(text)]
        runs = [run.span() for start, end in dumped for run in _RUN.finditer(text, start, end)]
        for start, end in self._spans(text, runs):
            line_end = text.find("\n", end)
            yield text.rfind("\n", 0, start) + 1, len(text) if line_end < 0 else line_end

    def of_output(self, text: str, mark: str) -> str:
        """Do what ``whole`` does for an output, which may have been cut within a secret.

        It may be cut at its ends, and where it says that a part was left out.
        """
        if not self._forms:
            return text
        pieces = _LEFT_OUT.split(self.whole(text, mark))
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
        text = _marked(text, _merged(self._abridged(text)), mark)
        last = len(text) - _PART
        spans = [(at, at + _PART) for at in range(last + 1) if text[at : at + _PART] in self._parts]
        return _marked(text, _merged(spans), mark)

    def _abridged(self, text: str) -> Iterator[_Span]:
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
        return self._without_end(text[::-1], self._backwards, mark[::-1])[::-1]

    def _without_end(self, text: str, forms: Iterable[str], mark: str) -> str:
        first = max(0, len(text) - 2 * self._longest)
        tail = text[first:]
        squeezed = _squeezed(tail)
        length = max((_overlap(squeezed, form) for form in forms), default=0)
        if not length:
            return text
        [span] = _spread(_runs(tail), [(len(squeezed) - length, len(squeezed))])
        return text[:first] + _marked(tail, [span], mark)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear."""
    for value in (secret, *_lines(secret)):
        data = value.encode("utf-8", "surrogatepass")
        yield from (value, value[::-1], value.upper(), value.lower())
        yield from _escaped(value)
        for separator in ("", ":", "-", ",", r"\x", "%"):
            # A form that starts with the separator is found without it.
            digits = separator.join(f"{byte:02x}" for byte in data)
            yield from (digits, digits.upper() if separator != r"\x" else digits)
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
    for kept in _LEFT_IN_URLS:
        quoted = quote(encoded, safe=kept)
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    yield quote_plus(encoded)


def _in_digits(data: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """Yield the digits of ``data``, for each alignment, that do not depend on adjacent bytes.

    Each digit stands for ``bits`` bits, so the first one may start within a byte.
    """
    whole = bits // math.gcd(bits, 8)
    for before in range(whole):
        digits = encode(bytes(before) + data).decode("ascii")
        yield digits[-(-before * 8 // bits) : (before + len(data)) * 8 // bits]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _places(form: str, text: str) -> Iterator[_Span]:
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


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    """Return the spans in order, with overlapping ones merged."""
    merged: list[_Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _runs(text: str) -> list[_Span]:
    return [run.span() for run in _RUN.finditer(text)]


def _spread(runs: Sequence[_Span], spans: Iterable[_Span]) -> Iterator[_Span]:
    """Yield the spans of a text that correspond to ``spans`` of its joined ``runs``."""
    ends = [*accumulate(end - start for start, end in runs)]
    for start, end in spans:
        first, last = bisect_right(ends, start), bisect_right(ends, end - 1)
        yield runs[first][1] - (ends[first] - start), runs[last][1] - (ends[last] - end)


def _marked(text: str, spans: Iterable[_Span], mark: str) -> str:
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], mark]
        at = end
    return "".join([*pieces, text[at:]])
