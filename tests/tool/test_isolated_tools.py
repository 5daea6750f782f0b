"""Plain functions in worker processes: what goes in, what comes out, and what stops them."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import isolated_kit as kit
import pytest
from isolated_kit import Desk, open_desk, pool_for, request
from tool_context import make_context, run_tool

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import CANCELLED
from awaken.core.store.commits import CallPhase
from awaken.core.tool import ToolError, ToolErrorKind, ToolStatus
from awaken.core.tool_context import Tool, ToolTraits, traits_of
from awaken.errors import ConfigError
from awaken.testing import ScriptedModel, text_response, tool_call_response
from awaken.tool import FunctionTool
from awaken.tool.isolation import process
from process_kit import open_pidfd

pytestmark = pytest.mark.anyio

THREADED_GIVE = tool(kit.give)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path) as desk:
        yield desk


async def error_of(tool: Tool, arguments: Any = None) -> str:
    result = (await run_tool(tool, arguments)).result
    assert result.status is ToolStatus.ERROR
    assert result.message is not None
    return str(result.message)


async def data_of(tool: Tool, arguments: Any = None) -> Any:
    result = (await run_tool(tool, arguments)).result
    assert result.status is ToolStatus.SUCCESS, result.message
    return result.data


# -- what goes in and comes out ---------------------------------------------------------------


@pytest.mark.parametrize(
    "which", ["text", "half", "nothing", "list", "date", "object", "module", "result", "output"]
)
async def test_an_answer_is_the_same_as_from_a_thread(which: str) -> None:
    there = (await run_tool(kit.isolated_give, {"which": which})).result
    here = (await run_tool(THREADED_GIVE, {"which": which})).result
    assert there == here


async def test_a_huge_answer_arrives() -> None:
    assert await data_of(kit.isolated_give, {"which": "huge"}) == "ü" * kit.HUGE


async def test_a_huge_argument_arrives() -> None:
    assert await data_of(kit.measure, {"text": "ü" * 10_000_000}) == 10_000_000


async def test_arguments_are_read_once_and_arrive_as_their_types() -> None:
    args = {"doubled": {"n": 2, "colour": "r"}, "when": "2024-01-02", "anything": {"ü": [None]}}
    assert await data_of(kit.take, args) == [4, 2024, {"ü": [None]}, True, []]
    more = args | {"missing": "no", "tags": ["b", "a"]}
    assert await data_of(kit.take, more) == [4, 2024, {"ü": [None]}, False, ["a", "b"]]


async def test_wrong_arguments_never_reach_a_worker() -> None:
    assert await error_of(kit.hang, {"desk": 3}) == (
        "Invalid arguments: desk: expected `str`, got `int`"
    )


async def test_the_function_stays_callable_here() -> None:
    assert kit.whoami() == os.getpid()
    assert await data_of(kit.whoami) != os.getpid()


async def test_a_plain_wrapper_of_an_async_function_is_awaited_over_there() -> None:
    assert await data_of(kit.promise, {"n": 1}) == 2


async def test_a_change_of_state_is_refused() -> None:
    assert await error_of(kit.isolated_give, {"which": "change"}) == (
        "Execution failed: tool 'give' returned changes of state, which do not leave its worker "
        "process: leave out isolated=True"
    )


async def test_a_result_that_is_not_json_is_an_error() -> None:
    text = await error_of(kit.isolated_give, {"which": "odd result"})
    assert text.startswith(
        "Execution failed: tool 'give' returned a ToolResult that cannot be kept: its result.data "
        "cannot be stored: object cannot be written as JSON"
    )


async def test_an_argument_whose_type_cannot_be_found_by_name_is_an_error() -> None:
    class Local(kit.Doubled):
        pass

    args = kit.take.validate_args({"doubled": {"n": 1}, "when": "2024-01-02", "anything": 1})
    args.doubled = Local(1)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"'take': its arguments cannot be sent .*Local"):
        await kit.take.execute(args, make_context())


# -- the context ------------------------------------------------------------------------------


async def test_the_plain_part_of_the_context_goes_along() -> None:
    args = {"city": "Rome"}
    output = await kit.look.execute(args, make_context(idempotency_key="key_1", arguments=args))
    assert output.result.data == ["Rome", "call_1", "key_1", {"city": "Rome"}, "agent", "thread"]
    assert list(kit.look.descriptor().parameters["properties"]) == ["city"]


@pytest.mark.parametrize(("what", "named"), [("state", "the run's state"), ("service", "services")])
async def test_the_rest_of_the_context_says_that_it_is_not_there(what: str, named: str) -> None:
    text = await error_of(kit.reach, {"what": what})
    assert "ConfigError: " in text
    assert f"{named} cannot be had in the worker process of tool 'reach'" in text
    assert "leave out isolated=True" in text


# -- what goes wrong --------------------------------------------------------------------------


async def test_an_error_comes_back_with_its_type_and_text_and_its_trace_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, "awaken.tool"):
        text = await error_of(kit.fail, {"how": "error"})
    assert text == "Execution failed: KeyError: 'kéy \\udcff'"
    [record] = caplog.records
    assert "tool 'fail' failed in call 'call_1', in its worker process:" in record.getMessage()
    assert 'raise KeyError("kéy \\udcff")' in record.getMessage()


async def test_a_tool_error_keeps_its_kind_and_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ToolError) as caught:
        await kit.fail.execute({"how": "denied"}, make_context())
    assert caught.value.kind is ToolErrorKind.DENIED
    assert caught.value.message == "not you \ufffd"
    assert not caplog.records


async def test_exiting_ends_the_call_and_not_the_worker() -> None:
    before = await data_of(kit.whoami)
    assert await error_of(kit.fail, {"how": "exit"}) == "Execution failed: SystemExit: 3"
    assert await data_of(kit.whoami) == before


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("os_exit", "exited with code 7"),
        ("segfault", "was killed by SIGSEGV"),
        ("kill", "was killed by SIGKILL, perhaps for want of memory"),
    ],
)
async def test_a_worker_that_dies_is_an_error_that_says_how(
    how: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = await error_of(kit.fail, {"how": how})
    assert text == f"Execution failed: the worker process {end}"
    assert f"tool 'fail' failed in call 'call_1': the worker process {end}" in caplog.text
    assert "KeyError" in await error_of(kit.fail, {"how": "error"})  # in the next worker


@pytest.mark.parametrize("effect", ["once", "idempotent", "read"])
async def test_whether_a_call_took_effect_whose_worker_died_is_unknown_if_it_must_run_once(
    effect: Literal["once", "idempotent", "read"],
) -> None:
    made = tool(isolated=True, effect=effect)(kit.perish)
    model = ScriptedModel([tool_call_response("", "perish", "c1", {}), text_response("well")])
    async with Runtime([Agent("a", model=model, tools=[made])]) as runtime:
        result = await runtime.run("a", "hi", thread="t")
        (call,) = await runtime.store.load_calls(result.run_id)
        told = (await runtime.messages("t"))[2].text()

    assert result.response == "well"
    end = "Execution failed: the worker process exited with code 7"
    if effect == "once":
        assert call.phase is CallPhase.UNKNOWN
        assert told.startswith(f"{end}; it is unknown whether 'perish' took effect")
    else:
        assert call.phase is CallPhase.FAILED
        assert told == end


async def test_a_child_that_got_away_does_not_hide_that_the_worker_died(desk: Desk) -> None:
    text = await error_of(kit.die_before_child, {"desk": desk.path})
    assert text == "Execution failed: the worker process exited with code 7"
    child = await desk.visitor()
    child.let_go()
    assert await child.gone() == ""


async def test_what_a_worker_prints_goes_to_stderr_and_it_has_nothing_to_read(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = await error_of(kit.talk)
    printed = capfd.readouterr()
    assert text == "Execution failed: EOFError: EOF when reading a line"
    assert printed.out == ""
    assert printed.err.startswith("printed\nwritten\nechoed\n")


# -- one worker, many calls -------------------------------------------------------------------


async def test_a_worker_is_used_again() -> None:
    assert await data_of(kit.whoami) == await data_of(kit.whoami)


def test_a_worker_is_used_again_in_another_event_loop() -> None:
    assert asyncio.run(data_of(kit.whoami)) == asyncio.run(data_of(kit.whoami))


async def test_tools_made_again_from_one_function_share_a_worker() -> None:
    first, second = (tool(kit.give, isolated=True, name="give") for _ in range(2))
    pid = tool(kit.whoami.__wrapped__, isolated=True)  # type: ignore[attr-defined]
    assert await data_of(first, {"which": "nothing"}) is await data_of(second, {"which": "nothing"})
    assert await data_of(pid) == await data_of(kit.whoami)


async def test_calls_at_the_same_time_have_workers_of_their_own(desk: Desk) -> None:
    pool = pool_for(kit.wait, limit=2)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(pool.call(request(desk=desk.path))) for _ in range(2)]
        visitors = [await desk.visitor(), await desk.visitor()]
        assert len({visitor.pid for visitor in visitors} | {os.getpid()}) == 3
        for visitor in visitors:
            visitor.let_go()
    assert all(isinstance(call.result(), bytes) for call in calls)
    pool.close()


async def test_calls_beyond_the_limit_wait_for_a_worker(desk: Desk) -> None:
    pool = pool_for(kit.wait, limit=1)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(pool.call(request(desk=desk.path)))
        first = await desk.visitor()
        waiting = group.create_task(pool.call(request(desk=desk.path)))
        await asyncio.sleep(0)
        waiting.cancel()
        first.let_go()
        second = await desk.visitor()
        assert second.pid == first.pid
        second.let_go()
    assert waiting.cancelled()
    pool.close()


async def test_a_worker_that_died_between_calls_is_replaced() -> None:
    before = await data_of(kit.whoami)
    worker = open_pidfd(before)
    os.kill(before, signal.SIGKILL)
    await asyncio.to_thread(select.select, [worker], [], [])  # readable once it is dead
    os.close(worker)
    assert await data_of(kit.whoami) != before


async def test_a_worker_without_work_ends_after_a_while_and_properly(desk: Desk) -> None:
    pool = pool_for(kit.linger, idle_seconds=0.01)
    assert isinstance(await pool.call(request(desk=desk.path)), bytes)
    visitor = await desk.visitor()
    assert await visitor.gone() == "bye"
    assert isinstance(await pool.call(request(desk=desk.path)), bytes)
    assert (await desk.visitor()).pid != visitor.pid
    pool.close()


async def test_closing_ends_idle_workers_properly_and_kills_busy_ones(desk: Desk) -> None:
    pool = pool_for(kit.linger)
    await pool.call(request(desk=desk.path))
    idle = await desk.visitor()
    pool.close()
    assert await idle.gone() == "bye"
    kit.assert_dead(idle.pid)

    pool = pool_for(kit.hang)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(pool.call(request(desk=desk.path)))
        busy = await desk.visitor()
        pool.close()
        kit.assert_dead(busy.pid)
    assert call.result() == -signal.SIGKILL


# -- stopping ---------------------------------------------------------------------------------


async def test_a_timeout_kills_the_worker() -> None:
    # Asked directly, it has all the time to start.
    before = (await kit.spin.execute({"for_ever": False}, make_context())).result.data
    result = (await run_tool(kit.spin, {"for_ever": True})).result
    assert result.message == "Timeout: no answer within 0.1 seconds"
    assert result.metadata == {"timed_out": True}
    kit.assert_dead(before)
    assert (await kit.spin.execute({"for_ever": False}, make_context())).result.data != before


@pytest.mark.parametrize("breeder", [kit.breed, kit.clutch])
async def test_a_cancel_kills_the_worker_and_all_it_started(
    breeder: FunctionTool[..., Any], desk: Desk
) -> None:
    call = asyncio.ensure_future(run_tool(breeder, {"desk": desk.path}))
    visitor = await desk.visitor()
    await visitor.said()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    kit.assert_dead(visitor.pid)
    await visitor.gone()


async def test_a_second_cancel_does_not_leave_the_worker_behind(desk: Desk) -> None:
    call = asyncio.ensure_future(run_tool(kit.hang, {"desk": desk.path}))
    visitor = await desk.visitor()
    call.cancel()
    asyncio.get_running_loop().call_soon(call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
    kit.assert_dead(visitor.pid)


async def test_a_call_thrown_away_kills_its_worker(desk: Desk) -> None:
    pool = pool_for(kit.hang)
    call = pool.call(request(desk=desk.path))
    call.send(None)
    visitor = await desk.visitor()
    call.close()
    assert await visitor.gone() == ""
    pool.close()


async def test_cancelling_a_run_kills_the_worker_of_its_call(desk: Desk) -> None:
    model = ScriptedModel([tool_call_response("", "hang", "c1", {"desk": desk.path})])
    runtime = Runtime([Agent("a", model=model, tools=[kit.hang])])
    async with asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("a", "hi", thread="t"))
        visitor = await desk.visitor()
        assert await runtime.cancel("t")
        kit.assert_dead(visitor.pid)
    assert run.result().termination == CANCELLED


def test_tools_say_whether_a_cancel_stops_their_work() -> None:
    @tool
    def threaded() -> None: ...
    @tool
    async def asynchronous() -> None: ...

    assert traits_of(kit.hang).stoppable
    assert traits_of(asynchronous).stoppable
    assert not traits_of(threaded).stoppable
    assert ToolTraits().stoppable


# -- what cannot be isolated ------------------------------------------------------------------


async def _asynchronous() -> None: ...


class _Methods:
    def method(self) -> None: ...


def _closure() -> Any:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (_asynchronous, "is async, and a cancel stops it anyway: leave out isolated=True"),
        (lambda: None, "cannot be found by its name .* write a function with `def`"),
        (_closure(), "cannot be found by its name .* write a function with `def`"),
        (_Methods().method, "cannot be found by its name .* write a function with `def`"),
        (functools.partial(kit.same_name), "cannot be found by its name"),
    ],
)
def test_what_another_process_cannot_import_is_refused(fn: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=f"tool 'odd' .*{text}"):
        tool(fn, isolated=True, name="odd")


async def test_a_function_that_lost_its_name_is_refused_when_called() -> None:
    assert await error_of(kit.first_of_two) == (
        "Execution failed: ConfigError: tool 'first_of_two' cannot be isolated: "
        "isolated_kit.same_name is not its function, though a worker would find it there: give "
        "the function a name of its own at the top of its module"
    )


def test_a_system_without_process_groups_refuses_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "os", SimpleNamespace(name="nt"))
    with pytest.raises(ConfigError, match="process groups, which Windows does not have"):
        tool(kit.give, isolated=True)


def test_a_program_that_is_no_python_refuses_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ConfigError, match="need a Python interpreter to start"):
        tool(kit.give, isolated=True)
