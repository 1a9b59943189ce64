"""Everything that knows LSP: the protocol, its transports, and a module for each feature."""
