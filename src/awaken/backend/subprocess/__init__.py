"""Agents in child processes: one process for each run, which is killed if cancelling fails."""

from awaken.backend.subprocess.backend import SubprocessBackend, SubprocessBackendFactory
from awaken.backend.subprocess.options import INHERITED_VARIABLES, SubprocessOptions

__all__ = [
    "INHERITED_VARIABLES",
    "SubprocessBackend",
    "SubprocessBackendFactory",
    "SubprocessOptions",
]
