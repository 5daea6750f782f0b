"""What an agent can say to others, and what becomes of it in the outbox (03 §2)."""

from __future__ import annotations

from typing import Any

import pytest
from background_kit import NO_PARENT, Bench, Gate, background_store, call_context, giving
from hypothesis import given
from hypothesis import strategies as st

from awaken.codec import Json, to_json
from awaken.core.identity import RunIdentity
from awaken.core.message import ToolCall
from awaken.core.state.key import Merge, Scope
from awaken.core.state.run_keys import TOOL_RETRIES
from awaken.core.task import DurableMessageRequest
from awaken.core.tool_context import ToolOutput
from awaken.ext.tasks import BackgroundTaskPlugin, TaskResult
from awaken.ext.tasks.message_tools import MessagePolicy, RecoverFailedMessagesTool, SendMessageTool
from awaken.ext.tasks.state import (
    FAILED_MESSAGES,
    OUTBOX,
    AddFailedMessage,
    DurableRoute,
    Enqueue,
    FailedMessage,
    LiveInboxRoute,
    Outbox,
    OutboxEntry,
    RemoveMessage,
)
from awaken.ext.tasks.task import AgentTaskContext
from awaken.plugin.env import ExecutionEnv
from awaken.tool import execute_tool

pytestmark = pytest.mark.anyio

PARENT = {"relation": "parent"}


async def say(
    bench: Bench,
    to: Json,
    message: Json = "hello",
    *,
    policy: MessagePolicy | None = None,
    **context: Any,
) -> ToolOutput:
    tool = SendMessageTool(bench.manager, policy)
    ctx = call_context(snapshot=bench.store.snapshot(), **context)
    return await run_tool(tool, {"to": to, "message": message}, ctx)


async def run_tool(tool: Any, args: Json, ctx: Any) -> ToolOutput:
    name = tool.descriptor().id
    made = ToolCall(id="call-1", name=name, arguments=args)
    return await execute_tool({name: tool}, made, ctx)


def queued(output: ToolOutput) -> OutboxEntry:
    """The one entry a call wrote."""
    assert output.result.data["status"] == "queued", output.result
    assert output.command is not None
    [(key, update)] = output.command.batch.ops
    assert key is OUTBOX
    assert isinstance(update, Enqueue)
    assert update.entry.id == output.result.data["message_id"]
    return update.entry


def refused(output: ToolOutput) -> str:
    """Why a call wrote nothing: a successful call all the same, with an empty id."""
    data = output.result.data
    assert (data["message_id"], data["status"]) == ("", "failed")
    assert not output.command
    return str(data["error"])


async def scout(bench: Bench, gate: Gate, thread: str = "thread-1") -> str:
    async def body(ctx: AgentTaskContext) -> TaskResult:
        return await gate(ctx)

    return await bench.spawn_agent_with_context(  # type: ignore[no-any-return]
        thread, "scout", "looks around", NO_PARENT, body
    )


# -- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"message": "hi"}, "missing 'to'"),
        ({"to": "parent", "message": "hi"}, "missing 'to'"),
        ({"to": {}, "message": "hi"}, "missing 'to.relation'"),
        ({"to": {"relation": "child"}, "message": "hi"}, "child requires 'name'"),
        ({"to": {"relation": "agent"}, "message": "hi"}, "agent requires 'thread_id'"),
        ({"to": PARENT}, "missing 'message'"),
        ({"to": PARENT, "message": 7}, "missing 'message'"),
        ({"to": {"relation": "friend"}, "message": "hi"}, "unknown relation 'friend'"),
    ],
)
async def test_bad_arguments_of_send_message_are_named(args: Json, text: str) -> None:
    """03 §2: errors."""
    output = await run_tool(SendMessageTool(Bench().manager), args, call_context())

    assert output.result.message == f"Invalid arguments: {text}"
    assert output.command is not None
    assert output.command.batch.touched_keys == [TOOL_RETRIES.name], "nothing is sent"


# -- routes -----------------------------------------------------------------------------------


async def test_a_message_to_a_child_goes_to_its_inbox() -> None:
    """03 §2: live-inbox route, id tried before name; it may be empty."""
    bench, gate = Bench(), Gate()
    task_id = await scout(bench, gate)

    by_name = queued(await say(bench, {"relation": "child", "name": "scout"}, ""))
    by_id = queued(await say(bench, {"relation": "child", "name": task_id}))

    assert by_name.route == LiveInboxRoute(
        task_id=task_id, owner_thread_id="thread-1", sender_agent_id="agent-1", message=""
    )
    assert isinstance(by_id.route, LiveInboxRoute)
    assert by_id.route.task_id == task_id
    gate.open.set()
    await bench.ended(task_id)


async def test_a_child_that_is_not_there_is_not_written_to() -> None:
    """03/MH-2: a wrong-thread child fails without enqueue; so do ended and unknown ones."""
    bench, gate = Bench(), Gate()
    theirs = await scout(bench, gate, thread="thread-2")
    done = await bench.spawn(giving(), name="done")
    await bench.ended(done)

    for name in ("scout", theirs, "done", done, "nobody"):
        output = await say(bench, {"relation": "child", "name": name})
        assert refused(output) == "recipient_not_found", name
    gate.open.set()
    bench.manager.thread_id = "thread-2"
    await bench.ended(theirs)


async def test_a_task_without_an_inbox_is_unavailable() -> None:
    """03/DB-5: checked at enqueue, where the reference says queued."""
    bench, gate = Bench(), Gate()
    plain = await bench.spawn(name="plain")
    agent = await scout(bench, gate)
    receiver = bench.handles.of_thread("thread-1")[1].inbox_receiver
    assert receiver is not None
    receiver.close()

    for name in (plain, "plain", agent):
        output = await say(bench, {"relation": "child", "name": name})
        assert refused(output) == "recipient_unavailable"


async def test_a_message_to_the_parent_goes_to_its_thread() -> None:
    """03 §2: durable route, no agent id; without a parent there is nobody."""
    bench = Bench()

    sent = queued(await say(bench, PARENT, parent_thread_id="up"))
    nobody = refused(await say(bench, PARENT))

    assert isinstance(sent.route, DurableRoute)
    assert to_json(sent) == {
        "id": sent.id,
        "route": {
            "type": "durable",
            "request": {
                "message_id": sent.id,
                "recipient_thread_id": "up",
                "recipient_agent_id": None,
                "sender_agent_id": "agent-1",
                "message": "hello",
            },
        },
        "attempts": 0,
    }
    assert nobody == "recipient_unavailable"


async def test_other_agents_are_written_to_only_if_the_policy_says_so() -> None:
    """03/DB-5: recipient policy hook; by default nobody may."""
    bench = Bench()
    asked: list[tuple[str, str, str | None]] = []

    def friends_only(sender: RunIdentity, thread_id: str, agent_id: str | None) -> str | None:
        asked.append((sender.agent_id, thread_id, agent_id))
        return None if thread_id == "friend" else f"{thread_id} is no friend"

    async def later(sender: RunIdentity, thread_id: str, agent_id: str | None) -> str | None:
        return friends_only(sender, thread_id, agent_id)

    friend = {"relation": "agent", "thread_id": "friend", "agent_id": "bob"}
    stranger = {"relation": "agent", "thread_id": "stranger", "agent_id": ""}

    for policy in (friends_only, later):
        sent = queued(await say(bench, friend, policy=policy))
        assert isinstance(sent.route, DurableRoute)
        assert sent.route.request.recipient_agent_id == "bob"
        output = await say(bench, stranger, policy=policy)
        assert refused(output) == "not_authorized"
        assert output.result.data["reason"] == "stranger is no friend"
    assert refused(await say(bench, friend)) == "not_authorized"
    assert asked == [("agent-1", "friend", "bob"), ("agent-1", "stranger", None)] * 2


async def test_nobody_has_to_allow_what_goes_to_parent_or_child() -> None:
    """03/DB-5: these two belong together."""
    bench, gate = Bench(), Gate()
    task_id = await scout(bench, gate)

    def never(*_: object) -> str:
        raise AssertionError("not asked")

    queued(await say(bench, PARENT, policy=never, parent_thread_id="up"))
    queued(await say(bench, {"relation": "child", "name": task_id}, policy=never))


# -- the outbox -------------------------------------------------------------------------------


def entry(n: int, attempts: int = 0) -> OutboxEntry:
    request = DurableMessageRequest(
        message_id=f"m{n}", recipient_thread_id="t", sender_agent_id="a", message=f"message {n}"
    )
    return OutboxEntry(id=f"m{n}", route=DurableRoute(request=request), attempts=attempts)


@given(st.permutations(range(6)), st.sets(st.integers(0, 5)))
def test_the_outbox_is_the_same_in_whatever_order_it_is_written(
    order: list[int], gone: set[int]
) -> None:
    """03/DB-5, law: a commutative key; messages come out in the order they were made."""
    assert (OUTBOX.merge, OUTBOX.scope) == (Merge.COMMUTATIVE, Scope.THREAD)
    straight, shuffled = Outbox(), Outbox()
    for n in range(6):
        straight = OUTBOX.apply(straight, Enqueue(entry=entry(n)))
    for n in gone:
        straight = OUTBOX.apply(straight, RemoveMessage(id=f"m{n}"))
    for n in order:
        shuffled = OUTBOX.apply(shuffled, Enqueue(entry=entry(n)))
        if n in gone:
            shuffled = OUTBOX.apply(shuffled, RemoveMessage(id=f"m{n}"))

    assert shuffled == straight
    assert [e.id for e in straight.pending] == [f"m{n}" for n in range(6) if n not in gone]


def test_a_message_that_is_sent_again_keeps_its_place() -> None:
    """03 §2: enqueue replaces an entry of the same id."""
    outbox = Outbox()
    for n in range(3):
        outbox = OUTBOX.apply(outbox, Enqueue(entry=entry(n)))

    outbox = OUTBOX.apply(outbox, Enqueue(entry=entry(1, attempts=2)))

    assert [(e.id, e.attempts) for e in outbox.pending] == [("m0", 0), ("m1", 2), ("m2", 0)]
    assert OUTBOX.load(OUTBOX.dump(outbox)) == outbox
    assert to_json(Outbox()) == {"pending": []}


# -- recovering -------------------------------------------------------------------------------


async def recover(store: Any, args: Json) -> ToolOutput:
    ctx = call_context(snapshot=store.snapshot())
    return await run_tool(RecoverFailedMessagesTool(), args, ctx)


async def test_messages_that_never_arrived_can_be_listed_replayed_and_cleared() -> None:
    """03 §2: list changes nothing; replay sends all again under their ids; clear forgets them."""
    store = background_store()
    for n in range(2):
        route = entry(n).route
        assert isinstance(route, DurableRoute)
        failed = FailedMessage(request=route.request, error="no answer")
        store.update(FAILED_MESSAGES, AddFailedMessage(message=failed))

    listed = await recover(store, {})
    assert listed.result.data == {
        "action": "list",
        "count": 2,
        "messages": [
            {
                "message_id": f"m{n}",
                "recipient_thread_id": "t",
                "recipient_agent_id": None,
                "error": "no answer",
            }
            for n in range(2)
        ],
    }
    assert not listed.command
    cleared = await recover(store, {"action": "clear"})
    assert cleared.result.data == {"action": "clear", "count": 2}
    replayed = await recover(store, {"action": "replay"})
    assert replayed.result.data == {"action": "replay", "count": 2}
    assert replayed.command is not None
    store.commit(replayed.command.batch)

    outbox, dead = store.read(OUTBOX), store.read(FAILED_MESSAGES)
    assert outbox is not None
    assert dead is not None
    assert outbox.pending == (entry(0), entry(1))
    assert to_json(dead) == {"messages": []}
    nothing = await recover(store, {"action": "replay"})
    assert (nothing.result.data["count"], bool(nothing.command)) == (0, False)


async def test_an_unknown_action_is_named() -> None:
    """03 §2: `unknown action '<a>'`."""
    output = await recover(background_store(), {"action": "shred"})

    assert output.result.message == "Invalid arguments: unknown action 'shred'"


# -- registration -----------------------------------------------------------------------------


@pytest.mark.parametrize("has_sink", [True, False])
def test_all_tools_are_registered_with_or_without_a_sink(has_sink: bool) -> None:
    """03/MH-2: all three, and ours."""

    class Sink:
        async def deliver(self, request: DurableMessageRequest) -> None:
            return

    plugin = BackgroundTaskPlugin(sink=Sink() if has_sink else None)

    tools = ExecutionEnv.from_plugins([plugin]).tools

    assert sorted(tools) == [
        "cancel_task",
        "list_tasks",
        "recover_failed_messages",
        "send_message",
        "wait_task",
    ]


def test_the_keys_are_those_of_the_spec() -> None:
    """03, table: names, scopes and merges (the outbox commutative, 03/DB-5)."""
    keys = ExecutionEnv.from_plugins([BackgroundTaskPlugin()]).keys

    told = {name: (key.scope.value, key.key.merge.value) for name, key in keys.items()}
    assert told == {
        "background_tasks": ("run", "exclusive"),
        "background_task_state": ("thread", "exclusive"),
        "background_message_outbox": ("thread", "commutative"),
        "background_failed_durable_messages": ("thread", "exclusive"),
    }
