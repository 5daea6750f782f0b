"""Bringing messages where they belong: at step ends, later, or never (03 §2, 03/DB-5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from background_kit import (
    NO_PARENT,
    Gate,
    MemoryJournal,
    background_store,
    receive,
    settle,
)
from background_stage import ThreadStage
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Agent, Runtime
from awaken.codec import Json
from awaken.core.identity import RunIdentity
from awaken.core.inbox import InboxReceiver, inbox_channel
from awaken.core.lifecycle import Phase
from awaken.core.spec import AgentSpec
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.task import (
    AMBIENT_MESSAGE_SINK,
    DurableMessageRequest,
    PersistedTaskMeta,
)
from awaken.engine.phases import PhaseRuntime
from awaken.errors import StoreUnavailable
from awaken.ext.tasks import BackgroundTaskPlugin, TaskResult
from awaken.ext.tasks.state import (
    FAILED_MESSAGES,
    OUTBOX,
    ClearFailedMessages,
    DurableRoute,
    Enqueue,
    LiveInboxRoute,
    OutboxEntry,
)
from awaken.ext.tasks.task import AgentTaskContext
from awaken.plugin.context import PhaseContext
from awaken.plugin.env import ExecutionEnv
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, ScriptedModel, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio


class Sink:
    """Takes what it is given, after so many failures."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.tried: list[str] = []
        self.taken: list[DurableMessageRequest] = []

    async def deliver(self, request: DurableMessageRequest) -> None:
        self.tried.append(request.message_id)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("nobody answers")
        self.taken.append(request)


class Post:
    """A plugin in the phases of one run, without the run."""

    def __init__(
        self,
        sink: Sink | None = None,
        *,
        plugin: BackgroundTaskPlugin | None = None,
        store: StateStore | None = None,
    ) -> None:
        self.clock = FakeClock()
        plugin = plugin or BackgroundTaskPlugin(sink=sink, clock=self.clock)
        self.template = plugin
        self.env = ExecutionEnv.from_plugins([plugin])
        self.plugin: Any = self.env.plugins[0]
        self.store = store or background_store()
        sender, self.inbox = inbox_channel()
        self.env.bind(self.store, sender)
        self.phases = PhaseRuntime(self.store)

    async def phase(self, phase: Phase) -> None:
        ctx = PhaseContext(
            phase=phase,
            snapshot=self.store.snapshot(),
            agent_spec=AgentSpec(id="a", model_id="m", system_prompt=""),
            run_identity=RunIdentity(thread_id="thread-1", run_id="run-1", agent_id="a"),
        )
        if self.env.is_busy(phase, self.store.snapshot()):
            await self.phases.run_phase(self.env, ctx)

    async def step_end(self) -> None:
        await self.phase(Phase.STEP_END)

    def write(self, id: str = "m1", attempts: int = 0) -> None:
        request = DurableMessageRequest(
            message_id=id, recipient_thread_id="other", sender_agent_id="a", message="hello"
        )
        entry = OutboxEntry(id=id, route=DurableRoute(request=request), attempts=attempts)
        self.store.update(OUTBOX, Enqueue(entry=entry))

    def write_to_task(self, task_id: str) -> None:
        route = LiveInboxRoute(
            task_id=task_id, owner_thread_id="thread-1", sender_agent_id="a", message="hello"
        )
        self.store.update(OUTBOX, Enqueue(entry=OutboxEntry(id=f"to-{task_id}", route=route)))

    @property
    def pending(self) -> list[tuple[str, int]]:
        outbox = self.store.read(OUTBOX)
        return [(entry.id, entry.attempts) for entry in (outbox.pending if outbox else ())]

    @property
    def dead(self) -> list[tuple[str, str]]:
        letters = self.store.read(FAILED_MESSAGES)
        messages = letters.messages if letters else ()
        return [(letter.request.message_id, letter.error) for letter in messages]

    async def scout(self, gate: Gate) -> tuple[str, InboxReceiver]:
        inboxes: list[InboxReceiver] = []

        async def body(ctx: AgentTaskContext) -> TaskResult:
            inboxes.append(ctx.inbox_receiver)
            return await gate(ctx)

        task_id = await self.plugin.manager.spawn_agent_with_context(
            "thread-1", "scout", "looks around", NO_PARENT, body
        )
        await gate.begun.wait()
        return task_id, inboxes[0]


# -- at the end of a step ---------------------------------------------------------------------


async def test_a_message_is_sent_at_the_end_of_its_step_and_not_before() -> None:
    """03 §2: nothing is sent outside a commit; what was taken is removed."""
    post = Post(sink := Sink())
    post.write()
    assert sink.taken == []

    await post.step_end()
    await post.step_end()

    assert [request.message_id for request in sink.taken] == ["m1"]
    assert (post.pending, post.dead) == ([], [])


async def test_a_message_is_tried_again_and_given_up_after_five_attempts() -> None:
    """03/MH-2: retry then dead-letter after 5, with the sink's error."""
    post = Post(sink := Sink(failures=99))
    post.write()

    for attempt in range(1, 5):
        await post.step_end()
        assert post.pending == [("m1", attempt)]
    await post.step_end()

    assert post.pending == []
    assert post.dead == [("m1", "nobody answers")]
    assert sink.tried == ["m1"] * 5, "redelivery keeps the id"
    await post.plugin.close()


async def test_a_message_that_works_the_second_time_is_not_dead() -> None:
    """03 §2: below 5, re-enqueued and retried at a later step end."""
    post = Post(sink := Sink(failures=1))
    post.write()

    await post.step_end()
    await post.step_end()

    assert (post.pending, post.dead) == ([], [])
    assert sink.tried == ["m1", "m1"]


async def test_without_a_sink_messages_die_while_children_are_written_to() -> None:
    """03/MH-2: no sink → dead-letter while child routes still work."""
    post, gate = Post(), Gate()
    task_id, inbox = await post.scout(gate)
    post.write()
    post.write_to_task(task_id)

    await post.step_end()

    assert post.pending == []
    assert post.dead == [("m1", "no durable transport configured")]
    assert (await receive(inbox))["payload"] == {"from": "a", "content": "hello"}
    gate.open.set()
    await post.plugin.close()


async def test_a_message_to_a_child_that_is_gone_is_dropped() -> None:
    """03 §2: any error is dropped, and the entry removed."""
    post = Post()
    post.write_to_task("bg_9")

    await post.step_end()

    assert (post.pending, post.dead) == ([], [])


async def test_what_a_journal_takes_over_is_not_put_into_the_inbox() -> None:
    """It is the journal's to bring, under the id of the message, whoever runs the task."""
    journal, gate = MemoryJournal(takes_over=True), Gate()
    post = Post(plugin=BackgroundTaskPlugin(journal=journal, clock=FakeClock()))
    task_id, inbox = await post.scout(gate)
    post.write_to_task(task_id)

    await post.step_end()

    assert post.pending == []
    assert len(inbox) == 0
    written = journal.written[f"to-{task_id}"]
    assert written["payload"] == {"from": "a", "content": "hello"}
    gate.open.set()
    await post.plugin.close()


async def test_a_message_to_a_child_that_cannot_be_kept_stays_on_its_way() -> None:
    """It was said to be queued: a store that fails is asked again, and no message is lost."""

    class Failing(MemoryJournal):
        async def write(self, task: PersistedTaskMeta, id: str, event: Json) -> bool:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("not now")
            return await super().write(task, id, event)

    journal, gate = Failing(takes_over=True), Gate()
    journal.failures = 1
    post = Post(plugin=BackgroundTaskPlugin(journal=journal, clock=FakeClock()))
    task_id, _ = await post.scout(gate)
    post.write_to_task(task_id)

    await post.step_end()
    assert post.pending == [(f"to-{task_id}", 1)]
    await post.step_end()

    assert post.pending == []
    assert list(journal.written) == [f"to-{task_id}"]
    gate.open.set()
    await post.plugin.close()


async def test_the_ambient_sink_is_used_when_none_is_explicit() -> None:
    """03/MH-2: bound by the host around its runs; an explicit one goes first."""
    ambient, explicit = Sink(), Sink()
    mark = AMBIENT_MESSAGE_SINK.set(ambient)
    try:
        for post in (Post(), Post(explicit)):
            post.write()
            await post.step_end()
    finally:
        AMBIENT_MESSAGE_SINK.reset(mark)

    assert len(ambient.taken) == len(explicit.taken) == 1


async def test_a_replayed_message_gets_its_chance() -> None:
    """03 §2: replay re-enqueues with attempts 0 and the same id; now there is a sink."""
    post = Post()
    post.write()
    await post.step_end()
    assert post.dead == [("m1", "no durable transport configured")]

    sink = Sink()
    post.write()
    mark = AMBIENT_MESSAGE_SINK.set(sink)
    try:
        await post.step_end()
    finally:
        AMBIENT_MESSAGE_SINK.reset(mark)

    assert [request.message_id for request in sink.taken] == ["m1"]


async def test_a_hook_that_is_asked_twice_sends_once() -> None:
    """A phase asks again when somebody outside it wrote the dead letters meanwhile."""

    class Meddling(Sink):
        async def deliver(self, request: DurableMessageRequest) -> None:
            self.tried.append(request.message_id)
            if request.message_id == "m2":
                post.store.update(FAILED_MESSAGES, ClearFailedMessages())
                raise ConnectionError("no")

    post, gate = Post(sink := Meddling()), Gate()
    task_id, inbox = await post.scout(gate)
    post.write()
    post.write_to_task(task_id)
    post.write("m2", attempts=4)

    await post.step_end()

    assert sink.tried == ["m1", "m2"]
    assert len(inbox) == 1
    assert (post.pending, post.dead) == ([], [("m2", "no")])
    gate.open.set()
    await post.plugin.close()


# -- between steps ----------------------------------------------------------------------------


async def test_a_failed_message_is_tried_again_after_a_while() -> None:
    """03/DB-5: timed retries with backoff, though no step ends."""
    post = Post(sink := Sink(failures=3))
    post.write()
    await post.step_end()

    for pause in (1, 2, 4):
        await post.clock.until_sleeping()
        post.clock.advance(pause)
        await settle()

    assert [pause for pause in post.clock.sleeps if pause < 30] == [1, 2, 4]
    assert len(sink.taken) == 1
    assert (post.pending, post.dead) == ([], [])


async def test_timed_retries_end_as_well() -> None:
    """03/DB-5: five attempts in all, then it is dead."""
    post = Post(sink := Sink(failures=99))
    post.write()
    await post.step_end()

    for pause in (1, 2, 4, 8):
        await post.clock.until_sleeping()
        post.clock.advance(pause)
        await settle()

    assert len(sink.tried) == 5
    assert post.dead == [("m1", "nobody answers")]
    assert post.pending == []
    assert post.clock.sleeping == 0


async def test_a_step_end_takes_a_retrys_place() -> None:
    """03/DB-5: both ways, never both at once."""
    post = Post(sink := Sink(failures=1))
    post.write()
    await post.step_end()
    await post.clock.until_sleeping()

    await post.step_end()
    post.clock.advance(100)
    await settle()

    assert sink.tried == ["m1", "m1"]
    assert post.clock.sleeping == 0


async def test_a_retry_that_is_under_way_is_left_alone_by_a_step_end() -> None:
    """03/DB-5: the same message is never on its way twice."""
    go_on, under_way = asyncio.Event(), asyncio.Event()

    class Slow(Sink):
        async def deliver(self, request: DurableMessageRequest) -> None:
            if self.tried:
                under_way.set()
                await go_on.wait()
            await super().deliver(request)

    post = Post(sink := Slow(failures=1))
    post.write()
    await post.step_end()
    await post.clock.until_sleeping()
    post.clock.advance(1)
    await under_way.wait()

    await post.step_end()
    go_on.set()
    await settle()

    assert sink.tried == ["m1", "m1"]
    assert post.pending == []


async def test_a_sink_that_never_answers_counts_as_a_failure() -> None:
    """A step's end does not wait for ever."""

    class Silent(Sink):
        async def deliver(self, request: DurableMessageRequest) -> None:
            await asyncio.Event().wait()

    post = Post(Silent())
    post.write()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(post.step_end())
        await post.clock.until_sleeping()
        post.clock.advance(30)

    assert post.pending == [("m1", 1)]
    await post.plugin.close()


async def test_a_message_delivered_after_its_run_is_not_sent_by_the_next() -> None:
    """03/DB-5: retries outlive the run; its outbox was kept with the message in it."""
    first = Post(sink := Sink(failures=1))
    first.write()
    await first.step_end()
    left = first.store.export_thread_scoped()
    await first.clock.until_sleeping()
    first.clock.advance(1)
    await settle()
    assert len(sink.taken) == 1

    store = background_store()
    store.apply_seed(left, UnknownKeyPolicy.SKIP)
    later = Post(plugin=first.template, store=store)
    assert later.pending == [("m1", 1)]
    await later.phase(Phase.RUN_START)

    assert len(sink.taken) == 1
    assert later.pending == []


async def test_what_a_run_left_in_its_outbox_is_sent_when_the_next_begins() -> None:
    """03 §2: at least once; a crash before the removing commit sends again, under the same id."""
    sink = Sink()
    store = background_store()
    Post(sink, store=store).write()

    await Post(sink, store=store).phase(Phase.RUN_START)
    again = background_store()
    Post(sink, store=again).write()
    await Post(sink, store=again).phase(Phase.RUN_START)

    assert sink.tried == ["m1", "m1"]


# -- the law ----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.lists(st.booleans(), max_size=30))
@settings(max_examples=60, deadline=None)
def test_every_message_arrives_once_or_is_a_dead_letter(
    failures: list[int], moves: list[bool]
) -> None:
    """03/DB-5, law: whatever fails how often, by steps or by time; never both, never neither."""
    asyncio.run(_deliver_all(failures, moves))


async def _deliver_all(failures: list[int], moves: list[bool]) -> None:
    left = {f"m{n}": count for n, count in enumerate(failures)}
    tried: dict[str, int] = dict.fromkeys(left, 0)
    taken: list[str] = []

    class Flaky(Sink):
        async def deliver(self, request: DurableMessageRequest) -> None:
            tried[request.message_id] += 1
            if left[request.message_id]:
                left[request.message_id] -= 1
                raise ConnectionError("not yet")
            taken.append(request.message_id)

    post = Post(Flaky())
    for id in left:
        post.write(id)
    for by_step in [*moves, *[True] * 5]:
        if by_step:
            await post.step_end()
        else:
            post.clock.advance(1000)
        await settle()

    expected_dead = {f"m{n}" for n, count in enumerate(failures) if count >= 5}
    assert {id for id, _ in post.dead} == expected_dead
    assert sorted(taken) == sorted(left.keys() - expected_dead)
    assert post.pending == []
    assert all(count <= 5 for count in tried.values())
    await post.plugin.close()


# -- in a run ---------------------------------------------------------------------------------


def allow(*_: object) -> None:
    return None


async def test_two_messages_of_one_step_are_both_sent() -> None:
    """03/DB-5: two parallel sends do not conflict; both are durable before they are sent."""
    sink = Sink()
    to = {"relation": "agent", "thread_id": "other"}
    model = ScriptedModel(
        [
            tool_calls_response(
                "",
                ("send_message", "c1", {"to": to, "message": "one"}),
                ("send_message", "c2", {"to": to, "message": "two"}),
            ),
            "sent",
        ]
    )
    plugin = BackgroundTaskPlugin(sink=sink, policy=allow)
    store = MemoryStore()
    async with Runtime([Agent("a", model=model, plugins=[plugin])], store=store) as runtime:
        result = await runtime.run("a", "hi", thread="t")

    assert result.response == "sent"
    assert [request.message for request in sink.taken] == ["one", "two"]
    assert {request.sender_agent_id for request in sink.taken} == {"a"}
    context = await store.load_context("t", tail=0)
    assert context is not None
    assert context.thread_state.extensions["background_message_outbox"] == {"pending": []}


async def test_a_message_without_transport_is_found_by_the_next_run() -> None:
    """03 §2: dead letters belong to the thread; the model can look at them."""
    to = {"relation": "agent", "thread_id": "other"}
    model = ScriptedModel(
        [
            tool_call_response("", "send_message", "c1", {"to": to, "message": "one"}),
            "sent",
            tool_call_response("", "recover_failed_messages", "c2", {}),
            "I see",
        ]
    )
    stage = ThreadStage(Agent("a", model=model, plugins=[BackgroundTaskPlugin(policy=allow)]))
    await stage.run()
    await stage.run("what is left?")

    told = model.requests[3].messages[-1].text()
    assert '"count":1' in told
    assert "no durable transport configured" in told
