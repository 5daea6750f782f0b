"""Which agent, which run, which conversation (01 §6.3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from run_kit import Piece, record_of, results, state_of, told

from answer_kit import by_id
from awaken import (
    Agent,
    Command,
    Message,
    Phase,
    PhaseContext,
    RunRequest,
    Runtime,
    Scope,
    StateKey,
    tool,
)
from awaken.core.lifecycle import NATURAL_END, RunStatus, Suspended
from awaken.core.message import ToolCall
from awaken.core.run import AgentRunResult, RunRecord
from awaken.core.state.command import ScheduledActionSpec
from awaken.core.state.run_keys import RUN_LIFECYCLE
from awaken.core.store.commits import ThreadCommit
from awaken.errors import AgentNotFound, ConfigError, InvalidResume, PhaseError
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response
from awaken.testing.models import Response
from awaken.worker import RequestKind

pytestmark = pytest.mark.anyio


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


@tool
async def look() -> str:
    """Look."""
    return "seen"


PAY: Response = tool_call_response("", "pay", "c1", {})


class Bench:
    """An agent called `default`, its model, and the engine beneath."""

    def __init__(self, *script: Response, store: MemoryStore | None = None, **options: Any):
        self.store = store or MemoryStore()
        self.model = ScriptedModel(script)
        agent = Agent("default", model=self.model, tools=[pay, look], **options)
        self.runtime = Runtime([agent], store=self.store)

    async def ask(self, text: str | None = "go", **fields: Any) -> AgentRunResult:
        messages = (Message.user(text),) if text is not None else ()
        request: dict[str, Any] = {
            "thread_id": "t",
            "messages": messages,
            "wait_for_decisions": False,
        }
        return await self.runtime.engine.run(RunRequest(**(request | fields)))


def created(run_id: str, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "thread_id": "t",
        "agent_id": "default",
        "status": RunStatus.CREATED,
        "created_at": 1,
        "updated_at": 1,
    }
    return RunRecord(**(fields | changes))


# -- which run --------------------------------------------------------------------------------


async def test_without_anything_a_run_gets_a_new_id() -> None:
    """01/A-4: a fresh v7 id each."""
    bench = Bench("one", "two")

    first, second = await bench.ask(), await bench.ask()

    assert first.run_id < second.run_id
    assert [id[14] for id in (first.run_id, second.run_id)] == ["7", "7"]


async def test_a_waiting_run_is_taken_up() -> None:
    """01/A-4: the thread's open run, if it waits; `dispatch_id` is trace and does not change it."""
    for fields in ({}, {"dispatch_id": "d9"}):
        bench = Bench(PAY, "instead")
        waiting = await bench.ask()

        again = await bench.ask("never mind", **fields)

        assert isinstance(waiting.termination, Suspended)
        assert again.run_id == waiting.run_id
        assert again.termination == NATURAL_END


async def test_a_dispatch_id_never_becomes_a_run_id() -> None:
    """01/A-4: it is kept in the record."""
    bench = Bench("one")

    result = await bench.ask(dispatch_id="d1")

    assert result.run_id != "d1"
    assert (await record_of(bench.runtime, result.run_id)).dispatch_id == "d1"


async def test_a_hinted_run_id_is_used_trimmed() -> None:
    """01/A-4: even while another run of the thread waits; a blank hint is none."""
    bench = Bench(PAY, "one", "two")
    waiting = await bench.ask()

    hinted = await bench.ask(run_id_hint="  mine  ")
    blank = await bench.ask(run_id_hint="  ", dispatch_id_hint=" ")

    assert hinted.run_id == "mine"
    assert blank.run_id not in ("mine", "", waiting.run_id)


async def test_a_hinted_run_that_was_only_created_may_start() -> None:
    """01/A-4: it keeps what its record says of its making."""
    bench = Bench("one")
    await bench.store.commit(
        ThreadCommit(thread_id="t", expected_length=0, run=created("mine", created_at=7))
    )

    result = await bench.ask(run_id_hint="mine")

    record = await record_of(bench.runtime, "mine")
    assert result.run_id == "mine"
    assert (record.status, record.created_at) == (RunStatus.DONE, 7)


async def test_a_dispatch_hint_is_a_run_id_too() -> None:
    """01/A-4."""
    assert (await Bench("one").ask(dispatch_id_hint="d1")).run_id == "d1"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown run": ({"continue_run_id": "ghost"}, "continue_run_id 'ghost'"),
    "a run that is done": ({"continue_run_id": "done"}, "'done' is done; start a new run"),
    "a run of another thread": (
        {"continue_run_id": "done", "thread_id": "other"},
        "'done' belongs to thread 't'",
    ),
    "a hint that is taken": ({"run_id_hint": "done"}, "run_id_hint 'done' already exists"),
    "a dispatch that is taken": (
        {"dispatch_id_hint": "done"},
        "dispatch_id_hint 'done' already exists",
    ),
    "a dispatch that was created": (
        {"dispatch_id_hint": "fresh"},
        "dispatch_id_hint 'fresh' already exists",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_run_that_does_not_fit_is_refused(case: str) -> None:
    """01/A-4, bad input: named; nothing is written and the thread is free again."""
    fields, text = REFUSED[case]
    bench = Bench("one", "after")
    await bench.ask(run_id_hint="done")
    await bench.store.commit(
        ThreadCommit(
            thread_id="elsewhere", expected_length=0, run=created("fresh", thread_id="elsewhere")
        )
    )
    before = told(await bench.runtime.messages("t"))

    with pytest.raises(InvalidResume, match=text):
        await bench.ask("refused", **fields)

    assert told(await bench.runtime.messages("t")) == before
    assert len(await bench.runtime.list_runs()) == 2
    assert (await bench.ask()).response == "after"


async def test_a_named_run_is_continued() -> None:
    """01/A-4: the kinds of a request say so, too."""
    bench = Bench(PAY, "instead")
    waiting = await bench.ask()

    result = await bench.ask("never mind", continue_run_id=waiting.run_id)

    assert result.run_id == waiting.run_id
    plain = RunRequest(thread_id="t")
    assert plain.kind is RequestKind.NEW
    assert RunRequest(thread_id="t", continue_run_id="r").kind is RequestKind.CONTINUATION


@pytest.mark.parametrize("field", ["thread_id", "agent_id", "continue_run_id"])
def test_a_blank_id_is_refused_by_name(field: str) -> None:
    """Bad input: before anything happens."""
    fields: dict[str, Any] = {"thread_id": "t", field: "  "}

    with pytest.raises(ConfigError, match=f"{field} must not be blank"):
        RunRequest(**fields)


# -- which agent ------------------------------------------------------------------------------


async def test_the_agent_is_inferred_in_order() -> None:
    """01/A-5: asked for; else active in the thread; else the latest run's; else `default`."""
    hand_over = tool_call_response("", "handoff", "h", {"agent": "c"})
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel(["a"] * 3)),
            Agent("b", model=ScriptedModel([hand_over]), handoffs=["c"]),
            Agent("c", model=ScriptedModel(["c"] * 3)),
            Agent("default", model=ScriptedModel(["default"])),
        ]
    )

    async def ask(thread: str, agent: str | None = None) -> str:
        return (await runtime.run(agent, "go", thread=thread)).response

    assert await ask("fresh") == "default"
    assert await ask("t", "a") == "a"
    assert await ask("t") == "a"
    assert await ask("handed", "b") == "c"
    assert await ask("handed") == "c"


async def test_an_unknown_agent_is_refused_and_the_thread_left_alone() -> None:
    """01/A-5, bad input: the message lists who there is."""
    bench = Bench("one")

    with pytest.raises(AgentNotFound, match=r"'ghost'; registered: 'default'") as missing:
        await bench.ask(agent_id="ghost")

    assert missing.value.agent_id == "ghost"
    assert list(await bench.runtime.messages("t")) == []
    assert (await bench.ask()).response == "one"


# -- which conversation -----------------------------------------------------------------------


async def test_a_new_message_supersedes_suspended_calls() -> None:
    """01/A-6: finished results stay, nothing is replayed, the call is not shown any more. Design
    §8: the log keeps everything; a durable mark hides the call when it is read."""
    calls = tool_calls_response("", ("look", "c0", {}), ("pay", "c1", {}))
    bench = Bench(calls, "something else then")
    waiting = await bench.ask()

    result = await bench.ask("forget the payment")

    assert result.run_id == waiting.run_id
    assert result.tickets == ()
    shown = bench.model.requests[1].messages
    assert told(shown) == ["user: go", "assistant: ", "tool: seen", "user: forget the payment"]
    assert [call.id for call in shown[1].tool_calls or ()] == ["c0"]
    log = await bench.runtime.messages("t")
    assert [call.id for call in log[1].tool_calls or ()] == ["c0", "c1"]
    assert "paid" not in results(log).values()
    with pytest.raises(Exception, match="c1"):
        await bench.runtime.run(thread="t", answers=await by_id(bench.runtime, {"c1": True}))


async def test_an_internal_message_supersedes_nothing() -> None:
    """01/A-6: only what a user visibly says."""
    bench = Bench(PAY, "done")
    await bench.ask()

    again = await bench.ask(None, messages=(Message.internal_user("tick"),))

    assert isinstance(again.termination, Suspended)
    assert [ticket.tool_call_id for ticket in again.tickets] == ["c1"]
    assert bench.model.calls == 1


async def test_decisions_supersede_nothing() -> None:
    """01/A-6: a message that comes with an answer goes along with it."""
    bench = Bench(PAY, "done")
    await bench.ask()

    result = await bench.runtime.run(
        input="yes, please", thread="t", answers=await by_id(bench.runtime, {"c1": True})
    )

    assert result.response == "done"
    assert told(bench.model.requests[1].messages) == [
        "user: go",
        "assistant: ",
        "tool: paid",
        "user: yes, please",
    ]


def calling(*ids: str, text: str = "") -> Message:
    calls = [ToolCall(id=id, name="look", arguments={}) for id in ids]
    return Message.assistant_with_tool_calls(text, calls)


async def test_calls_nobody_answered_are_not_shown() -> None:
    """01/A-9: pairs stay, unanswered calls go, with them an empty message at the end."""
    bench = Bench("done")
    log = (
        Message.user("one"),
        calling("paired"),
        Message.tool("paired", "seen"),
        calling("half", "lost"),
        Message.tool("half", "seen too"),
        calling("gone", text="I tried"),
        calling("empty"),
    )
    await bench.store.commit(ThreadCommit(thread_id="t", expected_length=0, messages=log))

    await bench.ask("two")

    shown = bench.model.requests[0].messages
    assert told(shown) == [
        "user: one",
        "assistant: ",
        "tool: seen",
        "assistant: ",
        "tool: seen too",
        "assistant: I tried",
        "user: two",
    ]
    assert [[call.id for call in m.tool_calls] for m in shown if m.tool_calls] == [
        ["paired"],
        ["half"],
    ]
    assert shown[5].tool_calls is None
    assert len(await bench.runtime.messages("t")) == len(log) + 2


async def test_messages_already_in_the_log_are_not_appended_again() -> None:
    """01 §6.3 step 4."""
    bench = Bench("done")
    message = Message.user("queued")
    await bench.store.commit(ThreadCommit(thread_id="t", expected_length=0, messages=(message,)))

    await bench.ask(None, messages=(message,), messages_already_persisted=True)

    assert told(bench.model.requests[0].messages) == ["user: queued"]
    assert told(await bench.runtime.messages("t")) == ["user: queued", "assistant: done"]


# -- what a continuation brings back ----------------------------------------------------------

SCRATCH: StateKey[str, str] = StateKey("scratch", initial=str)
LATER: ScheduledActionSpec[str] = ScheduledActionSpec("later", Phase.STEP_START, str)


def keeper(seen: list[str | None]) -> Piece:
    """Looks at the run's scratch when a step starts; at its end, writes it and plans ahead."""

    async def look(ctx: PhaseContext) -> None:
        seen.append(ctx.read(SCRATCH))

    async def keep(ctx: PhaseContext) -> Command | None:
        if ctx.read(SCRATCH) is not None:
            return None
        return Command().update(SCRATCH, "kept").schedule_action(LATER, "next step")

    async def later(_: PhaseContext, word: str) -> Command:
        return Command().update(SCRATCH, word)

    return Piece(
        "keeper",
        lambda r: r.key(SCRATCH),
        lambda r: r.hook(Phase.STEP_START, look),
        lambda r: r.hook(Phase.STEP_END, keep),
        lambda r: r.action(LATER, later),
    )


async def test_a_continuation_goes_on_with_the_runs_own_state() -> None:
    """D-10: in a fresh runtime on the same store: counters, run keys, lifecycle and actions."""
    store = MemoryStore()
    seen: list[str | None] = []
    waiting = await Bench(PAY, store=store, plugins=[keeper(seen)]).ask()
    bench = Bench("done", store=store, plugins=[keeper(seen)])

    result = await bench.runtime.run(thread="t", answers=await by_id(bench.runtime, {"c1": True}))

    assert result.run_id == waiting.run_id
    assert (waiting.steps, result.steps) == (1, 2)
    assert seen == [None, "kept"]
    assert await state_of(bench.runtime, result.run_id, SCRATCH) == "next step"
    lifecycle = await state_of(bench.runtime, result.run_id, RUN_LIFECYCLE)
    assert lifecycle is not None
    assert (lifecycle.run_id, lifecycle.step_count) == (result.run_id, 2)


async def test_a_new_run_starts_with_no_run_state() -> None:
    """01/S-11: run keys are dropped at the border of a run."""
    seen: list[str | None] = []
    bench = Bench("one", "two", plugins=[keeper(seen)])

    for _ in range(2):
        await bench.ask()

    assert seen == [None, None]


MOOD: StateKey[int, int] = StateKey("mood", initial=int, scope=Scope.THREAD)


async def test_stored_state_that_no_longer_fits_is_named() -> None:
    """01 §2.4, bad input: the run does not start, and what is stored stays; keys nobody has any
    more are left alone."""
    bench = Bench("fine", state=[MOOD])
    state = {"mood": msgspec.Raw(b'"good"'), "gone": msgspec.Raw(b"1")}
    await bench.store.commit(ThreadCommit(thread_id="t", expected_length=0, thread_state=state))

    with pytest.raises(PhaseError, match=r"cannot decode 'mood'.*int"):
        await bench.ask()

    assert list(await bench.runtime.messages("t")) == []
    assert list(await bench.runtime.list_runs()) == []
    await bench.store.commit(
        ThreadCommit(thread_id="t", expected_length=0, thread_state={"mood": msgspec.Raw(b"3")})
    )
    assert (await bench.ask()).response == "fine"
    stored = await bench.store.load_thread_state("t")
    assert stored.extensions["gone"] == 1
