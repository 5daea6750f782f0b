"""A tool as a set offers it: under another name, with another description, effect or timeout."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from awaken.codec import Json
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import TOOL_SET, ToolDescriptor, ToolResult
from awaken.core.tool_context import (
    Tool,
    ToolCallContext,
    ToolOutput,
    ToolTraits,
    only_asks,
    traits_of,
)
from awaken.tool.approval import ask_for_approval, check_approved, question_of
from awaken.tool.execute import checks_itself


class SetTool:
    """Calls the tool `inner` under another descriptor. With `asks`, each call first asks an
    approver. It is immutable: `changed` returns another one."""

    def __init__(
        self,
        inner: Tool,
        descriptor: ToolDescriptor,
        traits: ToolTraits,
        *,
        set: str | None = None,
        asks: bool = False,
    ) -> None:
        self.inner, self.set, self.asks, self.traits = inner, set, asks, traits
        self.checks_itself = checks_itself(inner)
        self.runs_agent = getattr(inner, "runs_agent", False) is True
        self.deps: type | None = getattr(inner, "deps", None)
        self.id = descriptor.id
        if set is not None:
            descriptor = replace(descriptor, metadata={**descriptor.metadata, TOOL_SET: set})
        self._descriptor = descriptor

    @classmethod
    def of(cls, tool: Tool, set: str | None) -> SetTool:
        """The tool as a member of a set."""
        if isinstance(tool, SetTool):
            return cls(tool.inner, tool.descriptor(), tool.traits, set=set, asks=tool.asks)
        return cls(tool, tool.descriptor(), traits_of(tool), set=set)

    def changed(
        self,
        *,
        id: str | None = None,
        description: str | None = None,
        asks: bool | None = None,
        **traits: Any,
    ) -> SetTool:
        """This tool with another id, description, question or traits."""
        described = self._descriptor
        if id is not None:
            name = id if described.name == described.id else described.name
            described = replace(described, id=id, name=name)
        if description is not None:
            described = replace(described, description=description)
        return SetTool(
            self.inner,
            described,
            replace(self.traits, **traits) if traits else self.traits,
            set=self.set,
            asks=self.asks if asks is None else asks,
        )

    def is_like(self, other: SetTool) -> bool:
        """Whether both offer the same tool in the same way, whatever sets they are in."""
        mine, theirs = self._descriptor, other._descriptor
        return (
            self.inner is other.inner
            and (self.asks, self.traits) == (other.asks, other.traits)
            and replace(mine, metadata={}) == replace(theirs, metadata={})
        )

    def __repr__(self) -> str:
        return f"SetTool({self.id!r}, set={self.set!r})"

    # -- a tool -------------------------------------------------------------------------------

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Any:
        validate = getattr(self.inner, "validate_args", None)
        return None if validate is None else validate(args)

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        """The output of the tool, under this name, or a question to an approver."""
        if self.asks:
            if ctx.resume_input is None:
                return ToolOutput(ask_for_approval(self.id, ctx.arguments, ctx))
            check_approved(self.id, ctx.resume_input)
        output: Any = await self.inner.execute(args, ctx)  # of a custom tool it may be anything
        if not isinstance(output, ToolOutput) or not isinstance(output.result, ToolResult):
            return output  # type: ignore[no-any-return]  # the caller reports it
        if self.id == self.inner.descriptor().id:
            return output
        return ToolOutput(self._rename_result(output.result), output.command)

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        if self.asks and decision is None:
            return True
        return only_asks(self.inner, args, decision)

    async def verify(self, ctx: ToolCallContext) -> Any:
        """The result of the tool's own `verify`; `None` if it has none."""
        verify = getattr(self.inner, "verify", None)
        return None if verify is None else await verify(ctx)

    def _rename_result(self, result: ToolResult) -> ToolResult:
        """The result, and its question, under this tool's name."""
        ticket, inner = result.suspension, self.inner.descriptor().name
        if ticket is None or ticket.pending.name != inner:
            return replace(result, tool_name=self.id)
        question, pending = ticket.suspension, replace(ticket.pending, name=self.id)
        if question.action == f"tool:{inner}":
            question = replace(question, action=f"tool:{self.id}")
        if question.message == question_of(inner):
            question = replace(question, message=question_of(self.id))
        ticket = replace(ticket, suspension=question, pending=pending)
        return replace(result, tool_name=self.id, message=question.message, suspension=ticket)
