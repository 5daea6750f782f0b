"""Calling a function in a worker process: the tool's side."""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from awaken.core.aio.child_process import describe_exit
from awaken.core.tool import ToolError
from awaken.core.tool_context import ToolCallContext, ToolOutput
from awaken.errors import ConfigError
from awaken.tool.isolation.frames import (
    MAX_FRAME,
    BadFrame,
    Returned,
    Setup,
    WorkerRequest,
    context_fields,
    read_answer,
)
from awaken.tool.isolation.pool import WorkerPool, pool_of
from awaken.tool.isolation.process import check_system
from awaken.tool.isolation.target import check, refuse_while_loading, target_of
from awaken.tool.output import WORKER_DIED, cut_short_result
from awaken.tool.signature import Signature

_log = logging.getLogger("awaken.tool")


class IsolatedFunction:
    """Calls a function in a worker process, which is killed when a call is cancelled.

    Raises:
        ConfigError: another process cannot import the function.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        tool: str,
        signature: Signature,
        pass_env: Collection[str] = (),
    ) -> None:
        check_system()
        self._fn = fn
        self._tool = tool
        self._defaults = {parameter.name: parameter.default for parameter in signature.parameters}
        target, argv = target_of(fn, tool), tuple(sys.argv)
        self._setup = Setup(tool, target, signature.context, argv, tuple(pass_env))
        self._pool: WorkerPool | None = None

    async def call(self, values: dict[str, Any], ctx: ToolCallContext) -> ToolOutput:
        """The function's output, as if it had been called in this process.

        If the worker dies, the result names its exit, and is marked as cut short.

        Raises:
            ToolError: the function raised.
            ConfigError: the function, or an argument, cannot be passed to another process.
            OSError: no process can be started.
        """
        pool = self._pool or self._open()
        outcome = await pool.call(self._request(values, ctx))
        if isinstance(outcome, Exception) and not isinstance(outcome, BadFrame):
            raise outcome
        if isinstance(outcome, int | BadFrame):
            how = describe_exit(outcome) if isinstance(outcome, int) else f"was ended: {outcome}"
            why = f"the worker process {how}"
            _log.error("tool %r failed in call %r: %s", self._tool, ctx.call_id, why)
            return cut_short_result(self._tool, ToolError.execution_failed(why), WORKER_DIED)
        try:
            answer = read_answer(outcome)
        except msgspec.DecodeError as error:
            raise ToolError.execution_failed(
                f"the worker process of tool {self._tool!r} sent an invalid answer"
            ) from error
        if isinstance(answer, Returned):
            return ToolOutput(answer.result)
        if answer.trace is not None:
            place = f"in call {ctx.call_id!r}, in its worker process"
            _log.error("tool %r failed %s:\n%s", self._tool, place, answer.trace)
        raise ToolError(answer.kind, answer.message)

    def _open(self) -> WorkerPool:
        refuse_while_loading(self._tool)
        check(self._setup.target, self._fn, self._tool)
        self._pool = pool_of(self._setup)
        return self._pool

    def _request(self, values: dict[str, Any], ctx: ToolCallContext) -> bytes:
        # A default may be any object, so it is not sent: the function in the worker has it, too.
        given = {k: v for k, v in values.items() if v is not self._defaults[k]}
        context = None if self._setup.context is None else context_fields(ctx)
        try:
            request = pickle.dumps(WorkerRequest(given, context))
        except Exception as error:
            raise ConfigError(
                f"tool {self._tool!r}: its arguments cannot be sent to a worker process ({error}): "
                "define their types at the top of a module, or leave out isolated=True"
            ) from error
        if len(request) > MAX_FRAME:
            raise ToolError.invalid_arguments(
                f"tool {self._tool!r}: its arguments have {len(request)} bytes, and its worker "
                f"process takes {MAX_FRAME}"
            )
        return request
