"""The inbox of a run, and the decisions on their way to it (01 §1.11, §6.4)."""

from __future__ import annotations

import asyncio

import pytest

from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.inbox import QUEUE_LIMIT, DecisionQueue, InboxClosed, inbox_channel
from awaken.core.suspension import Decision, ToolCallResume

pytestmark = pytest.mark.anyio


async def let_others_run() -> None:
    await asyncio.sleep(0)


# -- inbox ------------------------------------------------------------------------------------


async def test_payloads_arrive_in_the_order_of_sending() -> None:
    """01 §1.11: FIFO of JSON."""
    sender, receiver = inbox_channel()

    assert all(sender.send({"n": n}) for n in range(3))

    assert [await receiver.recv() for _ in range(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len(receiver) == 0


async def test_draining_takes_everything_there_is_now() -> None:
    """01 §1.11: `drain`."""
    sender, receiver = inbox_channel()
    assert receiver.drain() == []
    sender.send(1)
    sender.send(2)

    assert len(receiver) == 2
    assert receiver.drain() == [1, 2]
    assert receiver.drain() == []


async def test_a_receiver_that_waits_is_woken() -> None:
    sender, receiver = inbox_channel()
    task = asyncio.create_task(receiver.recv())
    await let_others_run()
    assert not task.done()

    sender.send("hi")

    async with asyncio.timeout(100):
        assert await task == "hi"


async def test_being_ready_takes_nothing() -> None:
    sender, receiver = inbox_channel()
    sender.send("hi")

    await receiver.ready()

    assert receiver.drain() == ["hi"]


async def test_sending_to_a_gone_receiver_answers_no_and_tells_each_time() -> None:
    """01 §1.11: `send` returns false when the receiver is gone and calls `on_closed` every time."""
    told: list[Json] = []
    sender, receiver = inbox_channel(on_closed=told.append)
    assert sender.send(1)
    receiver.close()

    assert sender.send(2) is False
    assert sender.send(3) is False
    assert sender.clone().send(4) is False

    assert told == [2, 3, 4]


async def test_trying_to_send_never_tells() -> None:
    """01 §1.11: `try_send` never calls `on_closed`."""
    told: list[Json] = []
    sender, receiver = inbox_channel(on_closed=told.append)
    assert sender.try_send(1)
    receiver.close()

    assert sender.try_send(2) is False
    assert told == []


async def test_sending_to_a_gone_receiver_needs_nobody_to_tell() -> None:
    sender, receiver = inbox_channel()
    receiver.close()

    assert sender.send(1) is False
    assert receiver.drain() == []


async def test_receiving_ends_when_all_senders_are_gone_and_nothing_is_left() -> None:
    """01 §1.11: what was sent before still arrives."""
    sender, receiver = inbox_channel()
    other = sender.clone()
    other.send("last words")
    sender.close()
    other.close()

    assert await receiver.recv() == "last words"
    with pytest.raises(InboxClosed):
        await receiver.recv()


async def test_the_last_sender_to_go_wakes_a_receiver_that_waits() -> None:
    sender, receiver = inbox_channel()
    other = sender.clone()
    task = asyncio.create_task(receiver.recv_or_cancel(None))
    await let_others_run()

    sender.close()
    await let_others_run()
    assert not task.done()
    other.close()

    async with asyncio.timeout(100):
        assert await task is None


async def test_a_sender_closed_twice_counts_once() -> None:
    sender, receiver = inbox_channel()
    other = sender.clone()

    sender.close()
    sender.close()
    other.send("still here")

    assert await receiver.recv() == "still here"
    token = CancellationToken()
    task = asyncio.create_task(receiver.recv_or_cancel(token))
    await let_others_run()
    assert not task.done()
    other.close()
    async with asyncio.timeout(100):
        assert await task is None


async def test_receiving_gives_none_on_cancel_and_keeps_what_comes_later() -> None:
    """01 §1.11: `recv_or_cancel` returns none on cancel."""
    sender, receiver = inbox_channel()
    token = CancellationToken()
    task = asyncio.create_task(receiver.recv_or_cancel(token))
    await let_others_run()

    token.cancel()

    async with asyncio.timeout(100):
        assert await task is None
    sender.send("later")
    assert receiver.drain() == ["later"]


async def test_receiving_with_a_cancelled_token_gives_none_and_takes_nothing() -> None:
    """01 §1.11: also when there is something to read."""
    sender, receiver = inbox_channel()
    token = CancellationToken()
    token.cancel()
    sender.send("kept")

    assert await receiver.recv_or_cancel(token) is None
    assert receiver.drain() == ["kept"]


async def test_a_payload_that_comes_together_with_a_cancel_is_not_lost() -> None:
    sender, receiver = inbox_channel()
    token = CancellationToken()
    task = asyncio.create_task(receiver.recv_or_cancel(token))
    await let_others_run()

    sender.send("kept")
    token.cancel()

    async with asyncio.timeout(100):
        assert [payload for payload in (await task, *receiver.drain()) if payload] == ["kept"]


async def test_receiving_with_a_quiet_token_gives_the_payload() -> None:
    sender, receiver = inbox_channel()
    sender.send("hi")

    assert await receiver.recv_or_cancel(CancellationToken()) == "hi"


# -- decisions --------------------------------------------------------------------------------


def answer(call: str) -> Decision:
    return call, ToolCallResume.approve(id=f"d-{call}")


async def test_batches_of_decisions_are_drained_together() -> None:
    """01 §6.4: one batch is one queue item, with the command that brought it, if one did."""
    queue = DecisionQueue()

    assert queue.send([answer("c1"), answer("c2")])
    assert queue.send([answer("c3")], 7)

    assert len(queue) == 2
    batches = [([call for call, _ in batch], command) for batch, command in queue.drain()]
    assert batches == [(["c1", "c2"], None), (["c3"], 7)]
    assert (len(queue), queue.drain()) == (0, [])


async def test_a_run_that_waits_for_decisions_is_woken() -> None:
    """01/C-22: the same for decisions: waiting already, or coming later."""
    queue = DecisionQueue()
    task = asyncio.create_task(queue.ready())
    await let_others_run()
    assert not task.done()

    queue.send([answer("c1")])

    async with asyncio.timeout(100):
        await task
        await queue.ready()
    assert len(queue.drain()) == 1


async def test_a_batch_is_what_was_sent_even_if_the_list_changes() -> None:
    queue = DecisionQueue()
    batch = [answer("c1")]
    queue.send(batch)
    batch.append(answer("c2"))

    assert queue.drain() == [((answer("c1"),), None)]


async def test_a_closed_queue_takes_nothing_and_holds_nobody_up() -> None:
    """01 §6.4: a closed channel answers false."""
    queue = DecisionQueue()
    task = asyncio.create_task(queue.ready())
    await let_others_run()

    queue.close()

    async with asyncio.timeout(100):
        await task
        await queue.ready()
    assert queue.send([answer("c1")]) is False
    assert queue.drain() == []


async def test_what_was_queued_before_closing_can_still_be_taken() -> None:
    queue = DecisionQueue()
    queue.send([answer("c1")])
    queue.close()

    assert queue.drain() == [((answer("c1"),), None)]


def test_a_run_that_does_not_read_is_sent_only_so_much() -> None:
    """01/D-30: queues are bounded; what does not fit is refused, not lost silently."""
    late: list[object] = []
    sender, receiver = inbox_channel(late.append)
    queue = DecisionQueue()

    assert all(sender.send(number) for number in range(QUEUE_LIMIT))
    assert all(queue.send([]) for _ in range(QUEUE_LIMIT))

    assert not sender.send("one too many")
    assert not queue.send([])
    assert late == []
    assert receiver.drain() == list(range(QUEUE_LIMIT))
    assert sender.send("again")
