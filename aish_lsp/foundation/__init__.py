"""What all rooms share: errors, files, JSON lines, paths, text, structure, secrets, jobs, ports."""
