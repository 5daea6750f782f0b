"""The recording of a run or of its replay."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.codec import Json
from awaken.core.answer_stream import stream_of
from awaken.core.inference import InferenceOverride, StopReason, StreamResult
from awaken.core.lifecycle import (
    CancelledEnd,
    Failed,
    NaturalEnd,
    Stopped,
    TerminationReason,
)
from awaken.core.llm import LlmStreamEvent
from awaken.core.message import Message, ToolCall, Visibility
from awaken.core.tool import ToolDescriptor
from awaken.engine.output_check import DOES_NOT_FIT
from awaken.runtime.replay.scene import Approval, RecordedCall, RecordedStep, Scene

RecordedAnswer = StreamResult | Sequence[LlmStreamEvent | Exception]
"""One answer as a `ScriptedModel` takes it."""
INFERENCE_FAILED = "inference failed: "
NOT_KEPT = "not_kept"
"""The name and id that stand for a call that stopped a run: it was never made, so it was not
stored."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """All that the store holds about a run.

    `agents` are those that spoke, in order. `model` is the provider's name for the model that
    answered last, and `fingerprint` identifies the prompt and tools it was asked with. `money` is
    the cost of the run and of all it started, if it had a budget. `stray` says where a replay had
    to stop.
    """

    run_id: str
    thread_id: str
    agents: tuple[str, ...]
    input: tuple[Message, ...]
    history: tuple[Message, ...] = ()
    turns: tuple[RecordedStep, ...] = ()
    approvals: tuple[Approval, ...] = ()
    termination: TerminationReason
    response: str = ""
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    model: str | None = None
    fingerprint: str | None = None
    overrides: InferenceOverride | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    created_at: int = 0
    stray: str | None = None

    @property
    def agent(self) -> str:
        """The first agent."""
        return self.agents[0]

    @property
    def recorded_calls(self) -> tuple[RecordedCall, ...]:
        return tuple(made for turn in self.turns for made in turn.calls)

    @property
    def calls(self) -> list[tuple[str, Json, str | None]]:
        """Every call of the model: tool, arguments, and the result as the model read it."""
        return [(made.tool, made.arguments, made.text) for made in self.recorded_calls]

    @property
    def asked_calls(self) -> list[tuple[str, Json]]:
        """Every call of the model without its result, for tools whose results vary."""
        return [(made.tool, made.arguments) for made in self.recorded_calls]

    def scene(self, *, own_code: bool = False) -> Scene:
        """Everything needed to run this again, except the model's answers.

        With `own_code`, the agent's own stop conditions, plugins and gates may end the replayed
        run. Without them only the model ends it, so every other end becomes part of the scene.
        """
        return Scene(
            agent=self.agent,
            input=self.input,
            history=self.history,
            calls=tuple(made for made in self.recorded_calls if made.result is not None),
            approvals=self.approvals,
            news=self._group_messages(own_code),
            end=self.termination if self._ends_from_outside(own_code) else None,
            steps=self.steps,
            overrides=self.overrides,
            frontend_tools=self.frontend_tools,
        )

    def answers(self, *, own_code: bool = False) -> list[RecordedAnswer]:
        """The model's answers, for a `ScriptedModel`."""
        return [
            answer if failure is None else [*stream_of(answer)[:-1], RuntimeError(failure)]
            for answer, failure in self.script(own_code=own_code)
        ]

    def script(self, *, own_code: bool = False) -> list[tuple[StreamResult, str | None]]:
        """The model's answers, each with the error that it broke off with, or `None`."""
        missing = self._missing_call() if own_code and self.turns else None
        script: list[tuple[StreamResult, str | None]] = []
        for turn in self.turns:
            answer = turn.answer
            if missing is not None and turn is self.turns[-1]:
                answer = msgspec.structs.replace(answer, tool_calls=(missing,))
            elif _is_asked_again(turn, own_code):
                script.append((msgspec.structs.replace(answer, usage=None), None))
            script.append((answer, turn.failure))
        return script

    def _group_messages(self, own_code: bool) -> dict[int, tuple[Message, ...]]:
        """The messages that the agent got while it ran, by step."""
        news: dict[int, tuple[Message, ...]] = {}
        step = 0
        for turn in self.turns:
            # The continuation of an answer that was cut off belongs to the same step.
            step += turn.answer.stop_reason is not StopReason.MAX_TOKENS
            said = [each for each in turn.news if not (own_code and _is_own(each))]
            if said:
                news[step] = tuple(said)
        return news

    def _ends_from_outside(self, own_code: bool) -> bool:
        match self.termination:
            case NaturalEnd():
                return False
            case Failed(value=why):
                return not own_code and not why.startswith(INFERENCE_FAILED)
            case CancelledEnd():
                return True
            case Stopped(value=reason) if own_code:
                return reason.code == "timeout"
        return not own_code

    def _missing_call(self) -> ToolCall | None:
        """The call at which a policy stopped the run, if that call was not stored; else `None`."""
        if self.turns[-1].calls:
            return None
        match self.termination:
            case Stopped(value=reason) if reason.code == "max_rounds":
                return ToolCall(id=NOT_KEPT, name=NOT_KEPT, arguments={})
            case Stopped(value=reason) if reason.code == "stop_on_tool" and reason.detail:
                return ToolCall(id=NOT_KEPT, name=reason.detail, arguments={})
        return None


def _is_asked_again(turn: RecordedStep, own_code: bool) -> bool:
    """Whether a run asks the model once more after this answer, because it is empty.

    The log has one message for both answers. A run whose answer has a type does not ask again: it
    sends the model a message about the empty answer.
    """
    if turn.failure is not None or not turn.answer.is_empty:
        return False
    return not own_code or not any(map(_is_own, turn.news))


def _is_own(message: Message) -> bool:
    """Whether the agent's own code will send this message again."""
    internal = message.visibility is Visibility.INTERNAL
    return internal and message.text().startswith(DOES_NOT_FIT)
