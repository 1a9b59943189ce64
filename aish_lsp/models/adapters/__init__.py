"""One adapter per wire protocol: a conversation becomes a request, and a reply becomes events."""
