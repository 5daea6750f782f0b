"""Agents on other machines, through the Agent2Agent protocol 1.0.

Importing this needs no SDK. The protocol's code is loaded when a backend is built or a card is
fetched, and needs the extra: `pip install "awaken[a2a]"`.
"""

from awaken.backend.a2a.factory import A2aBackendFactory, RemoteSource, discover

__all__ = ["A2aBackendFactory", "RemoteSource", "discover"]
