"""An agent for the clients of the Agent Client Protocol (ACP): Zed, JetBrains and others."""
