"""Instructions in disguise: texts that, remembered, would speak to a model in the user's name.

What is remembered is told to the model at every question from then on, so it is where a text that
came in by a file or a tool would like to be. This finds the usual wordings, to have the user look
twice; a wording of its own gets past it, which is why nothing is remembered without the user.
"""

from __future__ import annotations

import re
from typing import Final

_ASKED: Final = r"(?:ask(?:ing)?|confirm(?:ing|ation)?|approv(?:al|ing|e)|permission|consent)"

#: What a wording does, and the wording; its spaces are for the reader.
_TABLE: Final = (
    (
        "takes other instructions back",
        (
            r"\b(ignore|disregard|forget|override|bypass)\b.{0,40}"
            r"\b(instruction|prompt|rule|guideline|polic|restriction|safety)"
        ),
    ),
    (
        "wants things done without asking",
        rf"\b(without|never|don'?t|do\ not|no\ need\ (to|for)|skip|stop)\b.{{0,24}}\b{_ASKED}\b",
    ),
    (
        "wants things done without asking",
        (
            rf"\bauto(matically)?[- ]?{_ASKED}\b"
            rf"| \b{_ASKED}\b.{{0,24}}\bis\ (not|never|no\ longer)\b"
        ),
    ),
    (
        "would switch a protection off",
        (
            r"\b(disable|turn\ off|switch\ off|skip|suppress)\b.{0,30}"
            r"\b(safety|check|confirmation|warning|sandbox|guard|redaction|filter)"
        ),
    ),
    (
        "speaks to the model about what it is",
        (
            r"\b(you\ are\ now|you're\ now|act\ as|pretend\ (to\ be|that)|system\ prompt|jailbreak"
            r"| your\ (new\ )?(role|persona)|from\ now\ on,?\ you|developer\ mode)\b"
        ),
    ),
    (
        "has the marks of a message's beginning",
        r"<\|[^|]*\|>| \[/?INST\]| <<SYS>>| ^\s{0,8}(system|assistant|developer)\s{0,8}:| \bCMD:",
    ),
    (
        "would have a command run",
        (
            r"\b(always|every\ time|whenever|each\ time|first|must)\b.{0,60}"
            r"\b(run|execute|pipe|eval|source)\b.{0,40}(\$\(|https?://|\||\bcurl\b|\bwget\b)"
        ),
    ),
    (
        "would have a command run",
        r"\b(curl|wget)\b[^|]{0,200}\|\s{0,8}(sudo\s{1,8})?\w{0,20}sh\b| \beval\s{1,8}[\"'`$]",
    ),
    (
        "would have things sent away",
        (
            r"\b(send|upload|post|forward|append|exfiltrate|include|report)\b.{0,60}"
            r"(https?://| \bto\s{1,8}\S{1,80}@\S"
            r"| \b(webhook|token|password|secret|api\ key|credential|\.env|\.ssh)\b)"
        ),
    ),
)
_WORDINGS: Final = tuple(
    (does, re.compile(pattern, re.IGNORECASE | re.VERBOSE)) for does, pattern in _TABLE
)


def disguised_instruction(content: str) -> str | None:
    """Return what ``content`` does, if it reads like an instruction to a model; else None."""
    return next((does for does, wording in _WORDINGS if wording.search(content)), None)
