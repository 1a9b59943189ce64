"""Confinement: limits that the kernel enforces, whatever a command turns out to do.

A confined command reads the system and the workspace, except secret places; it writes only to its
own temporary folder; it opens no connection, changes no file's mode or times, and reaches no
other process. On Linux that is Landlock and seccomp, set between fork and exec; on macOS it is
``sandbox-exec``. Whether it is available is decided by trying it once, before the first use.

The system calls are made with ``ctypes``, since nothing on PyPI does both well: ``landlock`` is a
development release and ``pyseccomp`` five years old, and each knows one half; ``sandlock`` needs
Linux 6.7 and a library of 13 MB; ``bubblewrap`` needs namespaces, which many containers forbid.
"""
