"""Filtering what an agent sees of a conversation it was handed. The stored messages do not
change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from awaken.core.lifecycle import Phase
from awaken.core.message import Message, Role
from awaken.core.state.command import Command
from awaken.core.tool import ToolDescriptor
from awaken.ext.handoff.config import InputFilter
from awaken.ext.handoff.state import HANDOFF, Handover
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar


class HandoffInputPlugin:
    """Shows an agent only a part of the conversation it was handed. `filters` are by the agent that
    handed it over.

    It remembers where its run was handed over, so every run has its own instance.
    """

    id = "agent_handoff_input"

    def __init__(self, filters: Mapping[str, InputFilter]) -> None:
        self._filters = dict(filters)
        self._handover: Handover | None = None
        self._before: list[Message] = []
        self._shown: list[Message] = []

    def for_run(self) -> HandoffInputPlugin:
        return HandoffInputPlugin(self._filters)

    def register(self, registrar: Registrar) -> None:
        if HANDOFF.name not in registrar.keys:
            registrar.key(HANDOFF)
        registrar.hook(Phase.BEFORE_INFERENCE, self.look)
        registrar.transform(self.view)

    async def look(self, ctx: PhaseContext) -> Command | None:
        """Find the hand-over in the conversation, and filter the messages before it."""
        state = ctx.read(HANDOFF)
        handover = state.handover if state and state.active_agent == ctx.agent_spec.id else None
        if handover == self._handover:
            return None
        chosen = self._filters.get(handover.by, "all") if handover is not None else "all"
        before = _before(ctx.messages, handover) if handover and chosen != "all" else []
        self._shown = _filter_messages(before, chosen) if before else []
        self._handover, self._before = handover, before
        return None

    def view(self, messages: Sequence[Message], _: Sequence[ToolDescriptor]) -> Sequence[Message]:
        """The messages of a request, with those before the hand-over replaced by the filtered
        ones."""
        if not self._before:
            return messages
        # Compared by id: the context window may show a shortened message.
        before = {message.id for message in self._before}
        there = {message.id for message in messages if message.id in before}
        # A message that another plugin has left out stays out; one that the filter has made is new.
        shown = [m for m in self._shown if m.id in there or m.id not in before]
        place = next((i for i, m in enumerate(messages) if m.id in before), None)
        if place is None:
            return messages
        rest = [m for m in messages[place:] if m.id not in before]
        return [*messages[:place], *_drop_unpaired(shown), *rest]


def _before(messages: Sequence[Message], handover: Handover) -> list[Message]:
    """The messages up to the hand-over; empty if the hand-over is not among the messages."""
    backwards = range(len(messages) - 1, -1, -1)
    last = next((i for i in backwards if messages[i].id == handover.since), None)
    if handover.since is None or last is None:
        return []
    # Results of the same step that came late stand behind it.
    late = takewhile(lambda message: message.role is Role.TOOL, messages[last + 1 :])
    return [*messages[: last + 1], *late]


def _filter_messages(before: list[Message], chosen: InputFilter) -> list[Message]:
    if callable(chosen):
        return list(chosen(tuple(before)))
    asked = [i for i, message in enumerate(before) if message.is_visible_user()]
    return before[asked[-1] :] if asked else before


def _drop_unpaired(messages: Sequence[Message]) -> Iterator[Message]:
    """Drop calls without a result and results without a call: a filter may have separated them."""
    index = 0
    while index < len(messages):
        message, made = messages[index], messages[index].tool_calls or ()
        index += 1
        if message.role is Role.TOOL:
            continue
        results: list[Message] = []
        while index < len(messages) and messages[index].role is Role.TOOL:
            results.append(messages[index])
            index += 1
        answered = {result.tool_call_id for result in results}
        calls = tuple(call for call in made if call.id in answered)
        if len(calls) == len(made):
            yield message
        elif calls or message.content:
            yield msgspec.structs.replace(message, tool_calls=calls or None)
        asked = {call.id for call in calls}
        yield from (result for result in results if result.tool_call_id in asked)
