"""One process of a trial. It runs the user's agent, watched, until the agent is done or the process
is killed."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from awaken.core.spec import ModelPoolSpec
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Ticket, ToolCallResume, ToolCallResumeMode
from awaken.core.tool import OUTCOME_UNKNOWN
from awaken.core.value import Value
from awaken.errors import InvalidResume, ThreadAlreadyRunning
from awaken.plugin.hook import Plugin
from awaken.plugin.registrar import Registrar
from awaken.runtime import Agent, Runtime
from awaken.runtime.open_by_name import open_model, open_store
from awaken.testing.chaos import (
    ChangeWatcher,
    EffectLog,
    KillSwitch,
    NoteKind,
    at_rest,
    open_runs,
    questions,
    watch_model,
    watch_store,
    watch_tool,
)

THREAD = "chaos"
MAX_ANSWERS = 100
_NO_APPROVER_REASON = "no approver was there"


class ProcessOptions(Value, frozen=True, kw_only=True):
    """The options of one process: its folder, the agent to ask, and the point at which to kill
    itself."""

    home: str
    agent: str
    prompt: str
    approve: bool = False
    kill_at: int | None = None

    @property
    def effect_log(self) -> EffectLog:
        return EffectLog(Path(self.home) / "effect_log")

    def store(self) -> Store:
        return open_store(f"sqlite:///{Path(self.home).resolve() / 'awaken.db'}")


def run_process(options: ProcessOptions, agents: Sequence[Agent]) -> None:
    """Run the conversation to its end: start or resume it, and answer its tickets."""
    asyncio.run(_run_process(options, agents))


async def _run_process(options: ProcessOptions, agents: Sequence[Agent]) -> None:
    switch = KillSwitch(options.effect_log, () if options.kill_at is None else (options.kill_at,))
    store = watch_store(options.store(), switch)
    try:
        await _run_conversation(options, store, watch_agents(agents, switch))
    finally:
        await store.close()


async def _run_conversation(options: ProcessOptions, store: Store, agents: Sequence[Agent]) -> None:
    async with Runtime(agents, store=store, recover=False) as runtime:
        if await store.latest_run(THREAD) is None:
            await runtime.run(options.agent, options.prompt, thread=THREAD)
        changes, answered = ChangeWatcher(store), 0
        while answered < MAX_ANSWERS:
            for recovered in await runtime.recover():
                # The process that delivered a message to it may have resumed it.
                with suppress(ThreadAlreadyRunning, InvalidResume):
                    await recovered
            if tickets := await questions(store):
                for ticket in tickets:
                    answer = _build_answer(await _find_original_ticket(ticket, store), options)
                    await runtime.decide(ticket.thread_id, {ticket.key: answer})
                answered += len(tickets)
            elif await at_rest(store):
                return
            else:
                await changes.wait(await open_runs(store))


async def _find_original_ticket(ticket: Ticket, store: Store) -> Ticket:
    """The ticket that a delegate asked with, if this ticket of its parent run passes that question
    on; else this ticket."""
    asker = ticket.asker
    if asker is None:
        return ticket
    for origin in await store.list_tickets(TicketQuery(run_id=asker.run_id)):
        if origin.key == asker.ticket:
            return await _find_original_ticket(origin, store)
    return ticket


def _build_answer(ticket: Ticket, options: ProcessOptions) -> ToolCallResume:
    if ticket.reason == OUTCOME_UNKNOWN:
        ended = any(
            note.kind is NoteKind.END and ticket.key.startswith(note.key)
            for note in options.effect_log.notes()
        )
        return ToolCallResume.approve() if ended else ToolCallResume.deny("it did not happen")
    # A value that only a person or a front end has cannot be invented here.
    if not options.approve or ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return ToolCallResume.deny(_NO_APPROVER_REASON)
    if ticket.resume_mode is ToolCallResumeMode.PASS_DECISION_TO_TOOL:
        return ToolCallResume.approve(ticket.arguments)
    return ToolCallResume.approve()


# -- watching ---------------------------------------------------------------------------------


def watch_agents(agents: Sequence[Agent], switch: KillSwitch) -> list[Agent]:
    """Copies of the agents whose model and tools are watched."""
    plugins: dict[int, Plugin] = {}
    return [_watch_agent(agent, switch, plugins) for agent in agents]


def _watch_agent(agent: Agent, switch: KillSwitch, plugins: dict[int, Plugin]) -> Agent:
    watched = copy.copy(agent)
    model = open_model(agent.model) if isinstance(agent.model, str) else agent.model
    # A pool is not watched: a model call that is made twice goes unnoticed there.
    watched.model = (
        model if isinstance(model, ModelPoolSpec) else watch_model(model, switch.effect_log)
    )
    watched.tools = [watch_tool(tool, switch) for tool in agent.tools]
    # A plugin that two agents share is wrapped once.
    watched.plugins = tuple(
        plugins.setdefault(id(plugin), _WatchedPlugin(plugin, switch)) for plugin in agent.plugins
    )
    return watched


class _WatchedPlugin:
    """A plugin whose tools are watched."""

    def __init__(self, plugin: Plugin, switch: KillSwitch) -> None:
        self._plugin, self._switch = plugin, switch
        self.id = plugin.id

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plugin, name)
        if name == "for_run":
            return lambda: _WatchedPlugin(found(), self._switch)
        return found

    def register(self, registrar: Registrar) -> None:
        self._plugin.register(registrar)
        for name, tool in registrar.tools.items():
            registrar.tools[name] = watch_tool(tool, self._switch)
