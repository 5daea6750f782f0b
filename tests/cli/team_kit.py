"""Agents that work together, in a module of their own: delegates, and work in the background."""

from __future__ import annotations

from pathlib import Path

TEAM = '''
import asyncio
from pathlib import Path

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.testing import FunctionModel, tool_calls_response


def model(text, *calls):
    """Makes the calls once, then tells what it heard last."""

    def answer(request):
        last = request.messages[-1]
        if not any(message.tool_calls for message in request.messages):
            return tool_calls_response(text, *calls)
        return f"I heard: {' '.join(last.text().split())}"

    return FunctionModel(answer)


def give(agent, prompt="Do it."):
    return (f"agent_run_{agent}", prompt, {"prompt": prompt})


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def lose() -> str:
    """Always fails."""
    raise RuntimeError("lost it")


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(effect="read")
async def gate() -> str:
    """Waits until somebody makes a file called `open`."""
    while not Path("open").exists():
        await asyncio.sleep(0.01)
    return "the gate is open"


@tool(effect="read")
async def research(topic: str, ctx: ToolCallContext) -> str:
    """Find out, once the gate is open."""
    await ctx.report_progress(message="before the gate", progress=0.5)
    await gate()
    return f"{topic} is old"


intern = Agent("intern", model=model("Let me add.", ("add", "c1", {"a": 2, "b": 3})), tools=[add])
clerk = Agent(
    "clerk", model=model("Let me see.", give("intern"), ("lose", "c2", {})),
    tools=[lose], delegates=[intern],
)
boss = Agent("boss", model=model("Clerk!", give("clerk")), delegates=[clerk])
twice = Agent(
    "twice", model=model("", give("intern"), give("intern", "Again.")), delegates=[intern]
)
office = [boss, clerk, intern, twice]

porter = Agent("porter", model=model("Let me look.", ("gate", "c1", {})), tools=[gate])
host = Agent("host", model=model("Porter!", give("porter")), delegates=[porter])
hotel = [host, porter]

historian = Agent(
    "historian", model=model("", ("research", "c1", {"topic": "the mill"})), background=[research]
)

payer = Agent("payer", model=model("Let me pay.", ("pay", "c1", {"euros": 7})), tools=[pay])
patron = Agent("patron", model=model("", give("payer")), background=[payer])
bank = [patron, payer]


def recovering():
    return Runtime([historian], store="sqlite:///awaken.db")
'''


def write_team(directory: Path) -> Path:
    """Put `team.py` into a directory."""
    (directory / "team.py").write_text(TEAM)
    return directory
