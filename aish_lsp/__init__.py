"""aish-lsp: an AI shell assistant for every editor, over plain LSP."""

__version__ = "0.1.0"
