"""Running a scene again, in a temporary thread in memory."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from awaken.clock import SYSTEM_CLOCK
from awaken.core.event import RunEvent, StepEnd, StepStart
from awaken.core.lifecycle import Phase, TerminationReason, to_run_status
from awaken.core.llm import LlmExecutor
from awaken.core.message import Message, as_messages
from awaken.core.registry import ExecutionResolver, ModelResolver, ResolvedModel
from awaken.core.spec import AgentSpec
from awaken.core.state.command import Command
from awaken.core.state.run_keys import RUN_LIFECYCLE, Done
from awaken.core.store.commits import ThreadCommit
from awaken.core.tool_context import Tool
from awaken.errors import AgentLoopError, ConfigError
from awaken.ext.handoff.plugin import HANDOFF_TOOL
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.runtime.agent import Agent
from awaken.runtime.agent_arguments import parse_list
from awaken.runtime.remote_agent import RemoteAgent
from awaken.runtime.replay.read import read_run
from awaken.runtime.replay.recorded_tools import (
    PlayedTool,
    RecordedResults,
    RecordedTool,
    Undecided,
)
from awaken.runtime.replay.recording import Recording
from awaken.runtime.replay.scene import RecordedCall, Scene
from awaken.runtime.runtime import Runtime
from awaken.tool.read_result import READ_RESULT

THREAD = "replay"
MODEL = "replayed"
EXPORT_AGAIN = "if an earlier release of awaken has written this test, export it again"

log = logging.getLogger("awaken.replay")
Tools = Literal["recorded", "real"]
ReplayAgents = Agent | Sequence[Agent | RemoteAgent]


async def replay(
    scene: Scene,
    model: str | LlmExecutor,
    agents: ReplayAgents | Callable[[], ReplayAgents] | None = None,
    *,
    prompt: str | None = None,
    tools: Tools = "recorded",
) -> Recording:
    """Run a scene with a model. Returns the new recording.

    A call that was recorded with the same arguments is not run: it gets its recorded result.

    Args:
        model: a name, an executor, or the recorded answers as a `ScriptedModel`.
        agents: the agents themselves, with their prompts, tools and plugins, or a function that
            makes them. Without them, a stand-in that has only the recorded calls is run.
        prompt: a system prompt that replaces the one of the first agent.
        tools: what happens at a call that was not recorded: `recorded` stops the run, `real` runs
            the call.

    Raises:
        ConfigError, BuildError, ResolveError: the agents or the model cannot be loaded.
    """
    if tools not in ("recorded", "real"):
        raise ConfigError(f"tools is 'recorded' or 'real', not {tools!r}")
    recorded = RecordedResults(scene.calls, scene.approvals, stops=tools == "recorded")
    played: Sequence[Agent | RemoteAgent]
    if agents is None:
        played = [_stand_in(scene, model, prompt, recorded)]
    else:
        cast = agents() if callable(agents) else agents
        given = [cast] if isinstance(cast, Agent) else parse_list(cast, "the agents of a replay")
        played = [_on_model(each, model, prompt, scene) for each in given]
    runtime = Runtime(played, recover=False, models=_models_of(played, model))
    if agents is not None:
        registry = runtime.engine.registry
        read = [made for made in scene.calls if made.tool == READ_RESULT]
        registry.replace(ReplayAgentResolver(registry.snapshot(), recorded, read))
    async with runtime:
        return await _play(runtime, scene, recorded)


async def _play(runtime: Runtime, scene: Scene, recorded: RecordedResults) -> Recording:
    if scene.history:
        before = ThreadCommit(
            thread_id=THREAD,
            expected_length=0,
            messages=as_messages(scene.history),
            at_ms=SYSTEM_CLOCK.now_ms(),
        )
        await runtime.store.commit(before)
    broken: AgentLoopError | None = None
    try:
        await runtime.run(
            scene.agent,
            scene.input,
            thread=THREAD,
            on_approval=recorded.decide,
            settings=scene.overrides,
            frontend_tools=scene.frontend_tools,
            sink=MessageReplayer(runtime, scene.news),
        )
    except AgentLoopError as error:
        broken = error  # the run's record holds the error, too
        if _is_out_of_answers(error):
            log.warning("the model was asked more often than it was recorded: %s", EXPORT_AGAIN)
    except Undecided:
        pass  # the run waits, and `recorded.stray` says for what
    latest = await runtime.store.latest_run(THREAD)
    run = await runtime.find_run(latest.run_id) if latest is not None else None
    if run is None:
        assert broken is not None, "a run that was carried on has a record"
        raise broken
    recording = await read_run(runtime.store, run)
    return msgspec.structs.replace(recording, stray=recorded.stray)


def _is_out_of_answers(error: BaseException | None) -> bool:
    """Whether a run broke off because its `ScriptedModel` had no answer left."""
    while error is not None and not isinstance(error, AssertionError):
        error = error.__cause__
    return error is not None


class MessageReplayer:
    """Sends the recorded messages to the agent again, each before the end of the step after which
    the agent read it."""

    def __init__(self, runtime: Runtime, news: Mapping[int, Sequence[Message]]) -> None:
        self._runtime = runtime
        self._news = news
        self._step = 0
        self._in_step = False

    async def emit(self, event: RunEvent) -> None:
        if event.thread_id != THREAD:
            return
        if isinstance(event.event, StepEnd):
            self._in_step = False
        elif isinstance(event.event, StepStart) and not self._in_step:
            self._in_step = True
            self._step += 1
            if self._step in self._news:
                await self._runtime.send(THREAD, self._news[self._step])

    async def close(self) -> None:
        return


# -- the agents ---------------------------------------------------------------------------------


def _stand_in(
    scene: Scene, model: str | LlmExecutor, prompt: str | None, recorded: RecordedResults
) -> Agent:
    """An agent that has only the recorded tools. The recorded end is its only limit."""
    made: dict[str, list[RecordedCall]] = {}
    brought = {tool.id for tool in scene.frontend_tools}
    for each in (each for each in scene.calls if each.tool not in brought):
        made.setdefault(each.tool, []).append(each)
    return Agent(
        scene.agent,
        model=model,
        system_prompt=prompt or "",
        tools=[RecordedTool(name, calls, recorded) for name, calls in made.items()],
        plugins=[RecordedEnd(scene.end, scene.steps)] if scene.end is not None else (),
        max_rounds=0 if not isinstance(model, str) else max(16, 2 * scene.steps),
    )


def _on_model(
    agent: Agent | RemoteAgent, model: str | LlmExecutor, prompt: str | None, scene: Scene
) -> Agent | RemoteAgent:
    """A copy of the agent with another model, and with another prompt if it is the first agent."""
    if isinstance(agent, RemoteAgent):
        return agent
    changes: dict[str, Any] = {"model_id": model if isinstance(model, str) else MODEL}
    if prompt is not None and agent.id == scene.agent:
        changes["system_prompt"] = prompt
    budget = agent.spec.budget
    if budget is not None and budget.money is not None:
        # The price of the model is not known here; the budget's other limits still hold.
        changes["budget"] = msgspec.structs.replace(budget, money=None)
    policy = agent.spec.context_policy
    if policy is not None:
        # The recorded summaries are among the messages; a new one would take an answer.
        changes["context_policy"] = msgspec.structs.replace(policy, autocompact_threshold=None)
    playing = copy.copy(agent)
    playing.model = model
    playing._spec = msgspec.structs.replace(agent.spec, **changes)
    if "system_prompt" in changes:
        playing.prompt = None
    if scene.end is not None:
        playing.plugins = (*agent.plugins, RecordedEnd(scene.end, scene.steps))
    return playing


def _models_of(
    agents: Sequence[Agent | RemoteAgent], model: str | LlmExecutor
) -> dict[str, LlmExecutor]:
    """Maps the model ids that handoffs choose for other agents to the model of the replay."""
    if isinstance(model, str):
        return {}
    overlays = [way.overlay for agent in agents if isinstance(agent, Agent) for way in agent.ways]
    return {laid.model_id: model for laid in overlays if laid is not None and laid.model_id}


class ReplayAgentResolver:
    """Agents whose tools return recorded results, except the tool that hands over.

    `read` are the calls of the built-in tool that reads large results: in a replay no result is
    large, so the runtime would not offer it.
    """

    def __init__(
        self, agents: ExecutionResolver, recorded: RecordedResults, read: Sequence[RecordedCall]
    ) -> None:
        self._agents = agents
        self._recorded = recorded
        self._read = read

    def agent_ids(self) -> Sequence[str]:
        return self._agents.agent_ids()

    def resolve(self, agent_id: str) -> ResolvedAgent:
        """
        Raises:
            ResolveError: the agent cannot be resolved.
        """
        agent: ResolvedAgent = self._agents.resolve(agent_id)
        tools: dict[str, Tool] = {
            id: tool if id == HANDOFF_TOOL else PlayedTool(tool, self._recorded)
            for id, tool in agent.tools.items()
        }
        if self._read and READ_RESULT not in tools:
            tools[READ_RESULT] = RecordedTool(READ_RESULT, self._read, self._recorded)
        return agent.with_tools(tools)

    def resolve_execution(self, agent_id: str) -> Any:
        execution = self._agents.resolve_execution(agent_id)
        return self.resolve(agent_id) if isinstance(execution, ResolvedAgent) else execution

    def resolve_model(self, spec: AgentSpec) -> ResolvedModel:
        assert isinstance(self._agents, ModelResolver), "registries find models"
        return self._agents.resolve_model(spec)


class RecordedEnd:
    """Ends a run as recorded, after the recorded number of steps, because the cause is missing
    here."""

    id = "recorded-end"

    def __init__(self, end: TerminationReason, steps: int) -> None:
        self._end = end
        self._steps = steps

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.STEP_END if self._steps else Phase.RUN_START, self.end)

    async def end(self, ctx: PhaseContext) -> Command | None:
        lifecycle = ctx.read(RUN_LIFECYCLE)
        if lifecycle is None or lifecycle.step_count < self._steps:
            return None
        reason = to_run_status(self._end)[1] or ""
        return Command().update(RUN_LIFECYCLE, Done(reason=reason, termination=self._end))
