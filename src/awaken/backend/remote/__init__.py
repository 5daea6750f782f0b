"""Remote runs: runs of agents that a backend executes outside this process."""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.backend.remote.lifecycle import (
        CUT_SHORT,
        abandon,
        close_cut_short,
        execute_remote_root_lifecycle,
    )
    from awaken.backend.remote.records import (
        backend_kind,
        load_checkpoint_state,
        materialize_remote_message_log,
        remote_backend_error_message,
        state_with_backend_output,
    )

__all__ = [
    "CUT_SHORT",
    "abandon",
    "backend_kind",
    "close_cut_short",
    "execute_remote_root_lifecycle",
    "load_checkpoint_state",
    "materialize_remote_message_log",
    "remote_backend_error_message",
    "state_with_backend_output",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".records": (
            "backend_kind load_checkpoint_state materialize_remote_message_log "
            "remote_backend_error_message state_with_backend_output"
        ),
        ".lifecycle": "abandon close_cut_short CUT_SHORT execute_remote_root_lifecycle",
    },
)
