"""Shared by all packages: errors, files, JSON, text, validation, secrets, jobs and interfaces."""
