"""Starting, naming, ending and telling of tasks (03 §1.1, §1.2, §1.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from background_kit import (
    NO_PARENT,
    Bench,
    Gate,
    background_store,
    call_context,
    giving,
    raising,
    receive,
    until_cancelled,
)

from awaken.codec import Json, to_json
from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.inbox import InboxReceiver, InboxSender
from awaken.core.state.store import StateStore
from awaken.core.task import TaskParentContext, TaskStatus
from awaken.core.tool_context import CURRENT_CALL
from awaken.errors import ConfigError, UnknownKey
from awaken.ext.tasks import (
    BackgroundTaskError,
    BackgroundTaskManager,
    TaskContext,
    TaskMessageError,
    TaskOptions,
    TaskResult,
)
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE
from awaken.ext.tasks.task import (
    AgentTaskContext,
    TaskBody,
    current_background_task_context,
    current_background_task_id,
)

pytestmark = pytest.mark.anyio


# -- ids and records --------------------------------------------------------------------------


async def test_ids_are_sequential() -> None:
    """03/MH-1: ids are sequential, from `bg_0`, over the threads of one store."""
    bench = Bench()

    ids = [await bench.spawn(giving()) for _ in range(3)]
    other = await bench.spawn(giving(), thread="thread-2")

    assert [*ids, other] == ["bg_0", "bg_1", "bg_2", "bg_3"]


async def test_each_task_has_a_name_no_other_task_has_anywhere() -> None:
    """03/DB-1: a globally unique id, with `bg_n` as alias."""
    one, two = Bench(), Bench()
    two.handles.ids.new()

    first, second = await one.spawn(giving()), await two.spawn(giving())

    assert first == second == "bg_0"
    assert one.record(first).uid != two.record(second).uid


async def test_a_reserved_id_is_used_later_and_by_nobody_else() -> None:
    """03 §1.1: an id can be reserved before spawning."""
    bench = Bench()

    reserved = bench.reserve_task_id("thread-1")
    other = await bench.spawn(giving())
    task_id = await bench.spawn(giving(), options=TaskOptions(task_id=reserved))

    assert (reserved, other, task_id) == ("bg_0", "bg_1", "bg_0")
    with pytest.raises(BackgroundTaskError) as caught:
        await bench.spawn(giving(), options=TaskOptions(task_id=reserved))
    assert str(caught.value) == "task 'bg_0' has been started already"


async def test_the_record_is_kept_in_the_state_as_the_spec_writes_it() -> None:
    """03 §1.1: names of the record, absent fields left out."""
    bench = Bench()
    started = bench.clock.now_ms()
    gate = Gate(TaskResult.success({"n": 1}))
    parent = TaskParentContext(run_id="run-1", call_id="call-1")

    task_id = await bench.spawn(gate, name="leaf", parent=parent)
    running = to_json(bench.store.export_persisted())["extensions"]["background_task_state"]
    bench.clock.advance(2)
    gate.open.set()
    await bench.ended(task_id)

    record = {
        "task_id": "bg_0",
        "owner_thread_id": "thread-1",
        "task_type": "work",
        "name": "leaf",
        "description": "some work",
        "status": "running",
        "created_at_ms": started,
        "parent_context": {"run_id": "run-1", "call_id": "call-1"},
        "uid": bench.record(task_id).uid,
    }
    assert running == {"tasks": {"bg_0": record}}
    assert to_json(bench.record(task_id)) == {
        **record,
        "status": "completed",
        "result": {"n": 1},
        "completed_at_ms": started + 2000,
    }
    state = bench.store.export_thread_scoped().extensions["background_task_state"]
    assert BACKGROUND_TASK_STATE.load(state) == bench.store.read(BACKGROUND_TASK_STATE)


async def test_a_summary_leaves_out_the_owner_the_name_and_an_empty_parent() -> None:
    """03 §1.1: summary returned by list and get."""
    bench = Bench()

    bare = await bench.spawn(giving("x"), name="one")
    held = await bench.spawn(giving("y"), parent=TaskParentContext(run_id="run-1"))
    await bench.ended(bare, held)

    first, second = (to_json(summary) for summary in bench.list("thread-1"))
    assert first.keys() == {
        "task_id",
        "task_type",
        "description",
        "status",
        "result",
        "created_at_ms",
        "completed_at_ms",
        "uid",
    }
    assert second["parent_context"] == {"run_id": "run-1"}
    assert bench.list("thread-2") == []
    assert bench.get("bg_9") is None


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["parent", "self", "all", "broadcast"])
async def test_reserved_names_are_refused(name: str) -> None:
    """03 §1.2: step 2."""
    bench = Bench()

    with pytest.raises(BackgroundTaskError) as caught:
        await bench.spawn(giving(), name=name)

    assert str(caught.value) == f"'{name}' is a reserved name"
    assert bench.list("thread-1") == []


async def test_a_name_is_taken_while_its_task_runs() -> None:
    """03/MH-1: the same name is allowed after completion and on other threads."""
    bench = Bench()
    first = await bench.spawn(name="scout")

    with pytest.raises(BackgroundTaskError) as caught:
        await bench.spawn(giving(), name="scout")
    assert str(caught.value) == "a running task named 'scout' already exists"
    assert await bench.spawn(giving(), name="scout", thread="thread-2") == "bg_1"

    bench.cancel(first)
    await bench.ended(first)
    assert await bench.spawn(giving(), name="scout") == "bg_2"


# -- what is needed ---------------------------------------------------------------------------


async def test_spawning_without_a_store_fails() -> None:
    """03/MH-1: nothing starts."""
    started: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        started.append(ctx.task_id)
        return TaskResult.success()

    with pytest.raises(BackgroundTaskError) as caught:
        await BackgroundTaskManager().spawn("thread-1", "work", None, "x", NO_PARENT, body)

    assert str(caught.value) == "background task state store is not configured"
    await asyncio.sleep(0)
    assert started == []


async def test_spawning_without_registered_keys_fails() -> None:
    """03/MH-1: the state's own error, nothing starts, and the name is free again."""
    bench = Bench()
    bench.manager.set_store(StateStore())

    with pytest.raises(UnknownKey, match="background_task_state"):
        await bench.spawn(giving(), name="scout")

    assert bench.handles.live == {}
    bench.manager.set_store(background_store())
    assert await bench.spawn(giving(), name="scout") == "bg_1"


# -- where a task comes from ------------------------------------------------------------------


async def test_an_explicit_parent_is_preserved() -> None:
    """03/MH-1: explicit values always win, over a call and over a task around."""
    bench = Bench()
    explicit = TaskParentContext(task_id="t", run_id="r", call_id="c", agent_id="a")
    nested: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        nested.append(await bench.spawn(giving(), parent=explicit))
        return TaskResult.success()

    mark = CURRENT_CALL.set(call_context())
    try:
        outer = await bench.spawn(body, parent=explicit)
    finally:
        CURRENT_CALL.reset(mark)
    await bench.ended(outer)

    assert bench.record(outer).parent_context == explicit
    assert bench.record(nested[0]).parent_context == explicit


async def test_a_default_parent_inherits_the_tool_call() -> None:
    """03/MH-1: default context inherits tool lineage; blank call and agent ids stay absent."""
    bench = Bench()
    mark = CURRENT_CALL.set(call_context())
    try:
        full = await bench.spawn(giving())
        CURRENT_CALL.set(call_context(call_id="", agent_id=""))
        blank = await bench.spawn(giving(), parent=TaskParentContext(call_id="mine"))
    finally:
        CURRENT_CALL.reset(mark)

    assert bench.record(full).parent_context == TaskParentContext(
        run_id="run-1", call_id="call-1", agent_id="agent-1"
    )
    assert bench.record(blank).parent_context == TaskParentContext(run_id="run-1", call_id="mine")


async def test_a_nested_spawn_inherits_the_parent_task() -> None:
    """03/MH-1: and its run id; the call that started the parent is none of the child's."""
    bench = Bench()
    nested: list[str] = []
    seen: list[object] = []

    async def body(ctx: TaskContext) -> TaskResult:
        seen.extend([CURRENT_CALL.get(), current_background_task_id()])
        nested.append(await bench.spawn(giving()))
        return TaskResult.success()

    mark = CURRENT_CALL.set(call_context())
    try:
        outer = await bench.spawn(body)
    finally:
        CURRENT_CALL.reset(mark)
    await bench.ended(outer)

    assert seen == [None, outer]
    child = bench.record(nested[0])
    assert child.parent_context == TaskParentContext(task_id=outer, run_id="run-1")
    assert child.parent_uid == bench.record(outer).uid
    assert current_background_task_context() is None


async def test_a_task_a_tool_starts_inside_a_task_belongs_to_both() -> None:
    """03 §1.2: step 1, the task first, then the call for what is missing."""
    bench = Bench()
    nested: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        CURRENT_CALL.set(call_context(run_id="sub-run", call_id="sub-call", agent_id="sub"))
        nested.append(await bench.spawn(giving()))
        return TaskResult.success()

    outer = await bench.spawn(body, parent=TaskParentContext(run_id="run-1"))
    await bench.ended(outer)

    assert bench.record(nested[0]).parent_context == TaskParentContext(
        task_id=outer, run_id="run-1", call_id="sub-call", agent_id="sub"
    )


# -- how a task ends --------------------------------------------------------------------------


async def test_the_terminal_event_carries_the_result_or_the_error() -> None:
    """03/MH-1: completed, failed and cancelled, as the inbox carries them."""
    bench = Bench()

    done = await bench.spawn(giving([1, 2]))
    await bench.ended(done)
    nothing = await bench.spawn(giving(None))
    await bench.ended(nothing)
    failed = await bench.spawn(_failing)
    await bench.ended(failed)
    stopped = await bench.spawn()
    bench.cancel(stopped)
    await bench.ended(stopped)

    assert bench.events() == [
        {"kind": "completed", "task_id": "bg_0", "result": [1, 2]},
        {"kind": "completed", "task_id": "bg_1", "result": None},
        {"kind": "failed", "task_id": "bg_2", "error": "no luck"},
        {"kind": "cancelled", "task_id": "bg_3"},
    ]
    assert [bench.status(f"bg_{n}") for n in range(4)] == [
        "completed",
        "completed",
        "failed",
        "cancelled",
    ]


async def _failing(_: TaskContext) -> TaskResult:
    return TaskResult.failed("no luck")


class Strange(BaseException):
    """Nothing anybody expects."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (Strange("odd"), "Strange: odd"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
async def test_whatever_a_body_raises_is_a_failure(error: BaseException, text: str) -> None:
    """03/DB-2: recorded as failed with the exception, and told; nothing stays running."""
    bench = Bench()

    task_id = await bench.spawn(raising(error))
    await bench.ended(task_id)

    assert (bench.status(task_id), bench.record(task_id).error) == ("failed", text)
    assert bench.events() == [{"kind": "failed", "task_id": task_id, "error": text}]
    assert bench.handles.live == {}


async def test_a_body_that_cannot_even_be_called_has_failed() -> None:
    """03/DB-2: before its first await, too."""
    bench = Bench()

    def body(_: TaskContext) -> Json:
        raise RuntimeError("not async at all")

    task_id = await bench.spawn(body)
    await bench.ended(task_id)

    assert bench.record(task_id).error == "RuntimeError: not async at all"


async def test_a_result_nobody_can_write_down_is_a_failure() -> None:
    """03/DB-2: told to the owner, where a state that cannot be committed would end the run."""
    bench = Bench()

    strange = await bench.spawn(giving(object()))
    no_result = await bench.spawn(_returning_text)
    wrong: Any = 7
    no_error = await bench.spawn(_returning(TaskResult(status=TaskStatus.FAILED, error=wrong)))
    no_status = await bench.spawn(_returning(TaskResult(status=wrong)))
    await bench.ended(strange, no_result, no_error, no_status)

    error = bench.record(strange).error
    assert error is not None
    assert error.startswith("the result is not JSON: TypeError: object cannot be written")
    assert bench.record(no_result).error == "the body returned a str instead of a TaskResult"
    told = "the body's TaskResult has the status {} and the error {}: "
    for task_id, status, why in (
        (no_error, TaskStatus.FAILED, "7"),
        (no_status, 7, "None"),
    ):
        failed = bench.record(task_id)
        assert failed.status is TaskStatus.FAILED
        assert (failed.error or "").startswith(told.format(repr(status), why))
    bench.store.export_persisted()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"task_type": 7}, "task_type is a text, not 7"),
        ({"name": 7}, "name is a text or None, not 7"),
        ({"description": 7}, "description is a text, not 7"),
    ],
)
async def test_a_task_with_an_argument_of_a_wrong_type_is_not_started(
    wrong: dict[str, Any], told: str
) -> None:
    """Its record would stay in the state of its thread."""
    bench = Bench()
    named: dict[str, Any] = {"task_type": "work", "name": None, "description": "some work"} | wrong
    with pytest.raises(ConfigError, match=told):
        await bench.manager.spawn("thread-1", parent=NO_PARENT, body=until_cancelled, **named)
    assert not bench.manager.list("thread-1")


def _returning(result: TaskResult) -> TaskBody:
    async def body(_: TaskContext) -> TaskResult:
        return result

    return body


async def _returning_text(_: TaskContext) -> Json:
    return "just text"


async def test_a_body_that_is_interrupted_by_its_token_is_cancelled() -> None:
    """03 §1.3: the usual way to notice."""
    bench = Bench()

    async def body(ctx: TaskContext) -> TaskResult:
        with interruptible(ctx.cancel_token):
            await asyncio.Event().wait()
        return TaskResult.success()

    task_id = await bench.spawn(body)
    await asyncio.sleep(0)
    assert bench.cancel(task_id)
    await bench.ended(task_id)

    assert bench.status(task_id) == "cancelled"


async def test_ending_what_has_not_begun_needs_no_body() -> None:
    """03 §1.2: step 6, a task cancelled before its body began never begins."""
    bench = Bench()
    started: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        started.append(ctx.task_id)
        return TaskResult.success()

    task_id = await bench.spawn(body)
    assert bench.cancel(task_id)
    await bench.ended(task_id)

    assert started == []
    assert bench.status(task_id) == "cancelled"


async def test_a_terminal_commit_that_fails_is_made_again() -> None:
    """03/DB-2: counted by operation, and tried until it is there."""
    bench = Bench()
    gate = Gate()
    task_id = await bench.spawn(gate)
    bench.manager.set_store(StateStore())

    gate.open.set()
    await bench.clock.until_sleeping(1)
    assert bench.handles.commit_failures == {"task_completion": 1}
    assert len(bench.inbox) == 0, "what is not kept is not told"
    bench.manager.set_store(bench.store)
    bench.clock.advance(60)
    await bench.ended(task_id)

    assert bench.status(task_id) == "completed"
    assert bench.record(task_id).status is TaskStatus.COMPLETED
    assert len(bench.inbox) == 1


async def test_an_end_that_can_never_be_committed_is_told_all_the_same() -> None:
    """03/DB-2: given up after some attempts, named after what it is."""
    bench = Bench()
    gate = Gate()
    bench.clock.auto = True

    async def body(ctx: AgentTaskContext) -> TaskResult:
        return await gate(ctx)

    task_id = await bench.spawn_agent_with_context("thread-1", None, "x", NO_PARENT, body)
    bench.manager.set_store(StateStore())
    gate.open.set()
    async with asyncio.timeout(100):
        assert (await receive(bench.inbox))["kind"] == "completed"

    assert bench.handles.commit_failures == {"sub_agent_completion": 5}
    assert bench.handles.ended.get(bench.handles.ended.values()[0].record.uid) is not None
    assert task_id == "bg_0"


# -- telling ----------------------------------------------------------------------------------


async def test_emit_is_false_without_an_inbox() -> None:
    """03/MH-1."""
    bench = Bench()
    bench.manager.set_owner_inbox(None)
    answers: list[bool] = []

    async def body(ctx: TaskContext) -> TaskResult:
        answers.append(await ctx.emit("note", {}))
        return TaskResult.success()

    await bench.ended(await bench.spawn(body))

    assert answers == [False]


async def test_a_hundred_rapid_emits_lose_nothing_and_stay_in_order() -> None:
    """03/MH-1: and custom events do not change the result."""
    bench = Bench()

    async def body(ctx: TaskContext) -> TaskResult:
        for n in range(100):
            assert await ctx.emit("tick", {"n": n})
        return TaskResult.success("the result")

    task_id = await bench.spawn(body)
    await bench.ended(task_id)

    *ticks, last = bench.events()
    assert ticks == [
        {"kind": "custom", "task_id": task_id, "event_type": "tick", "payload": {"n": n}}
        for n in range(100)
    ]
    assert last == {"kind": "completed", "task_id": task_id, "result": "the result"}
    assert bench.record(task_id).result == "the result"


async def test_emitting_after_a_cancel_still_delivers() -> None:
    """03/MH-1."""
    bench = Bench()

    async def body(ctx: TaskContext) -> TaskResult:
        await ctx.cancelled()
        assert ctx.is_cancelled()
        assert await ctx.emit("last words", "bye")
        return TaskResult.cancelled()

    task_id = await bench.spawn(body)
    await asyncio.sleep(0)
    bench.cancel(task_id)
    await bench.ended(task_id)

    assert [event["kind"] for event in bench.events()] == ["custom", "cancelled"]


async def test_what_cannot_be_written_down_is_not_emitted() -> None:
    """Bad input: the body is told at once."""
    bench = Bench()

    async def body(ctx: TaskContext) -> TaskResult:
        with pytest.raises(TypeError, match="object cannot be written as JSON"):
            await ctx.emit("note", object())
        return TaskResult.success()

    task_id = await bench.spawn(body)
    await bench.ended(task_id)

    assert bench.status(task_id) == "completed"


async def test_the_closed_callback_fires_for_a_late_completion() -> None:
    """03/MH-1: with the event, once the receiver is gone."""
    told: list[Json] = []
    bench = Bench(on_closed=told.append)
    gate = Gate()
    task_id = await bench.spawn(gate)
    await gate.begun.wait()
    assert gate.ctx is not None

    bench.inbox.close()
    assert await gate.ctx.emit("late", 1) is False
    gate.open.set()
    await bench.ended(task_id)

    assert told == [
        {"kind": "custom", "task_id": task_id, "event_type": "late", "payload": 1},
        {"kind": "completed", "task_id": task_id, "result": "through"},
    ]


async def test_progress_is_seen_and_told_to_nobody() -> None:
    """Cheap: it is in the summary, never in the inbox, and never in the record."""
    bench = Bench()
    gate = Gate()
    task_id = await bench.spawn(gate)
    await gate.begun.wait()
    assert gate.ctx is not None

    gate.ctx.report("half way", 0.5)
    half = bench.get(task_id)
    gate.ctx.report(fraction=7)
    full = bench.get(task_id)

    assert half is not None
    assert full is not None
    assert to_json(half)["progress"] == {"message": "half way", "fraction": 0.5}
    assert to_json(full)["progress"] == {"fraction": 1.0}
    assert bench.events() == []
    gate.open.set()
    await bench.ended(task_id)
    assert "progress" not in to_json(bench.get(task_id))


async def test_an_internal_task_tells_nobody() -> None:
    """02/8.31: a task class of the runtime's own."""
    bench = Bench()

    task_id = await bench.spawn(giving("x"), options=TaskOptions(internal=True))
    await bench.ended(task_id)

    assert bench.status(task_id) == "completed"
    assert bench.events() == []


# -- agents -----------------------------------------------------------------------------------


async def test_an_agents_body_gets_its_token_and_its_inbox() -> None:
    """03 §1.2: `spawn_agent`, three positional arguments; the type is forced."""
    bench = Bench()

    async def body(
        token: CancellationToken, sender: InboxSender, receiver: InboxReceiver
    ) -> TaskResult:
        sender.send("to myself")
        return TaskResult.success([token.is_cancelled(), await receiver.recv()])

    task_id = await bench.spawn_agent("thread-1", "scout", "looks around", NO_PARENT, body)
    await bench.ended(task_id)

    assert bench.record(task_id).task_type == "sub_agent"
    assert bench.record(task_id).result == [False, "to myself"]


async def agent_gate(bench: Bench, gate: Gate, name: str = "scout") -> str:
    async def body(ctx: AgentTaskContext) -> TaskResult:
        first = await ctx.inbox_receiver.recv()
        await gate(ctx)
        return TaskResult.success(first)

    return await bench.spawn_agent_with_context(  # type: ignore[no-any-return]
        "thread-1", name, "looks around", NO_PARENT, body
    )


async def test_a_message_to_a_task_is_a_custom_event_for_it() -> None:
    """03 §2: type `agent_message`, payload `{from, content}`."""
    bench = Bench()
    gate = Gate()
    task_id = await agent_gate(bench, gate)

    bench.send_task_inbox_message(task_id, "thread-1", "boss", "hello")
    await gate.begun.wait()
    gate.open.set()
    await bench.ended(task_id)

    assert bench.record(task_id).result == {
        "kind": "custom",
        "task_id": task_id,
        "event_type": "agent_message",
        "payload": {"from": "boss", "content": "hello"},
    }


async def test_a_task_that_cannot_be_written_to_says_why() -> None:
    """03/MH-2: wrong owner, completed, unknown, inbox-less: each rejected with its own error."""
    bench = Bench()
    gate = Gate()
    scout = await agent_gate(bench, gate)
    plain = await bench.spawn()
    done = await bench.spawn(giving())
    await bench.ended(done)

    def refusal(task_id: str, thread: str = "thread-1") -> str:
        with pytest.raises(TaskMessageError) as caught:
            bench.send_task_inbox_message(task_id, thread, "boss", "hello")
        return str(caught.value)

    assert refusal("bg_9") == "task not found"
    assert refusal(scout, "thread-2") == "caller does not own this task"
    assert refusal(done) == "task already completed"
    assert refusal(plain) == "task has no inbox"
    receiver = bench.handles.of_thread("thread-1")[0].inbox_receiver
    assert receiver is not None
    receiver.close()
    assert refusal(scout) == "sub-agent inbox closed"


# -- waiting ----------------------------------------------------------------------------------


async def test_waiting_for_all_and_for_any() -> None:
    """03/DB-4: `wait(ids, any|all, timeout)`."""
    bench = Bench()
    gates = [Gate(), Gate()]
    ids = [await bench.spawn(gate) for gate in gates]

    async with asyncio.timeout(100):
        gates[1].open.set()
        first = await bench.wait(ids, "any")
        at_once = await bench.wait(ids, "any")
        gates[0].open.set()
        both = await bench.wait(ids)

    assert [s.status.value for s in first] == ["running", "completed"]
    assert at_once == first
    assert [s.status.value for s in both] == ["completed", "completed"]


async def test_waiting_ends_with_the_time_it_was_given() -> None:
    """03/DB-4: and the tasks go on."""
    bench = Bench()
    task_id = await bench.spawn(until_cancelled)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        waiting = group.create_task(bench.wait([task_id], timeout=3))
        await bench.clock.until_sleeping(1)
        bench.clock.advance(3)

    assert [s.status.value for s in waiting.result()] == ["running"]
    with pytest.raises(BackgroundTaskError, match="task 'bg_9' not found"):
        await bench.wait(["bg_9"])
