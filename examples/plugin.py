"""A plugin: behaviour an agent gets by naming it. Context in, command or verdict out.

A gate sees each call before it runs, and may let it pass (None), answer in its place
(`SetResult`), hold it (`Suspend`) or end the run (`Block`). A hook is called in its phase.
"""

import asyncio

from awaken import (
    RUN_LIFECYCLE,
    Agent,
    Command,
    Done,
    Phase,
    PhaseContext,
    Registrar,
    Runtime,
    SetResult,
    ToolResult,
    tool,
)
from awaken.testing import ScriptedModel, tool_call_response


class HouseRules:
    """No file outside the house, and an end when the conversation gets long."""

    id = "house_rules"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def register(self, registrar: Registrar) -> None:
        registrar.gate(self.stay_inside)
        registrar.hook(Phase.STEP_END, self.stop_when_long)

    async def stay_inside(self, ctx: PhaseContext) -> SetResult | None:
        if ctx.tool_args["path"].startswith("house/"):
            return None
        return SetResult(result=ToolResult.error("read_file", "only files in house/ may be read"))

    async def stop_when_long(self, ctx: PhaseContext) -> Command | None:
        if len(ctx.messages) < self.limit:
            return None
        return Command().update(RUN_LIFECYCLE, Done(reason="stopped:long_enough"))


@tool
async def read_file(path: str) -> str:
    """What a file says."""
    return f"contents of {path}"


PATHS = ["house/menu.txt", "/etc/passwd", "house/guests.txt", "house/never_asked_for.txt"]
SCRIPT = [tool_call_response("", "read_file", path, {"path": path}) for path in PATHS]


async def main() -> None:
    rules, model = HouseRules(limit=7), ScriptedModel(SCRIPT)
    butler = Agent("butler", model=model, tools=[read_file], plugins=[rules])
    async with Runtime([butler]) as runtime:
        result = await runtime.run("butler", "Read everything you can.", thread="t1")
        for message in await runtime.messages("t1"):
            if message.tool_call_id:
                print(f"{message.tool_call_id}:", message.text())
        print("ended:", result.termination)


if __name__ == "__main__":
    asyncio.run(main())
