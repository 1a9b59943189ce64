"""The memory that lasts across sessions: the store, its two scopes and the background block."""
