"""Messages between agents, through the whole runtime: who may write and who reads (03 §2)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from delegation_kit import Place, Step, T, ended, to
from delegation_kit import told as answered
from task_kit import (
    Yard,
    boss,
    dig,
    over,
    sender_of,
    tasks_in,
    told,
    until_told,
    working,
)

from awaken import Agent, Message, Runtime
from awaken.core.identity import RunIdentity
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import MessageMetadata, Role
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Committed, NeverLost, ThreadCommit
from awaken.core.task import DurableMessageRequest
from awaken.ext.tasks import BackgroundTaskPlugin
from awaken.ids import UUID7
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

N = "neighbours"
"""The thread of the agent that is written to."""

SAID = "writer says hello"


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def write(text: str = "hello", **to: str) -> Step:
    """A step that writes to somebody."""
    return [("send_message", {"to": to, "message": text})]


TO_NEIGHBOUR = write(relation="agent", thread_id=N)
TO_PARENT = write(relation="parent")


def anybody(sender: RunIdentity, thread_id: str, agent_id: str | None) -> str | None:
    return None


def writer(*steps: Step, policy: Any = anybody, name: str = "writer", **more: Any) -> Agent:
    """An agent that may write to others."""
    plugin = BackgroundTaskPlugin(policy=policy)
    return Agent(name, model=working(name, *steps), plugins=[plugin], **more)


def neighbour(*steps: Step, **more: Any) -> Agent:
    return Agent("neighbour", model=working("neighbour", *steps), **more)


async def receipts(runtime: Runtime, thread: str = T) -> list[Any]:
    return [json.loads(text) for text in await answered(runtime, thread)]


# -- up and down ------------------------------------------------------------------------------


async def test_a_delegate_writes_to_the_agent_it_works_for(place: Place) -> None:
    """03 §2: `parent`; nobody has to allow it, and it is read at the parent's next step."""
    helper = writer(TO_PARENT, policy=None)
    main = Agent("boss", model=working("boss", [to("writer")]), delegates=["writer"])

    async with place.runtime([main, helper]) as runtime:
        result = await runtime.run("boss", "go", thread=T)
        log = await runtime.messages(T)

    assert result.response == f"boss: {SAID}"
    (message,) = [m for m in log if sender_of(m) is not None]
    assert (message.role, message.text(), sender_of(message)) == (Role.USER, "hello", "writer")


async def test_an_agent_in_the_background_writes_to_the_owner_of_its_task(place: Place) -> None:
    """Not to the task's own thread, which nobody reads: the owner is woken."""
    yard = Yard()
    helper = writer(TO_PARENT, [("blast", {"n": 1})], policy=None, tools=[yard.tool("blast")])

    async with place.runtime([boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        run = await until_told(runtime, 1)
        assert (run.status, run.final_output) == (RunStatus.WAITING, f"boss: {SAID}")
        yard.let_go(1)
        run = await over(runtime)

    assert run.final_output == f"boss: {SAID}; bg_0 completed writer: "


async def test_who_has_no_parent_is_told_so(place: Place) -> None:
    async with place.runtime([writer(TO_PARENT)]) as runtime:
        await runtime.run("writer", "go", thread=T)
        assert await receipts(runtime) == [
            {"message_id": "", "status": "failed", "error": "recipient_unavailable"}
        ]


# -- who may ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "refusal"),
    [
        (None, {"error": "not_authorized"}),
        (lambda *_: "not that one", {"error": "not_authorized", "reason": "not that one"}),
    ],
)
async def test_who_may_not_write_is_told_so_and_nothing_is_sent(
    place: Place, policy: Any, refusal: Any
) -> None:
    """03/DB-5: without a policy nobody writes to threads that are not his."""
    async with place.runtime([writer(TO_NEIGHBOUR, policy=policy), neighbour()]) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        result = await runtime.run("writer", "go", thread=T)
        (receipt,) = await receipts(runtime)
        assert not await runtime.store.load_commands(N)
        assert await told(runtime, N) == []

    assert result.termination == NATURAL_END
    assert receipt == {"message_id": "", "status": "failed", **refusal}


async def test_a_policy_sees_who_writes_to_whom(place: Place) -> None:
    asked: list[tuple[str, str, str | None]] = []

    async def policy(sender: RunIdentity, thread_id: str, agent_id: str | None) -> str | None:
        asked.append((sender.agent_id, thread_id, agent_id))
        return None

    step = write(relation="agent", thread_id=N, agent_id="neighbour")
    async with place.runtime([writer(step, policy=policy), neighbour()]) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        await runtime.run("writer", "go", thread=T)
        await until_told(runtime, 1, N)

    assert asked == [("writer", N, "neighbour")]


# -- who reads --------------------------------------------------------------------------------


async def test_a_live_run_reads_it_at_its_next_step(place: Place) -> None:
    yard = Yard()
    busy = neighbour([("blast", {"n": 1})], tools=[yard.tool("blast")])

    async with (
        place.runtime([writer(TO_NEIGHBOUR), busy]) as runtime,
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(runtime.run("neighbour", "hi", thread=N))
        await yard.until_begun()
        await runtime.run("writer", "go", thread=T)
        yard.let_go(1)
        result = await running
        assert await told(runtime, N) == [SAID]

    assert result.response == f"neighbour: {SAID}"


async def test_a_run_that_waits_for_its_tasks_is_woken(place: Place) -> None:
    yard = Yard()
    busy = yard.agent("neighbour", dig(1), background=["dig"])

    async with place.runtime([writer(TO_NEIGHBOUR), busy]) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        await runtime.run("writer", "go", thread=T)
        run = await until_told(runtime, 1, N)
        assert (run.status, run.final_output) == (RunStatus.WAITING, f"neighbour: {SAID}")
        yard.let_go(1)
        run = await over(runtime, N)

    assert run.final_output == f"neighbour: {SAID}; bg_0 completed dug 1"


async def test_a_run_that_waits_for_an_answer_reads_it_with_the_answer(place: Place) -> None:
    """A message is no answer: the call still waits, and is not given up for it."""
    yard = Yard()
    busy = yard.agent("neighbour", [("pay", {"n": 5})])

    async with place.runtime([writer(TO_NEIGHBOUR), busy]) as runtime:
        asked = await runtime.run("neighbour", "hi", thread=N)
        await runtime.run("writer", "go", thread=T)
        assert [c.messages[0].text() for c in await runtime.store.load_commands(N)] == ["hello"]
        await runtime.run(thread=N, answers={asked.tickets[0]: True})
        run = await over(runtime, N)

    assert yard.done == ["paid 5"]
    assert run.final_output == f"neighbour: {SAID}"


@pytest.mark.parametrize("named", [False, True])
async def test_a_thread_in_which_nothing_goes_on_gets_a_run_that_reads_it(
    place: Place, named: bool
) -> None:
    """By the agent that spoke there last, or the one that is named."""
    whom = {"agent_id": "expert"} if named else {}
    step = write(relation="agent", thread_id=N, **whom)
    expert = Agent("expert", model=working("expert"))

    async with place.runtime([writer(step), neighbour(), expert]) as runtime:
        first = await runtime.run("neighbour", "hi", thread=N)
        await runtime.run("writer", "go", thread=T)
        run = await until_told(runtime, 1, N)
        await ended(runtime, run.run_id)

    assert run.run_id != first.run_id
    name = "expert" if named else "neighbour"
    assert (run.agent_id, run.final_output) == (name, f"{name}: {SAID}")


async def test_two_messages_of_one_step_both_arrive_in_their_order(place: Place) -> None:
    """03/DB-5: two parallel sends do not collide."""
    twice = [*TO_NEIGHBOUR, *write("and good bye", relation="agent", thread_id=N)]

    async with place.runtime([writer(twice), neighbour()]) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        await runtime.run("writer", "go", thread=T)
        first, second = await receipts(runtime)
        await until_told(runtime, 2, N)
        log = await runtime.messages(N)
        assert await told(runtime, N) == [SAID, "writer says and good bye"]

    ids = [message.id or "" for message in log if sender_of(message) is not None]
    assert ids == [first["message_id"], second["message_id"]]
    assert ids == sorted(ids)


async def test_a_run_that_is_woken_from_within_a_task_is_no_part_of_it(place: Place) -> None:
    """It can stop itself; the task of whoever wrote goes on."""
    yard = Yard()

    def answer(request: InferenceRequest) -> StreamResult:
        if sender_of(request.messages[-1]) is None:
            return text_response("at home")
        return tool_call_response("", "cancel_task", "c", {"target": {"relation": "self"}})

    plugin = BackgroundTaskPlugin()
    touchy = Agent("neighbour", model=FunctionModel(answer), plugins=[plugin])
    helper = writer(TO_NEIGHBOUR, [("blast", {"n": 1})], tools=[yard.tool("blast")])

    async with place.runtime([boss(helper), helper, touchy]) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        woken = await until_told(runtime, 1, N)
        assert (await ended(runtime, woken.run_id)).termination_reason == CANCELLED
        (task,) = await tasks_in(runtime)
        assert task.status is RunStatus.RUNNING
        yard.let_go(1)
        run = await over(runtime)

    assert woken.parent_run_id is None
    assert run.final_output == "boss: bg_0 completed writer: "


async def test_a_message_to_a_run_that_just_ends_wakes_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reads no more, and still has the thread: another run reads what came."""
    monkeypatch.setattr(NeverLost, "poll_interval", 3600)
    store = Ending()
    runtime = Runtime([neighbour()], store=store)
    request = DurableMessageRequest(
        message_id=UUID7.new(), recipient_thread_id=N, sender_agent_id="writer", message="hello"
    )

    async def write_now() -> None:
        await runtime.engine.messages.deliver(request)

    async with runtime:
        await runtime.run("neighbour", "hi", thread=N)
        store.ends = write_now
        await runtime.run("neighbour", "hi again", thread=N)
        run = await until_told(runtime, 1, N)
        await ended(runtime, run.run_id)
        assert await told(runtime, N) == [SAID]

    assert run.final_output == f"neighbour: {SAID}"


class Ending(MemoryStore):
    """A store in which something happens while a run is about to end."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: Callable[[], Awaitable[None]] | None = None

    async def commit(self, commit: ThreadCommit) -> Committed:
        run = commit.run
        if self.ends is not None and run is not None and run.status is RunStatus.DONE:
            happens, self.ends = self.ends, None
            await happens()
        return await super().commit(commit)


@pytest.mark.parametrize("has_agent", [True, False])
async def test_what_was_kept_before_a_crash_is_read_after_it(place: Place, has_agent: bool) -> None:
    """Whoever took the message died before it could wake anybody; who has the agent does so."""
    async with place.runtime([neighbour()]) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        message = msgspec.structs.replace(
            Message.user("hello", id=UUID7.new()),
            metadata=MessageMetadata(sender_agent_id="writer"),
        )
    async with place.runtime([], recover=False) as desk:
        command = ThreadCommand(thread_id=N, kind=CommandKind.MESSAGES, messages=(message,))
        await desk.store.send(command)
    agents = [neighbour()] if has_agent else [writer()]
    async with place.runtime(agents) as runtime:
        if has_agent:
            run = await until_told(runtime, 1, N)
            assert (await ended(runtime, run.run_id)).final_output == f"neighbour: {SAID}"
        else:
            await runtime.recover()
            assert len(await runtime.store.load_commands(N)) == 1


# -- nobody there -----------------------------------------------------------------------------


def letters(action: str) -> Step:
    return [("recover_failed_messages", {"action": action})]


async def test_a_message_to_nobody_becomes_a_dead_letter_and_can_be_sent_again(
    place: Place,
) -> None:
    """03/MH-2: after five attempts; replayed, it keeps its id, and arrives once."""
    yard = Yard()
    note: Step = [("note", {"what": "it"})]
    plan = [TO_NEIGHBOUR, note, note, note, note, letters("list")]
    again = [*plan, letters("replay"), letters("list")]
    tools = [yard.tool("note")]

    async with place.runtime([writer(*plan, tools=tools), neighbour()]) as runtime:
        await runtime.run("writer", "go", thread=T)
        sent, *_, listed = await answered(runtime)
        await runtime.run("neighbour", "hi", thread=N)
        assert await told(runtime, N) == []
        runtime.replace([writer(*again, tools=tools), neighbour()])
        await runtime.run("writer", "go on", thread=T)
        *_, replayed, left = await receipts_of_letters(runtime)
        await until_told(runtime, 1, N)
        (message,) = [m for m in await runtime.messages(N) if sender_of(m) is not None]

    id = json.loads(sent)["message_id"]
    (letter,) = json.loads(listed)["messages"]
    assert (letter["message_id"], letter["recipient_thread_id"]) == (id, N)
    assert f"thread {N!r} does not exist" in letter["error"]
    assert (replayed, left["count"]) == ({"action": "replay", "count": 1}, 0)
    assert message.id == id


async def receipts_of_letters(runtime: Runtime) -> list[Any]:
    """What the last two calls were answered."""
    return [json.loads(text) for text in (await answered(runtime))[-2:]]


async def test_a_message_is_tried_again_after_the_run_that_wrote_it(place: Place) -> None:
    """03/DB-5: timed retries; the next run knows that it was delivered, and does not send it."""
    clock = FakeClock()
    plugin = BackgroundTaskPlugin(policy=anybody, clock=clock)
    agent = Agent("writer", model=working("writer", TO_NEIGHBOUR), plugins=[plugin])

    async with place.runtime([agent, neighbour()], clock=clock) as runtime:
        await runtime.run("writer", "go", thread=T)
        await runtime.run("neighbour", "hi", thread=N)
        async with asyncio.timeout(100):
            await clock.until_sleeping()
        clock.advance(2)
        await until_told(runtime, 1, N)
        await over(runtime, N)
        await runtime.run("writer", "and?", thread=T)
        assert await told(runtime, N) == [SAID]
        assert not await runtime.store.load_commands(N)


# -- once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [False, True])
async def test_a_message_that_comes_twice_is_read_once(place: Place, read: bool) -> None:
    """A crash before the sender's commit sends it again, under the same id."""
    request = DurableMessageRequest(
        message_id=UUID7.new(), recipient_thread_id=N, sender_agent_id="writer", message="hello"
    )
    async with place.runtime([neighbour()], recover=False) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        await runtime.engine.messages.deliver(request)
        if read:
            run = await until_told(runtime, 1, N)
            await ended(runtime, run.run_id)
        await runtime.engine.messages.deliver(request)
        run = await until_told(runtime, 1, N)
        await ended(runtime, run.run_id)
        await runtime.run("neighbour", "hi", thread=N, when_busy="queue")
        assert await told(runtime, N) == [SAID]


async def test_a_message_that_comes_again_much_later_is_recognised(place: Place) -> None:
    """However much was said since, and by whom."""
    request = DurableMessageRequest(
        message_id=UUID7.new(), recipient_thread_id=N, sender_agent_id="writer", message="hello"
    )
    async with place.runtime([neighbour()], recover=False) as runtime:
        await runtime.run("neighbour", "hi", thread=N)
        await runtime.engine.messages.deliver(request)
        run = await until_told(runtime, 1, N)
        await ended(runtime, run.run_id)
        much = [Message.user("more", id=UUID7.new()) for _ in range(300)]
        await runtime.run("neighbour", much, thread=N, when_busy="queue")
        await runtime.engine.messages.deliver(request)
        assert not await runtime.store.load_commands(N)
        assert await told(runtime, N) == [SAID]


# -- steering ---------------------------------------------------------------------------------


async def test_a_running_agent_is_steered_through_its_inbox(place: Place) -> None:
    """Design: `send`; what comes too late for this run is read by the next one."""
    yard = Yard()
    heard: list[list[str]] = []

    def answer(request: InferenceRequest) -> StreamResult:
        heard.append([m.text() for m in request.messages if m.is_visible_user()])
        if len(heard) == 1:
            return tool_call_response("", "blast", "c", {"n": 1})
        return text_response("done")

    agent = Agent("busy", model=FunctionModel(answer), tools=[yard.tool("blast")])
    async with place.runtime([agent]) as runtime, asyncio.TaskGroup() as group:
        running = group.create_task(runtime.run("busy", "dig", thread=T))
        await yard.until_begun()
        assert await runtime.send(T, "deeper")
        assert await runtime.send(T, "and wider")
        yard.let_go(1)
        await running
        assert not await runtime.send(T, "too late")

    assert heard == [["dig"], ["dig", "deeper", "and wider"]]


SENDER = """
import asyncio, sys
from awaken import Runtime

async def main():
    async with Runtime([], store=sys.argv[1], recover=False) as runtime:
        print(await runtime.send(sys.argv[2], "deeper"))

asyncio.run(main())
"""


async def test_a_running_agent_is_steered_from_another_process(tmp_path: Path) -> None:
    """It works on until it hears of it."""
    yard = Yard()
    address = f"sqlite:///{tmp_path / 'awaken.db'}"

    def answer(request: InferenceRequest) -> StreamResult:
        if any(message.text() == "deeper" for message in request.messages):
            return text_response("deep enough")
        made = sum(bool(message.tool_calls) for message in request.messages)
        return tool_call_response("", "blast", f"c{made}", {"n": 1})

    agent = Agent("busy", model=FunctionModel(answer), tools=[yard.tool("blast")], max_rounds=0)
    async with (
        Runtime([agent], store=address) as runtime,
        asyncio.timeout(100),
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(runtime.run("busy", "dig", thread=T))
        await yard.until_begun()
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SENDER, address, T, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await sender.communicate()
        yard.let_go(1)
        result = await running

    assert out.decode().strip() == "True"
    assert result.response == "deep enough"
