"""Which part of a long conversation a request includes, for agents with a context policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from awaken.clock import Clock
from awaken.codec import Json
from awaken.core.context_message import ContextMessage
from awaken.core.event import ActivitySnapshot, ContextCompacted
from awaken.core.identity import RunIdentity
from awaken.core.inference import ContextWindowPolicy, StreamResult, TokenUsage
from awaken.core.llm import ContextOverflow, InferenceRequest, abilities_of
from awaken.core.message import Message
from awaken.core.spec import AgentSpec
from awaken.core.state.run_keys import CONTEXT_WINDOW, ContextWindowState
from awaken.core.state.store import StateStore
from awaken.core.task import custom_event
from awaken.core.tool import ToolDescriptor
from awaken.core.transcript import MessageSequence
from awaken.core.window import DEFAULT_COUNTER, TokenCounter, Window, clamp_policy, truncate
from awaken.engine.live_run import LiveRun
from awaken.engine.side_request import make_side_request
from awaken.ids import Ids
from awaken.plugin.compactor import Compactor, Folded
from awaken.plugin.resolved_agent import ResolvedAgent

LEAST_FACTOR, MOST_FACTOR = 0.5, 4.0
FACTOR_STEP = 0.1
"""The relative change from which a new factor is stored, so that most steps write nothing."""
LEAST_LEARNED = 200
"""Requests with fewer estimated tokens do not change the factor: in them, the tokens that the
provider adds itself weigh too much."""


def counter_of(agent: ResolvedAgent) -> TokenCounter:
    """The token counter of the agent's plugins, else the default one."""
    counter = agent.env.services.get(TokenCounter)
    return counter if isinstance(counter, TokenCounter) else DEFAULT_COUNTER


def compactor_of(agent: ResolvedAgent) -> Compactor | None:
    """The compactor of the agent's plugins, if there is one."""
    compactor: Compactor | None = agent.env.services.get(Compactor)  # type: ignore[assignment]  # services are erased
    return compactor


def policy_of(agent: ResolvedAgent, model: str | None = None) -> ContextWindowPolicy | None:
    """The agent's context policy, limited to what its model can do, or `None` if it has none."""
    policy = agent.spec.context_policy
    if policy is None:
        return None
    able = abilities_of(agent.llm_executor, model or agent.upstream_model)
    known = clamp_policy(policy, able.context_window, able.max_output_tokens)
    return clamp_policy(known, agent.context_window, agent.max_output_tokens)


class Context:
    """The context window of one agent in one run; a compactor sees it as `LiveConversation`.

    `factor` is the ratio of the tokens that the provider counts to the tokens that `counter`
    estimates.
    """

    __slots__ = (
        "_fixed",
        "_model",
        "_run",
        "_sent",
        "_tools",
        "_turn",
        "_window",
        "agent",
        "counter",
        "factor",
        "policy",
    )

    def __init__(self, run: LiveRun, policy: ContextWindowPolicy) -> None:
        self._run, self.agent, self.policy = run, run.agent, policy
        self.counter = counter_of(run.agent)
        known = run.state.read(CONTEXT_WINDOW) or ContextWindowState()
        self.factor = known.factor
        self._window = Window(self.counter, known.cut)
        self._model = run.agent.upstream_model
        self._tools: tuple[ToolDescriptor, ...] | None = None
        self._fixed = self._sent = 0
        self._turn: Message | None = None

    # -- requests -----------------------------------------------------------------------------

    def select_messages(
        self, model: str, tools: tuple[ToolDescriptor, ...], context: Sequence[ContextMessage]
    ) -> MessageSequence:
        """The messages of the conversation for the next request: as many as there is room for
        beside the prompt, the tools and the context messages."""
        if model != self._model:
            self._model, self.policy = model, policy_of(self.agent, model) or self.policy
        window, policy = self._window, self.policy
        window.take(self._run.transcript.items)
        fixed = self._count_fixed_tokens(tools)
        for entry in context:
            fixed += 4 + sum(self.counter.block(block) for block in entry.content)
        room = (policy.max_context_tokens - policy.max_output_tokens) / self.factor
        if window.fit(int(room) - fixed, policy.min_recent_messages):
            self._keep()
        self._sent = fixed + window.tokens
        return window.view()

    def _count_fixed_tokens(self, tools: tuple[ToolDescriptor, ...]) -> int:
        """The estimated tokens of the prompt and the tools, which rarely change."""
        if tools is not self._tools:
            prompt = self.counter.text(self.agent.spec.system_prompt)
            self._tools = tools
            self._fixed = prompt + sum(self.counter.tool(tool) for tool in tools)
        return self._fixed

    def _keep(self) -> None:
        known = ContextWindowState(cut=self._window.cut, factor=self.factor)
        self._run.state.update(CONTEXT_WINDOW, known)

    def learn(self, usage: TokenUsage | None) -> None:
        """Adjust the factor to the tokens that the provider counted for the last request."""
        counted = usage.prompt_tokens if usage is not None else None
        if not counted or self._sent < LEAST_LEARNED or self.agent.env.transforms:
            return  # no count, too few tokens, or plugins changed the request after the estimate
        factor = min(MOST_FACTOR, max(LEAST_FACTOR, counted / self._sent))
        if abs(factor - self.factor) > FACTOR_STEP * self.factor:
            self.factor = factor
            self._keep()

    def harder(self, request: InferenceRequest, error: BaseException | None) -> InferenceRequest:
        """The request with half of its messages' tokens, if the model refused it as too long.
        Returns the request itself after any other error, and if nothing can be left out."""
        if not isinstance(error, ContextOverflow):
            return request
        tokens = sum(self.counter.message(message) for message in request.messages)
        messages = truncate(request.messages, tokens // 2, counter=self.counter)
        kept = sum(self.counter.message(message) for message in messages)
        if kept >= tokens:
            return request
        # The estimate was too low. The usage reported for the next answer corrects the factor.
        self.factor = min(MOST_FACTOR, self.factor * 2)
        self._keep()
        self._sent += kept - tokens
        return msgspec.structs.replace(request, messages=messages)

    # -- for a compactor ----------------------------------------------------------------------

    @property
    def identity(self) -> RunIdentity:
        return self._run.identity

    @property
    def spec(self) -> AgentSpec:
        return self.agent.spec

    @property
    def state(self) -> StateStore:
        return self._run.state

    @property
    def clock(self) -> Clock:
        return self._run.clock

    @property
    def ids(self) -> Ids:
        return self._run.ids

    def tokens(self) -> int:
        """The tokens of the next request, as the provider would count them."""
        self._window.take(self._run.transcript.items)
        fixed = self._count_fixed_tokens(self._tools or self.agent.descriptors)
        return int((fixed + self._window.tokens) * self.factor)

    def messages(self) -> Sequence[Message]:
        return self._run.transcript.view()

    def is_new_turn(self) -> bool:
        before, self._turn = self._turn, self._window.user
        return self._turn is not None and self._turn is not before

    def fold(self, boundary_id: str, summary: Message) -> Folded | None:
        folded = self._run.transcript.fold(boundary_id, summary)
        if folded is not None:
            covered = folded.summary.metadata.compaction if folded.summary.metadata else None
            if covered is not None and folded.seq is not None:
                self._run.journal.note(
                    ContextCompacted(
                        summary_message_id=folded.summary.id or "",
                        from_seq=covered.from_seq,
                        to_seq=covered.to_seq,
                    )
                )
            self._window.begin_anew()
            if self._run.state.read(CONTEXT_WINDOW) is not None:
                self._keep()
        return folded

    def emit(self, event_type: str, task_id: str, payload: Mapping[str, Json]) -> None:
        told = custom_event(task_id, event_type, dict(payload))
        event = ActivitySnapshot(message_id=task_id, activity_type=event_type, content=told)
        self._run.journal.note_transient(event)

    async def ask(self, request: InferenceRequest, model_id: str | None = None) -> StreamResult:
        return await make_side_request(self._run, self.agent, request, model_id)


def context_of(run: LiveRun) -> Context | None:
    """The context window of the current agent, or `None` if the agent has no context policy."""
    if run.agent.spec.context_policy is None:
        return None
    known = run.window
    if isinstance(known, Context) and known.agent is run.agent:
        return known
    policy = policy_of(run.agent)
    assert policy is not None, "the agent has one"
    run.window = context = Context(run, policy)
    return context


def run_compactor(run: LiveRun) -> None:
    """Before a step, call the compactor of the agent's plugins, if there is one."""
    context, compactor = context_of(run), compactor_of(run.agent)
    if context is not None and compactor is not None:
        compactor.before_step(context)
