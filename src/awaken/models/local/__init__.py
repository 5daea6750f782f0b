"""A small model on this machine, without a key."""

from awaken.models.local.executor import LocalModel, open_local

__all__ = ["LocalModel", "open_local"]
