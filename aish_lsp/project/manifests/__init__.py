"""What each kind of manifest tells of a project's tasks: one module per family of ecosystems.

Manifests are read as text and never executed. Whoever wrote them may be hostile: a name from a
manifest gets into a command only when it is a plain word.
"""
