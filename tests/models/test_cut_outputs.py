"""Answers cut where it matters what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from cut_dialects import DIALECTS
from cut_stage import CHUNK, Cut, Recordings
from mock_server import Answer, MockServer, WireServer

from awaken import Agent, Runtime
from awaken.core.llm import StreamSnapshot
from awaken.core.message import Text
from awaken.models.stream_recovery import MendPlan, plan_for

pytestmark = pytest.mark.anyio

TEXT = '{"city": "Paris", "nights": 2}'


@dataclass
class Booking:
    city: str
    nights: int


@pytest.fixture(scope="module")
def recordings() -> Iterator[Recordings]:
    answers = {"whole": TEXT, "rest": TEXT[CHUNK:]}
    fixtures = [
        {"match": {"userMessage": name}, "response": {"content": text, "reasoning": "So be it."}}
        for name, text in answers.items()
    ]
    with MockServer(fixtures, chunk_size=CHUNK) as mock:
        yield Recordings(mock)


@pytest.mark.parametrize("name", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize(("shape", "second"), [(None, "rest"), (Booking, "whole")])
async def test_an_answer_is_one_text_though_the_model_thought_again(
    recordings: Recordings, name: str, shape: type[Booking] | None, second: str
) -> None:
    """Text is gone on with; an object, which models write whole, is written anew."""
    dialect = DIALECTS[name]
    whole = await recordings.answer(dialect, "whole")
    begun = next(i for i, event in enumerate(whole, 1) if b"Par" in event)
    answers = [
        Cut(after=begun).answer(whole),
        Answer(pieces=await recordings.answer(dialect, second)),
    ]
    async with WireServer(answers) as server:
        model = dialect.open(server.url)
        retry = {"retry": {"backoff_base_ms": 0}}
        agent = Agent("a", model=dialect.model, output=shape, sections=retry)
        async with Runtime([agent], models={dialect.model: model}) as runtime:
            result = await runtime.run("a", "Two nights in Paris.", thread="t")
            said = (await runtime.messages("t"))[-1]
        await model.aclose()
    assert [block.text for block in said.content if isinstance(block, Text)] == [TEXT]
    assert shape is None or result.output == Booking("Paris", 2)
    assert len(server.requests) == 2


def test_blanks_are_nothing_that_was_said() -> None:
    """02/E6: an answer that begins with an empty line, of which no more came, is asked for anew."""
    assert plan_for(StreamSnapshot(text="\n\n")) is MendPlan.START_OVER
    assert plan_for(StreamSnapshot(text="\n\nSo")) is MendPlan.CONTINUE
