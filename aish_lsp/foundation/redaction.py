"""Detects what looks like a secret, to refuse it, hide it in a message, or redact it.

This module also lists the names of files and folders that hold keys and passwords.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

#: Start and end of a part of a text.
Span: TypeAlias = tuple[int, int]

#: Replaces a secret.
REDACTED: Final = "[redacted]"

_START: Final = r"(?<![\w-])"
_PRIVATE_KEY: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

# Keys with a recognizable format. Each pattern begins with a literal, so that a long text takes a
# single pass.
_FORMS: Final[tuple[tuple[str, str], ...]] = (
    ("a private key", rf"-----BEGIN {_PRIVATE_KEY}(?s:.*?)(?:-----END {_PRIVATE_KEY}|\Z)"),
    ("an AWS access key", _START + r"(?:AKIA|ASIA)[A-Z0-9]{12,124}(?![A-Z0-9])"),
    ("a GitHub token", _START + r"(?:gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_\w{16,255})"),
    ("a GitLab token", _START + r"glpat-[\w-]{20,255}"),
    ("a Slack token", _START + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}"),
    (
        "a model provider's key",
        _START
        + r"(?:sk-(?:ant|proj|svcacct|admin|or)-[\w-]{16,255}|sk-[A-Za-z0-9]{20,255}"
        # With a digit, to tell it from hyphenated words.
        + r"|(?:sk|xai|pplx|csk|nvapi)-(?=[A-Za-z_-]{0,255}\d)[\w-]{20,255}"
        + r"|(?:gsk|hf|r8)_(?=[A-Za-z]{0,255}\d)[A-Za-z0-9]{16,255})",
    ),
    ("a Google key", _START + r"(?:AIza[\w-]{30,255}|ya29\.[\w-]{20,255})"),
    ("a Stripe key", _START + r"[prs]k_(?:live|test)_[A-Za-z0-9]{16,255}"),
    ("a package registry's token", _START + r"(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,1024})"),
    ("a JSON web token", _START + r"eyJ[\w-]{10,4096}+(?:\.[\w-]{1,4096}+){1,4}"),
)

# Secrets that only their context reveals. The group is the secret itself.
_VALUE: Final = r"""(?:"([^"\n]{4,255})"|'([^'\n]{4,255})'|([^\s"'`,;]{4,255}))"""
_NAME: Final = (
    r"(?<![A-Za-z])(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?"
    r"|(?:api|access|secret|private|auth)[_-]?key)(?![A-Za-z])"
)
_ASSIGNED: Final = re.compile(rf"(?i){_NAME}[\"']?[ \t]{{0,8}}(=|:|=>)[ \t]{{0,8}}{_VALUE}")
_FLAG: Final = re.compile(rf"(?i)(?<![\w-])--[\w-]{{0,40}}{_NAME}([ \t]){_VALUE}")
_CREDENTIALS: Final = r"[A-Za-z0-9._~+/=-]"
_BEARER: Final = re.compile(rf"(?i)\b(?:Bearer|Basic)[ \t]({_CREDENTIALS}{{16,4096}})")
_HEADER: Final = re.compile(
    r"(?i)\bAuthorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?"
    rf"(?:Bearer|Basic)[ \t]{{1,8}}({_CREDENTIALS}{{8,4096}})"
)
_HEADER_VALUE: Final = re.compile(rf"(?i)\s*(?:Bearer|Basic)\s+{_CREDENTIALS}{{8,}}\s*")
_URL: Final = re.compile(r"://[^\s/:@]{0,255}:([^\s/@]{1,255})@")

_KEYS: Final = re.compile("|".join(f"({pattern})" for _, pattern in _FORMS))

# Searching a long text for what all of these begin with or contain is much faster than for the
# patterns themselves, which are then tried on the lines where it is.
_HINTS: Final = re.compile(
    r"AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|xox|xapp-|sk-|xai-|pplx-|csk-|nvapi-|gsk_|hf_|r8_|AIza"
    r"|ya29\.|_live_|_test_|npm_|pypi-|eyJ|://"
)
_NAME_HINTS: Final = re.compile(r"pass|pwd|secret|token|credential|key|bearer|basic|authorization")
_ANY_CASE_HINTS: Final = re.compile(_NAME_HINTS.pattern, re.IGNORECASE)

# A variable, a template, a call, or stars instead of a secret.
_PLACEHOLDER: Final = re.compile(r"[$<{%*\[(]|.*[({]|(?:x+|\.+|-+)$", re.IGNORECASE)

_NAME_WORD: Final = re.compile(
    r"key|secret|passw(or)?d|passphrase|authorization|credentials?|cookie|bearer|apikey|auth",
    re.IGNORECASE,
)


# Names of environment variables that hold secrets, and endings of names that only refer to one.
_SECRET_VARIABLE: Final = re.compile(
    r"passw|passphrase|secret|credential|api_?key|access_?key|private_?key|token(?![a-z])|bearer"
    r"|webhook|cookie|(?:^|_)(?:pass|pw|pwd|pin|key|keys|auth|creds?|pat|dsn|jwt|salt|otp|sas)$"
    r"|sshpass|connection_?string|auth_config",
    re.IGNORECASE,
)
_HARMLESS_VARIABLE: Final = re.compile(
    r"^(?:old)?pwd$|(?:^|_)(?:path|paths|file|files|dir|dirs|directory|folder|home|sock|socket|name"
    r"|names|id|ids|type|kind|algorithm|alg|length|len|size|min|max|limit|count|ttl|expir\w*|lifetime"
    r"|timeout|age|domain|policy|mode|enabled|disabled|required|command|cmd|helper|askpass|store"
    r"|host|port|region|endpoint|prefix|suffix|header|fingerprint|pub|public_?key|budget)$",
    re.IGNORECASE,
)

#: The shortest secret of one kind of character, and of a mix of letters, digits and others.
_SHORTEST: Final = 8
_SHORTEST_MIXED: Final = 6

#: Common words that are nobody's secret.
_COMMON_VALUE: Final = re.compile(
    r"administrator|anonymous|changeit|changeme|container|database|default|developer"
    r"|development|disabled|docker-compose|enabled|example|external|gnome-keyring|in-memory"
    r"|internal|keychain|libsecret|localhost|optional|osxkeychain|password|postgres|postgresql"
    r"|production|rabbitmq|required|secret|secretservice|something|staging|superuser|testing"
    r"|undefined|username|wincred",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Return whether a field, header or variable of this name probably holds a secret."""
    words = re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", name)
    # A token is a secret at the end of a name (auth_token), and a unit elsewhere (max_tokens).
    return words[-1].lower() == "token" or any(_NAME_WORD.fullmatch(word) for word in words)


def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable of this name probably holds a secret."""
    return _SECRET_VARIABLE.search(name) is not None and _HARMLESS_VARIABLE.search(name) is None


def is_telling(value: str) -> bool:
    """Return whether a value is distinctive, unlike ``true`` or ``root``."""
    mixed = sum(map(bool, (re.search(kind, value) for kind in (r"[^\W\d_]", r"\d", r"[\W_]"))))
    least = _SHORTEST_MIXED if mixed > 1 else _SHORTEST
    return len(value) >= least and not _COMMON_VALUE.fullmatch(value)


def secrets_in(text: str) -> list[str]:
    """Return all parts of ``text`` that look like secrets, such as an address's password."""
    return [text[start:end] for _, start, end in _secrets(text)]


def is_secret(value: str) -> bool:
    """Return whether a value looks like a secret, regardless of its field's name."""
    return find_secret(value) is not None or _HEADER_VALUE.fullmatch(value) is not None


def find_secret(text: str) -> str | None:
    """Return the kind of the first secret in ``text`` (``an AWS access key``), or None.

    Secrets are detected by the formats of well-known keys and by names such as ``password=``.
    Other secrets are not found, and prose about passwords is not mistaken for one.
    """
    for kind, _, _ in _secrets(text):
        return kind
    return None


def redact(text: str) -> str:
    """Return ``text`` with ``[redacted]`` in place of everything that looks like a secret."""
    return marked(text, merged((start, end) for _, start, end in _secrets(text)), REDACTED)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, with overlapping ones merged."""
    in_order: list[Span] = []
    for start, end in sorted(spans):
        if in_order and start < in_order[-1][1]:
            in_order[-1] = in_order[-1][0], max(end, in_order[-1][1])
        else:
            in_order.append((start, end))
    return in_order


def marked(text: str, spans: Iterable[Span], mark: str) -> str:
    """Return ``text`` with ``mark`` in place of each of the spans, which are in order."""
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], mark]
        at = end
    return "".join([*pieces, text[at:]])


def _secrets(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind, start and end of each secret; they may overlap."""
    if "-----BEGIN" in text:
        for match in _KEYS.finditer(text):
            if match.lastindex == 1:
                yield _FORMS[0][0], match.start(), match.end()
    for start, end in _hinted_lines(text):
        yield from _secrets_in_line(text, start, end)


def _hinted_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line that may hold a secret."""
    # Without changing its length, only ASCII is sure to be put into lower case.
    named = _NAME_HINTS.finditer(text.lower()) if text.isascii() else _ANY_CASE_HINTS.finditer(text)
    end = -1
    for match in heapq.merge(_HINTS.finditer(text), named, key=lambda match: match.start()):
        if match.start() >= end:
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            yield start, end


def _secrets_in_line(text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield the secrets between ``start`` and ``end``, but for private keys."""
    for match in _KEYS.finditer(text, start, end):
        if match.lastindex is not None and match.lastindex > 1:
            yield _FORMS[match.lastindex - 1][0], match.start(), match.end()
    for kind, pattern, is_meant in _IN_CONTEXT:
        for match in pattern.finditer(text, start, end):
            if is_meant(match):
                group = match.lastindex or 0
                yield kind, match.start(group), match.end(group)


def _looks_assigned(match: re.Match[str]) -> bool:
    """Return whether the value after a name such as ``password`` is a secret.

    Prose, code and placeholders are not.
    """
    whole, separator, value = match[0], match[1], match[match.lastindex or 0]
    if _PLACEHOLDER.match(value):
        return False
    if separator == "=" and re.match(r"(?i)pass|pwd", whole):
        return value.casefold() not in {"true", "false", "none", "null", "required", "optional"}
    return len(value) >= 6 and _mixed(value)


def _mixed(value: str) -> bool:
    """Return whether ``value`` has both digits and letters, unlike prose and numbers."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


#: The secrets that only their context reveals. The last group of a match is the secret itself.
_IN_CONTEXT: Final[tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], bool]], ...]] = (
    ("a password in an address", _URL, lambda match: not _PLACEHOLDER.match(match[1])),
    ("an Authorization header", _HEADER, lambda _: True),
    ("an Authorization header", _BEARER, lambda match: _mixed(match[1])),
    ("a password or key", _ASSIGNED, _looks_assigned),
    ("a password or key", _FLAG, _looks_assigned),
)


#: Matches a component of a path, without anchors.
PRIVATE_NAMES: Final = (
    r"\.env(?:\.(?!example|sample|template|dist)[^/:=@\n]*)?|\.envrc|\.netrc|\.pgpass|\.npmrc|\.pypirc"
    r"|\.git-credentials|\.my\.cnf|\.htpasswd|\.vault-token|\.[^/:=\n]*history"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?![^/:=\n]*\.pub)[^/:=\n]*|g?shadow-?"
    r"|credentials(?:\.[^/:=\n]*)?|secrets?\.[^/:=\n]*"
    r"|\.(?:ssh|gnupg|aws|azure|kube|docker|password-store)|gcloud"
)

#: The ends of names of key files, whatever comes before them.
KEY_ENDINGS: Final = r"\.(?:pem|key|p12|pfx|kdbx|keystore|jks)"

_SECRET: Final = re.compile(
    rf"(?:^|/)(?:{PRIVATE_NAMES}|[^/:=@\n]*{KEY_ENDINGS}"
    r"|[^/]+\.env|\.dockercfg|kubeconfig|\.s3cfg|\.boto|\.authinfo(?:\.gpg)?"
    r"|[^/]*\.tf(?:vars|state)(?:\.(?:json|backup))?|service[-_]?account[^/]*\.json)(?=$|/)",
    re.IGNORECASE,
)
#: Source code and pages about secrets, and public files.
_HARMLESS: Final = re.compile(
    r"(?:^|/)(?:credentials|secrets?)\.(?:\w+\.)*(?:c|cc|cpp|cs|css|dart|ex|exs|go|h|hpp|html?|java|jsx?"
    r"|kt|md|mjs|php|py|pyi|rb|rs|rst|scala|sql|svelte|swift|tsx?|vue)$|(?:^|/)known_hosts$",
    re.IGNORECASE,
)


def is_secret_file(path: str) -> bool:
    """Return whether a file at this ``/``-separated path usually holds keys or passwords."""
    return _SECRET.search(path) is not None and _HARMLESS.search(path) is None
