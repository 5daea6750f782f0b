"""`LiveRun`: the values of a running run, which the functions of the loop share."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

import msgspec

from awaken.codec import Json, loads
from awaken.core.agent_services import AnswerCheck
from awaken.core.aio.cancel import interruptible
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.bus import Progress
from awaken.core.event import StepSnapshot
from awaken.core.inbox import payload_messages
from awaken.core.lifecycle import Phase
from awaken.core.llm import InferenceRequest, RoutingKey
from awaken.core.message import Message, MessageMetadata
from awaken.core.run import RunRecord
from awaken.core.state.command import Command
from awaken.core.state.run_keys import FINAL_OUTPUT
from awaken.core.store.commits import CallEntry
from awaken.core.tool_context import Tool, ToolCallContext
from awaken.engine.journal import open_journal
from awaken.engine.phases import PhaseRuntime
from awaken.engine.request_log import RequestKeeper
from awaken.engine.reservation import StepReservation
from awaken.engine.run_setup import RunSetup
from awaken.engine.transcript import LiveTranscript
from awaken.errors import Cancelled, LeaseLost
from awaken.plugin.context import PhaseContext
from awaken.plugin.resolved_agent import ResolvedAgent, changes_since
from awaken.tool import FrontEndTool

log = logging.getLogger("awaken.loop")


_NOT_YET = sys.maxsize
"""The `seq` of an event that is not noted yet: no event has it."""
_NO_CALLS: dict[str, CallEntry] = {}
"""The ledger of a new run; entries are only taken out of a ledger."""


class LiveRun:
    """One run while it runs: the first argument of the loop's functions, and private to them."""

    __slots__ = (
        "_around",
        "agent",
        "agents",
        "announced_answer",
        "blobs",
        "cached_request",
        "clock",
        "controls",
        "created_at_ms",
        "ending",
        "has_blobs",
        "identity",
        "ids",
        "in_step",
        "inbox",
        "inline_limit",
        "input_tokens",
        "journal",
        "ledger",
        "message_id",
        "metadata",
        "open_answer",
        "output_tokens",
        "phases",
        "profile",
        "read_result",
        "record",
        "requests",
        "reservation",
        "routing_key",
        "setup",
        "state",
        "step_ends",
        "steps",
        "stream_log",
        "task",
        "text_before_limit",
        "token",
        "transcript",
        "unsaved",
        "until_cancelled",
        "usage_totals",
        "usual_request",
        "window",
    )

    def __init__(self, agent: ResolvedAgent, phases: PhaseRuntime, setup: RunSetup) -> None:
        services, controls = setup.services, setup.controls
        thread, first_commit = setup.thread, setup.first_commit
        self.setup, self.controls = setup, controls
        # The next few are bound here because every step reads them.
        self.clock, self.ids = services.clock, services.ids
        self.phases, self.state = phases, phases.store
        identity = self.identity = setup.identity
        self.routing_key = RoutingKey(thread_id=identity.thread_id, run_id=identity.run_id)
        self.token = controls.cancellation_token
        self.task: asyncio.Task[Any] | None = None
        self.inbox = controls.inbox
        self.reservation = (
            StepReservation(controls.budget, identity.run_id) if controls.budget else None
        )
        self.created_at_ms = self.clock.now_ms()
        previous = thread.previous
        if previous is None:
            self.record: RunRecord | None = None
            # The lifecycle state counts steps too, but not any more once a hook has ended the run.
            self.steps = self.input_tokens = self.output_tokens = 0
            self.usage_totals: dict[str, Any] = {}
        else:
            self.record = _update_agent(previous, agent)
            self.steps = previous.steps
            self.input_tokens, self.output_tokens = previous.input_tokens, previous.output_tokens
            self.usage_totals = read_usage_totals(previous)
        self.journal = open_journal(setup)
        self.ledger = {entry.key: entry for entry in thread.calls} if thread.calls else _NO_CALLS
        self.stream_log = thread.stream
        self.transcript = LiveTranscript(
            setup.messages, first_commit.messages, thread.log, thread.log_length
        )
        # Without a store a run is never read again, so nothing of it is kept elsewhere.
        has_store = services.store is not None
        self.blobs = services.blobs if has_store else None
        self.requests: RequestKeeper | None = None
        if services.keep_requests and has_store:
            self.requests = RequestKeeper(self.transcript, self.journal, identity)
        # A text with no more characters than this has at most `max_inline_result` bytes.
        self.inline_limit = self.blobs.max_inline_result // 4 if self.blobs else sys.maxsize
        self.has_blobs = False
        # The characters of results since the last commit.
        self.unsaved = 0
        self.read_result: Tool | None = None
        self.window: object | None = None
        # An agent, and the last request that only its spec and the conversation have shaped.
        self.usual_request: tuple[ResolvedAgent, InferenceRequest] | None = None
        # That request, if this step's request is a copy of it.
        self.cached_request: InferenceRequest | None = None
        self.in_step = self.ending = False
        self.message_id = ""
        # The answer that is being read or was read last in this step, and the `seq` of the step's
        # end once that is noted.
        self.open_answer: StreamAccumulator | None = None
        self.step_ends = 0
        # The answer whose calls listeners were sent, until they are logged or withdrawn.
        self.announced_answer: StreamAccumulator | None = None
        # The text of the step's answer before it reached the output limit, if it was continued.
        self.text_before_limit = ""
        # Messages logged before the next step begins, such as late results, belong to the last one.
        last_step = max(0, self.steps - 1)
        self.metadata = MessageMetadata(run_id=identity.run_id, step_index=last_step)
        self.agents: dict[str, ResolvedAgent] = {}
        self._around: ToolCallContext | None = None
        self.use(agent)
        setup.topic.attach(self._progress)

    def begin(self, task: asyncio.Task[Any] | None) -> None:
        """Set the task that runs the loop. In a `with run.until_cancelled` block, cancelling the
        run interrupts what that task awaits."""
        self.task = task
        self.until_cancelled = interruptible(self.token, task)

    @property
    def response(self) -> str:
        """The run's output as text: the model's last answer, which a check or a function of the
        agent may have changed."""
        services = self.agent.env.services
        if services and AnswerCheck in services and (text := self.state.read(FINAL_OUTPUT)):
            return text
        return self.answer_text

    @property
    def answer_text(self) -> str:
        """The text of the model's last answer; for a structured output, only its JSON object."""
        last = self.transcript.last
        if last is None:
            return ""
        if self.agent.spec.output is None:
            return last.text()
        # After the output limit, most models continue the JSON text. A model whose output is
        # restricted to the schema writes the whole object again.
        text = last.last_text()
        return (
            self.text_before_limit + text
            if self.text_before_limit and not _is_object(text)
            else text
        )

    def use(self, agent: ResolvedAgent) -> None:
        """Make `agent` the current agent, with the client's front-end tools added to its own.

        Raises:
            ToolIdConflict: a tool of the client has the id of a tool of the agent.
        """
        if agent.spec.id not in self.agents:
            for descriptor in self.setup.frontend_tools:
                agent = agent.with_tool(FrontEndTool(descriptor))
            if self.read_result is not None:
                agent = _with_spare_tool(agent, self.read_result)
        self.agents[agent.spec.id] = agent
        self.agent = agent
        self.profile = agent.env.profile_access(self.setup.services.profiles)

    def offer_read_result(self, tool: Tool) -> None:
        """Offer the tool that reads large results, from the next step on, to every agent."""
        self.read_result = tool
        self.agents = {id: _with_spare_tool(agent, tool) for id, agent in self.agents.items()}
        self.agent = _with_spare_tool(self.agent, tool)

    def around_calls(self) -> ToolCallContext:
        """The context that all tool calls share. The caller copies it and adds the fields of one
        call."""
        known, journal = self._around, self.journal
        if (
            known is not None
            and known.agent_spec is self.agent.spec
            and (journal.has_reader or known.forward is None)
        ):
            return known
        self._around = ToolCallContext(
            call_id="",
            tool_name="",
            run_identity=self.identity,
            agent_spec=self.agent.spec,
            snapshot=self.state.snapshot(),
            activity_sink=journal.send_transient,
            cancellation_token=self.token,
            profile_access=self.profile,
            forward=journal.pass_on if journal.has_reader else None,
            services=self.agent.env.services,
            delegates=self.setup.services.delegates,
            budget=self.controls.budget,
            depth=self.controls.depth,
            run_deps=self.setup.services.deps,
        )
        return self._around

    def forget_references(self) -> None:
        """Drop the references that lead back to the run once it is over.

        The reader of an answer knows its run: only the garbage collector could free both, and it
        would run four times as often. The context of tool calls is not known to the collector, so
        a run whose journal keeps an error, and with it this run, would never be freed.
        """
        self.open_answer = self.announced_answer = self._around = None

    def enter_step(self, message_id: str | None = None) -> None:
        """Begin a step, or continue the one whose assistant message has `message_id`.

        The metadata of the step's messages names this run and the step.
        """
        self.message_id = self.ids.new() if message_id is None else message_id
        self.text_before_limit = ""
        self.in_step, self.open_answer, self.step_ends = True, None, _NOT_YET
        self.journal.enter_step()
        self.metadata = MessageMetadata(run_id=self.identity.run_id, step_index=self.steps)

    def _progress(self) -> Progress:
        return self.journal.progress(self._open_step())

    def _open_step(self) -> StepSnapshot | None:
        """The part of the open step that listeners were sent; `None` if its end was sent."""
        if self.journal.seq >= self.step_ends:
            return None
        if self.open_answer is not None:
            return self.open_answer.so_far(self.message_id)
        answer = self.setup.thread.last_step
        if answer is not None and answer.id == self.message_id:
            return StepSnapshot.of(answer)  # the step of a process that died: it has its answer
        return StepSnapshot(message_id=self.message_id)

    def has_pending(self) -> bool:
        """Whether messages or journal entries wait for a commit."""
        return self.transcript.has_pending or self.journal.has_pending

    def is_left(self) -> bool:
        """Whether this process is to leave the run, for another one to continue it."""
        controls = self.controls
        return controls.is_lost or (controls.leave is not None and controls.leave.fired)

    def is_cancelled(self) -> bool:
        return self.token is not None and self.token.fired

    def check_token(self) -> None:
        """Return if the run is not cancelled.

        Raises:
            Cancelled: the run was cancelled.
        """
        if self.token is not None and self.token.fired:
            raise Cancelled

    def context(self, phase: Phase, **extra: Any) -> PhaseContext:
        return PhaseContext(
            phase=phase,
            snapshot=self.state.snapshot(),
            agent_spec=self.agent.spec,
            run_identity=self.identity,
            messages=self.transcript.view(),
            profile_access=self.profile,
            run_deps=self.setup.services.deps,
            **extra,
        )

    def is_busy(self, phase: Phase) -> bool:
        """Whether the phase has hooks or scheduled actions to run."""
        env = self.agent.env
        if not env.hooks[phase]:
            return phase in self.phases.queued_for
        return phase in self.phases.queued_for or env.is_busy(phase, self.state.snapshot())

    async def phase(
        self, phase: Phase, *, seed: Command | None = None, final: bool = False, **extra: Any
    ) -> None:
        """Run the hooks of a phase. With `final`, cancelling the run does not interrupt them.

        Raises:
            Cancelled: the run was cancelled.
            StateError: a hook or a command failed.
        """
        token = None if final else self.token
        ctx = self.context(phase, cancellation_token=token, **extra)
        with interruptible(token, self.task):
            await self.phases.run_phase(self.agent.env, ctx, seed=seed)

    def read_inbox(self) -> list[Message]:
        """Empty the inbox and return its payloads as messages: of clients, other agents and
        background tasks. The next commit acknowledges the commands that brought them.

        Raises:
            InvalidResume: a payload of the kind `messages` is malformed.
        """
        arrived: list[Message] = []
        if self.inbox is not None and len(self.inbox):
            for payload in self.inbox.drain():
                self._acknowledge(payload)
                arrived += payload_messages(payload)
        return arrived

    def _acknowledge(self, payload: Json) -> None:
        command = payload.get("command") if isinstance(payload, dict) else None
        if isinstance(command, int):
            self.journal.extras.acks.append(command)


async def wait_for_lease(run: LiveRun) -> None:
    """Wait until this process may start an effect again.

    If that takes too long, the run is left without a commit: its task is cancelled, and another
    process continues it.
    """
    try:
        await run.controls.lease.wait_held()
    except LeaseLost:
        run.controls.give_up()
        await asyncio.Event().wait()


def read_usage_totals(record: RunRecord) -> dict[str, Any]:
    """The record's token counts and cost, except input and output tokens, by field name."""
    names = ("cache_read_tokens", "cache_creation_tokens", "thinking_tokens", "cost")
    return {name: value for name in names if (value := getattr(record, name))}


def _update_agent(record: RunRecord, agent: ResolvedAgent) -> RunRecord:
    """The record of a continued run, with the current fingerprint of its agent.

    If the agent changed since the run began, the changes are recorded and logged.
    """
    if record.agent_id != agent.spec.id:
        return record
    changes = changes_since(record.agent_fingerprint, agent)
    if not changes:
        return record
    log.warning("run %s goes on; changed since it began: %s", record.run_id, ", ".join(changes))
    return msgspec.structs.replace(
        record,
        agent_fingerprint=agent.fingerprint,
        agent_changes=tuple(sorted({*record.agent_changes, *changes})),
    )


def _with_spare_tool(agent: ResolvedAgent, tool: Tool) -> ResolvedAgent:
    """The agent with one more tool, unless it has one with that id, which goes before."""
    return agent if tool.descriptor().id in agent.tools else agent.with_tool(tool)


def _is_object(text: str) -> bool:
    try:
        return isinstance(loads(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
