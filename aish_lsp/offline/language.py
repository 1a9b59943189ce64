"""Whether a question is in English, as far as a few common words tell."""

from __future__ import annotations

import re

from aish_lsp.offline.words import words


def is_foreign(text: str) -> bool:
    """Return whether ``text`` is in another language than English, rather than just unknown."""
    letters = [character for character in text if character.isalpha()]
    beyond_latin = sum(ord(character) > 0x24F for character in letters)
    if letters and beyond_latin > len(letters) / 2:
        return True
    found = [word.lower() for word in re.findall(r"[^\W\d_]+", text)]
    known = words()
    foreign = sum(word in known.foreign for word in found)
    english = sum(word in known.stop and word not in known.foreign for word in found)
    return foreign >= 2 and foreign > english
