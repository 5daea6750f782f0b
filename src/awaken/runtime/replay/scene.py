"""The parts of a recorded run. Exported tests are written with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from awaken.codec import Json, dumps_text
from awaken.core.inference import InferenceOverride, StopReason, StreamResult, TokenUsage
from awaken.core.lifecycle import TerminationReason
from awaken.core.message import ContentBlock, Message, Text, ToolCall
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolDescriptor, ToolResult


class RecordedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call and its result.

    The model reads a `result` that is text as it is, and any other value as JSON. `data` is what
    hooks see, if that differs. `result` is `None` if the call never got one.
    """

    tool: str
    arguments: Json = None
    result: Json = None
    failed: bool = False
    data: Json = None

    @property
    def text(self) -> str | None:
        """What the model read of the result, or `None`."""
        if self.result is None or isinstance(self.result, str):
            return self.result
        return dumps_text(self.result)

    def output(self) -> ToolResult:
        """The result as the tool returned it."""
        if self.failed:
            return msgspec.structs.replace(
                ToolResult.error(self.tool, self.text or ""), data=self.data
            )
        if not isinstance(self.result, str):
            return ToolResult.success(self.tool, self.result)
        data = self.result if self.data is None else self.data
        return ToolResult.success_with_message(self.tool, data, self.result)


class Approval(msgspec.Struct, frozen=True):
    """An approver's decision about a call."""

    tool: str
    arguments: Json
    decision: ToolCallResume


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the model, its calls, and the messages sent to the agent meanwhile.

    `failure` says how the answer failed; `answer` then holds the part that came before.
    """

    answer: StreamResult
    calls: tuple[RecordedCall, ...] = ()
    news: tuple[Message, ...] = ()
    failure: str | None = None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a recorded run needs to run again, except the model's answers.

    Args:
        agent: the agent that was asked; with hand-overs, the first one.
        input: the messages that started the run.
        history: the messages that the thread held before.
        calls: the recorded calls; a call of the same tool with the same arguments gets the same
            result.
        approvals: the approvers' decisions, in order.
        news: messages sent to the agent while it ran, by step, counted from 1.
        end: how the run ended, if the cause came from outside or from code that is missing here.
        steps: the number of steps before that end.
        overrides: the inference parameters of the run.
        frontend_tools: tools that the client brought.
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
    """A tool call in a model's answer."""
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
        tokens: the tokens it used, in and out.
        cut_off: whether the answer reached the output limit.
        garbled: whether it held a call that was not JSON.
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
