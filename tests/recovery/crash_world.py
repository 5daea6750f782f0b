"""The world of the crash matrix: tools that change it, and a model that follows a plan.

The model reads the conversation and nothing else: asked again with the same history, it gives the
same answer. Tools take as long as the seed says.
"""

from __future__ import annotations

import asyncio
import hashlib
import operator
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from crash_service import Service

from awaken import (
    Command,
    Merge,
    PhaseContext,
    Registrar,
    Scope,
    StateKey,
    Suspend,
    ToolCallContext,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.codec import Json
from awaken.core.blobs import blob_id
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.intercept import ToolInterceptPayload
from awaken.core.llm import InferenceExecutionError, InferenceRequest
from awaken.core.message import Message, Role
from awaken.core.tool import ToolError
from awaken.core.tool_context import Tool
from awaken.testing import FunctionModel, text_response, tool_calls_response
from awaken.testing.chaos import EffectLog, KillSwitch, NoteKind, watch_model

Call = tuple[str, dict[str, Any]]
Plan = Sequence[Sequence[Call]]
"""What the model wants, step by step: tools and their arguments."""

FAILS: Plan = [[("fail", {})]]
"""The model cannot be asked."""

COUNT: StateKey[int, int] = StateKey(
    "shop.count",
    initial=int,
    apply=operator.add,
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
)

SURVEY = "a chair and a table; " * 10_000
"""What the tool `survey` sees: as the content never changes, its blob has the same id always."""
SURVEY_ID = blob_id(
    "",
    hashlib.sha256(SURVEY.encode()).hexdigest(),
    "text/plain; charset=utf-8",
    "survey",
)

_PAUSES = (0.0, 0.0, 0.0, 0.001, 0.002, 0.005)


class World:
    """What the tools act upon: each deed is written down, and takes its time."""

    here: ClassVar[World]
    """The one this process lives in."""

    def __init__(self, home: Path, switch: KillSwitch, seed: int) -> None:
        self.switch, self.effect_log, self._seed = switch, switch.effect_log, seed
        self.service = Service(home / "service")
        World.here = self

    async def act(self, ctx: ToolCallContext, what: Json) -> None:
        """Do something that can be seen from outside."""
        await asyncio.sleep(self._pause(ctx, "before"))
        self._do(ctx, what)
        await asyncio.sleep(self._pause(ctx, "after"))

    def act_in_thread(self, ctx: ToolCallContext, what: Json) -> None:
        time.sleep(self._pause(ctx, "before"))
        self._do(ctx, what)
        time.sleep(self._pause(ctx, "after"))

    def _do(self, ctx: ToolCallContext, what: Json) -> None:
        self.effect_log.note(NoteKind.EFFECT, ctx.tool_name, ctx.idempotency_key, what)
        self.switch.reach(f"effect of {ctx.tool_name}")

    def _pause(self, ctx: ToolCallContext, when: str) -> float:
        return random.Random(f"{self._seed}:{ctx.tool_name}:{ctx.arguments}:{when}").choice(_PAUSES)

    def happened(self, key: str) -> bool:
        return any(
            note.kind is NoteKind.EFFECT and note.key == key for note in self.effect_log.notes()
        )


# -- tools ------------------------------------------------------------------------------------


@tool
async def charge(order: int, ctx: ToolCallContext) -> str:
    """Take the money."""
    await World.here.act(ctx, order)
    return f"charged {order}"


@tool
async def ship(order: int, ctx: ToolCallContext) -> str:
    """Send the goods."""
    await World.here.act(ctx, order)
    return f"shipped {order}"


@tool
def print_label(order: int, ctx: ToolCallContext) -> str:
    """Print a label, in a thread of its own."""
    World.here.act_in_thread(ctx, order)
    return f"printed {order}"


@tool(sequential=True)
async def seal(order: int, ctx: ToolCallContext) -> str:
    """Seal the parcel; nothing else is done meanwhile."""
    await World.here.act(ctx, order)
    return f"sealed {order}"


@tool
async def drop(order: int, ctx: ToolCallContext) -> str:
    """Do something, and fail all the same."""
    await World.here.act(ctx, order)
    raise ToolError.execution_failed(f"dropped {order}")


@tool(effect="read")
async def look(order: int, ctx: ToolCallContext) -> str:
    """Look an order up."""
    await World.here.act(ctx, order)
    return f"order {order}: one chair"


@tool(effect="read")
async def survey(order: int, ctx: ToolCallContext) -> str:
    """Look at everything: a result that is too large for the log."""
    await World.here.act(ctx, order)
    return SURVEY


@tool(effect="read")
async def survey_anew(order: int, ctx: ToolCallContext) -> str:
    """Look at everything: a large result that is another one at each try."""
    token = os.urandom(4).hex()
    await World.here.act(ctx, token)
    return f"{token}: {SURVEY}"


@tool(effect="idempotent")
async def put(order: int, ctx: ToolCallContext) -> str:
    """Note the order's place."""
    await World.here.act(ctx, order)
    return f"put {order}"


@tool(needs_approval=True)
async def refund(order: int, euros: int, ctx: ToolCallContext) -> str:
    """Pay back."""
    await World.here.act(ctx, [order, euros])
    return f"refunded {euros} for {order}"


async def _has_shipped(ctx: ToolCallContext) -> bool | str:
    happened = World.here.happened(ctx.idempotency_key)
    return f"shipped {ctx.arguments['order']}" if happened else False


@tool(recover="verify", verify=_has_shipped)
async def ship_verified(order: int, ctx: ToolCallContext) -> str:
    """Send the goods; the carrier knows whether it was done."""
    await World.here.act(ctx, order)
    return f"shipped {order}"


@tool(recover="ask")
async def ship_asking(order: int, ctx: ToolCallContext) -> str:
    """Send the goods; a person looks whether it was done."""
    await World.here.act(ctx, order)
    return f"shipped {order}"


@tool(effect="idempotent")
async def crash(order: int, ctx: ToolCallContext) -> str:
    """Kill the process, whichever it is."""
    await World.here.act(ctx, order)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool
async def count(by: int, ctx: ToolCallContext) -> ToolOutput:
    """Add to the thread's count."""
    await World.here.act(ctx, by)
    return ToolOutput(ToolResult.success("count", by), Command().update(COUNT, by))


@tool(effect="idempotent")
async def count_again(by: int, ctx: ToolCallContext) -> ToolOutput:
    """Add to the thread's count; doing it twice is doing it once."""
    await World.here.act(ctx, by)
    return ToolOutput(ToolResult.success("count_again", by), Command().update(COUNT, by))


SHOP: dict[str, Tool] = {
    item.descriptor().id: item
    for item in (
        *(charge, ship, print_label, seal, drop, look, survey, survey_anew, put, refund),
        *(ship_verified, ship_asking, crash, count, count_again),
    )
}
"""Everything an agent of these scenarios can do."""

READS = frozenset({"look", "survey", "survey_anew"})
KILLS = frozenset({"crash"})
"""They are run again as often as a run is taken over, and then no more."""
ONCE = frozenset(
    {"charge", "ship", "print_label", "seal", "drop", "refund", "ship_verified", "ship_asking"}
    | {"count"}
)


class Doorkeeper:
    """A plugin that wants every charge to be approved."""

    id = "doorkeeper"

    def register(self, registrar: Registrar) -> None:
        registrar.gate(self.ask)

    async def ask(self, ctx: PhaseContext) -> ToolInterceptPayload | None:
        if ctx.tool_name != "charge" or ctx.resume_input is not None:
            return None
        return Suspend.ask("Really?")


# -- the model --------------------------------------------------------------------------------


def planned(
    who: str, plan: Plan, effect_log: EffectLog, *, heeds: bool = False, remembers: bool = False
) -> Any:
    """A model that follows a plan by what it sees, and at the end says how much it has seen.

    Agents who hand a conversation to each other have one plan.

    Args:
        heeds: whether it follows the plan once more when another agent writes to it.
        remembers: whether it does not follow the plan once more if it sees an earlier result.
    """

    def answer(request: InferenceRequest) -> StreamResult:
        if plan is FAILS:
            raise InferenceExecutionError("nobody is there")
        prompts = [i for i, m in enumerate(request.messages) if _is_prompt(m, heeds=heeds)]
        turns, turn = len(prompts), request.messages[prompts[-1] + 1 :]
        step = sum(bool(message.tool_calls) for message in turn)
        before = request.messages[: prompts[-1]]
        if remembers and any(message.role is Role.TOOL for message in before):
            said = text_response(f"{who}: it was done before")
        elif step < len(plan):
            # Call ids repeat from turn to turn, as some providers' do; orders do not.
            said = tool_calls_response(
                f"{who}: step {step + 1}",
                *(
                    (name, f"c{step}_{i}", _ordered(args, turns))
                    for i, (name, args) in enumerate(plan[step])
                ),
            )
        else:
            results = sum(message.role is Role.TOOL for message in turn)
            said = text_response(f"{who}: done, with {results} results")
        return msgspec.structs.replace(
            said, usage=TokenUsage(prompt_tokens=7, completion_tokens=3, total_tokens=10)
        )

    return watch_model(FunctionModel(answer), effect_log)


def _is_prompt(message: Message, *, heeds: bool) -> bool:
    sender = message.metadata.sender_agent_id if message.metadata is not None else None
    return message.is_visible_user() and (heeds or sender is None)


def _ordered(args: dict[str, Any], turn: int) -> Json:
    return args | {"order": args["order"] + 10 * (turn - 1)} if "order" in args else args
