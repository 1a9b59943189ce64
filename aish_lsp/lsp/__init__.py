"""Everything that depends on LSP: the protocol, its transports, and a module for each feature."""
