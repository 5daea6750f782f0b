"""The backends that run agents: in this process or remotely."""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.backend.child_agent import (
        ChildAgentFailed,
        run_child_agent,
        run_child_agent_checked,
    )
    from awaken.backend.delegate_tool import (
        ErrorMode,
        ProgressForwardingSink,
        StreamingPassthroughSink,
        delegate_tool_name,
    )
    from awaken.backend.dispatch import (
        execute_resolved_delegate_execution,
        execution_capabilities,
        validate_delegate_execution_request,
        validate_root_execution_request,
    )
    from awaken.backend.local import LocalBackend, map_termination
    from awaken.backend.remote import (
        execute_remote_root_lifecycle,
        load_checkpoint_state,
        materialize_remote_message_log,
        remote_backend_error_message,
        state_with_backend_output,
    )
    from awaken.core.backend import (
        BACKEND_OUTPUT_STATE_KEY,
        BackendAbortRequest,
        BackendAgentNotFound,
        BackendCancellationCapability,
        BackendCapabilities,
        BackendContinuationCapability,
        BackendControl,
        BackendDelegateContinuation,
        BackendDelegatePersistence,
        BackendDelegatePolicy,
        BackendDelegateRunRequest,
        BackendLocalRootContext,
        BackendLoopError,
        BackendOutputArtifact,
        BackendOutputCapability,
        BackendParentContext,
        BackendRootRunRequest,
        BackendRunOutput,
        BackendRunResult,
        BackendRunStatus,
        BackendStatusKind,
        BackendTranscriptCapability,
        BackendWaitCapability,
        ExecutionBackend,
        ExecutionBackendError,
        ExecutionBackendFactory,
        ExecutionBackendFactoryError,
        ExecutionFailed,
        RemoteError,
    )
    from awaken.core.spec import RemoteEndpoint
    from awaken.engine.run_setup import ThreadContextSnapshot

__all__ = [
    "BACKEND_OUTPUT_STATE_KEY",
    "BackendAbortRequest",
    "BackendAgentNotFound",
    "BackendCancellationCapability",
    "BackendCapabilities",
    "BackendContinuationCapability",
    "BackendControl",
    "BackendDelegateContinuation",
    "BackendDelegatePersistence",
    "BackendDelegatePolicy",
    "BackendDelegateRunRequest",
    "BackendLocalRootContext",
    "BackendLoopError",
    "BackendOutputArtifact",
    "BackendOutputCapability",
    "BackendParentContext",
    "BackendRootRunRequest",
    "BackendRunOutput",
    "BackendRunResult",
    "BackendRunStatus",
    "BackendStatusKind",
    "BackendTranscriptCapability",
    "BackendWaitCapability",
    "ChildAgentFailed",
    "ErrorMode",
    "ExecutionBackend",
    "ExecutionBackendError",
    "ExecutionBackendFactory",
    "ExecutionBackendFactoryError",
    "ExecutionFailed",
    "LocalBackend",
    "ProgressForwardingSink",
    "RemoteEndpoint",
    "RemoteError",
    "StreamingPassthroughSink",
    "ThreadContextSnapshot",
    "delegate_tool_name",
    "execute_remote_root_lifecycle",
    "execute_resolved_delegate_execution",
    "execution_capabilities",
    "load_checkpoint_state",
    "map_termination",
    "materialize_remote_message_log",
    "remote_backend_error_message",
    "run_child_agent",
    "run_child_agent_checked",
    "state_with_backend_output",
    "validate_delegate_execution_request",
    "validate_root_execution_request",
]

lazy_names(
    __name__,
    {
        "awaken.core.backend": (
            "BACKEND_OUTPUT_STATE_KEY BackendAbortRequest BackendAgentNotFound "
            "BackendCancellationCapability BackendCapabilities "
            "BackendContinuationCapability BackendControl BackendDelegateContinuation "
            "BackendDelegatePersistence BackendDelegatePolicy BackendDelegateRunRequest "
            "BackendLocalRootContext BackendLoopError BackendOutputArtifact "
            "BackendOutputCapability BackendParentContext BackendRootRunRequest "
            "BackendRunOutput BackendRunResult BackendRunStatus BackendStatusKind "
            "BackendTranscriptCapability BackendWaitCapability ExecutionBackend "
            "ExecutionBackendError ExecutionBackendFactory ExecutionBackendFactoryError "
            "ExecutionFailed RemoteError"
        ),
        "awaken.core.spec": "RemoteEndpoint",
        ".child_agent": "ChildAgentFailed run_child_agent run_child_agent_checked",
        ".delegate_tool": (
            "delegate_tool_name ErrorMode ProgressForwardingSink StreamingPassthroughSink"
        ),
        ".dispatch": (
            "execute_resolved_delegate_execution execution_capabilities "
            "validate_delegate_execution_request validate_root_execution_request"
        ),
        ".local": "LocalBackend map_termination",
        ".remote": (
            "execute_remote_root_lifecycle load_checkpoint_state "
            "materialize_remote_message_log remote_backend_error_message "
            "state_with_backend_output"
        ),
        "awaken.engine.run_setup": "ThreadContextSnapshot",
    },
)
