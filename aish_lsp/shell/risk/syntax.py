"""A command's text as a tree, by tree-sitter's grammar of bash; the one place that knows it.

The libraries are imported here, and this module at the first command that is judged.
"""

from __future__ import annotations

from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

#: Characters; nobody has looked through a longer command before it runs. Up to here, mending a text
#: that does not parse takes a tenth of a second or so at the most, whatever it is.
LONGEST: Final = 4000

#: Nodes below each other; real commands have less than thirty.
DEEPEST: Final = 100

_parser: Final = Parser(Language(tree_sitter_bash.language()))


def parse(source: bytes) -> Node:
    """Return the root of the tree of ``source``, UTF-8 of no more than ``LONGEST`` characters.

    The tree is as deep as the text is nested: walk it without recursion.
    """
    return _parser.parse(source).root_node
