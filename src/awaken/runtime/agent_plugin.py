"""The plugin with what belongs to one agent alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from awaken.core.agent_services import AnswerCheck, PromptSource, ToolSource
from awaken.core.deps import DelegateDeps
from awaken.ext import handoff
from awaken.ext.handoff import Handoff
from awaken.plugin.registrar import Registrar

if TYPE_CHECKING:
    from awaken.runtime.agent import Agent


class OwnPlugin:
    """Brings an agent's tools, keys and hand-overs."""

    def __init__(
        self,
        agent: Agent[Any, Any],
        descriptions: Mapping[str, str],
        received: Mapping[str, Handoff],
    ) -> None:
        self._agent = agent
        back_to = [giver for giver, way in received.items() if way.returns]
        self._handoff: handoff.HandoffPlugin | None = None
        if agent.ways or back_to:
            self._handoff = handoff.HandoffPlugin(
                agent.ways, descriptions, back_to=back_to, max_handoffs=agent.max_handoffs
            )
        self.id = f"agent:{agent.id}"

    def register(self, registrar: Registrar) -> None:
        for key in self._agent.state:
            registrar.key(key)
        for profile_key in self._agent.profile:
            registrar.profile_key(profile_key)
        for tool in self._agent.tools:
            registrar.tool(tool)
        if self._agent.toolsets:
            registrar.service(ToolSource, ToolSource(self._agent.load_run_tools))
        if (check := self._agent.answer_check()) is not None:
            registrar.service(AnswerCheck, check)
        for phase, hook in self._agent.hooks:
            registrar.hook(phase, hook)
        if self._agent.delegate_deps:
            registrar.service(DelegateDeps, DelegateDeps(self._agent.delegate_deps))
        if self._agent.prompt is not None:
            registrar.service(PromptSource, PromptSource(self._agent.prompt))
        if self._handoff is not None:
            self._handoff.register(registrar)


class OwnRunPlugin(OwnPlugin):
    """The same for an agent that is shown only a part of the conversation it is handed."""

    def __init__(
        self,
        agent: Agent[Any, Any],
        descriptions: Mapping[str, str],
        received: Mapping[str, Handoff],
    ) -> None:
        super().__init__(agent, descriptions, received)
        self._input = handoff.HandoffInputPlugin(
            {giver: way.input_filter for giver, way in received.items()}
        )

    def for_run(self) -> OwnRunPlugin:
        mine = copy.copy(self)
        mine._input = self._input.for_run()
        return mine

    def register(self, registrar: Registrar) -> None:
        super().register(registrar)
        self._input.register(registrar)
