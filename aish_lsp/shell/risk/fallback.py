"""A text that does not parse, looked through word by word.

Each place where a command could begin is taken for one. Only what is destructive counts: what does
not parse is never safe anyway.
"""

from __future__ import annotations

import re
from typing import Final

from aish_lsp.shell.risk.judge import judge
from aish_lsp.shell.risk.levels import DESTRUCTIVE, Findings
from aish_lsp.shell.risk.review import COMPUTED, UNSEEN, Review

_ENDS: Final = re.compile(r"\|\||&&|\$\(|[;&|\n(){}`]")
_QUOTES: Final = re.compile(r"[\\'\"]")
#: What may stand in front of a command's name.
_NO_NAME: Final = re.compile(
    r"if|then|else|elif|do|while|until|!|time|in|case|for|function|\w+=\S*|\d*[<>].*|\W*"
)
#: Parts of a text that are judged.
_LOOKED_AT: Final = 400
_PIPED: Final = re.compile(
    r"\|&?\s*+(?:sudo\s++)?(?:[^\s|;&]{0,100}/)?(?:ba|da|z|k|fi|c|tc)?sh(?![\w.-])"
)
_BRACES: Final = re.compile(r"(?:^|[;&|\n(])[ \t]*+\{[^\s{}]*,")
_DEVICE: Final = re.compile(r">[|&]?\s*+/dev/(?!null\b|stdout\b|stderr\b|tty\b|fd/)")


def look_through(review: Review, text: str, depth: int) -> None:
    """Take down what looks destructive in ``text``."""
    if _PIPED.search(text):
        review.destructive(UNSEEN)
    if _BRACES.search(text):
        review.destructive(COMPUTED)
    if _DEVICE.search(_QUOTES.sub("", text)):
        review.destructive("writes to a device")
    for part in _ENDS.split(text)[:_LOOKED_AT]:
        words = _QUOTES.sub("", part).split()
        at = 0
        while at < len(words) and _NO_NAME.fullmatch(words[at]):
            at += 1
        if at < len(words):
            _judge(review, words[at:], depth)


def _judge(review: Review, words: list[str], depth: int) -> None:
    """Judge ``words`` by themselves, and keep what is destructive."""
    real, review.findings = review.findings, Findings()
    judge(review, words, depth, None)
    found, review.findings = review.findings, real
    if found.level == DESTRUCTIVE:
        for reason in found.reasons:
            review.destructive(reason)
