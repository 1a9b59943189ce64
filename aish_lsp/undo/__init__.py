"""Undo: the work tree before a command is kept as a commit, from which it can be restored."""
