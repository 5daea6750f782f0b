"""A model of your own: an object with a name and a stream of answers."""

import asyncio
from collections.abc import AsyncIterator

from awaken import Agent, Runtime, tool
from awaken.events import TextDelta, ToolCallDelta, ToolCallStart
from awaken.models import (
    InferenceRequest,
    LlmStreamEvent,
    RateLimited,
    Role,
    Stop,
    StopReason,
    TokenUsage,
    Usage,
)


class Parrot:
    """Counts the words of the question with a tool, then repeats what came back."""

    name = "parrot"

    def __init__(self) -> None:
        self.busy = True

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        if self.busy:
            self.busy = False
            # Raised before the first piece, it is asked again after a pause.
            raise RateLimited("too many parrots", retry_after=0.01)
        last = request.messages[-1]
        if last.role is Role.TOOL:
            for word in f"I counted {last.text()} words".split():
                yield TextDelta(delta=f"{word} ")
        else:
            yield ToolCallStart(id="call-1", name="count")
            yield ToolCallDelta(id="call-1", args_delta=f'{{"text": "{last.text()}"}}')
        yield Usage(usage=TokenUsage(prompt_tokens=10, completion_tokens=4))
        yield Stop(reason=StopReason.END_TURN)


@tool
def count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


async def main() -> None:
    agent = Agent(
        "parrot", model=Parrot(), tools=[count], sections={"retry": {"backoff_base_ms": 1}}
    )
    async with Runtime([agent]) as runtime:
        result = await runtime.run("parrot", "how many words are these")
        print(result.response.strip())
        print(result.usage.total_tokens, "tokens in", result.steps, "steps")


if __name__ == "__main__":
    asyncio.run(main())
