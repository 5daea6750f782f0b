"""State keys that say what of a thread is in blobs, so that no run has to walk through its log."""

from __future__ import annotations

from awaken.core.state.key import BuiltInKey, Scope, StateKey

HAS_LARGE_RESULTS: StateKey[bool, bool] = BuiltInKey(
    "__runtime.large_results", initial=bool, scope=Scope.THREAD, type=bool
)
"""Tool results of the thread were kept as blobs: its runs offer `read_result`."""

HAS_BLOB_MEDIA: StateKey[bool, bool] = BuiltInKey(
    "__runtime.blob_media", initial=bool, scope=Scope.THREAD, type=bool
)
"""Messages of the thread refer to media in blobs: they are loaded before a model is asked."""
