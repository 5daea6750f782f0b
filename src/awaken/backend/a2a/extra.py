"""Loading what needs the extra `a2a`, on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from awaken.contract.backend import ExecutionBackendFactoryError


def load_a2a(module: str, name: str) -> Any:
    """One name of a module that stands on the protocol's SDK.

    Raises:
        ExecutionBackendFactoryError: the extra is not installed.
    """
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("awaken"):
            raise
        raise ExecutionBackendFactoryError(
            f"agents on A2A endpoints need {error.name!r}, which is not installed: "
            'pip install "awaken[a2a]"'
        ) from error
