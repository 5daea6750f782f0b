"""The runtime, as a user sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.backend import ExecutionBackendFactory
from awaken.contract.blobs import INLINE_LIMIT, BlobStore
from awaken.contract.events import EventSink, NullEventSink
from awaken.contract.llm import LlmExecutor
from awaken.contract.profile import ProfileStore
from awaken.contract.store import Store
from awaken.contract.tool import Tool
from awaken.domain.budget import Budget, Price
from awaken.domain.inference import InferenceOverride
from awaken.domain.message import Message, as_messages
from awaken.domain.pool import ModelPoolSpec
from awaken.domain.receipt import CancelReceipt
from awaken.domain.spec import AgentSpec, ModelSpec, RemoteEndpoint
from awaken.domain.tool import ToolDescriptor
from awaken.errors import AwakenError, ConfigError
from awaken.front.agent import Agent, listed
from awaken.front.answers import AnswersByTicket, OnApproval, ask, decisions_of
from awaken.front.archive import Archive
from awaken.front.budgets import checked_budget, checked_overrides
from awaken.front.build import AnyAgent, Assembly, shapes_of
from awaken.front.loading import blobs_beside, checked_store, open_store
from awaken.front.remote import RemoteAgent, find_agent
from awaken.front.result import RecoveredRun, RunResult
from awaken.front.stream import RunStream
from awaken.front.sync import SyncDoor, call_in
from awaken.front.tasks import at_rest, over_or_asking, tree_at_rest
from awaken.ids import UUID7, Ids
from awaken.plugin.hook import Plugin
from awaken.runtime import (
    CANCEL_GRACE,
    AgentRuntime,
    RunRequest,
    WhenBusy,
    operations,
)
from awaken.runtime.closing import close_plugins
from awaken.runtime.receipts import cancel_with_receipt
from awaken.runtime.recovery import Recovery, ResumedRun
from awaken.tool.threads import DEFAULT_LIMIT

log = logging.getLogger("awaken.runtime")

LEAST_INLINE = 8 * 1024
Input = str | Message | Iterable[Message | str] | None


class Runtime(Archive):
    """Runs agents. Open it with `async with`; leaving it ends what still runs (see `on_close`).

    Args:
        agents: everything that can be asked for, handed to, or delegated to.
        store: an address such as `sqlite:///awaken.db` or `memory:`, or a store, which stays open.
        recover: while it is open (by `async with`), go on with runs of these agents that nobody
            carries on: their process is gone, or they were answered, cancelled or ran out of time.
            Without it, a run that has started tasks here still goes on when they have news.
        on_close: what becomes of runs that are live when the runtime closes. `leave` lets each
            finish its step and stay open, so that the next process recovers it; so does every run
            that was recovered itself.
        tools: tools every agent sees.
        plugins: plugins agents given as data (`AgentSpec`) may name.
        models: models, and pools of them, that agents may name; pools name models in turn.
        model_specs: what is known of models by their names: limits, what they read, prices.
        prices: what models cost, by the names agents use for them, for budgets in money. A model
            that only an override of a run or a step names costs what the agent's own does.
        sources: where to look for further agents by their A2A cards, by a name of yours: the agent
            found at `partner` is `partner/<its id>`, or its id alone if no agent here has that.
        backends: makers of backends of your own, for agents whose endpoint names them.
        profiles: where state that outlives threads is kept; in the store if not given.
        blobs: where large media and tool results are kept. If not given: beside the file of a
            SQLite store, in memory for a memory store, and nowhere for others, so that everything
            stays in the log.
        max_inline_result: the bytes of text up to which a tool result stays in the log.
        tool_threads: how many calls of plain (not async) tools run at once, each in a thread of
            its own; further ones wait. A call that has timed out, and still holds its thread, no
            longer counts.
    """

    def __init__(
        self,
        agents: Iterable[AnyAgent],
        *,
        store: str | Store = "memory:",
        recover: bool = True,
        on_close: Literal["cancel", "leave"] = "cancel",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        plugins: Iterable[Plugin] = (),
        models: Mapping[str, LlmExecutor | ModelPoolSpec] | None = None,
        model_specs: Iterable[ModelSpec] = (),
        prices: Mapping[str, Price] | None = None,
        backends: Iterable[ExecutionBackendFactory] = (),
        sources: Mapping[str, str | RemoteEndpoint] | None = None,
        profiles: ProfileStore | None = None,
        blobs: BlobStore | None = None,
        max_inline_result: int = INLINE_LIMIT,
        tool_threads: int = DEFAULT_LIMIT,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self._owns_store = isinstance(store, str)
        kept = open_store(store) if isinstance(store, str) else checked_store(store)
        super().__init__(kept, clock, ids, blobs or blobs_beside(kept, clock))
        if max_inline_result < LEAST_INLINE:
            raise ConfigError(
                f"max_inline_result is {max_inline_result}: give at least {LEAST_INLINE} bytes, "
                "since the beginning of a larger result stays in the log"
            )
        self._closed = False
        self._recover = recover
        if on_close not in ("cancel", "leave"):
            raise ConfigError(f"on_close is 'cancel' or 'leave', not {on_close!r}")
        self._on_close = on_close
        self.recovered: list[RecoveredRun] = []
        self._assembly = Assembly(
            tools=tools,
            plugins=plugins,
            models=models,
            model_specs=model_specs,
            prices=prices,
            backends=backends,
            profiles=profiles or self._store.profiles,
            clock=clock,
            ids=ids,
        )
        self._agents: Sequence[AnyAgent] = listed(agents, "the runtime's agents")
        self._sources = dict(sources or {})
        self._found: Mapping[str, AgentSpec] = {}
        builder = self._assembly.builder(self._agents)
        self._closers = builder.closers()
        builder.with_thread_run_store(self._store).with_tool_threads(tool_threads)
        builder.with_blobs(self.blobs, max_inline_result=max_inline_result)
        self._engine = builder.build(self._sources)
        self._shapes = shapes_of(self._agents)
        self._recovery = Recovery(self._engine)
        self._sync = SyncDoor(self._at_rest, self._leave_tasks)

    # -- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._engine.one_loop.bind()
        await self._store.open()
        if self._sources:
            await self.discover()
        if self._recover:
            try:
                self.recovered = self._as_recovered(await self._recovery.resume())
            except BaseException:
                await self.close()
                raise
            self._recovery.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel or leave what still runs, wait for it (not for ever), and close the store."""
        self._closed = self._engine.closed = True
        self._recovery.stop()
        if self._on_close == "leave":
            await self._engine.leave_all()
        else:
            await self._engine.cancel_all()
        failed = await close_plugins(self._closers, leave=self._on_close == "leave")
        await self._assembly.close()
        await self._recovery.stopped()
        if self._owns_store:
            await self._store.close()
        if failed is not None:
            raise failed

    @property
    def engine(self) -> AgentRuntime:
        """The full contract beneath: `RunRequest`, control by run and thread id."""
        return self._engine

    def replace(self, agents: Iterable[AnyAgent]) -> int:
        """Use other agents from now on; runs that are live keep theirs. Returns the version.

        Raises:
            BuildError: an agent cannot run; nothing was replaced.
        """
        return self._use(listed(agents, "the runtime's agents"), self._found)

    def _use(self, agents: Sequence[AnyAgent], found: Mapping[str, AgentSpec]) -> int:
        builder = self._assembly.builder((*agents, *found.values()))
        version = self._engine.registry.replace(builder.validated_resolver(self._sources))
        self._agents, self._found = agents, found
        self._shapes.update(shapes_of(agents))
        self._closers.extend(builder.closers())
        return version

    async def discover(self) -> dict[str, AwakenError]:
        """Look at every source for its agent, and know those that are found from now on.

        Opening the runtime does so. A source that cannot be used now is logged, and what was found
        there before is kept; returns what is wrong with which.
        """
        found = dict(self._found)
        wrong: dict[str, AwakenError] = {}
        for name, where in self._sources.items():
            try:
                found[name] = await find_agent(name, where)
            except AwakenError as error:
                log.warning("no agent was found at source %r: %s", name, error)
                wrong[name] = error
        if found != self._found:
            self._use(self._agents, found)
        return wrong

    # -- running ------------------------------------------------------------------------------

    async def run(
        self,
        agent: str | Agent | RemoteAgent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: AnswersByTicket | None = None,
        on_approval: OnApproval | None = None,
        overrides: InferenceOverride | None = None,
        budget: Budget | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        when_busy: WhenBusy | Literal["refuse", "queue"] = WhenBusy.REFUSE,
        sink: EventSink | None = None,
    ) -> RunResult:
        """Run an agent and return how it ended.

        A run that needs an approval returns suspended, with its tickets, unless `on_approval`
        answers them. Give `answers={ticket: True}` with the same thread to go on later; a ticket's
        key does as well, also in another process. A `budget` holds for the
        run and all it starts, instead of the agent's own. A thread that is running,
        here or in another process, is refused; with `when_busy="queue"` the request waits.

        Raises:
            ConfigError, TypeError: it was asked for wrongly, or in a second event loop while the
                one the runtime belongs to is open; the text says what to do.
            AgentNotFound, ThreadAlreadyRunning, InvalidResume: it could not start.
            AgentLoopError: it broke off.
        """
        request = self._request(
            agent, input, thread, answers, overrides, budget, frontend_tools, when_busy
        )
        if on_approval is not None:
            return await self._drive(request, on_approval, sink or NullEventSink())
        ended = await self._engine.run(request, sink)
        return RunResult.of(request.thread_id, ended, self._shapes)

    def stream(
        self,
        agent: str | Agent | RemoteAgent | None = None,
        input: Input = None,
        *,
        thread: str | None = None,
        answers: AnswersByTicket | None = None,
        on_approval: OnApproval | None = None,
        overrides: InferenceOverride | None = None,
        budget: Budget | None = None,
        frontend_tools: Sequence[ToolDescriptor] = (),
        when_busy: WhenBusy | Literal["refuse", "queue"] = WhenBusy.REFUSE,
        wait: bool = False,
        detached: bool = False,
    ) -> RunStream:
        """Run an agent and read its events as they come.

        With `wait`, a suspended run stays, and `decide` answers it; otherwise the stream ends.
        With `detached`, leaving the block early lets the run go on.
        """
        request = self._request(
            agent, input, thread, answers, overrides, budget, frontend_tools, when_busy
        )
        if wait and on_approval is not None:
            raise ConfigError("give either wait, and call decide, or on_approval, which is called")
        if wait:
            request = msgspec.structs.replace(request, wait_for_decisions=True)
        return RunStream(
            self._engine,
            lambda sink: self._drive(request, on_approval, sink),
            detached=detached,
            shapes=self._shapes,
        )

    def run_sync(self, *args: Any, **kwargs: Any) -> RunResult:
        """`run`, for programs without an event loop, from any thread, also from several at once.

        It works in an event loop in a thread of its own, which all callers share, or in the one the
        runtime was opened in. It returns when all of the run has come to rest: a run goes on with
        its background tasks until they have ended. If an agent in the background needs an answer,
        both are left as they wait; answer, and go on with them, by opening the runtime.

        Raises:
            ConfigError: it was called inside an event loop; await `run` instead.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError(
                "run_sync was called inside an event loop: await runtime.run(…) instead"
            )
        loop = self._engine.one_loop.find()
        if loop is None or loop.is_closed() or self._sync.is_behind(loop):
            return self._sync.call(lambda: self._run_to_rest(*args, **kwargs))
        if not loop.is_running():
            raise ConfigError("the runtime belongs to an event loop that is open and does not run")
        return call_in(loop, self._run_to_rest(*args, **kwargs))

    async def _run_to_rest(self, *args: Any, **kwargs: Any) -> RunResult:
        """Run, and wait until nothing of the run is live: its event loop may end afterwards."""
        result = await self.run(*args, **kwargs)
        await tree_at_rest(self._engine, result.thread_id, self._recovery.at_work)
        now = await self.find_run(result.run_id) if result.waiting else None
        return result if now is None else RunResult.read(now, self._shapes)

    async def _at_rest(self) -> None:
        await at_rest(self._engine)

    async def _leave_tasks(self) -> None:
        await self._engine.tasks.close(leave=True, grace=CANCEL_GRACE)
        await self._engine.unkept.try_again()

    async def _drive(
        self, request: RunRequest, on_approval: OnApproval | None, sink: EventSink
    ) -> RunResult:
        while True:
            ended = await self._engine.run(request, sink)
            result = RunResult.of(request.thread_id, ended, self._shapes)
            if not result.suspended or on_approval is None or not result.tickets:
                return result
            decisions = [await ask(on_approval, ticket) for ticket in result.tickets]
            # Not by name: the run may have been handed to another agent.
            request = msgspec.structs.replace(
                request,
                agent_id=None,
                messages=(),
                decisions=tuple(decisions),
                continue_run_id=result.run_id,
            )

    def _request(
        self,
        agent: str | Agent | RemoteAgent | None,
        input: Input,
        thread: str | None,
        answers: AnswersByTicket | None,
        overrides: InferenceOverride | None,
        budget: Budget | None,
        frontend_tools: Sequence[ToolDescriptor],
        when_busy: WhenBusy | str,
    ) -> RunRequest:
        if self._closed:
            raise ConfigError("the runtime is closed: open another one")
        agent_id = _agent_id(agent)
        messages = as_messages(input)
        if not messages and not answers:
            raise self._nothing_to_do(agent_id)
        if answers and thread is None:
            raise ConfigError("answers belong to a thread: give the thread of the suspended run")
        whose = "a run" if agent_id is None else f"a run of agent {agent_id!r}"
        return RunRequest(
            thread_id=self._ids.new() if thread is None else thread,
            messages=messages,
            agent_id=agent_id,
            decisions=decisions_of(answers or {}),
            overrides=checked_overrides(overrides, whose),
            budget=checked_budget(budget, whose),
            frontend_tools=tuple(frontend_tools),
            wait_for_decisions=False,
            when_busy=_when_busy(when_busy),
        )

    def _nothing_to_do(self, agent_id: str | None) -> ConfigError:
        known = self._engine.registry.snapshot().agent_ids()
        if agent_id is None or not agent_id.strip() or agent_id in known or not known:
            return ConfigError("nothing to do: give input, or answers to a suspended run's tickets")
        return ConfigError(
            f"{agent_id!r} was taken for the agent, and there is no input: write "
            f"run({known[0]!r}, {agent_id!r}); agents are {', '.join(map(repr, known))}"
        )

    # -- recovery -----------------------------------------------------------------------------

    async def recover(self) -> list[RecoveredRun]:
        """Go on with runs of these agents that nobody carries on.

        Their process is gone, or somebody answered or cancelled them while none ran. Each goes
        on from its last commit, in the background: what was answered is not asked again, what was
        done is not done again. Await what this returns to know how they ended. Agents that were
        written to where nobody runs read that, too, and what runs could not deliver before they
        ended is sent.
        """
        self._engine.one_loop.bind()
        return self._as_recovered(await self._recovery.recover())

    def _as_recovered(self, resumed: Iterable[ResumedRun]) -> list[RecoveredRun]:
        return [RecoveredRun(run, self._shapes) for run in resumed]

    def leave_to_caller(self, thread: str | None = None) -> None:
        """Do not resume the run of a thread (any run, without one) when its background tasks have
        news: the caller does. A runtime that recovers resumes such runs all the same."""
        self._recovery.leave_to_caller(thread)

    # -- control ------------------------------------------------------------------------------

    async def cancel(self, id: str, *, deadline: float = CANCEL_GRACE) -> CancelReceipt:
        """Cancel a run by its run or thread id, wherever it runs, also one that only waits, and
        with it every delegate and task it has started.

        The wish is kept first: it holds even if this process ends now. The receipt, which comes
        within `deadline` seconds, says of each run, task and call whether it was stopped, had
        finished, or nobody can tell; it is false if no run is open there.
        """
        if not deadline >= 0:
            raise ConfigError(f"deadline is a number of seconds from 0 on, not {deadline!r}")
        self._engine.one_loop.bind()
        return await cancel_with_receipt(self._engine, id, deadline)

    async def decide(self, id: str, answers: AnswersByTicket, *, by: str | None = None) -> bool:
        """Answer tickets of a run, all or none: `{ticket: True}`, or by the ticket's key.

        The answers are kept first. A run that is live, here or in another process, goes on with
        them; one that nobody carries on goes on here, in the background, if its agent is here.
        True if the run goes on; otherwise it does as soon as somebody recovers it.

        Raises:
            InvalidResume: no such run, or an answer fits no open ticket: nothing was changed.
        """
        self._engine.one_loop.bind()
        place = await operations.decide(self._engine, id, decisions_of(answers, by))
        if place.owner is not None:
            return True
        return self._recover and await self._recovery.goes_on(place.thread_id)

    async def send(self, id: str, input: Input) -> bool:
        """Write to a run that is live, here or in another process, by its run or thread id.

        The model reads it at its next step; what comes too late for this run is read by the next
        one of the thread. False if nobody runs the thread.
        """
        self._engine.one_loop.bind()
        return await operations.send(self._engine, id, as_messages(input))

    async def wait(self, id: str, *, timeout: float | None = None) -> RunResult:
        """How the run of a run or thread id ends, whoever carries it on: the thread's open run, or
        else its latest.

        A run that waits for its tasks goes on when they end, and is waited for; one that needs an
        answer is returned suspended, with its tickets. What a run raised is not raised here: its
        `termination` says that it failed.

        Raises:
            NotFound: there is no such run.
            RunAbandoned: nobody carries it on, and nobody here will.
            TimeoutError: so many seconds have passed.
        """
        self._engine.one_loop.bind()
        async with asyncio.timeout(timeout):
            run = await over_or_asking(self._engine, id, self._recovery.why_not)
            return RunResult.read(run, self._shapes)


def _agent_id(agent: str | Agent | RemoteAgent | None) -> str | None:
    given: Any = agent
    if isinstance(given, Agent | RemoteAgent):
        return given.id
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"agent is an agent's id, or an Agent, not {given!r}")
    return given


def _when_busy(word: str) -> WhenBusy:
    try:
        return WhenBusy(word)
    except ValueError:
        raise ConfigError(f"when_busy is 'refuse' or 'queue', not {word!r}") from None
