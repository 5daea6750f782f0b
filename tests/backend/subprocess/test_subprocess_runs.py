"""Runs in processes of their own, from the request to the result (02 §2)."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import msgspec
import pytest
from process_stage import HERE, Stage, backend_for, delegate, root

from awaken.core.backend import (
    BackendAgentNotFound,
    BackendRunStatus,
    BackendStatusKind,
    ExecutionBackendError,
    ExecutionFailed,
    RemoteError,
)
from awaken.core.budget import Amount
from awaken.core.event import (
    ActivitySnapshot,
    CollectingSink,
    NullEventSink,
    RunFinish,
    RunStart,
    TextDelta,
    ToolCallDone,
)
from awaken.core.identity import RunIdentity, RunOrigin
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import NATURAL_END, Failed
from awaken.core.message import Message

pytestmark = pytest.mark.anyio


# -- answers ----------------------------------------------------------------------------------


async def test_an_agent_answers_from_a_process_of_its_own() -> None:
    """02 §2.5: response and output are its last text; the run keeps the id it was given."""
    result = await backend_for("echo").execute_root(root("Grüße 🐍\n\u2028"))

    assert result.status == BackendRunStatus.completed()
    assert result.termination == NATURAL_END
    assert result.response == result.output.text == "Grüße 🐍\n\u2028"
    assert (result.agent_id, result.run_id, result.steps) == ("remote", "r", 1)
    assert result.spending is not None
    spent = result.spending.spent
    assert spent == Amount(steps=1, tokens=spent.tokens)


async def test_the_agent_reads_the_whole_conversation() -> None:
    """02 §2.2: `full_transcript`, with its calls and their results."""
    before = [
        Message.user("first", id="m1"),
        Message.assistant("second", id="m2"),
        Message.internal_system("a note", id="m3"),
    ]
    new = Message.user("third", id="m4")

    result = await backend_for("reader").execute_root(
        root(messages=[*before, new], new_messages=[new])
    )

    assert result.response == "user: first | assistant: second | system: a note | user: third"


async def test_messages_without_ids_are_taken() -> None:
    nameless = msgspec.structs.replace(Message.user("who?"), id=None)

    result = await backend_for("echo").execute_root(
        root(messages=[nameless], new_messages=[nameless])
    )

    assert result.response == "who?"


async def test_without_anything_new_the_agent_goes_by_what_is_there() -> None:
    result = await backend_for("echo").execute_root(
        root(messages=[Message.user("old", id="m")], new_messages=[])
    )

    assert result.response == "old"


async def test_an_agent_without_an_answer_has_no_response() -> None:
    """02 §2.13: absent when empty."""
    result = await backend_for("silent").execute_root(root())

    assert result.status == BackendRunStatus.completed()
    assert result.response is result.output.text is None


@pytest.mark.parametrize("heat", [None, 0.25])
async def test_overrides_reach_the_model(heat: float | None) -> None:
    """02 §2.3: what is claimed is done."""
    overrides = None if heat is None else InferenceOverride(temperature=heat)

    result = await backend_for("heat").execute_root(root(overrides=overrides))

    assert json.loads(result.response or "") == heat


async def test_the_run_is_who_its_parent_says_it_is() -> None:
    identity = RunIdentity(thread_id="t9", run_id="r9", parent_run_id="p9", agent_id="remote")

    result = await backend_for("somebody").execute_root(root(run_identity=identity))

    assert json.loads(result.response or "") == {"run": "r9", "thread": "t9", "parent": "p9"}


# -- which agent ------------------------------------------------------------------------------


async def test_a_function_makes_the_agent() -> None:
    assert (await backend_for("made").execute_root(root())).response == "made on the spot"


async def test_the_target_is_one_of_several() -> None:
    request = root(messages=[Message.user("one", id="1"), Message.user("two", id="2")])

    results = [
        await backend_for("several", target=target).execute_root(request)
        for target in ("echo", "recalling")
    ]

    assert [result.response for result in results] == ["two", "one"]


@pytest.mark.parametrize(
    ("agent", "target", "error", "text"),
    [
        ("several", None, BackendAgentNotFound, "has no agent 'remote'; it has: echo, recalling"),
        ("several", "ghost", BackendAgentNotFound, "has no agent 'ghost'"),
        ("missing", None, BackendAgentNotFound, "module 'process_agents' has no 'missing'"),
        ("nonsense", None, ExecutionFailed, "process_agents:nonsense is an int: point at an Agent"),
        ("later", None, ExecutionFailed, "process_agents:later is a coroutine"),
        ("broken", None, ExecutionFailed, "raised LookupError: no such thing"),
    ],
)
async def test_an_agent_that_cannot_be_had_is_refused(
    agent: str, target: str | None, error: type[ExecutionBackendError], text: str
) -> None:
    with pytest.raises(error, match="agent 'remote': ") as refused:
        await backend_for(agent, target=target).execute_root(root())

    assert text in str(refused.value)


async def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    backend = backend_for("echo", options={"cwd": str(tmp_path)})

    with pytest.raises(BackendAgentNotFound, match=r"no module 'process_agents'.*options\.cwd"):
        await backend.execute_root(root())


# -- events -----------------------------------------------------------------------------------


async def test_of_a_root_only_its_activity_is_told() -> None:
    """02 §2.9: whoever runs a root tells of its borders and of its answer."""
    request = root()

    await backend_for("chatty").execute_root(request)

    assert isinstance(request.sink, CollectingSink)
    (event,) = request.sink.events()
    assert (event.thread_id, event.run_id, event.seq) == ("t", "r", None)
    assert isinstance(event.event, ActivitySnapshot)
    assert event.event.activity_type == "thinking"


async def test_all_that_a_delegate_tells_is_passed_on() -> None:
    """02 §2.14: with an identity of its own, its parent's beside it."""
    request = delegate()

    result = await backend_for("chatty").execute_delegate(request)

    assert isinstance(request.sink, CollectingSink)
    events = request.sink.events()
    kinds = [type(event.event) for event in events]
    assert (kinds[0], kinds[-1]) == (RunStart, RunFinish)
    assert {ToolCallDone, TextDelta, ActivitySnapshot} < set(kinds)
    assert {event.run_id for event in events} == {result.run_id}
    assert result.run_id not in (None, "parent")
    assert {event.seq for event in events} == {None}
    start = events[0].event
    assert isinstance(start, RunStart)
    assert start.identity == RunIdentity(
        thread_id=result.run_id or "",
        run_id=result.run_id or "",
        parent_run_id="parent",
        parent_thread_id="above",
        parent_tool_call_id="call",
        agent_id="remote",
        origin=RunOrigin.SUBAGENT,
    )


async def test_what_the_agent_prints_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Its stdin is empty, its stdout is the protocol's."""
    caplog.set_level(logging.INFO, "awaken.backend.subprocess")

    result = await backend_for("chatty").execute_root(root(sink=NullEventSink()))

    assert result.response == "read ''"
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "remote: printed ☃",
        "remote: written to the file itself",
        "remote: said by another process",
        "remote: to stderr",
    ]


async def test_a_listener_that_fails_ends_the_run() -> None:
    class Deaf(CollectingSink):
        async def emit(self, event: object) -> None:
            raise OSError("the line is dead")

    with pytest.raises(ExecutionFailed, match="could not be passed on: the line is dead"):
        await backend_for("chatty").execute_root(root(sink=Deaf()))


# -- surroundings -----------------------------------------------------------------------------


async def test_a_process_inherits_little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Secrets of ours are not the agent's, unless somebody says so."""
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("OTHER_API_KEY", "secret, too")
    monkeypatch.setenv("LC_TIME", "C")
    options = {
        "env": {"EXTRA": "yes", "HOME": str(tmp_path)},
        "pass_env": ["OTHER_API_KEY", "NOT_THERE"],
    }

    result = await backend_for("looking", options=options).execute_root(root())

    seen = json.loads(result.response or "")
    env = seen["env"]
    assert "SOME_API_KEY" not in env
    assert "NOT_THERE" not in env
    assert env["OTHER_API_KEY"] == "secret, too"
    assert (env["EXTRA"], env["HOME"], env["LC_TIME"]) == ("yes", str(tmp_path), "C")
    assert "PATH" in env
    assert (seen["cwd"], seen["python"]) == (str(HERE), sys.executable)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"python": "/nowhere/python"}, "'/nowhere/python' cannot be started"),
        ({"cwd": "/nowhere"}, "cannot be started in '/nowhere'"),
        ({"python": str(HERE)}, "cannot be started"),
        ({"env": {"A": "\x00"}}, "cannot be started"),
    ],
)
async def test_a_process_that_cannot_be_started_is_refused(
    options: dict[str, object], text: str
) -> None:
    with pytest.raises(ExecutionFailed, match="agent 'remote': ") as refused:
        await backend_for("echo", options=options).execute_root(root())

    assert text in str(refused.value)


async def test_agents_that_start_each_other_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process knows how many are above it."""
    monkeypatch.setenv("AWAKEN_PROCESS_DEPTH", "6")

    result = await backend_for("looking").execute_root(root())

    assert json.loads(result.response or "")["env"]["AWAKEN_PROCESS_DEPTH"] == "7"
    monkeypatch.setenv("AWAKEN_PROCESS_DEPTH", "8")
    with pytest.raises(ExecutionFailed, match="at most 8 levels deep"):
        await backend_for("looking").execute_root(root())


# -- failures ---------------------------------------------------------------------------------


async def test_a_run_that_breaks_off_has_failed() -> None:
    result = await backend_for("failing").execute_root(root())

    assert result.status.kind is BackendStatusKind.FAILED
    assert "the model is out of order" in (result.status.message or "")
    assert result.termination == Failed(value=result.status.message or "")


async def test_an_agent_that_would_ask_a_person_has_failed() -> None:
    """It does not wait for what cannot come, and says what to do about it."""
    result = await backend_for("asking").execute_root(root())

    assert result.status == BackendRunStatus.failed(
        "agent 'remote' waits for an answer to 'pay', which cannot come: its process ends with "
        "its run. Run the agent here, without an endpoint, or give it tools that need no approval"
    )
    assert isinstance(result.termination, Failed)


async def test_a_process_that_ends_in_mid_run_is_reported_with_the_end_of_its_stderr() -> None:
    with pytest.raises(RemoteError) as died:
        await backend_for("leaving").execute_root(root())

    first, *words = str(died.value).splitlines()
    assert first == (
        "remote error: agent 'remote': its process exited with code 7 before its run ended; "
        "the end of its stderr:"
    )
    assert words == [f"line {number}" for number in range(10, 30)]


async def test_a_process_that_crashes_is_reported_with_its_signal() -> None:
    with pytest.raises(RemoteError, match="its process was killed by SIGSEGV"):
        await backend_for("crashing").execute_root(root())


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo rubbish; sleep 600", "broke the protocol and was killed; it wrote b'rubbish\\n'"),
        ('echo \'{"type": "start"}\'; sleep 600', "broke the protocol and was killed"),
        ("exit 0", "exited with code 0 before its run ended, its stderr is empty"),
        ("printf half; exit 3", "exited with code 3"),
        ("echo no awaken here >&2; exit 1", "the end of its stderr:\nno awaken here"),
    ],
)
async def test_what_is_not_the_protocol_is_a_remote_error(
    tmp_path: Path, script: str, text: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nread line\n{script}\n")
    python.chmod(0o755)

    with pytest.raises(RemoteError) as refused:
        await backend_for("echo", options={"python": str(python)}).execute_root(root())

    assert text in str(refused.value)


async def test_a_line_that_is_too_long_is_a_remote_error() -> None:
    backend = backend_for("echo", options={"max_line_bytes": 1_024})

    with pytest.raises(RemoteError, match=r"too long for options\.max_line_bytes"):
        await backend.execute_root(root("x" * 2_000))

    assert (await backend.execute_root(root("x" * 500))).response == "x" * 500


async def test_a_conversation_that_is_no_json_is_refused() -> None:
    with pytest.raises(ExecutionFailed, match="cannot be written as JSON"):
        await backend_for("echo").execute_root(root("half a character: \ud83d"))


async def test_a_run_that_takes_too_long_is_ended() -> None:
    """02/B1: a first-class status."""
    async with Stage.open() as stage:
        backend = backend_for("slow", options=stage.options, timeout_ms=1_000)

        result = await backend.execute_root(root())

        assert result.status == BackendRunStatus.timeout()
        assert result.termination == Failed(value="agent 'remote' took longer than 1000 ms")
        assert not any(guest.is_there for guest in stage.guests)
