"""Whole runs of one thread without a runtime around them: nobody has bound a journal or a sink."""

from __future__ import annotations

import asyncio
from typing import Any

from awaken import Agent, Runtime
from awaken.backend.local import new_run_state
from awaken.core.aio.cancel import CancellationToken
from awaken.core.event import NullEventSink
from awaken.core.identity import RunIdentity
from awaken.core.inbox import inbox_channel
from awaken.core.message import Message
from awaken.core.run import AgentRunResult, PersistedState
from awaken.core.state.key import StateKey
from awaken.core.state.run_keys import ACTIVE_AGENT, RUN_LIFECYCLE
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.engine import run_agent_loop
from awaken.engine.phases import PhaseRuntime
from awaken.engine.run_setup import (
    FirstCommit,
    RunControls,
    RunServices,
    RunSetup,
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
        store = self.store = new_run_state(agent.env)
        sender, receiver = inbox_channel()
        agent.env.bind(store, sender)
        if self.kept is not None:
            store.restore_thread_scoped(self.kept, UnknownKeyPolicy.SKIP)
        setup = RunSetup(
            identity=RunIdentity(
                thread_id="t", run_id=run_id or f"run-{self.runs}", agent_id=speaker
            ),
            sink=NullEventSink(),
            services=RunServices(resolver=self._resolver),
            controls=RunControls(cancellation_token=self.token, inbox=receiver, owner_inbox=sender),
            thread=ThreadContextSnapshot(),
            first_commit=FirstCommit(),
            messages=[Message.user(text)],
        )
        async with asyncio.timeout(100):
            result = await run_agent_loop(agent, PhaseRuntime(store), setup)
        self.kept = store.export_thread_scoped()
        return result

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
