"""What a model may call: the tools of ours, and those of tool servers (MCP)."""
