"""What looks like a secret: to refuse it, or to black it out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: What stands in place of a secret.
REDACTED: Final = "[redacted]"

_START: Final = r"(?<![\w-])"
_PRIVATE_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

# Keys that say what they are by their form. Each pattern begins with a literal, so that a long
# text costs one pass.
_FORMS: Final[tuple[tuple[str, str], ...]] = (
    ("a private key", rf"-----BEGIN {_PRIVATE_KEY}(?s:.*?)(?:-----END {_PRIVATE_KEY}|\Z)"),
    ("an AWS access key", _START + r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
    ("a GitHub token", _START + r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255})"),
    ("a GitLab token", _START + r"glpat-[\w-]{20,255}"),
    ("a Slack token", _START + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}"),
    (
        "a model provider's key",
        _START
        + r"(?:sk-(?:ant|proj|svcacct|admin|or)-[\w-]{16,255}|sk-[A-Za-z0-9]{20,255}"
        + r"|gsk_[A-Za-z0-9]{40,255}|xai-[A-Za-z0-9]{40,255}|hf_[A-Za-z0-9]{30,255})",
    ),
    ("a Google key", _START + r"(?:AIza[\w-]{35}|ya29\.[\w-]{20,255})"),
    ("a Stripe key", _START + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}"),
    ("a package registry's token", _START + r"(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,1024})"),
    ("a JSON web token", _START + r"eyJ[\w-]{10,4096}\.eyJ[\w-]{10,4096}\.[\w-]{10,4096}"),
)

# Secrets that only their surroundings give away. The group is the secret itself.
_VALUE: Final = r"""(?:"([^"\n]{4,255})"|'([^'\n]{4,255})'|([^\s"'`,;]{4,255}))"""
_NAME: Final = (
    r"(?<![A-Za-z])(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?"
    r"|(?:api|access|secret|private|auth)[_-]?key)(?![A-Za-z])"
)
_ASSIGNED: Final = re.compile(rf"(?i){_NAME}[\"']?[ \t]{{0,8}}(=|:|=>)[ \t]{{0,8}}{_VALUE}")
_FLAG: Final = re.compile(rf"(?i)(?<![\w-])--[\w-]{{0,40}}{_NAME}([ \t]){_VALUE}")
_BEARER: Final = re.compile(r"(?i)\b(?:Bearer|Basic)[ \t]([A-Za-z0-9._~+/=-]{16,4096})")
_URL: Final = re.compile(r"://[^\s/:@]{0,255}:([^\s/@]{1,255})@")

_KEYS: Final = re.compile("|".join(f"({pattern})" for _, pattern in _FORMS))

# A variable, a template, a call, or stars in place of a secret.
_PLACEHOLDER: Final = re.compile(r"[$<{%*\[(]|.*[({]|(?:x+|\.+|-+)$", re.IGNORECASE)


def find_secret(text: str) -> str | None:
    """Return what in ``text`` looks like a secret (``an AWS access key``), or None.

    It goes by the forms of well-known keys and by names such as ``password=``; a secret without
    either is not found, and prose about passwords is let through.
    """
    for kind, _, _ in _secrets(text):
        return kind
    return None


def redact(text: str) -> str:
    """Return ``text`` with ``[redacted]`` in place of each thing that looks like a secret."""
    spans = sorted((start, end) for _, start, end in _secrets(text))
    if not spans:
        return text
    pieces = []
    at = 0
    for start, end in spans:
        if start >= at:
            pieces += [text[at:start], REDACTED]
        at = max(at, end)
    return "".join([*pieces, text[at:]])


def _secrets(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield what, where from and where to of each secret; they may overlap."""
    for match in _KEYS.finditer(text):
        assert match.lastindex is not None
        yield _FORMS[match.lastindex - 1][0], match.start(), match.end()
    for match in _URL.finditer(text):
        if not _PLACEHOLDER.match(match[1]):
            yield "a password in an address", match.start(1), match.end(1)
    for match in _BEARER.finditer(text):
        if _mixed(match[1]):
            yield "an Authorization header", match.start(1), match.end(1)
    for pattern in (_ASSIGNED, _FLAG):
        for match in pattern.finditer(text):
            group = match.lastindex or 0
            if _looks_assigned(match[0], match[1], match[group]):
                yield "a password or key", match.start(group), match.end(group)


def _looks_assigned(whole: str, separator: str, value: str) -> bool:
    """Tell a secret behind a name such as ``password`` from prose, code and placeholders."""
    if _PLACEHOLDER.match(value):
        return False
    if separator == "=" and re.match(r"(?i)pass|pwd", whole):
        return value.casefold() not in {"true", "false", "none", "null", "required", "optional"}
    return len(value) >= 6 and _mixed(value)


def _mixed(value: str) -> bool:
    """Whether there is a digit and a letter: a word of prose has no digit, a number no letter."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
