"""Agents in Python processes of their own: one process a run, killed for real when cancelled."""

from awaken.backend.subprocess.backend import SubprocessBackend
from awaken.backend.subprocess.factory import SubprocessBackendFactory
from awaken.backend.subprocess.options import INHERITED, SubprocessOptions

__all__ = ["INHERITED", "SubprocessBackend", "SubprocessBackendFactory", "SubprocessOptions"]
