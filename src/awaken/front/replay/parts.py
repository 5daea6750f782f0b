"""What a recorded run is made of; tests that were exported are written in these words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from awaken.codec import Json, dumps_text
from awaken.domain.inference import InferenceOverride, StopReason, StreamResult, TokenUsage
from awaken.domain.lifecycle import TerminationReason
from awaken.domain.message import ContentBlock, Message, Text, ToolCall
from awaken.domain.suspension import ToolCallResume
from awaken.domain.tool import ToolDescriptor, ToolResult


class RecordedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call, and what came of it.

    Of `result` the model reads text as it is and any other value as JSON. `data` is what hooks see
    where that is something else. A call without a result never got one.
    """

    tool: str
    arguments: Json = None
    result: Json = None
    failed: bool = False
    data: Json = None

    @property
    def text(self) -> str | None:
        """What the model read, if it read anything."""
        if self.result is None or isinstance(self.result, str):
            return self.result
        return dumps_text(self.result)

    def output(self) -> ToolResult:
        """The result, as the tool gave it."""
        if self.failed:
            return msgspec.structs.replace(
                ToolResult.error(self.tool, self.text or ""), data=self.data
            )
        if not isinstance(self.result, str):
            return ToolResult.success(self.tool, self.result)
        data = self.result if self.data is None else self.data
        return ToolResult.success_with_message(self.tool, data, self.result)


class Approval(msgspec.Struct, frozen=True):
    """What somebody decided about a call that asked."""

    tool: str
    arguments: Json
    decision: ToolCallResume


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model, its calls, and what was said to the agent meanwhile.

    With a `failure` the answer, or as much of it as came, ended so.
    """

    answer: StreamResult
    calls: tuple[RecordedCall, ...] = ()
    news: tuple[Message, ...] = ()
    failure: str | None = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """All that was around the model in a run.

    Args:
        agent: who was asked; with hand-overs, who was asked first.
        input: what it was asked with.
        history: what the thread held before.
        calls: what calls brought; one of the same tool and arguments brings that again.
        approvals: what people decided, in order.
        news: what was said to the agent while it ran: in which step, counted from 1, and what.
        end: how the run ended, where that came from outside, or from code that is not there.
        steps: after how many steps it ended so.
        overrides: parameters the run was asked with.
        frontend_tools: tools its client brought.
    """

    agent: str
    input: Sequence[Message]
    history: Sequence[Message] = ()
    calls: Sequence[RecordedCall] = ()
    approvals: Sequence[Approval] = ()
    news: Mapping[int, Sequence[Message]] = {}
    end: TerminationReason | None = None
    steps: int = 0
    overrides: InferenceOverride | None = None
    frontend_tools: Sequence[ToolDescriptor] = ()


def call(tool: str, arguments: Json = None, *, id: str, signature: str | None = None) -> ToolCall:
    """A call a model makes in its answer."""
    return ToolCall(id=id, name=tool, arguments=arguments, signature=signature)


def answer(
    *parts: str | ContentBlock | ToolCall,
    tokens: tuple[int | None, int | None] | TokenUsage | None = None,
    cut_off: bool = False,
    garbled: bool = False,
) -> StreamResult:
    """A whole answer of a model, for a `ScriptedModel`.

    Args:
        parts: text and other content, and calls.
        tokens: what it took, in and out.
        cut_off: it reached the output limit.
        garbled: it held a call that was no JSON.
    """
    calls = tuple(part for part in parts if isinstance(part, ToolCall))
    if isinstance(tokens, tuple):
        tokens = TokenUsage(prompt_tokens=tokens[0], completion_tokens=tokens[1])
    stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
    return StreamResult(
        content=tuple(
            Text(text=part) if isinstance(part, str) else part
            for part in parts
            if not isinstance(part, ToolCall)
        ),
        tool_calls=calls,
        usage=tokens,
        stop_reason=StopReason.MAX_TOKENS if cut_off else stop,
        has_incomplete_tool_calls=garbled,
    )
