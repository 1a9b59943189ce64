"""The chat document ``.aish/chat.md``: its text, its place to write, its commands, its file."""
