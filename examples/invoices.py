"""Typed extraction: invoices out of letters, as values that a type checker knows.

`output=Invoice` has the model answer with JSON that fits the class; `output_check` says whether it
makes sense. An answer that does not is sent back with the reason. Several letters are read at once.
"""

import asyncio
from dataclasses import dataclass
from datetime import date

from awaken import Agent, Budget, ModelSettings, PhaseContext, Retry
from awaken.models import InferenceRequest
from awaken.testing import FunctionModel

LETTERS = [
    "Ann's Lamps, 3 March 2026. Two lamps, 40 euros each. To pay: 80 euros.",
    "Bob's Chairs, 4 March 2026. One chair, 25 euros. To pay: 25 euros.",
]


@dataclass
class Line:
    item: str
    count: int
    each: float


@dataclass
class Invoice:
    """An invoice, as it is booked."""

    sender: str
    day: date
    lines: list[Line]
    total: float


def check(ctx: PhaseContext, invoice: Invoice) -> Invoice:
    summed = sum(line.count * line.each for line in invoice.lines)
    if abs(summed - invoice.total) > 0.005:
        raise Retry(f"the lines sum up to {summed:g}, and the total is {invoice.total:g}")
    return invoice


def read(request: InferenceRequest) -> str:
    """Stands in for a model, which first mistakes the number of lamps."""
    said = " ".join(message.text() for message in request.messages)
    if "Bob" in said:
        return _json("Bob's Chairs", "2026-03-04", "chair", 1, 25)
    return _json("Ann's Lamps", "2026-03-03", "lamp", 2 if "sum up" in said else 1, 40)


def _json(sender: str, day: str, item: str, count: int, each: int) -> str:
    line = f'{{"item": "{item}", "count": {count}, "each": {each}}}'
    total = 80 if item == "lamp" else 25
    return f'{{"sender": "{sender}", "day": "{day}", "lines": [{line}], "total": {total}}}'


reader = Agent(
    "reader",
    model=FunctionModel(read),  # or "openai:gpt-5-mini"
    system_prompt="Read the invoice in this letter.",
    output=Invoice,
    output_check=check,
    settings=ModelSettings(temperature=0),
    budget=Budget(steps=3),
)


async def main() -> None:
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(reader.run(letter)) for letter in LETTERS]
    for run in runs:
        result = run.result()
        invoice = result.unwrap()
        print(f"{invoice.day}: {invoice.total:g} euros to {invoice.sender}, {result.steps} steps")


if __name__ == "__main__":
    asyncio.run(main())
