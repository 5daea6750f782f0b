"""Agents that answer rubbish, break off, send elsewhere, or are not there."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from a2a_harness import (
    TOKEN,
    Kept,
    RunningAgent,
    Sink,
    abort,
    backend_for,
    cut_short,
    let_go_when_working,
    nowhere,
    remote_entry,
    root,
    running_agent,
)

from awaken.backend.a2a.deadline import MAX_PAUSE_SECONDS
from awaken.codec import dumps_text
from awaken.core.backend import BackendStatusKind, RemoteError
from awaken.net.url_policy import UrlRefused
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

BEARER = {"type": "bearer", "token": TOKEN}


@pytest.fixture(scope="module")
def other() -> Iterator[RunningAgent]:
    with running_agent() as running:
        yield running


# -- rubbish ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("html", "answered 'text/html' where JSON was asked for"),
        ("broken", "sent an answer that is not JSON"),
        ("latin", "sent an answer that is not JSON"),
        ("deep", "sent an answer that is not JSON"),
        ("neither", "neither a task nor a message"),
        ("list", "not a SendMessageResponse"),
        ("numbers", "not a SendMessageResponse"),
        ("endless", "not a SendMessageResponse"),
        ("anonymous", "a task without an id"),
        ("odd", "a task without an id"),
        ("huge", "more than 100000 bytes, which is the endpoint's option max_response_bytes"),
        ("gzip", "answers compressed"),
        ("crash", "answered 500"),
        ("unauthorised", "answered 401"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_that_says_so(
    agent: RunningAgent, thread: str, kind: str, error: str
) -> None:
    backend = backend_for(f"{agent.base}/x/answer-{kind}", max_response_bytes=100_000)
    with pytest.raises(RemoteError, match=error) as caught:
        await backend.execute_root(root(thread, "say x"))
    assert agent.base in str(caught.value)


async def test_an_endless_answer_is_given_up_while_it_is_read(
    agent: RunningAgent, thread: str
) -> None:
    backend = backend_for(f"{agent.base}/x/endless-", max_response_bytes=100_000)
    with pytest.raises(RemoteError, match="more than 100000 bytes"):
        await backend.execute_root(root(thread, "say x"))


async def test_an_agent_that_is_not_there_is_named(thread: str) -> None:
    base = nowhere()
    with pytest.raises(RemoteError, match=f"cannot connect to {base}"):
        await backend_for(base).execute_root(root(thread, "say x"))


# -- streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        "nosub-404",
        "nosub-405",
        "nosub-501",
        "substream-html",
        "substream-broken",
        "substream-latin",
        "substream-empty",
        "substream-error",
        "cutstream-",
        "headless-",
        "postsub-",
    ],
)
async def test_what_a_stream_does_not_tell_is_looked_for(
    agent: RunningAgent, thread: str, fault: str
) -> None:
    backend = backend_for(f"{agent.base}/x/{fault}")
    result, _ = await let_go_when_working(agent, backend, thread, f"rewrite {thread}")
    assert result.status.kind is BackendStatusKind.COMPLETED
    assert result.response == "final"
    assert len(result.output.artifacts) == 2
    assert len(agent.sends(f"rewrite {thread}")) == 1


async def test_what_was_made_before_a_stream_began_is_not_missed(
    agent: RunningAgent, thread: str
) -> None:
    backend = backend_for(f"{agent.base}/x/headless-")
    result, sink = await let_go_when_working(agent, backend, thread, f"early {thread}")
    assert result.response == "early bird"
    assert sink.progress[-1]["text"] == "early bird"


async def turn(clock: FakeClock, seconds: float) -> None:
    """Let time pass whenever somebody waits for it."""
    while True:
        await clock.until_sleeping()
        clock.advance(seconds)


async def test_polling_waits_between_looks_on_the_given_clock(
    agent: RunningAgent, thread: str
) -> None:
    clock, sink = FakeClock(), Sink()
    backend = backend_for(agent.base, clock=clock, streaming=False, poll_interval_ms=1500)
    running = asyncio.ensure_future(backend.execute_root(root(thread, f"hold {thread}", sink=sink)))
    await clock.until_sleeping()
    agent.go(thread)
    turning = asyncio.ensure_future(turn(clock, 1.5))
    result = await running
    turning.cancel()
    assert result.response == f"held {thread}"
    assert set(clock.sleeps) == {1.5}


@pytest.mark.parametrize("status", ["503", "429"])
async def test_an_agent_that_is_busy_is_asked_again(
    agent: RunningAgent, thread: str, status: str
) -> None:
    clock = FakeClock(auto=True)
    backend = backend_for(f"{agent.base}/x/busy-{status}-{thread}", clock=clock, streaming=False)
    result = await backend.execute_root(root(thread, "say x"))
    assert result.response == "x"


async def test_an_agent_that_dies_is_asked_until_the_time_is_over(thread: str) -> None:
    """Its task may be at work, and can be heard of no more: that is told, and not taken for its
    end."""
    sink, clock = Sink(), FakeClock(auto=True)
    with running_agent() as mortal:
        backend = backend_for(mortal.base, clock=clock)
        running = asyncio.ensure_future(
            backend.execute_root(root(thread, "die now", sink=sink, kept=Kept()))
        )
        await sink.until_state("TASK_STATE_WORKING")
        mortal.process.kill()
        result = await running
    assert result.status.kind is BackendStatusKind.TIMEOUT
    entry = remote_entry(result.state)
    assert result.left_running is not None
    assert f"task {entry['task_id']!r} was not cancelled: cannot connect" in result.left_running
    assert sink.progress[-1]["unreachable"].startswith(f"cannot connect to {mortal.base}")
    assert clock.sleeps == sorted(clock.sleeps[:-1]) + clock.sleeps[-1:]
    assert max(clock.sleeps) == MAX_PAUSE_SECONDS


class Door:
    """A way to an agent that can be shut."""

    def __init__(self, port: int) -> None:
        self.base = ""
        self.refused = 0
        self._port = port
        self._opens_after: int | None = 0
        self._open: set[asyncio.StreamWriter] = set()

    def shut(self, opens_after: int | None = None) -> None:
        """Hang up on everybody, and on so many that come; on all of them if nothing is said."""
        self._opens_after = opens_after
        for writer in self._open:
            writer.transport.abort()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._opens_after is None or self.refused < self._opens_after:
            self.refused += 1
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, back}
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, back))
            group.create_task(_pass_on(there, writer))

    @classmethod
    @asynccontextmanager
    async def to(cls, port: int) -> AsyncIterator[Door]:
        door = cls(port)
        server = await asyncio.start_server(door._let_in, "127.0.0.1", 0)
        door.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield door
            door.shut()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()


async def test_a_task_is_followed_again_once_its_agent_can_be_reached(
    agent: RunningAgent, thread: str
) -> None:
    """However often it could not: the task is on record, and there is time."""
    sink, clock = Sink(), FakeClock(auto=True)
    async with Door.to(agent.port) as door:
        backend = backend_for(door.base, clock=clock)
        running = asyncio.ensure_future(
            backend.execute_root(root(thread, f"hold {thread}", sink=sink, kept=Kept()))
        )
        await sink.until_state("TASK_STATE_WORKING")
        door.shut(opens_after=10)
        while not any("unreachable" in content for content in sink.progress):
            await sink.news()
        agent.go(thread)
        result = await running

    assert (result.response, result.left_running) == (f"held {thread}", None)
    assert door.refused == 10


async def test_a_task_that_goes_on_though_it_was_cancelled_is_not_taken_for_stopped(
    agent: RunningAgent, thread: str
) -> None:
    """That the agent takes the cancel is not that the task has ended."""
    backend, kept = backend_for(f"{agent.base}/x/nocancel-", clock=FakeClock(auto=True)), Kept()
    await cut_short(backend, thread, f"hold {thread}", kept)

    task_id = kept.entries()[-1]["task_id"]
    with pytest.raises(RemoteError, match="is still TASK_STATE_WORKING") as caught:
        await backend.abort(abort(thread, kept.state))
    assert caught.value.message.startswith(f"task '{task_id}' was not cancelled: ")


@pytest.mark.parametrize("fault", ["", "answer-unauthorised"])
async def test_a_message_that_surely_set_nothing_off_leaves_nothing(
    agent: RunningAgent, thread: str, fault: str
) -> None:
    backend = backend_for(f"{agent.base}/x/{fault}" if fault else nowhere())
    with pytest.raises(RemoteError) as caught:
        await backend.execute_root(root(thread, "say x", kept=Kept()))
    assert caught.value.is_over


async def test_a_message_nobody_knows_the_fate_of_may_have_set_something_off(
    agent: RunningAgent, thread: str
) -> None:
    backend = backend_for(f"{agent.base}/x/answer-crash")
    with pytest.raises(RemoteError) as caught:
        await backend.execute_root(root(thread, "say x", kept=Kept()))
    assert not caught.value.is_over


# -- redirects, and who may have the token ----------------------------------------------------


async def test_a_redirect_on_the_same_origin_is_followed_with_the_token(
    agent: RunningAgent, thread: str
) -> None:
    backend = backend_for(f"{agent.base}/x/redirect-307-same", auth=BEARER)
    result = await backend.execute_root(root(thread, f"say {thread}"))
    assert result.response == thread
    asked = agent.log(path="/message:send", text=thread)
    assert [one["headers"]["authorization"] for one in asked] == [f"Bearer {TOKEN}"] * 2


async def test_a_redirect_to_another_origin_does_not_take_the_token_along(
    agent: RunningAgent, other: RunningAgent, thread: str
) -> None:
    """03/DB-14 token audience = origin."""
    backend = backend_for(f"{agent.base}/x/redirect-307-{other.port}", auth=BEARER)
    result = await backend.execute_root(root(thread, f"say {thread}"))
    assert result.response == thread
    assert other.sends(thread)
    assert all("authorization" not in one["headers"] for one in other.log(text=thread))


async def test_an_origin_may_be_given_the_token(
    agent: RunningAgent, other: RunningAgent, thread: str
) -> None:
    backend = backend_for(
        f"{agent.base}/x/redirect-308-{other.port}", auth=BEARER, token_hosts=[other.base]
    )
    await backend.execute_root(root(thread, f"say {thread}"))
    (asked,) = other.log(path="/message:send", text=thread)
    assert asked["headers"]["authorization"] == f"Bearer {TOKEN}"


async def test_who_is_refused_for_lack_of_a_withheld_token_is_told_why(
    agent: RunningAgent, thread: str
) -> None:
    backend = backend_for(
        f"{agent.base}/x/answer-unauthorised", auth=BEARER, token_audience="https://a.example"
    )
    with pytest.raises(RemoteError, match=r"credentials were not sent to .*token_hosts"):
        await backend.execute_root(root(thread, "say x"))


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("307-metadata", "link-local address"),
        ("307-file", "not an http or https URL"),
        ("307-nowhere", "without saying where to go"),
        ("307-loop", "redirects more than 3 times"),
        ("302-same", "redirect 302: set the endpoint's base_url"),
    ],
)
async def test_redirects_that_lead_nowhere_good_are_not_followed(
    agent: RunningAgent, thread: str, where: str, error: str
) -> None:
    """03/DB-14 the policy holds on every hop."""
    backend = backend_for(f"{agent.base}/x/redirect-{where}")
    with pytest.raises((RemoteError, UrlRefused), match=error):
        await backend.execute_root(root(thread, "say x"))


async def test_what_is_open_is_a_name_not_every_address_it_redirects_to(
    agent: RunningAgent, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """03/DB-14 the policy holds on every hop."""
    names = Names({"agent.test": ["127.0.0.1"], "agent.localhost": ["8.8.8.8"]})
    monkeypatch.setattr(socket, "getaddrinfo", names)
    base = f"http://agent.test:{agent.port}"
    opened: dict[str, Any] = {"allow_private": False, "allow_hosts": ["agent.test"]}
    same = backend_for(f"{base}/x/redirect-307-same", **opened)
    assert (await same.execute_root(root(thread, "say x"))).response == "x"
    literal = backend_for(f"{base}/x/redirect-307-loopback", **opened)
    with pytest.raises(UrlRefused, match=r"'127.0.0.1' has a loopback address"):
        await literal.execute_root(root(thread, "say x"))
    machine = backend_for(f"{base}/x/redirect-307-machine", **opened)
    with pytest.raises(UrlRefused, match=r"'agent.localhost' is this machine"):
        await machine.execute_root(root(thread, "say x"))
    assert set(names.asked) == {"agent.test"}


# -- names ------------------------------------------------------------------------------------


class Names:
    """Answers for names as told, one answer after another; the last one stays."""

    def __init__(self, answers: dict[str, list[str]]) -> None:
        self._answers = answers
        self._real = socket.getaddrinfo
        self.asked: list[str] = []

    def __call__(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in self._answers:
            return self._real(host, port, *args, **kwargs)
        self.asked.append(host)
        left = self._answers[host]
        address = left.pop(0) if len(left) > 1 else left[0]
        return self._real(address, port, *args, **kwargs)


async def test_a_name_is_looked_up_once_and_the_connection_goes_where_was_checked(
    agent: RunningAgent, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """03/DB-14 no rebinding: a second answer, to something refused, is never asked for."""
    names = Names({"agent.test": ["127.0.0.1", "10.0.0.1"]})
    monkeypatch.setattr(socket, "getaddrinfo", names)
    backend = backend_for(
        f"http://agent.test:{agent.port}", allow_private=False, allow_hosts=["127.0.0.0/8"]
    )
    result = await backend.execute_root(root(thread, f"say {thread}"))
    assert result.response == thread
    assert names.asked == ["agent.test"]
    (asked,) = agent.log(path="/message:send", text=thread)
    assert asked["headers"]["host"] == f"agent.test:{agent.port}"


async def test_a_name_that_leads_inside_is_refused(
    agent: RunningAgent, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Names({"agent.test": ["127.0.0.1"]}))
    before = len(agent.log())
    backend = backend_for(f"http://agent.test:{agent.port}", allow_private=False)
    with pytest.raises(UrlRefused, match=r"host 'agent.test' \(127.0.0.1\) has a loopback"):
        await backend.execute_root(root(thread, "say x"))
    assert len(agent.log()) == before


async def test_a_name_nobody_knows_is_said_so(thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(RemoteError, match=r"cannot connect to http://agent.test: .*no such name"):
        await backend_for("http://agent.test").execute_root(root(thread, "say x"))


# -- secrets ----------------------------------------------------------------------------------


async def test_a_secret_is_nowhere_but_in_its_header(
    agent: RunningAgent, thread: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kept, sink = Kept(), Sink()
    backend = backend_for(agent.base, auth=BEARER)
    result = await backend.execute_root(root(thread, "complete x", kept=kept, sink=sink))
    leaky = backend_for(f"{agent.base}/x/answer-leak", auth=BEARER)
    with pytest.raises(RemoteError, match=r"no \*\*\*") as caught:
        await leaky.execute_root(root(thread, "say x", kept=kept))
    seen = [
        caplog.text,
        repr(backend),
        repr(vars(backend)),
        repr(result),
        str(caught.value),
        dumps_text(kept.saves),
        dumps_text([event.event for event in sink.events]),
        dumps_text(result.state),
    ]
    assert all(TOKEN not in text for text in seen)
