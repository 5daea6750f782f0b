"""A process that ends in the middle of a turn: the next one goes on, and sends nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_harness import (
    Crash,
    Kept,
    RunningAgent,
    Sink,
    backend_for,
    remote_entry,
    root,
)

from awaken.backend.a2a.state import REMOTE_STATE_KEY
from awaken.core.backend import (
    BackendStatusKind,
    ExecutionFailed,
    RemoteError,
)
from awaken.core.message import Message
from awaken.core.run import PersistedState

pytestmark = pytest.mark.anyio


def messages_of(thread: str, *texts: str) -> list[Message]:
    return [Message.user(text, id=f"{thread}-{text}") for text in texts]


async def crash_run(base: str, thread: str, text: str, kept: Kept, **options: Any) -> None:
    """A run that ends with its process at one of the saves."""
    with pytest.raises(Crash):
        await backend_for(base, **options).execute_root(root(thread, text, kept=kept))


# -- the marks --------------------------------------------------------------------------------


async def test_what_a_crash_must_not_lose_is_kept_before_it_is_needed(
    agent: RunningAgent, thread: str
) -> None:
    kept = Kept()
    result = await backend_for(agent.base).execute_root(root(thread, "say hi", kept=kept))
    sending, known = kept.entries()
    (message,) = agent.sends("say hi")[-1:]
    assert sending["sending"]["message_id"] == message["messageId"]
    assert sending["sending"]["context_id"] == thread
    assert "task_id" not in sending
    assert "sending" not in known
    assert known["task_id"] == remote_entry(result.state)["task_id"]
    assert known["context_id"] == thread
    assert known["last_state"].startswith("TASK_STATE_")
    assert known["run_id"] == f"run-{thread}"
    assert known["updated_at_ms"] > 0


async def test_the_mark_is_there_before_the_agent_hears_anything(
    agent: RunningAgent, thread: str
) -> None:
    await crash_run(agent.base, thread, f"say {thread}", Kept(crash_before=1))
    assert agent.sends(f"say {thread}") == []


# -- at each point ----------------------------------------------------------------------------


@pytest.mark.parametrize("new_again", [True, False], ids=["with", "without"])
@pytest.mark.parametrize(
    ("kept", "sends"),
    [
        (Kept(crash_after=1), 1),  # the mark is kept, nothing is sent
        (Kept(crash_before=2), 1),  # sent, the task's name is not kept
        (Kept(crash_after=2), 1),  # the task's name is kept
    ],
    ids=["before sending", "after sending", "task known"],
)
async def test_a_run_cut_short_is_carried_on_and_its_message_arrives_once(
    agent: RunningAgent, thread: str, kept: Kept, sends: int, new_again: bool
) -> None:
    text = f"say {thread}"
    kept = Kept(crash_before=kept._before, crash_after=kept._after)
    await crash_run(agent.base, thread, text, kept)
    again = messages_of(thread, text)
    request = root(
        thread,
        *(again if new_again else ()),
        before=() if new_again else again,
        state=kept.state,
        kept=kept,
        continued=True,
    )
    result = await backend_for(agent.base).execute_root(request)
    assert result.status.kind is BackendStatusKind.COMPLETED
    assert result.response == thread
    assert len(agent.sends(text)) == sends
    (task,) = agent.tasks(thread)
    assert remote_entry(result.state)["task_id"] == task["id"]
    assert remote_entry(kept.state)["task_id"] == task["id"]


async def test_a_message_is_sent_again_under_the_same_name(
    agent: RunningAgent, thread: str
) -> None:
    kept = Kept(crash_after=1)
    text = f"say {thread}"
    await crash_run(agent.base, thread, text, kept)
    await backend_for(agent.base).execute_root(
        root(thread, before=messages_of(thread, text), state=kept.state, continued=True)
    )
    (message,) = agent.sends(text)
    assert message["messageId"] == kept.entries()[0]["sending"]["message_id"]
    assert message["parts"] == [{"text": text}]


async def test_only_the_messages_that_were_on_their_way_are_sent_again(
    agent: RunningAgent, thread: str
) -> None:
    kept, text = Kept(crash_after=1), f"say {thread}"
    await crash_run(agent.base, thread, text, kept)
    earlier = [Message.user("long ago", id="a"), Message.assistant("indeed", id="b")]
    before = [*earlier, *messages_of(thread, text)]
    await backend_for(agent.base).execute_root(
        root(thread, before=before, state=kept.state, continued=True)
    )
    (message,) = agent.sends(text)
    assert message["parts"] == [{"text": text}]


async def test_a_task_under_way_is_followed_not_started_again(
    agent: RunningAgent, thread: str
) -> None:
    kept = Kept(crash_after=2)
    await crash_run(agent.base, thread, f"hold {thread}", kept)
    sink = Sink()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            backend_for(agent.base).execute_root(
                root(thread, state=kept.state, sink=sink, continued=True)
            )
        )
        await sink.until_state("TASK_STATE_WORKING")
        agent.go(thread)
    assert running.result().response == f"held {thread}"
    assert len(agent.sends(f"hold {thread}")) == 1


@pytest.mark.parametrize(
    ("kept", "sends"),
    [(Kept(crash_after=1), 1), (Kept(crash_before=2), 1)],
    ids=["before sending", "after sending"],
)
async def test_an_answer_cut_short_reaches_its_task_once(
    agent: RunningAgent, thread: str, kept: Kept, sends: int
) -> None:
    backend = backend_for(agent.base)
    waiting = await backend.execute_root(root(thread, "ask Which city?"))
    kept, answer = Kept(crash_before=kept._before, crash_after=kept._after), f"Oslo {thread}"
    with pytest.raises(Crash):
        await backend.execute_root(
            root(thread, answer, state=waiting.state, kept=kept, continued=True)
        )
    result = await backend_for(agent.base).execute_root(
        root(thread, before=messages_of(thread, answer), state=kept.state, continued=True)
    )
    assert result.response == f"thanks for {answer}"
    assert len(agent.sends(answer)) == sends
    assert len(agent.tasks(thread)) == 1


async def test_a_question_is_not_answered_with_what_led_to_it(
    agent: RunningAgent, thread: str
) -> None:
    kept, text = Kept(crash_after=2), f"ask {thread}"
    await crash_run(agent.base, thread, text, kept)
    result = await backend_for(agent.base).execute_root(
        root(thread, *messages_of(thread, text), state=kept.state, continued=True)
    )
    assert str(result.status) == f"waiting_input: {thread}"
    assert len(agent.sends(text)) == 1


async def test_an_answer_that_led_to_another_question_is_not_given_twice(
    agent: RunningAgent, thread: str
) -> None:
    backend, kept = backend_for(agent.base), Kept(crash_before=2)
    waiting = await backend.execute_root(root(thread, "ask Which city?"))
    answer = f"ask {thread}"
    with pytest.raises(Crash):
        await backend.execute_root(
            root(thread, answer, state=waiting.state, kept=kept, continued=True)
        )
    result = await backend_for(agent.base).execute_root(
        root(thread, before=messages_of(thread, answer), state=kept.state, continued=True)
    )
    assert str(result.status) == f"waiting_input: {thread}"
    assert len(agent.sends(answer)) == 1


async def test_a_crash_before_the_first_mark_begins_anew_behind_the_run_before(
    agent: RunningAgent, thread: str
) -> None:
    """The run was on record with the state of the one before; that one's task is not its own."""
    first = await backend_for(agent.base).execute_root(root(thread, "say one", run=f"{thread}-1"))
    before = [
        *messages_of(thread, "say one"),
        Message.assistant("one", id="x"),
        *messages_of(thread, f"say {thread}"),
    ]
    second = await backend_for(agent.base).execute_root(
        root(thread, run=f"{thread}-2", before=before, state=first.state, continued=True)
    )
    assert second.response == thread
    (message,) = agent.sends(f"say {thread}")
    assert message["parts"] == [{"text": f"say {thread}"}]


async def test_a_task_is_found_though_the_agent_calls_the_context_otherwise(
    agent: RunningAgent, thread: str
) -> None:
    base, kept, text = f"{agent.base}/x/rename", Kept(crash_before=2), f"say {thread}"
    await crash_run(base, thread, text, kept)
    result = await backend_for(base).execute_root(
        root(thread, before=messages_of(thread, text), state=kept.state, continued=True)
    )
    assert result.response == thread
    assert len(agent.sends(text)) == 1
    assert remote_entry(result.state)["context_id"] == f"renamed-{thread}"


# -- when it cannot be known ------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["nolist-501", "nolist-404", "nolist-405"])
async def test_if_the_agent_cannot_tell_nothing_is_sent_again(
    agent: RunningAgent, thread: str, fault: str
) -> None:
    kept, text = Kept(crash_before=2), f"say {thread}"
    await crash_run(agent.base, thread, text, kept)
    base = f"{agent.base}/x/{fault}"
    state = _move_state(kept.state, base)
    with pytest.raises(RemoteError, match=r"unknown whether message .* arrived") as caught:
        await backend_for(base).execute_root(
            root(thread, before=messages_of(thread, text), state=state, continued=True)
        )
    assert "resend_unknown" in str(caught.value)
    assert "start a new run" in str(caught.value)
    assert len(agent.sends(text)) == 1


async def test_who_would_rather_have_it_twice_than_never_says_so(
    agent: RunningAgent, thread: str
) -> None:
    kept, text = Kept(crash_before=2), f"say {thread}"
    await crash_run(agent.base, thread, text, kept)
    base = f"{agent.base}/x/nolist-501"
    result = await backend_for(base, resend_unknown=True).execute_root(
        root(
            thread,
            before=messages_of(thread, text),
            state=_move_state(kept.state, base),
            continued=True,
        )
    )
    assert result.response == thread
    first, second = agent.sends(text)
    assert first["messageId"] == second["messageId"]


async def test_messages_that_are_gone_cannot_be_sent_again(
    agent: RunningAgent, thread: str
) -> None:
    kept = Kept(crash_after=1)
    await crash_run(agent.base, thread, f"say {thread}", kept)
    with pytest.raises(ExecutionFailed, match="not in the thread any more"):
        await backend_for(agent.base).execute_root(root(thread, state=kept.state, continued=True))
    assert agent.sends(f"say {thread}") == []


async def test_a_task_the_agent_lost_is_not_started_again(agent: RunningAgent, thread: str) -> None:
    kept, text = Kept(crash_after=2), f"hold {thread}"
    await crash_run(agent.base, thread, text, kept)
    assert kept.state is not None
    entry = {**remote_entry(kept.state), "task_id": "lost"}
    targets = {f"a2a:{agent.base}": entry}
    state = PersistedState(extensions={REMOTE_STATE_KEY: {"version": 1, "targets": targets}})
    with pytest.raises(RemoteError, match="does not know task 'lost'"):
        await backend_for(agent.base).execute_root(
            root(thread, *messages_of(thread, text), state=state, continued=True)
        )
    assert len(agent.sends(text)) == 1


# -- connections that break -------------------------------------------------------------------


async def test_a_lost_answer_is_asked_for_not_asked_twice(agent: RunningAgent, thread: str) -> None:
    """The message arrived, the answer did not: the task is found by the message's name."""
    text = f"say {thread}"
    result = await backend_for(f"{agent.base}/x/cutsend-{thread}").execute_root(root(thread, text))
    assert result.response == thread
    assert len(agent.sends(text)) == 1
    assert len(agent.tasks(thread)) == 1


async def test_a_lost_message_is_sent_again(agent: RunningAgent, thread: str) -> None:
    text = f"say {thread}"
    result = await backend_for(f"{agent.base}/x/lost-{thread}").execute_root(root(thread, text))
    assert result.response == thread
    first, second = agent.sends(text)
    assert first == second
    assert len(agent.tasks(thread)) == 1


# -- state that cannot be read ----------------------------------------------------------------


@pytest.mark.parametrize(
    "corrupt",
    [
        "text",
        {},
        {"version": 1},
        {"version": 2, "targets": {}},
        {"version": 1, "targets": {"here": {}}},
        {"version": 1, "targets": {"here": {"version": 1, "task_id": 7}}},
        {"version": 1, "targets": {"here": {"version": 9}}},
        {"version": 1, "targets": {"here": {"version": 1, "sending": {"context_id": "c"}}}},
    ],
    ids=str,
)
async def test_state_that_cannot_be_read_is_never_taken_for_none(
    agent: RunningAgent, thread: str, corrupt: Any
) -> None:
    """03/MH-5 corrupt state raises."""
    if isinstance(corrupt, dict) and "here" in corrupt.get("targets", {}):
        corrupt = {**corrupt, "targets": {f"a2a:{agent.base}": corrupt["targets"]["here"]}}
    state = PersistedState(extensions={REMOTE_STATE_KEY: corrupt})
    before = len(agent.log())
    with pytest.raises(ExecutionFailed, match="cannot be read"):
        await backend_for(agent.base).execute_root(root(thread, "say x", state=state))
    assert len(agent.log()) == before


def _move_state(state: PersistedState | None, base: str) -> PersistedState:
    """The same state, for an agent under another URL."""
    entry = remote_entry(state)
    remote = {"version": 1, "targets": {f"a2a:{base}": entry}}
    return PersistedState(extensions={REMOTE_STATE_KEY: remote})
