"""The plugin: a tool to ask for a hand-over, and a hook that lets it happen at a step's border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from awaken.codec import Json
from awaken.contract.tool import ToolCallContext, ToolOutput, ToolTraits
from awaken.domain.phase import Phase
from awaken.domain.recovery import ToolEffect
from awaken.domain.tool import ToolDescriptor, ToolError, ToolResult
from awaken.ext.handoff.state import HANDOFF, Activate, HandoffState, Request
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar
from awaken.state.command import Command
from awaken.state.runtime_keys import ACTIVE_AGENT

HANDOFF_TOOL = "handoff"


class HandoffPlugin:
    """Lets an agent hand the conversation to one of `agents`; the thread stays with it."""

    id = "agent_handoff"

    def __init__(
        self, agents: Sequence[str] = (), descriptions: Mapping[str, str] | None = None
    ) -> None:
        self._agents = tuple(agents)
        self._descriptions = dict(descriptions or {})

    def register(self, registrar: Registrar) -> None:
        registrar.key(HANDOFF)
        registrar.key(ACTIVE_AGENT)
        registrar.hook(Phase.RUN_START, self.begin)
        registrar.hook(Phase.STEP_END, self.sync)
        if self._agents:
            registrar.tool(HandoffTool(self._agents, self._descriptions))

    async def begin(self, ctx: PhaseContext) -> Command | None:
        """An agent that was asked for by name speaks, whoever spoke before."""
        state, asked = ctx.read(HANDOFF) or HandoffState(), ctx.agent_spec.id
        if state.requested_agent is None and state.active_agent not in (None, asked):
            return Command().update(HANDOFF, Activate(agent=asked)).update(ACTIVE_AGENT, asked)
        return await self.sync(ctx)

    async def sync(self, ctx: PhaseContext) -> Command | None:
        """Let the requested agent take over; keep the loop's key in step."""
        state = ctx.read(HANDOFF) or HandoffState()
        wanted = state.effective
        command = Command()
        if state.requested_agent is not None:
            command.update(HANDOFF, Activate(agent=state.requested_agent))
        if wanted is not None and wanted != ctx.read(ACTIVE_AGENT):
            command.update(ACTIVE_AGENT, wanted)
        return command or None


class HandoffTool:
    """`handoff`: the model names the agent that should go on."""

    traits = ToolTraits(effect=ToolEffect.READ)

    def __init__(self, agents: Sequence[str], descriptions: Mapping[str, str]) -> None:
        self._agents = tuple(agents)
        told = "".join(f"\n- {id}: {descriptions[id]}" for id in agents if id in descriptions)
        self._descriptor = ToolDescriptor(
            id=HANDOFF_TOOL,
            name=HANDOFF_TOOL,
            description=f"Hand the conversation to another agent, who answers from now on.{told}",
            parameters={
                "type": "object",
                "properties": {
                    "agent": {
                        "type": "string",
                        "enum": list(self._agents),
                        "description": "The agent to hand over to.",
                    }
                },
                "required": ["agent"],
            },
        )

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Json:
        agent = args.get("agent") if isinstance(args, dict) else None
        if agent not in self._agents:
            raise ToolError.invalid_arguments(f"agent: one of {', '.join(self._agents)}")
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        agent: str = args["agent"]
        result = ToolResult.success_with_message(
            HANDOFF_TOOL, {"agent": agent}, f"The conversation is handed to {agent}."
        )
        return ToolOutput(result, Command().update(HANDOFF, Request(agent=agent)))
