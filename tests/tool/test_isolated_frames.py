"""What passes between a worker process and its owner: numbered, bounded, and no keys."""

from __future__ import annotations

import os
import stat
import struct

import pytest
from isolated_kit import pool_for, request
from tool_context import run_tool

from awaken import ToolResult, tool
from awaken.codec import dumps
from awaken.errors import ConfigError
from awaken.tool.isolation.frames import BadFrame, Returned, read_answer
from awaken.tool.isolation.pool import WorkerPool

pytestmark = pytest.mark.anyio


@tool(isolated=True)
def keys() -> dict[str, str]:
    return dict(os.environ)


@tool(isolated=True, pass_env=["SOME_API_KEY", "NOT_THERE"])
def some_keys() -> dict[str, str]:
    return dict(os.environ)


async def test_a_worker_inherits_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of ours are not the function's, unless its author says so."""
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("LC_TIME", "C")
    seen = (await run_tool(keys)).result.data
    assert "SOME_API_KEY" not in seen
    assert (seen["LC_TIME"], seen["PATH"]) == ("C", os.environ["PATH"])
    named = (await run_tool(some_keys)).result.data
    assert named["SOME_API_KEY"] == "secret"
    assert "NOT_THERE" not in named


def test_only_isolated_functions_have_an_environment_of_their_own() -> None:
    with pytest.raises(ConfigError, match="'keys': pass_env is for isolated=True"):
        tool(keys.__wrapped__, pass_env=["HOME"])  # type: ignore[attr-defined]


def channel() -> int:
    """The worker's own end of the line, as any code in it can find it."""
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode) and not os.get_inheritable(fd):
                return fd
        except OSError:
            continue
    raise LookupError("there is no line")


@tool(isolated=True)
def answer(text: str, forged: str = "", number: int = 0, length: int = 0) -> str:
    """Answers `text`; before that, or behind it, something that nobody asked for."""
    if forged:
        body = dumps(Returned(result=ToolResult.success("answer", forged)))
        os.write(channel(), struct.pack("!QQ", number, length or len(body)) + body)
    return text


async def call_for_text(pool: WorkerPool, text: str, **more: object) -> object:
    outcome = await pool.call(request(text=text, **more))
    if isinstance(outcome, BadFrame):
        return str(outcome)
    if not isinstance(outcome, bytes):
        return outcome
    told = read_answer(outcome)
    return told.result.data if isinstance(told, Returned) else told


async def test_the_answer_to_one_call_is_never_taken_for_that_to_another() -> None:
    """A frame that is out of turn ends its process; the next call has another one."""
    pool = pool_for(answer, limit=1)
    assert await call_for_text(pool, "one") == "one"
    assert (
        await call_for_text(pool, "two", forged="forged", number=1)
        == "frame 1 came in the place of 2"
    )
    assert await call_for_text(pool, "three") == "three"
    pool.close()


async def test_what_a_worker_says_between_two_calls_is_no_answer() -> None:
    pool = pool_for(answer, limit=1)
    # The forged frame has the right number: it is believed, and the real one is one too many.
    assert await call_for_text(pool, "one", forged="forged", number=1) == "forged"
    # It comes before the next call, or while that is under way: it is never the answer to it.
    assert await call_for_text(pool, "two") in ("two", "frame 1 came in the place of 2")
    assert await call_for_text(pool, "three") == "three"
    pool.close()


async def test_a_frame_that_claims_to_be_endless_is_not_waited_for() -> None:
    pool = pool_for(answer, limit=1)
    told = await call_for_text(pool, "one", forged="x", number=1, length=64 * 1024 * 1024 + 1)
    assert told == "a frame of 67108865 bytes; 67108864 are the most"
    assert await call_for_text(pool, "two") == "two"
    pool.close()


async def test_a_worker_that_is_ended_for_what_it_said_did_not_lack_memory() -> None:
    result = (await run_tool(answer, {"text": "x", "forged": "x", "number": 7})).result
    assert result.message is not None
    assert "the worker process was ended: frame 7 came in the place of " in result.message
    assert "memory" not in result.message


@tool(isolated=True)
def large(size: int) -> str:
    return "x" * size


async def test_an_answer_that_is_too_long_is_said_to_be() -> None:
    result = (await run_tool(large, {"size": 64 * 1024 * 1024})).result
    assert result.message is not None
    assert "'large' returned 134217820 bytes" in result.message  # as data, and as text
    assert "return less, or write it to a file and return its name" in result.message
    assert (await run_tool(large, {"size": 5})).result.data == "xxxxx"


async def test_arguments_that_are_too_long_are_not_sent() -> None:
    result = (await run_tool(answer, {"text": "x" * (64 * 1024 * 1024)})).result
    assert result.message is not None
    assert "its arguments have 67108" in result.message


@tool(isolated=True)
def babble() -> str:
    os.write(channel(), struct.pack("!QQ", 1, 5) + b"hello")
    return "unheard"


async def test_an_answer_that_is_none_fails_its_call() -> None:
    result = (await run_tool(babble)).result
    assert result.message == (
        "Execution failed: the worker process of tool 'babble' sent an invalid answer"
    )
