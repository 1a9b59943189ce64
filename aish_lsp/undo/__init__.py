"""Undo: the work tree as it was before a command, kept as a commit, and how it is put back."""
