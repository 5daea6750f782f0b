"""Whole runs of one thread without a runtime around them: nobody has bound a journal or a sink."""

from __future__ import annotations

import asyncio
from typing import Any

from awaken import Agent, Runtime
from awaken.backend import (
    BackendLocalRootContext,
    BackendRootRunRequest,
    LocalBackend,
)
from awaken.backend.local import new_phase_runtime
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import NullEventSink
from awaken.core.identity import RunIdentity
from awaken.core.inbox import inbox_channel
from awaken.core.message import Message
from awaken.core.run import AgentRunResult, PersistedState
from awaken.core.state.key import StateKey
from awaken.core.state.run_keys import ACTIVE_AGENT, RUN_LIFECYCLE
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.engine.prepared_run import (
    FirstCommit,
    PreparedRun,
    RunControls,
    RunServices,
    ThreadContextSnapshot,
)
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE
from awaken.stores.memory import MemoryStore


class ThreadStage:
    """Runs, one after another, in thread `t`; what a thread keeps goes from one to the next."""

    def __init__(self, *agents: Agent, kept: PersistedState | None = None) -> None:
        self._runtime = Runtime(agents, store=MemoryStore())
        self._resolver = self._runtime.engine.registry.snapshot()
        self._first = agents[0].id
        self.kept = kept
        self.store = StateStore()
        self.runs = 0
        self.token = CancellationToken()

    async def run(self, text: str = "hi", run_id: str | None = None) -> AgentRunResult:
        self.runs += 1
        speaker = self._kept(ACTIVE_AGENT) or self._first
        agent = self._resolver.resolve(speaker)
        phases = new_phase_runtime(agent.env)
        sender, receiver = inbox_channel()
        agent.env.bind(phases.store, sender)
        if self.kept is not None:
            phases.store.restore_thread_scoped(self.kept, UnknownKeyPolicy.SKIP)
        self.store = phases.store
        message = Message.user(text)
        controls = RunControls(cancellation_token=self.token, owner_inbox=sender)
        start = PreparedRun(
            services=RunServices(resolver=self._resolver),
            controls=controls,
            thread=ThreadContextSnapshot(),
            first=FirstCommit(),
        )
        request = BackendRootRunRequest(
            agent_id=speaker,
            messages=[message],
            new_messages=[message],
            sink=NullEventSink(),
            resolver=self._resolver,
            run_identity=RunIdentity(
                thread_id="t", run_id=run_id or f"run-{self.runs}", agent_id=speaker
            ),
            control=controls,
            local=BackendLocalRootContext(phases, agent, start),
            inbox=receiver,
        )
        async with asyncio.timeout(100):
            result = await LocalBackend().execute_root(request)
        self.kept = phases.store.export_thread_scoped()
        assert result.run is not None
        return result.run

    def _kept(self, key: StateKey[Any, Any]) -> Any:
        stored = self.kept.extensions.get(key.name) if self.kept is not None else None
        return None if stored is None else key.load(stored)

    @property
    def lifecycle(self) -> tuple[str, str | None]:
        """How the last run stands, and why."""
        state = self.store.read(RUN_LIFECYCLE)
        assert state is not None
        return state.status.value, state.status_reason

    @property
    def statuses(self) -> dict[str, str]:
        state = self._kept(BACKGROUND_TASK_STATE)
        return {task_id: task.status.value for task_id, task in state.tasks.items()}
