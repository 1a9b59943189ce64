"""Tool servers: those that speak the Model Context Protocol, by its own SDK."""
