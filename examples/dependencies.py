"""Dependencies: a database session and the current customer, typed, for tools, prompt and output.

They are live objects and are never stored. After a restart, and for submitted runs, the runtime
makes them again from the small key that is stored with the run.
"""

import asyncio
from dataclasses import dataclass

from awaken import Agent, PhaseContext, Retry, RunContext, RunInfo, Runtime, tool
from awaken.testing import ScriptedModel, tool_call_response


class Database:
    """Stands in for a pool of connections."""

    async def balance(self, customer: int) -> float:
        return {7: 120.5}[customer]


@dataclass
class Deps:
    db: Database
    customer: int


@dataclass
class Statement:
    customer: int
    balance: float


@tool(effect="read")
async def balance(ctx: RunContext[Deps]) -> float:
    """What the customer has."""
    return await ctx.deps.db.balance(ctx.deps.customer)


async def prompt(ctx: PhaseContext[Deps]) -> str:
    return f"You write statements for customer {ctx.deps.customer}."


def check(ctx: PhaseContext[Deps], statement: Statement) -> Statement:
    if statement.customer != ctx.deps.customer:
        raise Retry(f"the customer is {ctx.deps.customer}")
    return statement


model = ScriptedModel(
    [
        tool_call_response("", "balance", "c1", {}),
        '{"customer": 8, "balance": 120.5}',
        '{"customer": 7, "balance": 120.5}',
        tool_call_response("", "balance", "c1", {}),
        '{"customer": 7, "balance": 120.5}',
    ]
)
bank = Agent(
    "bank",
    model=model,
    deps=Deps,
    system_prompt=prompt,
    tools=[balance],
    output=Statement,
    output_check=check,
)


async def main() -> None:
    db = Database()

    def make_deps(run: RunInfo) -> Deps:
        return Deps(db, run.deps_key)

    async with Runtime([bank], deps={Deps: make_deps}) as runtime:
        result = await runtime.run("bank", "My statement, please.", deps=Deps(db, 7), deps_key=7)
        print("run:", result.unwrap())

        submitted = await runtime.submit("bank", "My statement, please.", deps_key=7, user="ann")
        print("submitted:", (await runtime.wait(submitted.run_id)).unwrap())


if __name__ == "__main__":
    asyncio.run(main())
