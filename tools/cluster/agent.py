"""The agent that the nodes serve, with `awaken serve tools/cluster/agent.py`.

Its model is scripted. It answers by what the conversation holds, and goes on with an answer that
broke off, as models do: so it does not matter which node asks it.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

from awaken import Agent, ToolCallContext, tool
from awaken.clock import SYSTEM_CLOCK
from awaken.codec import dumps_text
from awaken.events import TextDelta, ToolCallDelta, ToolCallStart
from awaken.models import (
    InferenceRequest,
    LlmStreamEvent,
    Role,
    Stop,
    StopReason,
    Visibility,
)

PACE = float(os.environ.get("CLUSTER_PACE", "0.12"))
"""Seconds between two words."""
NOTES = Path(os.environ.get("CLUSTER_NOTES", "notes.txt"))
"""The world outside: a file with a line for every side effect."""

FIRST = "Let me write your question down before I answer it."
ANSWER = """\
I run on three nodes at once, or rather: each of them could be the one that runs me. At this \
moment one of the three has claimed our thread, and it alone asks the model and calls the tools.

If you kill that node now, nobody has to notice it at once. Every node renews a lease in Postgres \
once a second. When the lease of the dead one is over, after three seconds, one of the others \
claims our thread and reads what was committed. It finds that your question was written down \
already, so it does not write it down again. It finds the beginning of this answer too, because \
what a model says is kept about once a second, and it asks the model to go on from there.

Your page hears all of that through whichever node it is connected to. If that one is dead, the \
page tries again, and the load balancer gives it another node. The words that it has are compared \
with the words that are kept, and only the rest is sent.

So this sentence may well come from another process than the first one did, and you would not \
know."""


@tool(effect="once")
def write_down(question: str, ctx: ToolCallContext) -> str:
    """Write a question down."""
    with NOTES.open("a") as notes:
        notes.write(f"{ctx.idempotency_key} {question}\n")
    return "it is written down"


class Guide:
    """A model that writes the question down and then answers it at length."""

    name = "guide-1"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        messages, said = list(request.messages), ""
        if messages[-1].role is Role.USER and messages[-1].visibility is Visibility.INTERNAL:
            said, messages = messages[-2].text(), messages[:-2]  # an answer that broke off
        is_noted = messages[-1].role is Role.TOOL
        text = ANSWER if is_noted else FIRST
        for word in re.findall(r"\S+\s*", text.removeprefix(said)):
            await SYSTEM_CLOCK.sleep(PACE)
            yield TextDelta(delta=word)
        if not is_noted:
            question = dumps_text({"question": messages[-1].text()})
            yield ToolCallStart(id="call_note", name="write_down")
            yield ToolCallDelta(id="call_note", args_delta=question)
        yield Stop(reason=StopReason.END_TURN if is_noted else StopReason.TOOL_USE)


agents = [Agent("guide", model=Guide(), tools=[write_down])]
