"""What an agent elsewhere says is read with care: its card, its errors, our own token in them."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from a2a_harness import TOKEN, Kept, Sink, backend_for, endpoint, root
from test_a2a_floods import WORKING, Json, talker

from awaken.backend.a2a import RemoteSource
from awaken.backend.a2a.card import agent_on_card
from awaken.backend.a2a.config import read_config
from awaken.codec import dumps, dumps_text, loads
from awaken.core.backend import RemoteError
from awaken.core.spec import AgentSpec
from awaken.errors import DiscoveryFailed

pytestmark = pytest.mark.anyio

BEARER = {"type": "bearer", "token": TOKEN}


def find_agent(base: str = "https://agents.example", auth: Any = None, **card: Any) -> AgentSpec:
    interface = {"protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
    offered = {**interface, "url": card.pop("url", "https://a.example"), **card.pop("more", {})}
    source = RemoteSource(name="lab", endpoint=endpoint(base, **({"auth": auth} if auth else {})))
    return agent_on_card(source, dumps({"name": "N", "supportedInterfaces": [offered], **card}))


# -- cards ------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://a.example/a2a", "HTTP://agents.example/"])
def test_a_card_that_came_safely_does_not_lead_to_an_open_line(url: str) -> None:
    with pytest.raises(
        DiscoveryFailed, match=r"names 'http://.*: what is said to it could be read"
    ):
        find_agent(url=url.lower())
    with pytest.raises(DiscoveryFailed):
        find_agent(url=url)
    assert find_agent("http://agents.example", url=url.lower()).endpoint is not None


def test_a_description_is_bounded_and_nothing_but_text() -> None:
    """Models read it, as what a tool can do."""
    spec = find_agent(description="A\x1b]52;c;x\x07 fine\r\nagent\u202e." + "x" * 10_000)
    assert spec.description is not None
    assert spec.description.startswith("A\ufffd]52;c;x\ufffd fine\nagent\ufffd.xxx")
    assert len(spec.description) < 4_002
    assert spec.description.endswith("x…")


@pytest.mark.parametrize(
    ("tenant", "id"),
    [
        ("tenant-7", "tenant-7"),
        ("Team_1.a", "Team_1.a"),
        ("team a/b", "team-a-b"),
        ("../../etc", "etc"),
        ("x" * 65, "x" * 64),
        ("x" * 63 + "-y", "x" * 63),
        ("-", "agent"),
    ],
)
def test_an_id_is_made_of_letters_and_digits(tenant: str, id: str) -> None:
    spec = find_agent(more={"tenant": tenant, "protocolBinding": "JSONRPC"})
    assert spec.id == id
    assert spec.endpoint is not None
    assert spec.endpoint.target == tenant, "the agent is still asked by its own name"


def test_a_name_gives_a_short_id() -> None:
    assert find_agent(name="Very " * 100).id == ("very-" * 13)[:64]


def test_what_a_card_says_is_one_line_of_an_error() -> None:
    with pytest.raises(DiscoveryFailed) as failed:
        find_agent(more={"protocolBinding": "SOAP\n\x1b[31mERROR all is lost" + "!" * 5_000})
    text = str(failed.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 1_100


def test_a_card_does_not_repeat_the_token() -> None:
    assert (
        find_agent(auth=BEARER, description=f"I was sent {TOKEN}.").description == "I was sent ***."
    )


# -- answers ----------------------------------------------------------------------------------


def completed_task_json(text: str, **more: Any) -> Json:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    status = {"state": "TASK_STATE_COMPLETED", "message": said}
    return {"task": {**WORKING, "status": status, **more}}


@pytest.fixture(params=["bearer", "api_key"])
def auth(request: pytest.FixtureRequest) -> Json:
    return BEARER if request.param == "bearer" else {"type": "api_key", "key": TOKEN}


async def test_a_token_an_agent_repeats_is_not_passed_on(auth: Json) -> None:
    made = [{"artifactId": "a", "parts": [{"data": {"seen": [f"it is {TOKEN}", 1]}}]}]
    kept, sink = Kept(), Sink()
    with talker([], completed_task_json(f"You sent {TOKEN}!", artifacts=made)) as base:
        backend = backend_for(base, auth=auth)
        result = await backend.execute_root(root("echo", "go", kept=kept, sink=sink))
    assert result.output.artifacts[0].content == {"parts": [{"data": {"seen": ["it is ***", 1]}}]}
    for seen in (repr(result), dumps_text(sink.progress), dumps_text(kept.saves)):
        assert TOKEN not in seen


# As PHP, .NET and others write a character that could stand for itself; and as a name of a field.
ECHOES = {
    "slash": ("ab/cd+ef12345", r'{"text": "ab\/cd+ef12345!"}'),
    "plus": ("ab/cd+ef12345", r'{"text": "ab/cd\u002Bef12345!"}'),
    "letters": ("abcdefgh", r'{"text": "\u0061bcdefgh!"}'),
    "quote": ('abcd"efgh', r'{"text": "abcd\"efgh!"}'),
    "key": ("abcdefgh", '{"data": {"abcdefgh": 1}, "text": "***!"}'),
    "escaped key": ("abcdefgh", r'{"data": {"\u0061bcdefgh": 1}, "text": "***!"}'),
}


@pytest.mark.parametrize("name", ECHOES)
def test_a_token_is_found_however_it_is_written(name: str) -> None:
    token, echo = ECHOES[name]
    said = echo.encode()
    config = read_config(
        endpoint("https://agents.example", auth={"type": "bearer", "token": token})
    )
    assert config.credentials is not None
    assert config.credentials.is_in(said)
    seen = config.credentials.without_secret(loads(said))
    assert isinstance(seen, dict)
    assert seen["text"] == "***!"
    assert token not in repr(seen)


@pytest.mark.parametrize("auth", [BEARER, None], ids=["token", "none"])
async def test_an_answer_that_is_too_deep_is_no_answer(auth: Json) -> None:
    deep: Any = "\n"
    for _ in range(900):
        deep = [deep]
    with talker([], completed_task_json("x", metadata={"x": deep})) as base:
        backend = backend_for(base, auth=auth)
        with pytest.raises(RemoteError):
            await backend.execute_root(root("deep", "go"))


async def test_a_token_is_not_passed_on_by_a_stream() -> None:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": f"Hello, {TOKEN}"}]}
    status = {"state": "TASK_STATE_COMPLETED", "message": said}
    with talker([{"statusUpdate": {"taskId": "t", "status": status}}]) as base:
        result = await backend_for(base, auth=BEARER).execute_root(root("stream", "go"))
    assert result.response == "Hello, ***"


async def test_a_token_that_is_a_short_word_does_not_garble_the_protocol() -> None:
    with talker([], completed_task_json("a task")) as base:
        backend = backend_for(base, auth={"type": "api_key", "key": "TASK"})
        assert (await backend.execute_root(root("short", "go"))).response == "a task"


# -- errors -----------------------------------------------------------------------------------


async def test_what_an_agent_says_of_an_error_is_one_line() -> None:
    evil = "no\n2026-01-01 ERROR awaken: all is lost\x1b[2J\u2028\u202e" + "!" * 5_000
    with talker([], {"error": {"code": -32000, "message": evil}}) as base:
        backend = backend_for(base, binding="JSONRPC")
        with pytest.raises(RemoteError, match="no 2026-01-01 ERROR awaken: all is lost") as failed:
            await backend.execute_root(root("error", "go"))
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) < 1_000


async def test_a_line_of_a_log_is_ours_whatever_a_task_is_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "awaken")
    with talker([], {"result": {"task": {**WORKING, "id": "t\n\x1b[2J"}}}) as base:
        backend = backend_for(base, binding="JSONRPC")
        with pytest.raises(RemoteError, match="a task without an id"):
            await backend.execute_root(root("named", "go"))
    logged = [record.getMessage() for record in caplog.records if "awaken" in record.name]
    assert any("cannot be followed" in text for text in logged)
    assert all(text.isprintable() for text in logged)
