"""The configuration: its schema, where it comes from, and what the user has granted."""
