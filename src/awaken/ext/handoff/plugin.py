"""The plugin: a tool that requests a hand-over, and a hook that makes it between two steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from awaken.codec import Json
from awaken.core.lifecycle import Phase
from awaken.core.state.command import Command
from awaken.core.state.run_keys import ACTIVE_AGENT, AGENT_OVERLAYS, PutOverlay
from awaken.core.tool import ToolDescriptor, ToolEffect, ToolError, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.errors import ConfigError
from awaken.ext.handoff.config import MAX_HANDOFFS, Handoff
from awaken.ext.handoff.state import HANDOFF, HANDOFF_COUNT, Activate, HandoffRequest, HandoffState
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar

HANDOFF_TOOL = "handoff"


class HandoffPlugin:
    """Lets an agent hand the conversation to one of `agents`; later runs of the thread start with
    that agent.

    Args:
        agents: ids of agents, or `Handoff`s with options.
        descriptions: what the agents are for, by id.
        back_to: agents to which it may hand back a conversation that came from them.
        max_handoffs: the most hand-overs in one run; then the tool refuses.

    Raises:
        ConfigError: two handoffs name the same agent, or `max_handoffs` is below 1.
    """

    id = "agent_handoff"

    def __init__(
        self,
        agents: Iterable[str | Handoff] = (),
        descriptions: Mapping[str, str] | None = None,
        *,
        back_to: Iterable[str] = (),
        max_handoffs: int = MAX_HANDOFFS,
    ) -> None:
        self._ways: dict[str, Handoff] = {}
        for way in map(Handoff.of, agents):
            if way.agent in self._ways:
                raise ConfigError(f"there are two handoffs to {way.agent!r}: give one")
            self._ways[way.agent] = way
        if max_handoffs < 1:
            raise ConfigError(f"max_handoffs is 1 or more, not {max_handoffs}")
        self._tool: HandoffTool | None = None
        back = tuple(agent for agent in dict.fromkeys(back_to) if agent not in self._ways)
        if self._ways or back:
            self._tool = HandoffTool(self._ways, descriptions or {}, back, max_handoffs)

    def register(self, registrar: Registrar) -> None:
        for key in (HANDOFF, HANDOFF_COUNT, ACTIVE_AGENT, AGENT_OVERLAYS):
            registrar.key(key)
        registrar.hook(Phase.RUN_START, self.begin)
        registrar.hook(Phase.STEP_END, self.sync)
        if self._tool is not None:
            registrar.tool(self._tool)

    async def begin(self, ctx: PhaseContext) -> Command | None:
        """If the caller named an agent, that agent speaks, even if another one spoke before."""
        state, asked = ctx.read(HANDOFF) or HandoffState(), ctx.agent_spec.id
        if state.requested_agent is None and state.active_agent not in (None, asked):
            return Command().update(HANDOFF, Activate(agent=asked)).update(ACTIVE_AGENT, asked)
        return await self.sync(ctx)

    async def sync(self, ctx: PhaseContext) -> Command | None:
        """Hand over to the requested agent, and update the loop's state keys to match."""
        state = ctx.read(HANDOFF) or HandoffState()
        wanted = state.effective or state.home
        if wanted is None:
            return None
        command = Command()
        if wanted != state.active_agent or state.requested_agent is not None:
            self._hand_over(command, wanted, ctx)
        if wanted != ctx.read(ACTIVE_AGENT):
            command.update(ACTIVE_AGENT, wanted)
        return command or None

    def _hand_over(self, command: Command, wanted: str, ctx: PhaseContext) -> None:
        last = ctx.messages[-1].id if ctx.messages else None
        command.update(HANDOFF, Activate(agent=wanted, by=ctx.agent_spec.id, since=last))
        command.update(HANDOFF_COUNT, 1)
        way = self._ways.get(wanted)
        if way is None:
            return  # the agent gets the conversation back, with the overlay it had
        if way.overlay != (ctx.read(AGENT_OVERLAYS) or {}).get(wanted):
            command.update(AGENT_OVERLAYS, PutOverlay(agent=wanted, overlay=way.overlay))


class HandoffTool:
    """`handoff`: the model names the agent that takes over."""

    # If an answer has two, the later one counts, so they must not run at the same time.
    traits = ToolTraits(effect=ToolEffect.READ, sequential=True)

    def __init__(
        self,
        ways: Mapping[str, Handoff],
        descriptions: Mapping[str, str],
        back_to: tuple[str, ...],
        max_handoffs: int,
    ) -> None:
        self._back_to, self._limit = frozenset(back_to), max_handoffs
        self._agents = (*ways, *back_to)
        notes = {id: ways[id].description or descriptions.get(id) for id in ways}
        notes |= dict.fromkeys(back_to, "Only to give back a conversation that came from it.")
        lines = "".join(f"\n- {id}: {words}" for id, words in notes.items() if words)
        self._descriptor = ToolDescriptor(
            id=HANDOFF_TOOL,
            name=HANDOFF_TOOL,
            description=f"Hand the conversation to another agent, who answers from now on.{lines}",
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
        count = ctx.state(HANDOFF_COUNT) or 0
        if count >= self._limit:
            raise ToolError.denied(
                f"this run was handed over {count} times and may not be handed over again: "
                "answer the user yourself"
            )
        handover = (ctx.state(HANDOFF) or HandoffState()).handover
        if agent in self._back_to and (handover is None or handover.by != agent):
            raise ToolError.denied(
                f"the conversation did not come from '{agent}', so it cannot be given back to it"
            )
        result = ToolResult.success_with_message(
            HANDOFF_TOOL, {"agent": agent}, f"The conversation is handed to {agent}."
        )
        return ToolOutput(result, Command().update(HANDOFF, HandoffRequest(agent=agent)))
