"""What each kind of manifest says about a project's tasks: one module per family of ecosystems.

Manifests are read as text and never executed. Their authors may be hostile: a name from a manifest
gets into a command only if it is a plain word.
"""
