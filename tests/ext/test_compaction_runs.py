"""Summaries beside runs: made, swapped in, refused, lost (02 §7.3, 02/DB-31)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from compaction_kit import LONG, Chat, Summariser, prompt_of, settle, shown

from awaken import Agent, Budget, Message, RunRequest, Runtime, tool
from awaken.core.budget import Price
from awaken.core.event import ActivitySnapshot
from awaken.core.inference import ContextWindowPolicy, StreamResult, TokenUsage
from awaken.core.lifecycle import NaturalEnd
from awaken.core.llm import ContentFiltered, InferenceRequest
from awaken.core.message import CompactionInterval, Role
from awaken.core.state.run_keys import SPENDING
from awaken.errors import BuildError, ConfigError
from awaken.ext.compaction.plugin import COMPACTED, FAILED, SKIPPED, STARTED
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.testing.models import FunctionAnswer

pytestmark = pytest.mark.anyio


def interval_of(summary: Message) -> CompactionInterval:
    assert summary.metadata is not None
    assert summary.metadata.compaction is not None
    return summary.metadata.compaction


# -- the way of a summary ---------------------------------------------------------------------


async def test_a_summary_takes_the_place_of_what_it_is_about() -> None:
    """02/X2: and the thread keeps everything."""
    chat = Chat()
    await chat.say_until_asked()
    before = await chat.log()
    await chat.say("and now?")

    log, request = await chat.log(), chat.requests[-1]
    assert log[: len(before)] == before
    assert shown(request)[0] == "<conversation-summary>\nT"
    assert request.messages[0].role is Role.SYSTEM
    assert shown(request)[-1] == "and now?"
    kept = [message.id for message in request.messages[1:]]
    assert kept == [m.id for m in log if m.id in kept], "what was not covered is as it was"
    summary = next(m for m in log if m.metadata and m.metadata.compaction)
    covered = interval_of(summary)
    assert covered.from_seq == 1
    assert not {m.id for m in log[: covered.to_seq]} & set(kept)
    assert len(kept) + covered.to_seq == len([m for m in log if m is not summary]) - 1


async def test_clients_are_told_what_becomes_of_it() -> None:
    """02 §7.3: `compaction.started`, `context.compacted`; the model is told nothing (DB-31)."""
    chat = Chat()
    await chat.say_until_asked()
    await chat.say("and now?")

    (started,), (done,) = chat.told(STARTED), chat.told(COMPACTED)
    assert started["kind"] == "custom"
    assert started["task_id"] == done["task_id"]
    assert started["payload"]["boundary_message_id"] == done["payload"]["boundary_message_id"]
    assert done["payload"]["post_tokens"] < done["payload"]["pre_tokens"]
    told = [m.text() for request in chat.requests for m in request.messages]
    assert not any("task" in text or "compaction" in text for text in told)


async def test_no_run_waits_for_a_summary_and_the_next_one_takes_it() -> None:
    """02/DB-31: a running summary does not keep a run, nor does its end wake one."""
    chat = Chat()
    chat.summariser.free.clear()
    await chat.say_until_asked()
    result = await chat.runtime.run("a", "still there?", thread="t")
    assert isinstance(result.termination, NaturalEnd)
    assert (await chat.state()).in_flight is not None
    asked = len(chat.requests)
    chat.summariser.free.set()
    await settle()
    assert len(chat.requests) == asked

    await chat.say("go on")

    assert shown(chat.requests[-1])[0].startswith("<conversation-summary>")
    state = await chat.state()
    assert (state.in_flight, state.total_compactions) == (None, 1)


async def test_what_is_said_meanwhile_survives_the_swap() -> None:
    """02/X1, X3: the summariser sees the snapshot, not later messages; those stay."""
    chat = Chat()
    chat.summariser.free.clear()
    await chat.say_until_asked()
    for text in ("late one", "late two"):
        await chat.say(text)
    chat.summariser.free.set()
    await settle()
    await chat.say("go on")

    texts = shown(chat.requests[-1])
    assert texts[0].startswith("<conversation-summary>")
    assert [text for text in texts if text in ("late one", "late two", "go on")] == [
        "late one",
        "late two",
        "go on",
    ]
    assert "late" not in chat.summariser.prompt(0)


async def test_only_one_summary_is_made_at_a_time() -> None:
    """02/X1: a second trigger is refused while one is in flight."""
    chat = Chat()
    chat.summariser.free.clear()
    await chat.say_until_asked()
    for _ in range(5):
        await chat.say()
    await settle()

    assert len(chat.summariser.requests) == 1
    assert len(chat.told(STARTED)) == 1


async def test_it_is_swapped_in_between_two_steps_of_a_run() -> None:
    """02/DB-31: a run need not end for it."""

    def answer(request: InferenceRequest) -> FunctionAnswer:
        last = request.messages[-1]
        if last.text() != "look five times":
            number = sum(m.role is Role.TOOL for m in request.messages)
            if last.role is not Role.TOOL or number >= 5:
                return LONG
        return tool_call_response("", "look", "c", {})

    @tool(effect="read")
    async def look() -> str:
        """Look around."""
        await settle()
        chat.summariser.free.set()
        return "seen"

    chat = Chat(answer=answer, tools=[look])
    chat.summariser.free.clear()
    await chat.say_until_asked()
    await chat.say("look five times")

    run = chat.requests[-6:]
    begins = [shown(request)[0].startswith("<conversation-summary>") for request in run]
    assert begins == [False] * 2 + [True] * 4 or begins == [False] + [True] * 5
    assert [shown(request)[-1] for request in run[1:]] == ["seen"] * 5


async def test_summaries_are_cumulative() -> None:
    """02 §7.3: the next one is told the last one; of several the last wins (X2)."""
    chat = Chat()
    for _ in range(12):
        await chat.say()
        await settle()
        chat.summariser.text = f"They talked {len(chat.summariser.requests)} times."

    assert len(chat.summariser.requests) >= 3
    assert "(none)" in chat.summariser.prompt(0)
    assert "They talked" in chat.summariser.prompt(2)
    summaries = [m for m in chat.requests[-1].messages if m.role is Role.SYSTEM]
    assert len(summaries) == 1


async def test_system_messages_at_the_beginning_stay() -> None:
    """02 §7.1: and come before the summary."""
    chat = Chat()
    await chat.runtime.run("a", [Message.system("Be kind."), "hello"], thread="t")
    await chat.say_until_asked()
    await chat.say("and now?")

    assert shown(chat.requests[-1])[0] == "Be kind."
    assert shown(chat.requests[-1])[1].startswith("<conversation-summary>")
    summary = next(m for m in await chat.log() if m.metadata and m.metadata.compaction)
    assert interval_of(summary).from_seq == 2


# -- what it is asked with --------------------------------------------------------------------


async def test_prompts_and_length_are_the_agents_to_say() -> None:
    section = {
        "summariser_system_prompt": "Be short.",
        "summariser_user_prompt": "Before: {previous_summary}. Then: {messages}",
        "summary_max_tokens": 77,
    }
    chat = Chat(section=section)
    await chat.say_until_asked()

    request = chat.summariser.requests[0]
    assert prompt_of(request) == "Be short."
    assert chat.summariser.prompt().startswith("Before: (none). Then: [User]: 0 word")
    assert request.overrides is not None
    assert request.overrides.max_tokens == 77
    assert request.tools == ()


async def test_without_a_model_of_its_own_the_agents_is_asked() -> None:
    asked: list[str] = []

    def answer(request: InferenceRequest) -> str:
        asked.append(prompt_of(request))
        return "They talked." if "summarise" in asked[-1] else LONG

    policy = ContextWindowPolicy.of(20_000, max_output_tokens=1_000, compact_at=0.1)
    agent = Agent("a", model=FunctionModel(answer), system_prompt="me", context_policy=policy)
    async with Runtime([agent]) as runtime:
        for _ in range(8):
            await runtime.run("a", LONG, thread="t")
            await settle()

    assert any("summarise" in prompt for prompt in asked)
    assert asked.count("me") == 8


async def test_mode_off_makes_none() -> None:
    chat = Chat(section={"mode": "off"})
    for _ in range(8):
        await chat.say()
    await settle()

    assert chat.summariser.requests == []


def test_a_section_that_does_not_fit_is_refused() -> None:
    """01/R-4: bad section fails, and says what is wrong."""
    with pytest.raises((BuildError, ConfigError), match="compaction"):
        Chat(section={"summary_max_tokens": 0})
    with pytest.raises((BuildError, ConfigError), match="compaction"):
        Chat(section={"unheard": "of"})


# -- when it does not work --------------------------------------------------------------------


@pytest.mark.parametrize("text", [ContentFiltered("no"), "", "  \n", RuntimeError("odd")])
async def test_a_failure_is_noted_and_the_run_goes_on(text: str | Exception) -> None:
    """02/X1: failure clears; an empty summary is none."""
    chat = Chat(Summariser(text))
    await chat.say_until_asked()
    await chat.say("and now?")

    state = await chat.state()
    assert (len(state.failures), state.total_compactions) == (1, 0)
    assert state.failures[0].reason
    assert len(chat.told(FAILED)) == 1
    assert shown(chat.requests[-1])[-1] == "and now?"


async def test_a_summary_that_spares_too_little_is_not_used() -> None:
    """02 §7.3: `compaction.skipped`, reason `min_savings_ratio`; skip clears (X1)."""
    chat = Chat(Summariser("long " * 2000))
    await chat.say_until_asked()
    await chat.say("and now?")

    (told,) = chat.told(SKIPPED)
    assert told["payload"]["reason"] == "min_savings_ratio"
    assert told["payload"]["savings_ppm"] < 300_000
    state = await chat.state()
    assert len(state.skipped) == 1
    assert state.in_flight is None or state.in_flight.task_id != told["task_id"]
    assert not any(m.metadata and m.metadata.compaction for m in await chat.log())


async def test_one_attempt_a_turn_is_enough() -> None:
    """A model that cannot summarise is not asked again at every step."""

    def answer(request: InferenceRequest) -> FunctionAnswer:
        if request.messages[-1].text() == "look" or request.messages[-1].role is Role.TOOL:
            rounds = sum(m.role is Role.TOOL for m in request.messages)
            return tool_call_response("", "look", f"c{rounds}", {}) if rounds < 10 else "so"
        return LONG

    @tool(effect="read")
    async def look() -> str:
        """Look around."""
        await settle()
        return "seen"

    chat = Chat(Summariser(RuntimeError("odd")), answer=answer, tools=[look])
    await chat.say_until_asked()
    asked = len(chat.summariser.requests)
    await chat.say("look")

    assert len(chat.summariser.requests) <= asked + 1


async def test_closing_the_runtime_gives_it_up_and_the_next_one_begins_anew() -> None:
    """02 §7.3: never stuck. Whoever made it is gone, so its place is free."""
    chat = Chat()
    chat.summariser.free.clear()
    async with chat.runtime:
        await chat.say_until_asked()
        lost = (await chat.state()).in_flight
    assert lost is not None

    chat.runtime = chat.open()
    chat.summariser.free.set()
    await chat.say()
    await settle()
    await chat.say()

    state = await chat.state()
    assert state.total_compactions == 1
    assert len(chat.summariser.requests) == 2
    assert lost.task_id not in {told["task_id"] for told in chat.told(COMPACTED)}


async def test_a_thread_that_another_process_went_on_with_is_no_trouble() -> None:
    """02/X3: the summary of the process that lost the thread is stale, and changes nothing."""
    chat = Chat()
    chat.summariser.free.clear()
    await chat.say_until_asked()
    first = chat.runtime

    chat.runtime = chat.open()
    await chat.say("elsewhere")
    flight = (await chat.state()).in_flight
    chat.runtime = first
    chat.summariser.free.set()
    await settle()
    await chat.say("back here")

    state = await chat.state()
    assert flight is not None
    assert flight.task_id not in {told["task_id"] for told in chat.told(COMPACTED)}
    assert state.total_compactions <= 1
    assert len(chat.told(STARTED)) <= 3


# -- the log ----------------------------------------------------------------------------------


async def test_a_fork_can_go_behind_a_summary() -> None:
    """02/DB-2: the raw history is there, and a fork from before sees it as it was."""
    chat = Chat()
    await chat.say_until_asked()
    events = await chat.store.load_events("t")
    await chat.say("and now?")
    assert shown(chat.requests[-1])[0].startswith("<conversation-summary>")
    await chat.store.fork("t", "before", at=events[-1].seq, at_ms=0)
    await chat.store.fork("t", "after", at_ms=0)

    await chat.say("in the fork", thread="before")
    assert shown(chat.requests[-1])[0].startswith("0 word")
    assert len(chat.requests[-1].messages) == len(await chat.log("before")) - 1
    await chat.say("in the other", thread="after")
    assert shown(chat.requests[-1])[0].startswith("<conversation-summary>")


async def test_an_agent_without_a_policy_sees_the_summary_too() -> None:
    """Design §8: compaction is a view of the log, whoever reads it."""
    chat = Chat()
    await chat.say_until_asked()
    await chat.say("and now?")
    seen: list[int] = []

    def answer(request: InferenceRequest) -> StreamResult:
        seen.append(len(request.messages))
        return text_response(request.messages[0].text()[:22])

    other = Runtime([Agent("b", model=FunctionModel(answer))], store=chat.store)
    result = await other.run("b", "hello", thread="t")

    assert result.response == "<conversation-summary>"
    assert seen[0] < len(await chat.log())


async def test_messages_of_others_pass_through_while_a_summary_is_made() -> None:
    """02/X3: unrelated payloads pass through."""
    chat = Chat()
    chat.summariser.free.clear()
    await chat.say_until_asked()
    request = RunRequest(
        thread_id="t", agent_id="a", messages=(Message.internal_user("a note"), Message.user("hm"))
    )
    await chat.runtime.engine.run(request)

    assert shown(chat.requests[-1])[-2:] == ["a note", "hm"]


# -- what it costs ----------------------------------------------------------------------------


@pytest.mark.parametrize(("held", "tokens"), [(True, 33), (False, 33 + 750)])
async def test_what_a_summary_takes_is_counted_with_the_run(held: bool, tokens: int) -> None:
    """02 §7.3: within the budget of the run that has it made, once it is known."""

    def answer(request: InferenceRequest) -> FunctionAnswer:
        rounds = sum(m.role is Role.TOOL for m in request.messages)
        wants = request.messages[-1].text().startswith("look") or rounds == 1
        answer = tool_call_response("", "look", f"c{rounds}", {}) if wants else text_response(LONG)
        usage = TokenUsage(prompt_tokens=10, completion_tokens=1)
        return msgspec.structs.replace(answer, usage=usage)

    @tool(effect="read")
    async def look() -> str:
        """Look around."""
        await settle()
        return "seen"

    policy = ContextWindowPolicy.of(20_000, max_output_tokens=1_000, compact_at=0.05)
    chat = Chat(
        answer=answer,
        tools=[look],
        budget=Budget(tokens=1_000_000),
        policy=policy,
        prices={"summariser": Price(input=10.0, output=100.0)},
    )
    for _ in range(2):
        await chat.say()
    if held:
        chat.summariser.free.clear()
    result = await chat.runtime.run("a", f"look {LONG}", thread="t")

    assert len(chat.summariser.requests) == 1
    assert result.spent is not None
    assert result.spent.tokens == tokens
    assert result.usage is not None
    assert (result.usage.prompt_tokens or 0) + (result.usage.completion_tokens or 0) == tokens
    assert result.cost == (None if held else 0.012)
    record = await chat.runtime.find_run(result.run_id)
    assert record is not None
    assert record.state is not None
    assert SPENDING.load(record.state.extensions[SPENDING.name]).spent.tokens == tokens


async def test_a_summary_is_not_made_of_the_last_there_is() -> None:
    """The run itself goes first: it could not go on, but it could have answered."""
    chat = Chat(budget=Budget(tokens=6_000))
    for _ in range(5):
        await chat.say()
        await settle()

    assert chat.summariser.requests == []
    assert ["budget" in mishap.reason for mishap in (await chat.state()).failures] == [True]


# -- a long thread ----------------------------------------------------------------------------


class Reading(MemoryStore):
    """Knows how many messages were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def load_context(self, thread_id: str, *, tail: int | None = None):  # type: ignore[no-untyped-def]  # passed on
        context = await super().load_context(thread_id, tail=tail)
        self.read += len(context.messages) if context is not None else 0
        return context

    async def load_messages(self, thread_id: str, *, after=0, limit=None, hidden=False):  # type: ignore[no-untyped-def]  # passed on
        messages = await super().load_messages(thread_id, after=after, limit=limit, hidden=hidden)
        self.read += len(messages)
        return messages


async def test_a_thread_of_ten_thousand_messages() -> None:
    """02/DB-1, DB-2: requests stay under the limit, the log keeps everything, the cost is flat."""
    store = Reading()
    policy = ContextWindowPolicy.of(4_000, max_output_tokens=500, compact_at=0.7)
    chat = Chat(store=store, policy=policy, answer=lambda _: "fine " * 20)
    reads: list[int] = []
    for number in range(5000):
        before = store.read
        await chat.runtime.run("a", f"{number} " + "word " * 20, thread="t")
        reads.append(store.read - before)
        await asyncio.sleep(0)
    sizes = [len(request.messages) for request in chat.requests]
    log = await chat.log()

    said = [m for m in log if m.role is not Role.SYSTEM]
    assert len(said) == 10_000
    assert [m.text().split()[0] for m in said[::2]] == [str(n) for n in range(5000)]
    assert (await chat.state()).total_compactions > 50
    counter = sum(len(m.text()) // 4 + 4 for m in chat.requests[-1].messages)
    assert counter < 3_500
    assert max(sizes[4000:]) <= max(sizes[500:1500])
    assert max(reads[4000:]) <= max(reads[500:1500])
    assert not [event for event in chat.events if isinstance(event.event, ActivitySnapshot)]


async def test_a_rewind_into_what_a_summary_covers_shows_the_messages_again() -> None:
    """The summary lies behind them, so it goes out of view; the next one covers what is left."""
    chat = Chat()
    await chat.say_until_asked()
    await chat.say("and now?")
    assert shown(chat.requests[-1])[0].startswith("<conversation-summary>")
    first, answer, second, *_ = await chat.log()

    await chat.runtime.run("a", "instead", thread="t", rewind_to=second.id)

    assert [m.id for m in chat.requests[-1].messages[:2]] == [first.id, answer.id]
    assert shown(chat.requests[-1])[2:] == ["instead"]
    assert (await chat.state()).boundaries == ()
    chat.summariser.asked.clear()
    await chat.say_until_asked()
    await chat.say("and then?")
    records = await chat.store.load_records("t")
    summary = next(r for r in records if r.message.metadata and r.message.metadata.compaction)
    covered = interval_of(summary.message)
    *left, _ = [r.message_id for r in records if r.seq > covered.to_seq and r is not summary]
    assert [m.id for m in chat.requests[-1].messages] == [summary.message_id, *left]
