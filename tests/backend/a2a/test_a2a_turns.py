"""Turns with a real agent of the official SDK, in a process of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_agent import PIECES
from a2a_harness import (
    TOKEN,
    Crash,
    Kept,
    RunningAgent,
    Sink,
    abort,
    backend_for,
    cut_short,
    delegate,
    let_go_when_working,
    remote_entry,
    root,
    state_with,
)

from awaken.backend.a2a.state import REMOTE_STATE_KEY
from awaken.core.aio.cancel import CancellationToken
from awaken.core.backend import (
    BackendStatusKind,
    ExecutionFailed,
    RemoteError,
)
from awaken.core.event import ActivitySnapshot
from awaken.core.lifecycle import (
    CANCELLED,
    NATURAL_END,
    SUSPENDED_END,
    Failed,
    Stopped,
    StoppedReason,
)
from awaken.core.message import Base64Source, Image, Message, Text
from awaken.core.run import PersistedState
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["HTTP+JSON", "JSONRPC"])
def wire(request: pytest.FixtureRequest, agent: RunningAgent) -> dict[str, Any]:
    """Both ways of writing the same operations."""
    url = agent.base if request.param == "HTTP+JSON" else f"{agent.base}/rpc"
    return {"base_url": url, "binding": request.param}


# -- what comes out ---------------------------------------------------------------------------


async def test_a_task_is_sent_followed_and_answered(wire: dict[str, Any], thread: str) -> None:
    """03/MH-5 output prefers artifacts."""
    result = await backend_for(**wire).execute_root(root(thread, "complete forty-two"))
    assert result.status.kind is BackendStatusKind.COMPLETED
    assert result.termination == NATURAL_END
    assert result.response == result.output.text == "forty-two"
    assert [(a.id, a.name, a.media_type, a.content) for a in result.output.artifacts] == [
        ("answer", "answer.txt", "text/plain", {"parts": [{"text": "forty-two"}]})
    ]
    assert result.run_id == f"run-{thread}"
    assert (result.agent_id, result.steps, result.status_reason) == ("remote", 1, None)


@pytest.mark.parametrize(
    ("says", "text"), [("say hello", "hello"), ("quiet just so", "just so"), ("data -", None)]
)
async def test_without_text_in_artifacts_the_status_then_the_history_is_the_answer(
    agent: RunningAgent, thread: str, says: str, text: str | None
) -> None:
    result = await backend_for(agent.base).execute_root(root(thread, says))
    assert result.response == (text or '{"count":3,"names":["a","b"]}')


async def test_a_message_without_a_task_is_the_answer(wire: dict[str, Any], thread: str) -> None:
    result = await backend_for(**wire).execute_root(root(thread, "direct good morning"))
    assert result.status.kind is BackendStatusKind.COMPLETED
    assert result.response == "good morning"
    (artifact,) = result.output.artifacts
    assert artifact.id is not None
    assert artifact.id.endswith(":1")
    assert artifact.name == "two.bin"
    assert artifact.content == {"parts": [{"raw": "AAE=", "filename": "two.bin"}]}
    entry = remote_entry(result.state)
    assert entry["last_state"] == "DIRECT_MESSAGE"
    assert "sending" not in entry


@pytest.mark.parametrize(
    ("says", "message", "partial"),
    [("fail out of paper", "out of paper", "half of it"), ("reject not mine", "not mine", None)],
)
async def test_failure_states_carry_what_the_agent_said(
    agent: RunningAgent, thread: str, says: str, message: str, partial: str | None
) -> None:
    """03/MH-5 failure states carry messages."""
    result = await backend_for(agent.base).execute_root(root(thread, says))
    assert str(result.status) == f"failed: {message}"
    assert result.termination == Failed(value=message)
    assert result.response == partial


async def test_a_failure_without_words_gets_some(agent: RunningAgent, thread: str) -> None:
    result = await backend_for(agent.base).execute_root(root(thread, "fail"))
    assert "TASK_STATE_FAILED without saying why" in str(result.status)


@pytest.mark.parametrize("fault", ["", "x/nosub-501/", "x/bytewise-/"])
async def test_text_written_bit_by_bit_is_whole_however_it_is_read(
    agent: RunningAgent, thread: str, fault: str
) -> None:
    """03/MH-5 artifact append accumulates; 03/DB-14 a character cut in two survives."""
    backend = backend_for(f"{agent.base}/{fault}")
    result, sink = await let_go_when_working(agent, backend, thread, f"pieces {thread}")
    assert result.response == "".join(PIECES)
    assert len(result.output.artifacts) == 1
    assert sink.progress[-1]["text"] == "".join(PIECES)


async def test_an_artifact_can_be_replaced_and_one_without_text_is_kept(
    agent: RunningAgent, thread: str
) -> None:
    """03/DB-14 artifacts without text are not lost."""
    backend = backend_for(agent.base)
    result, _ = await let_go_when_working(agent, backend, thread, f"rewrite {thread}")
    assert result.response == "final"
    assert [(a.name, a.media_type) for a in result.output.artifacts] == [
        (None, "text/plain"),
        ("dot.png", "image/png"),
    ]


async def test_progress_is_told_in_the_envelope_of_the_run(
    agent: RunningAgent, thread: str
) -> None:
    sink = Sink()
    result = await backend_for(agent.base).execute_root(root(thread, "complete x", sink=sink))
    task_id = remote_entry(result.state)["task_id"]
    assert sink.progress[-1] == {
        "schema": "a2a-task-progress.v1",
        "task_id": task_id,
        "context_id": thread,
        "state": "TASK_STATE_COMPLETED",
        "text": "x",
        "artifacts": [
            {
                "id": "answer",
                "name": "answer.txt",
                "media_type": "text/plain",
                "content": {"parts": [{"text": "x"}]},
            }
        ],
        "failure_message": None,
    }
    last = sink.events[-1]
    assert (last.thread_id, last.run_id, last.parent_run_id) == (thread, f"run-{thread}", None)
    assert last.at_ms > 0
    assert isinstance(last.event, ActivitySnapshot)
    assert last.event.activity_type == "a2a-task-progress"
    assert last.event.message_id == task_id
    assert last.event.replace is True


async def test_progress_is_not_told_for_every_letter(agent: RunningAgent, thread: str) -> None:
    backend = backend_for(agent.base, clock=FakeClock())  # no time passes
    _, sink = await let_go_when_working(agent, backend, thread, f"pieces {thread}")
    states = [content["state"] for content in sink.progress]
    assert len(states) == len(set(states))
    assert sink.progress[-1]["text"] == "".join(PIECES)


# -- what is sent -----------------------------------------------------------------------------


async def test_only_what_users_said_to_all_is_sent(agent: RunningAgent, thread: str) -> None:
    request = root(
        thread,
        Message.internal_user("secret thought", id="1"),
        Message.user(f"say {thread}", id="2"),
        Message.assistant("no", id="3"),
        Message.user_with_content(
            [
                Text(text="and look"),
                Image(source=Base64Source(media_type="image/png", data="AAE=")),
            ],
            id="4",
        ),
    )
    await backend_for(agent.base).execute_root(request)
    (message,) = agent.sends(thread)
    assert message["parts"] == [
        {"text": f"say {thread}"},
        {"text": "and look"},
        {"raw": "AAE=", "mediaType": "image/png"},
    ]
    assert message["contextId"] == thread
    assert message["role"] == "ROLE_USER"
    assert "taskId" not in message


async def test_nothing_to_send_is_said_so(agent: RunningAgent, thread: str) -> None:
    request = root(thread, Message.internal_user("hm"), Message.user_with_content([]))
    with pytest.raises(ExecutionFailed, match="no user message content to send"):
        await backend_for(agent.base).execute_root(request)


async def test_requests_carry_version_token_and_options(agent: RunningAgent, thread: str) -> None:
    backend = backend_for(
        f"{agent.base}/",
        auth={"type": "bearer", "token": TOKEN},
        history_length=3,
        return_immediately=False,
    )
    await backend.execute_root(root(thread, f"say {thread}"))
    (asked,) = agent.log(path="/message:send", text=thread)
    assert asked["headers"]["a2a-version"] == "1.0"
    assert "application/json" in asked["headers"]["accept"]
    assert asked["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert asked["body"]["configuration"] == {
        "acceptedOutputModes": ["text/plain", "application/json", "application/octet-stream"],
        "historyLength": 3,
    }


async def test_an_api_key_goes_into_its_header(agent: RunningAgent, thread: str) -> None:
    """03/DB-14 API-key schemes."""
    auth = {"type": "api_key", "header": "X-Agent-Key", "key": "k3y"}
    await backend_for(agent.base, auth=auth).execute_root(root(thread, f"say {thread}"))
    (asked,) = agent.log(path="/message:send", text=thread)
    assert asked["headers"]["x-agent-key"] == "k3y"
    assert "authorization" not in asked["headers"]


async def test_a_target_is_a_part_of_the_path(agent: RunningAgent, thread: str) -> None:
    backend = backend_for(agent.base, target="team a")
    result = await backend.execute_root(root(thread, f"say {thread}"))
    assert result.response == thread
    (asked,) = agent.log(path="/team a/message:send", text=thread)
    assert f"a2a:{agent.base}/team%20a" in result.state.extensions[REMOTE_STATE_KEY]["targets"]  # type: ignore[union-attr]
    assert asked["method"] == "POST"


async def test_a_target_is_the_tenant_in_json_rpc(agent: RunningAgent, thread: str) -> None:
    backend = backend_for(f"{agent.base}/rpc", target="team-a", binding="JSONRPC")
    await backend.execute_root(root(thread, f"say {thread}"))
    (asked,) = [entry for entry in agent.log(text=thread) if entry["path"] == "/rpc"]
    assert asked["body"]["params"]["tenant"] == "team-a"


async def test_ids_are_escaped_in_paths(agent: RunningAgent, thread: str) -> None:
    """03/DB-14 ids escaped in paths."""
    odd = "../x?y=1#z"
    state = state_with(agent.base, task_id=odd, last_state="TASK_STATE_WORKING")
    with pytest.raises(RemoteError, match="answered 404"):
        await backend_for(agent.base).execute_root(root(thread, state=state, continued=True))
    assert "/tasks/..%2Fx%3Fy%3D1%23z" in [entry["raw_path"] for entry in agent.log()]


# -- conversations ----------------------------------------------------------------------------


async def test_a_question_is_answered_on_the_same_task(wire: dict[str, Any], thread: str) -> None:
    """03/MH-5 interrupted tasks are reused."""
    backend = backend_for(**wire)
    first = await backend.execute_root(root(thread, "ask Which city?"))
    assert str(first.status) == "waiting_input: Which city?"
    assert first.status_reason == "input_required"
    assert first.termination == SUSPENDED_END
    assert first.response == "Which city?"
    asked = remote_entry(first.state)
    second = await backend.execute_root(root(thread, "Rome", state=first.state, continued=True))
    assert second.status.kind is BackendStatusKind.COMPLETED
    assert second.response == "thanks for Rome"
    answered = remote_entry(second.state)
    assert answered["task_id"] == asked["task_id"]
    assert answered["context_id"] == asked["context_id"] == thread
    assert answered["last_state"] == "TASK_STATE_COMPLETED"


async def test_a_new_run_answers_the_question_of_the_one_before(
    agent: RunningAgent, thread: str
) -> None:
    """03/MH-5 interrupted tasks are reused."""
    backend = backend_for(agent.base)
    first = await backend.execute_root(root(thread, "ask Which city?", run=f"{thread}-1"))
    second = await backend.execute_root(root(thread, "Paris", run=f"{thread}-2", state=first.state))
    assert second.response == "thanks for Paris"
    assert len(agent.tasks(thread)) == 1


async def test_a_completed_task_is_not_reused_but_its_context_is(
    agent: RunningAgent, thread: str
) -> None:
    """03/MH-5 completed tasks are not reused."""
    backend = backend_for(agent.base)
    first = await backend.execute_root(root(thread, "say one", run=f"{thread}-1"))
    second = await backend.execute_root(
        root(thread, "say two", run=f"{thread}-2", state=first.state)
    )
    assert second.response == "two"
    assert remote_entry(first.state)["task_id"] != remote_entry(second.state)["task_id"]
    assert len(agent.tasks(thread)) == 2


async def test_an_entry_without_last_state_is_not_reused(agent: RunningAgent, thread: str) -> None:
    """03/MH-5 nor entries without last state."""
    state = state_with(agent.base, task_id="gone", context_id=thread)
    result = await backend_for(agent.base).execute_root(root(thread, f"say {thread}", state=state))
    assert result.response == thread
    assert all("taskId" not in message for message in agent.sends(f"say {thread}"))


async def test_a_waiting_task_the_agent_forgot_does_not_block_the_thread(
    agent: RunningAgent, thread: str
) -> None:
    waits = "TASK_STATE_INPUT_REQUIRED"
    state = state_with(
        agent.base, run_id="old", task_id="forgotten", context_id=thread, last_state=waits
    )
    result = await backend_for(agent.base).execute_root(root(thread, f"say {thread}", state=state))
    assert result.response == thread
    assert [message.get("taskId") for message in agent.sends(f"say {thread}")] == [
        "forgotten",
        None,
    ]


async def test_a_run_goes_on_with_its_own_state_not_with_the_newest(
    agent: RunningAgent, thread: str
) -> None:
    """03/MH-5 continuation reads the continued run, not the thread's newest."""
    backend = backend_for(agent.base)
    waiting = await backend.execute_root(root(thread, "ask Which?", run=f"{thread}-1"))
    await backend.execute_root(root(thread, "say other", run=f"{thread}-2"))
    answered = await backend.execute_root(
        root(thread, "this", run=f"{thread}-1", state=waiting.state, continued=True)
    )
    assert answered.response == "thanks for this"
    assert remote_entry(answered.state)["task_id"] == remote_entry(waiting.state)["task_id"]


async def test_other_state_and_other_agents_are_left_as_they_are(
    agent: RunningAgent, thread: str
) -> None:
    others = {"version": 1, "targets": {"a2a:https://other.example": {"anything": 1}}}
    state = PersistedState(revision=7, extensions={"mine": [1], REMOTE_STATE_KEY: others})
    kept = Kept()
    result = await backend_for(agent.base).execute_root(
        root(thread, "say x", state=state, kept=kept)
    )
    assert result.state is not None
    assert result.state.revision == 7
    assert result.state.extensions["mine"] == [1]
    targets = result.state.extensions[REMOTE_STATE_KEY]["targets"]
    assert targets["a2a:https://other.example"] == {"anything": 1}
    assert all(set(values) == {REMOTE_STATE_KEY} for values in kept.saves)
    assert all(len(values[REMOTE_STATE_KEY]["targets"]) == 2 for values in kept.saves)


async def test_being_let_in_elsewhere_lets_the_task_go_on(agent: RunningAgent, thread: str) -> None:
    backend = backend_for(agent.base)
    waiting = await backend.execute_root(root(thread, f"auth {thread}"))
    assert str(waiting.status) == "waiting_auth: log in first"
    assert waiting.status_reason == "auth_required"
    still = await backend.execute_root(root(thread, state=waiting.state, continued=True))
    assert still.status.kind is BackendStatusKind.WAITING_AUTH
    agent.go(thread)
    done = await backend.execute_root(root(thread, state=still.state, continued=True))
    while done.status.kind is BackendStatusKind.WAITING_AUTH:  # the agent is let in a moment later
        done = await backend.execute_root(root(thread, state=done.state, continued=True))
    assert done.response == "welcome"
    assert len(agent.sends(f"auth {thread}")) == 1


# -- time and cancelling ----------------------------------------------------------------------


async def test_too_long_is_a_timeout_and_the_task_is_cancelled(
    wire: dict[str, Any], agent: RunningAgent, thread: str
) -> None:
    """03/MH-5 timeout maps to timeout."""
    backend = backend_for(**wire, timeout_ms=300)
    result = await backend.execute_root(root(thread, "hold for ever"))
    assert result.status.kind is BackendStatusKind.TIMEOUT
    assert result.termination == Stopped(value=StoppedReason(code="timeout"))
    entry = remote_entry(result.state)
    assert entry["last_state"] == "TASK_STATE_CANCELED"
    assert agent.task(entry["task_id"])["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_timeout_may_leave_the_task_alone(agent: RunningAgent, thread: str) -> None:
    clock = FakeClock(auto=True)
    backend = backend_for(
        agent.base,
        clock=clock,
        timeout_ms=3000,
        poll_interval_ms=1000,
        streaming=False,
        cancel_on_timeout=False,
    )
    result = await backend.execute_root(root(thread, "hold for ever"))
    assert result.status.kind is BackendStatusKind.TIMEOUT
    assert clock.sleeps == [1.0, 1.0, 1.0]
    entry = remote_entry(result.state)
    assert agent.task(entry["task_id"])["status"]["state"] == "TASK_STATE_WORKING"


async def test_the_deadline_counts_for_streaming_and_polling_together(
    agent: RunningAgent, thread: str
) -> None:
    """03/DB-14 one deadline, also after falling back to polling."""
    backend = backend_for(f"{agent.base}/x/nosub-404", timeout_ms=300)
    result = await backend.execute_root(root(thread, "hold for ever"))
    assert result.status.kind is BackendStatusKind.TIMEOUT


async def test_time_runs_out_while_a_blocking_send_waits(agent: RunningAgent, thread: str) -> None:
    backend = backend_for(agent.base, timeout_ms=300, return_immediately=False)
    result = await backend.execute_root(root(thread, "hold for ever", kept=Kept()))
    assert result.status.kind is BackendStatusKind.TIMEOUT
    (task,) = agent.tasks(thread)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
    assert remote_entry(result.state)["task_id"] == task["id"]


async def test_abort_cancels_the_task_of_a_run_that_was_cut_short(
    wire: dict[str, Any], agent: RunningAgent, thread: str
) -> None:
    backend = backend_for(**wire)
    await cut_short(backend, thread, "hold for ever")
    await backend.abort(abort(thread))
    assert agent.state_of_only_task(thread) == "TASK_STATE_CANCELED"
    await backend.abort(abort(thread))  # and is forgotten


async def test_abort_finds_the_task_of_another_process_whatever_its_state(
    agent: RunningAgent, thread: str
) -> None:
    """03/MH-5 abort falls back to persisted state; 03/DB-14 of any task that is not over."""
    kept = Kept()
    await cut_short(backend_for(agent.base), thread, "hold for ever", kept)
    await backend_for(agent.base).abort(abort(thread, kept.state))
    assert agent.state_of_only_task(thread) == "TASK_STATE_CANCELED"


async def test_abort_cancels_a_task_that_waits(agent: RunningAgent, thread: str) -> None:
    """03/MH-5 abort falls back to interrupted persisted state."""
    waiting = await backend_for(agent.base).execute_root(root(thread, "ask Well?"))
    await backend_for(agent.base).abort(abort(thread, waiting.state))
    assert agent.state_of_only_task(thread) == "TASK_STATE_CANCELED"


async def test_abort_looks_for_a_task_whose_name_was_never_kept(
    agent: RunningAgent, thread: str
) -> None:
    """03/DB-14 a message on its way is looked for by its context."""
    kept = Kept()
    await cut_short(backend_for(agent.base), thread, "hold for ever", kept)
    sending = PersistedState(extensions=kept.saves[0])
    await backend_for(agent.base).abort(abort(thread, sending))
    assert agent.state_of_only_task(thread) == "TASK_STATE_CANCELED"


async def test_abort_waits_a_moment_for_a_message_that_is_on_its_way(
    agent: RunningAgent, thread: str
) -> None:
    kept, clock = Kept(crash_after=1), FakeClock()
    with pytest.raises(Crash):
        await backend_for(agent.base).execute_root(root(thread, "hold for ever", kept=kept))
    aborting = asyncio.ensure_future(
        backend_for(agent.base, clock=clock).abort(abort(thread, kept.state))
    )
    await clock.until_sleeping()
    await cut_short(backend_for(agent.base), thread, "hold for ever")  # now it arrives
    clock.advance(1)
    await aborting
    assert agent.state_of_only_task(thread) == "TASK_STATE_CANCELED"


async def test_abort_cancels_a_task_whose_answer_never_left(
    agent: RunningAgent, thread: str
) -> None:
    """03/DB-14: the message is nowhere, and the task it was to answer waits still."""
    waiting = await backend_for(agent.base).execute_root(root(thread, "ask Well?"))
    kept, clock = Kept(crash_after=1), FakeClock(auto=True)
    answer = root(thread, "Blue.", kept=kept, state=waiting.state, continued=True)
    with pytest.raises(Crash):
        await backend_for(agent.base).execute_root(answer)
    await backend_for(agent.base, clock=clock).abort(abort(thread, kept.state))
    assert agent.state_of_only_task(thread) == "TASK_STATE_CANCELED"


async def test_abort_of_what_is_over_or_never_was_does_nothing(
    agent: RunningAgent, thread: str
) -> None:
    backend, kept = backend_for(agent.base), Kept()
    await backend.abort(abort(thread))
    done = await backend.execute_root(root(thread, "say x", kept=kept))
    before = len(agent.log())
    await backend.abort(abort(thread, done.state))
    assert len(agent.log()) == before
    await backend.abort(abort(thread, kept.state))  # the record was older: it says submitted
    assert agent.state_of_only_task(thread) == "TASK_STATE_COMPLETED"


async def test_abort_leaves_the_task_of_the_run_before_alone(
    agent: RunningAgent, thread: str
) -> None:
    waiting = await backend_for(agent.base).execute_root(
        root(thread, "ask Well?", run=f"{thread}-1")
    )
    await backend_for(agent.base).abort(abort(thread, waiting.state, run=f"{thread}-2"))
    assert agent.state_of_only_task(thread) == "TASK_STATE_INPUT_REQUIRED"


# -- delegates --------------------------------------------------------------------------------


async def test_a_delegate_gets_a_context_of_its_own(agent: RunningAgent, thread: str) -> None:
    sink = Sink()
    result = await backend_for(agent.base).execute_delegate(delegate(f"say {thread}", sink=sink))
    assert result.response == thread
    assert result.state is None
    (message,) = agent.sends(thread)
    assert "contextId" not in message
    last = sink.events[-1]
    assert last.parent_run_id == "p-run"
    assert last.run_id == last.thread_id == result.run_id


async def test_a_delegate_that_waits_always_says_what_for(agent: RunningAgent) -> None:
    result = await backend_for(agent.base).execute_delegate(delegate("ask"))
    assert str(result.status) == "waiting_input: the remote agent needs more input"


async def test_cancelling_the_parent_cancels_the_delegates_task(agent: RunningAgent) -> None:
    """03/DB-6 delegates heed their parent's cancellation."""
    token, sink = CancellationToken(), Sink()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            backend_for(agent.base).execute_delegate(
                delegate("hold for ever", sink=sink, token=token)
            )
        )
        progress = await sink.until_state("TASK_STATE_WORKING")
        token.cancel()
    assert running.result().status.kind is BackendStatusKind.CANCELLED
    assert running.result().termination == CANCELLED
    assert agent.task(progress["task_id"])["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_delegate_whose_parent_is_gone_is_cancelled(agent: RunningAgent) -> None:
    sink = Sink()
    running = asyncio.ensure_future(
        backend_for(agent.base).execute_delegate(delegate("hold for ever", sink=sink))
    )
    progress = await sink.until_state("TASK_STATE_WORKING")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert agent.task(progress["task_id"])["status"]["state"] == "TASK_STATE_CANCELED"
