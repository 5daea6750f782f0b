"""Resolving a run's agent and reading as much of its thread as that agent can use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from awaken.core.backend import BackendTranscriptCapability, ExecutionBackendError
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message, Role
from awaken.core.registry import ExecutionResolver
from awaken.core.rewind import before_hidden, stretches
from awaken.core.run import RunRecord
from awaken.core.state.run_keys import CONTEXT_WINDOW
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.core.thread import Thread
from awaken.core.thread_ids import parse_family
from awaken.core.window import shorten_message
from awaken.engine.context_window import compactor_of, counter_of, policy_of
from awaken.errors import ResolveError, ResolveFailed, ThreadBusy
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent, ResolvedExecution
from awaken.worker.prepare import choose_agent
from awaken.worker.request import RunRequest

_replace = msgspec.structs.replace


FIRST_PIECE = 128
"""How many of the last messages are read first if a token limit applies. While they leave room,
each further read doubles the number."""
MOST_LEADING = 8
"""How many messages at a thread's beginning are searched for system messages."""


async def with_rewind(store: Store, request: RunRequest) -> RunRequest:
    """The request, with the position in the log of the message that it rewinds the thread to.

    Raises:
        RewindRefused: no message in view has the id that it names.
    """
    if request.rewind_to is None or request.rewinds_to is not None:
        return request
    to = await store.find_rewind(request.thread_id, request.rewind_to)
    return _replace(request, rewinds_to=to)


async def resolve_and_read(
    store: Store, request: RunRequest, resolver: ExecutionResolver
) -> tuple[ResolvedExecution, ThreadContext]:
    """The agent of the request, and the part of the thread that the agent needs: as the request's
    rewind leaves it, if it has one.

    Raises:
        AgentNotFound, ResolveFailed: the agent cannot run.
        ThreadBusy: the thread cannot be rewound because a run of it is open.
    """
    agent: ResolvedExecution | None = None
    if request.agent_id is not None and not request.decisions:
        agent = resolve(resolver, request.agent_id)
    window = _LogWindow(agent) if agent is not None else None
    tail = window.first if window is not None else 0
    if request.rewinds_to is None:
        context = await store.load_context(request.thread_id, tail=tail)
    else:
        context = await store.load_rewound(request.thread_id, request.rewinds_to, tail=tail)
        if context is not None and context.thread.open_run_id is not None:
            raise ThreadBusy(request.thread_id, context.thread.open_run_id)
    if context is None:
        parent_id = request.parent_thread_id
        parent = await store.load_thread(parent_id) if parent_id is not None else None
        context = ThreadContext(thread=_new_thread(request, parent), is_new=True)
    if agent is None or window is None:
        agent = resolve(resolver, choose_agent(request, context, resolver.agent_ids))
        window = _LogWindow(agent)
    if context.is_new:
        return agent, context
    # The caller owns the thread: no other process changes it between these reads.
    while more := window.more(context):
        skipped = before_hidden(context.hidden, context.skipped - more)
        piece = await read_between(store, context, skipped, context.skipped)
        context = _replace(context, messages=[*piece, *context.messages], skipped=skipped)
    if context.skipped and window.is_limited:
        most = MOST_LEADING if window.most is None else min(window.most, MOST_LEADING)
        summary_seq = _find_summary(agent, context)
        context = _replace(context, leading=await _load_leading(store, context, most, summary_seq))
    return agent, context


def _new_thread(request: RunRequest, parent: Thread | None) -> Thread:
    """The thread that the request's first commit will create."""
    own = parse_family(request.thread_id)
    scope, family = own if parent is None else (parent.scope, parent.family)
    return Thread(id=request.thread_id, scope=scope, family=family)


class _LogWindow:
    """The part of a thread's log that an agent needs: all of it, a number of messages, or as many
    as fit its context window.

    The calls of an open run are read in any case. Messages that a summary covers are not needed.
    """

    def __init__(self, agent: ResolvedExecution) -> None:
        policy = agent.spec.context_policy
        self.most = policy.max_messages if policy is not None else None
        self._token_limit: int | None = None
        if isinstance(agent, ResolvedAgent):
            if policy is not None and (limits := policy_of(agent)) is not None:
                self._token_limit, self._counter = limits.max_context_tokens, counter_of(agent)
        elif not wants_whole_log(agent):
            self.most = 1
        self._seen = self._covered = 0
        self._tokens = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether the model's context window limits how much is read."""
        return self._token_limit is not None

    @property
    def first(self) -> int | None:
        """How many of the last messages to read first; `None` means all."""
        if self._token_limit is None:
            return self.most
        return FIRST_PIECE if self.most is None else min(self.most, FIRST_PIECE)

    def more(self, context: ThreadContext) -> int:
        """How many earlier messages to read next; 0 once enough were read."""
        skipped, read = context.skipped, len(context.messages)
        if skipped == 0 or self.first is None:
            return skipped
        self._count(context, context.messages[: read - self._seen])
        self._seen = read
        if not _has_open_turn(context):
            return min(skipped, max(read, self.first))
        most = skipped if self.most is None else min(skipped, self.most - read)
        if self._token_limit is not None:
            if self._tokens >= self._token_limit:
                return 0
            most = min(most, skipped - self._covered)
        return max(0, min(most, max(read, self.first)))

    def _count(self, context: ThreadContext, messages: Sequence[Message]) -> None:
        if self._token_limit is None:
            return
        known = context.thread_state.extensions.get(CONTEXT_WINDOW.name)
        factor = CONTEXT_WINDOW.load(known).factor if known is not None else 1.0
        for message in messages:
            self._tokens += self._counter.message(shorten_message(message)) * factor
            if message.metadata is not None and message.metadata.compaction is not None:
                self._covered = max(self._covered, message.metadata.compaction.to_seq)


def _has_open_turn(context: ThreadContext) -> bool:
    """Whether the calls of the open run, if it has any, are among the messages read so far."""
    run = context.open_run
    if run is None or run.status is RunStatus.DONE or not context.calls:
        return True
    return any(message.tool_calls for message in context.messages)


def _find_summary(agent: ResolvedExecution, context: ThreadContext) -> int | None:
    """The position of the thread's last summary, which the compactor of the agent's plugins
    knows."""
    compactor = compactor_of(agent) if isinstance(agent, ResolvedAgent) else None
    return compactor.last_summary_seq(context.thread_state) if compactor is not None else None


async def _load_leading(
    store: Store, context: ThreadContext, most: int, seq: int | None
) -> Sequence[Message]:
    """Messages that were not read but are needed: the system messages at the thread's beginning,
    its last summary (at `seq`), and the last input message of the open run."""
    skipped = context.skipped
    begins = await read_between(store, context, 0, min(skipped, most))
    found = list(takewhile(lambda message: message.role is Role.SYSTEM, begins))
    if seq is not None and len(found) < seq <= skipped:
        found += await read_between(store, context, seq - 1, seq)
    asked = _last_request_index(context)
    if asked is not None and max(len(found), seq or 0) < asked <= skipped:
        found += await read_between(store, context, asked - 1, asked)
    return found


def _last_request_index(context: ThreadContext) -> int | None:
    """The number of the open run's last input message; `None` if no run is open."""
    run = context.open_run
    if run is None or run.status is RunStatus.DONE or run.input is None or run.input.range is None:
        return None
    return run.input.range.to_seq


def resolve(resolver: ExecutionResolver, agent_id: str) -> ResolvedExecution:
    """Resolve an agent, and check that its backend can be built if it runs on one.

    Raises:
        AgentNotFound: no such agent.
        ResolveFailed: it cannot run.
    """
    try:
        execution: ResolvedExecution = resolver.resolve_execution(agent_id)
        if isinstance(execution, ResolvedBackendAgent):
            execution.backend()
    except ResolveError as error:
        raise ResolveFailed(str(error)) from error
    except ExecutionBackendError as error:
        raise ResolveFailed(error.message) from error
    return execution


def agent_before(
    resolver: ExecutionResolver, run: RunRecord, asked: ResolvedExecution
) -> ResolvedExecution:
    """The agent that settles the calls of a continued run: the one that made them. Returns the
    requested agent if the run's own is not registered here."""
    before = run.agent_id
    if before == asked.spec.id or before not in resolver.agent_ids():
        return asked
    return resolve(resolver, before)


def can_hand_over(before: ResolvedExecution, asked: ResolvedExecution) -> bool:
    """Whether the agent `asked` can continue a run of `before`: both must run in this process."""
    if before is asked:
        return True
    return isinstance(before, ResolvedAgent) and isinstance(asked, ResolvedAgent)


async def read_between(
    store: Store, context: ThreadContext, after: int, until: int
) -> Sequence[Message]:
    """The messages behind position `after` of the log, up to `until`, that are in view."""
    hidden = context.hidden
    parts = [
        await store.load_messages(context.thread.id, after=low, limit=high - low, hidden=True)
        for low, high in stretches(hidden, after, until)
    ]
    return [message for part in parts for message in part]


def wants_whole_log(agent: ResolvedBackendAgent) -> bool:
    """Whether the agent's backend wants the conversation from its beginning."""
    abilities = agent.backend().capabilities()
    return abilities.transcript is BackendTranscriptCapability.FULL_TRANSCRIPT
