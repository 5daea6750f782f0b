"""A budget for a run and all it starts; at its limit, the run asks somebody for more.

The question is a ticket like any other, and durable. A yes allows as much again, or as much as it
says; a no ends the run. With `at_limit="stop"`, the default, nobody is asked.
"""

import asyncio

import msgspec

from awaken import Agent, Budget, Price, Runtime, ToolCallResume, tool
from awaken.models import InferenceRequest, StreamResult, TokenUsage
from awaken.testing import FunctionModel, text_response, tool_call_response


@tool(effect="read")
async def read_chapter(number: int) -> str:
    """Read a chapter of the book."""
    return f"what happens in chapter {number}"


def think(request: InferenceRequest) -> StreamResult:
    """Reads five chapters, and then knows the answer; each time it takes a thousand tokens."""
    number = sum(bool(message.tool_calls) for message in request.messages) + 1
    said = text_response("It was the gardener.")
    if number <= 5:
        said = tool_call_response("", "read_chapter", f"c{number}", {"number": number})
    return msgspec.structs.replace(said, usage=TokenUsage(prompt_tokens=900, completion_tokens=100))


detective = Agent("detective", model=FunctionModel(think, name="reader-1"), tools=[read_chapter])
prices = {"reader-1": Price(input=5, output=25)}  # per million tokens, in money of your choice
budget = Budget(steps=2, money=1, at_limit="ask")


async def main() -> None:
    async with Runtime([detective], prices=prices) as runtime:
        result = await runtime.run("detective", "Who was it?", thread="book", budget=budget)
        for answer in (True, ToolCallResume.approve(10)):  # as much again, then ten more
            (question,) = await runtime.list_tickets()
            print("asks:", question.message)
            result = await runtime.run(thread="book", answers={question: answer})
        print("answers:", result.response)
        assert result.spent is not None
        print(f"spent: {result.spent.steps} steps, {result.spent.money:.3f} €")

        waiting = await runtime.run("detective", "Who was it?", thread="again", budget=budget)
        no = ToolCallResume.deny("read it yourself")
        result = await runtime.run(thread="again", answers={waiting.tickets[0]: no})
        print("ended:", result.termination)


if __name__ == "__main__":
    asyncio.run(main())
