"""A run's events as a user reads them: one by one, only the text, or the output so far."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Never

from awaken.core.event import (
    RunEvent,
    RunStart,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
)
from awaken.core.lifecycle import NATURAL_END
from awaken.core.message import Message, Role
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.errors import ConfigError
from awaken.runtime.partial_json import PartialJson
from awaken.runtime.result import NO_SHAPES, RunResult, Shapes
from awaken.worker import Worker
from awaken.worker.event_stream import RunEventStream, Start

_STARTS_OVER = (StreamReset, ToolCallCancel)
_WRITTEN = (Role.ASSISTANT, Role.TOOL)


class _Speakers:
    """The agent that speaks in each step of a run, noted as the step begins.

    When the step is read later, the run may have been handed to another agent.
    """

    def __init__(self, runtime: Worker) -> None:
        self._live = runtime.active
        self._first = ""
        self._agents: dict[str, str] = {}

    def note(self, told: RunEvent) -> None:
        event = told.event
        if isinstance(event, StepStart):
            self._agents[event.message_id] = self._find_active_agent(told.run_id) or self._first
        elif isinstance(event, RunStart) and event.identity is not None:
            self._first = event.identity.agent_id

    def _find_active_agent(self, run_id: str) -> str | None:
        """The agent that a live run was handed to; `None` if it was not handed over."""
        live = self._live.find_by_run(run_id)
        return live.state.read(ACTIVE_AGENT) if live is not None and live.state else None

    def take(self, step: StepStart) -> str:
        return self._agents.pop(step.message_id, "")


class RunStream(RunEventStream[RunResult]):
    """Use it as `async with runtime.stream(…) as events: async for event in events: …`.

    Each item is a `RunEvent`; match on its `event`. The events of delegates are among them, with
    their own run and thread, and `parent_run_id`. A run that cannot start raises when the block is
    entered; in the block the run has its thread. Leaving the block early cancels the run, unless it
    was started detached. `result` is there once all events were read.
    """

    def __init__(
        self,
        runtime: Worker,
        start: Start[RunResult],
        *,
        check: Callable[[], Awaitable[None]] | None = None,
        detached: bool = False,
        shapes: Shapes = NO_SHAPES,
    ) -> None:
        self._shapes = shapes
        self._speakers = _Speakers(runtime) if shapes else None
        observe = self._speakers.note if self._speakers is not None else None
        super().__init__(runtime, start, check=check, detached=detached, observe=observe)

    if not TYPE_CHECKING:  # a type checker knows; this is for people without one

        def __enter__(self) -> Never:
            raise TypeError("a stream is opened with `async with`, in an async function")

        def __exit__(self, *_: object) -> None:
            """Python looks this up before it calls `__enter__`, which raises."""

        def __iter__(self) -> Never:
            raise TypeError("a stream is read with `async for`, in an async function")

    async def text(self) -> AsyncIterator[str]:
        """The text of the answer, piece by piece, without that of delegates."""
        async for event in self:
            if isinstance(event.event, TextDelta) and event.run_id == self._buffer.run_id:
                yield event.event.delta

    async def messages(self) -> AsyncIterator[Message]:
        """The messages that the run writes, each once it is whole and stored: its answers, and the
        results of their calls, as `Runtime.messages` gives them. What it was asked is left out, and
        so are the messages of delegates."""
        read = position = 0
        async for told in self:
            if told.run_id != self._buffer.run_id or told.seq is None or told.ahead or told.again:
                continue
            read = read or told.seq - 1
            while read < told.seq:
                behind = read
                for commit in await self._runtime.store.load_commits(told.thread_id, after=read):
                    if commit.position > position and commit.run_id == told.run_id:
                        for message in commit.messages:
                            if message.role in _WRITTEN:
                                yield message
                    position = max(position, commit.position)
                    read = max(read, commit.first_event + len(commit.events) - 1)
                if read == behind:
                    break  # the thread was deleted

    async def outputs(self) -> AsyncIterator[Any]:
        """The structured output as far as it has come, as plain data, each time there is more of
        it.

        It is shaped by the output type of the agent that speaks; answers of agents without one are
        left out. If an answer starts over, it is shown from its beginning again. The whole answer,
        validated, is the result's `output`. To keep long answers cheap, each item adds at least a
        thousandth.

        Raises:
            ConfigError: no agent that spoke has an output type.
        """
        speakers = self._speakers
        if speakers is None:
            raise ConfigError("the agent answers with text: give it an output type, or read text()")
        agent, shape, written = "", None, PartialJson()
        has_shape = goes_on = False
        async for told in self:
            event = told.event
            if told.run_id != self._buffer.run_id:
                continue
            if isinstance(event, StepStart) and goes_on:
                speakers.take(event)  # the continuation of an answer that reached the output limit
            elif isinstance(event, StepStart):
                goes_on = True
                agent = speakers.take(event)
                shape, written = self._shapes.get(agent), PartialJson()
                has_shape |= shape is not None
            elif isinstance(event, StepEnd):
                goes_on = False
            elif isinstance(event, _STARTS_OVER):
                written = PartialJson()
            elif isinstance(event, TextDelta) and shape is not None and written.push(event.delta):
                now = shape.partial(written.value())
                if now is not None:
                    yield now
        if agent and not has_shape and self._has_answered():
            raise ConfigError(
                f"agent {agent!r} answers with text: give it an output type, or read text()"
            )

    def _has_answered(self) -> bool:
        task = self._require_task()
        if task.cancelled():
            return False
        result = task.result()
        return result.termination == NATURAL_END and not result.waiting
