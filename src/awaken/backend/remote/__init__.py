"""Remote runs: runs of agents that a backend executes outside this process."""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.backend.remote.lifecycle import (
        INTERRUPTED,
        execute_remote_root_lifecycle,
        fail_abandoned,
        fail_interrupted,
    )
    from awaken.backend.remote.records import (
        backend_kind,
        load_checkpoint_state,
        materialize_remote_message_log,
        remote_backend_error_message,
        state_with_backend_output,
    )

__all__ = [
    "INTERRUPTED",
    "backend_kind",
    "execute_remote_root_lifecycle",
    "fail_abandoned",
    "fail_interrupted",
    "load_checkpoint_state",
    "materialize_remote_message_log",
    "remote_backend_error_message",
    "state_with_backend_output",
]

lazy_names(
    __name__,
    {
        ".records": (
            "backend_kind load_checkpoint_state materialize_remote_message_log "
            "remote_backend_error_message state_with_backend_output"
        ),
        ".lifecycle": "fail_abandoned fail_interrupted INTERRUPTED execute_remote_root_lifecycle",
    },
)
