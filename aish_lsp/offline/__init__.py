"""The model that is always there: no network, no key, no weights; it answers from the workspace.

formats.md, "The offline model".
"""

from aish_lsp.offline.model import OfflineModel, is_unknown

__all__ = ["OfflineModel", "is_unknown"]
