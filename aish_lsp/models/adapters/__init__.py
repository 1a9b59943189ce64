"""One adapter for each wire protocol: a request out of a conversation, events out of a reply."""
