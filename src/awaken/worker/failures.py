"""Passing errors from a run's task to the caller of the run."""

from __future__ import annotations

from awaken.core.aio.cancel import is_ours
from awaken.core.backend import BackendLoopError, ExecutionBackendError
from awaken.errors import AwakenError, ResolveFailed, RuntimeFailed, describe


class Interrupted(Exception):
    """Carries a `KeyboardInterrupt` or `SystemExit` from a run's task to the run's caller. Raised
    in the task itself, it would stop the event loop."""

    def __init__(self, interrupt: KeyboardInterrupt | SystemExit) -> None:
        super().__init__()
        self.interrupt = interrupt


def error_for_caller(error: BaseException) -> BaseException:
    """The error to raise to the caller of a run.

    Errors of user code are handled before; a Ctrl-C in the runtime's own code arrives here. An
    error that `except Exception` would miss is wrapped, unless it is the run's own cancellation.
    """
    if isinstance(error, BackendLoopError):
        return error.error
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return Interrupted(error)
    failure: AwakenError
    if isinstance(error, ExecutionBackendError):
        failure = ResolveFailed(error.message)
    elif isinstance(error, Exception) or is_ours(error):
        return error
    else:
        failure = RuntimeFailed(f"{type(error).__name__}: {describe(error)}")
    failure.__cause__ = error
    return failure
