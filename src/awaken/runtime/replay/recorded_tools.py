"""Tools that return recorded results, so that a replay has no side effects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from awaken.codec import Json, digest, dumps_text
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import SuspendTicket, Suspension, ToolCallResume
from awaken.core.tool import ToolDescriptor, ToolEffect, ToolError, ToolResult
from awaken.core.tool_context import (
    Tool,
    ToolCallContext,
    ToolOutput,
    ToolTraits,
    only_asks,
    traits_of,
)
from awaken.errors import AwakenError
from awaken.runtime.replay.scene import Approval, RecordedCall
from awaken.tool.execute import checks_itself

_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


class Undecided(AwakenError):
    """A call needs an approval for which the recorded run has no decision."""


class RecordedResults:
    """The results and decisions of a recorded run, for a replay.

    Calls of one tool with the same arguments get their results in order; further calls get the last
    result again. `stray` describes the first call or question that was not recorded.
    """

    def __init__(
        self, calls: Iterable[RecordedCall], approvals: Iterable[Approval], *, stops: bool
    ) -> None:
        self.stops = stops
        self.stray: str | None = None
        self._calls: dict[str, deque[RecordedCall]] = {}
        self._decisions: dict[str, deque[ToolCallResume]] = {}
        self._asked: dict[str, str] = {}
        for made in calls:
            self._calls.setdefault(_key(made.tool, made.arguments), deque()).append(made)
        for approval in approvals:
            key = _key(approval.tool, approval.arguments)
            self._decisions.setdefault(key, deque()).append(approval.decision)

    def take(self, ctx: ToolCallContext) -> RecordedCall | None:
        """The recorded call, or `None`. If an approver changed the arguments, the call is looked up
        by the model's own ones."""
        key = self._asked.pop(ctx.call_id, None) if ctx.resume_input is not None else None
        found = self._calls.get(key or _key(ctx.tool_name, ctx.arguments))
        if not found:
            return None
        return found.popleft() if len(found) > 1 else found[0]

    def miss(self, ctx: ToolCallContext) -> ToolError:
        """End the run at a call that was not recorded."""
        self._note(f"calls {_words(ctx.tool_name, ctx.arguments)}, which was not recorded")
        if ctx.cancellation_token is not None:
            ctx.cancellation_token.cancel()
        return ToolError.cancelled("the call was not recorded")

    def asks(self, tool: str, arguments: Json) -> bool:
        """Whether a recorded decision about such a call is left."""
        return bool(self._decisions.get(_key(tool, arguments)))

    def decide(self, ticket: RunWaitingTicket) -> ToolCallResume:
        """The recorded decision about a call.

        Raises:
            Undecided: there is none.
        """
        key = _key(ticket.tool_name, ticket.arguments)
        decisions = self._decisions.get(key)
        if not decisions:
            words = _words(ticket.tool_name, ticket.arguments)
            self._note(f"asks about {words}, for which the recording has no decision")
            raise Undecided(self.stray)
        self._asked[ticket.tool_call_id] = key
        return decisions.popleft()

    def _note(self, words: str) -> None:
        self.stray = self.stray or words


def _key(tool: str, arguments: Json) -> str:
    return digest([tool, arguments])


def _words(tool: str, arguments: Json) -> str:
    return f"{tool}({'' if arguments in (None, {}) else dumps_text(arguments)})"


class RecordedTool:
    """Stands in for a tool that is missing: only its recorded calls are known."""

    traits = ToolTraits(effect=ToolEffect.READ)
    checks_itself = True

    def __init__(self, name: str, calls: Sequence[RecordedCall], recorded: RecordedResults) -> None:
        self._recorded = recorded
        self._descriptor = ToolDescriptor(
            id=name,
            name=name,
            description="Answers what it answered when the run was recorded.",
            parameters=_schema([made.arguments for made in calls]),
        )

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Json:
        return args

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        return decision is None and self._recorded.asks(self._descriptor.id, args)

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        """Returns the recorded result, or a question if an approver was asked."""
        if self.only_asks(ctx.arguments, ctx.resume_input):
            name, question = ctx.tool_name, f"Approve {ctx.tool_name}?"
            asked = Suspension(
                id=f"approval_{ctx.call_id}", action=f"tool:{name}", message=question
            )
            ticket = SuspendTicket(suspension=asked)
            return ToolOutput(ToolResult.suspended_with(name, question, ticket))
        found = self._recorded.take(ctx)
        if found is None:
            raise self._recorded.miss(ctx)
        return ToolOutput(found.output())


class PlayedTool:
    """A tool whose recorded calls are not run again."""

    def __init__(self, tool: Tool, recorded: RecordedResults) -> None:
        self._tool = tool
        self._recorded = recorded
        self.checks_itself = checks_itself(tool)
        self.traits = traits_of(tool)

    def descriptor(self) -> ToolDescriptor:
        return self._tool.descriptor()

    def validate_args(self, args: Json) -> Any:
        validate = getattr(self._tool, "validate_args", None)
        return args if validate is None else validate(args)

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        return only_asks(self._tool, args, decision)

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        """Returns the recorded result. A call that needs an approval asks first. A call that was
        not recorded runs, or stops the replay."""
        if not only_asks(self._tool, ctx.arguments, ctx.resume_input):
            found = self._recorded.take(ctx)
            if found is not None:
                return ToolOutput(found.output())
            if self._recorded.stops:
                raise self._recorded.miss(ctx)
        return await self._tool.execute(args, ctx)


def _schema(examples: Sequence[Json]) -> Json:
    """A JSON schema derived from the arguments of recorded calls."""
    if not all(isinstance(example, dict) for example in examples):
        return {}
    properties: dict[str, Json] = {}
    for name, value in (item for example in examples for item in example.items()):
        kind = {"type": _TYPES[type(value)]} if type(value) in _TYPES else {}
        properties[name] = kind if properties.get(name, kind) == kind else {}
    return {"type": "object", "properties": properties}
