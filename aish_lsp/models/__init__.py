"""Model servers: requests, streamed replies, and one adapter module per wire protocol."""
