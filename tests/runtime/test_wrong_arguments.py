"""A wrong argument is called by its name, and never a damaged database."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Message, Runtime, ToolCall, ToolCallResume
from awaken.core.identity import Principal
from awaken.core.storable import leave_out_unstorable
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.thread import ThreadPatch
from awaken.core.tool import ToolResult
from awaken.errors import ConfigError, InvalidId

pytestmark = pytest.mark.anyio

WRONG: Any = 7
Call = Callable[[Any], Awaitable[object]]


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db"


async def follow(events: Any) -> None:
    async for _ in events:
        pass


VALUES: dict[str, tuple[Call, str]] = {
    "a user": (lambda rt: rt.run("a", "x", user=7), "user is a text or None, not 7"),
    "a submission's key": (
        lambda rt: rt.submit("a", "x", key=7),
        "key is a text, not 7: write key='7'",
    ),
    "a client's id": (
        lambda rt: rt.submit("a", "x", request_id=7),
        "request_id is a text or None, not 7",
    ),
    "half a millisecond": (
        lambda rt: rt.submit("a", "x", not_before_ms=1.5),
        "not_before_ms is a whole number or None, not 1.5",
    ),
    "a principal": (
        lambda rt: rt.run("a", "x", principal=Principal(id=WRONG)),
        "principal.id is a text, not 7",
    ),
    "an approver": (
        lambda rt: rt.decide("t", {"k": ToolCallResume.approve(by=WRONG)}),
        r"answers\['k'\].by is a text or None, not 7",
    ),
    "a reason": (
        lambda rt: rt.run("a", thread="t", answers={"k": ToolCallResume.deny(WRONG)}),
        r"answers\['k'\].reason is a text or None, not 7",
    ),
    "labels": (lambda rt: rt.run("a", "x", labels=["a"]), r"labels is a mapping.*, not \['a'\]"),
    "a title": (
        lambda rt: rt.update_thread("t", ThreadPatch(title=WRONG)),
        "patch.title is a text or None, not 7",
    ),
    "a mapping as patch": (
        lambda rt: rt.update_thread("t", {"title": "x"}),
        r"patch is a ThreadPatch, such as ThreadPatch\(title='Holidays'\), not \{'title': 'x'\}",
    ),
    "a message's id as event": (
        lambda rt: rt.fork("t", at="x"),
        "at is a whole number or None, not 'x'",
    ),
    "a new thread's id": (
        lambda rt: rt.fork("t", new=7),
        "new is a text, not 7: write new='7'",
    ),
    "a new thread's id as number": (
        lambda rt: rt.create_thread(7),
        "thread is a text, not 7: write thread='7'",
    ),
    "a cursor in words": (
        lambda rt: rt.messages("t", after="x"),
        "after is a whole number, not 'x'",
    ),
    "a cursor as text": (
        lambda rt: follow(rt.events("t", after="3", follow=False)),
        "after is a whole number, not '3'",
    ),
    "a thread as query": (
        lambda rt: rt.list_runs("t"),
        r"query is a RunQuery, such as RunQuery\(limit=10\), not 't'",
    ),
    "a limit": (
        lambda rt: rt.list_runs(RunQuery(limit=WRONG - 8)),
        "query.limit is a whole number of at least 0, not -1",
    ),
    "a label": (
        lambda rt: rt.list_threads(ThreadQuery(label={"a": "b"})),  # type: ignore[arg-type]
        "query.label is a text or None, not {'a': 'b'}",
    ),
    "a status": (
        lambda rt: rt.list_tickets(TicketQuery(status="lost")),  # type: ignore[arg-type]
        "query.status: invalid enum value 'lost'",
    ),
    "an answer alone": (
        lambda rt: rt.decide("t", True),
        r"answers are given by ticket, such as \{ticket: True\}, not True",
    ),
    "no run": (lambda rt: rt.outline(None), "run_id is a text, not None"),
    "no number of JSON in properties": (
        lambda rt: rt.submit("a", "x", forwarded_props={"a": [1.5, math.nan]}),
        r"forwarded_props\['a'\]\[1\] is nan, a number that JSON does not have",
    ),
    "no number of JSON in a state": (
        lambda rt: rt.submit("a", "x", state={"a": {"b": math.inf}}),
        r"state\['a'\]\['b'\] is inf, a number that JSON does not have",
    ),
    "no number of JSON in the key of dependencies": (
        lambda rt: rt.run("a", "x", deps_key=-math.inf),
        "deps_key is -inf, a number that JSON does not have",
    ),
    "no number of JSON in a call": (
        lambda rt: rt.run(
            "a",
            Message.assistant_with_tool_calls(
                "", [ToolCall(id="c", name="f", arguments={"a": math.nan})]
            ),
        ),
        r"input\[0\].tool_calls\[0\].arguments\['a'\] is nan, a number that JSON does not have",
    ),
    "no number of JSON in an answer": (
        lambda rt: rt.decide("t", {"k": ToolCallResume.edit({"amount": math.nan})}),
        r"answers\['k'\].*\['amount'\] is nan, a number that JSON does not have",
    ),
    "no number of JSON in a patch": (
        lambda rt: rt.update_thread("t", ThreadPatch(custom={"a": math.nan})),
        r"patch.custom\['a'\] is nan, a number that JSON does not have",
    ),
    "half a pair as input": (
        lambda rt: rt.run("a", "a\ud800b", thread="t"),
        r"input\[0\].content\[0\].text has half of a surrogate pair",
    ),
    "half a pair as submission": (
        lambda rt: rt.submit("a", "a\ud800b", thread="t"),
        r"input\[0\].content\[0\].text has half of a surrogate pair",
    ),
    "half a pair as user": (
        lambda rt: rt.run("a", "x", user="a\ud800b"),
        "user has half of a surrogate pair",
    ),
    "half a pair in a label": (
        lambda rt: rt.submit("a", "x", labels={"a": "\ud800"}),
        r"labels\['a'\] has half of a surrogate pair",
    ),
    "half a pair as thread": (
        lambda rt: rt.messages("\ud800"),
        "thread has half of a surrogate pair",
    ),
    "half a pair for a live run": (
        lambda rt: rt.send("t", "\ud800"),
        r"input\[0\].content\[0\].text has half of a surrogate pair",
    ),
}


@pytest.mark.parametrize(("call", "told"), VALUES.values(), ids=VALUES)
async def test_a_value_of_a_wrong_type_is_named_and_nothing_is_written(
    call: Call, told: str, address: str
) -> None:
    async with Runtime([Agent("a", model="demo")], store=address) as runtime:
        with pytest.raises(ConfigError, match=told):
            await call(runtime)
        assert (await runtime.list_threads()).items == ()
        assert (await runtime.list_runs()).items == ()


async def test_a_stream_with_half_a_surrogate_pair_is_refused_like_a_run() -> None:
    runtime = Runtime([Agent("a", model="demo")])
    with pytest.raises(ConfigError, match="has half of a surrogate pair"):
        runtime.stream("a", "a\ud800b")


async def test_a_zero_character_in_the_key_of_an_answer_is_named_on_every_store(
    address: str,
) -> None:
    async with Runtime([Agent("a", model="demo")], store=address) as runtime:
        for ask in (runtime.run, runtime.submit):
            with pytest.raises(InvalidId, match="a key of answers"):
                await ask("a", thread="t", answers={"k\0": True})
        with pytest.raises(InvalidId, match="a key of answers"):
            await runtime.decide("t", {"k\0": True})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: Agent("a", model="demo", system_prompt="a\ud800b"),
            "agent 'a': system_prompt has half of a surrogate pair",
        ),
        (
            lambda: Agent("a", model="demo", description="a\ud800b"),
            "agent 'a': description has half of a surrogate pair",
        ),
        (lambda: Agent("a\ud800b", model="demo"), "id has half of a surrogate pair"),
        (
            lambda: Agent("a", model="demo").override(system_prompt="a\ud800b"),
            "agent 'a': system_prompt has half of a surrogate pair",
        ),
        (
            lambda: Agent("a", model="demo").override(system_prompt=WRONG),
            "agent 'a': system_prompt is a text or a function of the run's context, not 7",
        ),
    ],
)
def test_half_a_surrogate_pair_in_an_agent_is_named(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


NAMES: dict[str, tuple[Call, str]] = {
    "a field of a query": (
        lambda rt: rt.list_threads(user="ann"),
        r"Runtime.list_threads\(\) got an unexpected keyword argument 'user': "
        r"write ThreadQuery\(user=…\)$",
    ),
    "a field of a patch": (lambda rt: rt.create_thread(title="x"), r"write ThreadPatch\(title=…\)"),
    "an approver": (lambda rt: rt.cancel("t", by="ann"), r"write principal=Principal\(id=…\)$"),
    "a time": (lambda rt: rt.submit("a", "x", not_before=1), "write not_before_ms$"),
    "a typing error": (lambda rt: rt.decide("t", {}, principl=None), "write principal$"),
    "an unknown name": (
        lambda rt: rt.outline("r", colour="red"),
        r"Runtime.outline\(\) got an unexpected keyword argument 'colour'",
    ),
    "a name that is missing": (
        lambda rt: rt.fork(),
        r"Runtime.fork\(\) missing 1 required positional argument: 'thread': "
        r"write runtime.fork\(thread\)$",
    ),
    "a user's id in a query": (
        lambda rt: rt.list_runs(user_id="ann"),
        r"Runtime.list_runs\(\) got an unexpected keyword argument 'user_id': "
        r"write RunQuery\(user=…\)$",
    ),
    "a user's id in a patch": (
        lambda rt: rt.create_thread(user_id="ann"),
        r"write ThreadPatch\(user=…\)$",
    ),
    "a user's id of an approver": (
        lambda rt: rt.decide("t", {}, user_id="ann"),
        r"write principal=Principal\(id=…\)$",
    ),
    "a reason to cancel": (
        lambda rt: rt.cancel("t", reason="no"),
        r"write principal=Principal\(id=…\): who did it is kept, a reason is not$",
    ),
    "a reason to refuse": (
        lambda rt: rt.decide("t", {}, reason="no"),
        r"write answers=\{ticket: ToolCallResume.deny\('…'\)\}$",
    ),
    "the former name of the settings": (
        lambda rt: rt.run("a", "x", overrides=None),
        r"write settings=ModelSettings\(…\)$",
    ),
    "a setting that a submission lacks": (
        lambda rt: rt.submit("a", "x", deps=1),
        "write deps_key=…$",
    ),
    "a name that leads nowhere": (
        lambda rt: rt.outline("r", colour="red"),
        r"'colour': it takes run_id, after_step, limit$",
    ),
    "a name, where there is none to give": (
        lambda rt: rt.recover(now=True),
        r"Runtime.recover\(\) got an unexpected keyword argument 'now': it takes no arguments$",
    ),
    "an argument by its place": (
        lambda rt: follow(rt.events("t", 5)),
        r"Runtime.events\(\) takes 2 positional arguments but 3 were given: "
        r"give after=…, follow=… by name$",
    ),
    "one argument twice": (
        lambda rt: rt.find_run("r", run_id="r"),
        r"Runtime.find_run\(\) got multiple values for argument 'run_id': "
        r"write runtime.find_run\(run_id\)$",
    ),
}

MISSING = {
    "messages": "thread",
    "load_request": "thread, message_id",
    "load_manifest": "thread, message_id",
    "events": "thread",
    "follow": "thread",
    "update_thread": "thread, ThreadPatch(title='Holidays')",
    "state": "thread, key",
    "outline": "run_id",
    "find_run": "run_id",
    "delete_thread": "thread",
    "prune": "older_than=timedelta(days=30)",
    "forget_scope": "scope",
    "cancel": "run_id",
    "decide": "run_id, {ticket: True}",
    "send": "run_id, 'Hello'",
    "wait": "run_id",
    "preview": "agent, request",
    "check_arguments": "ticket, {'name': 'value'}",
    "tool_traits": "agent, tool",
    "reads": "runtime.agents[0]",
    "replace": "[agent]",
}
"""The methods with arguments that have to be given, and how the error shows them."""


async def awaited(call: Callable[[], Any]) -> None:
    made = call()
    if inspect.isawaitable(made):
        await made


@pytest.mark.parametrize("method", MISSING)
async def test_a_missing_argument_is_a_type_error_with_an_example(method: str) -> None:
    async with Runtime([Agent("a", model="demo")]) as runtime:
        with pytest.raises(TypeError) as raised:
            await awaited(getattr(runtime, method))

    told = str(raised.value)
    assert told.startswith(f"Runtime.{method}() missing ")
    assert told.endswith(f": write runtime.{method}({MISSING[method]})")


def public_methods() -> list[str]:
    found = inspect.getmembers(Runtime, inspect.isfunction)
    return [name for name, _ in found if not name.startswith("_")]


@pytest.mark.parametrize("method", public_methods())
async def test_every_method_has_a_hint_for_a_wrong_name(method: str) -> None:
    async with Runtime([Agent("a", model="demo")]) as runtime:
        call: Any = partial(getattr(runtime, method), colour="red")
        if method == "run_sync":
            call = partial(asyncio.to_thread, call)
        with pytest.raises(TypeError) as raised:
            await awaited(call)

    told = str(raised.value)
    assert told.startswith(f"Runtime.{method}() got an unexpected keyword argument 'colour': ")
    assert any(word in told for word in (": it takes ", ": write "))


def test_a_runtime_itself_has_hints_too() -> None:
    make: Any = Runtime
    with pytest.raises(
        TypeError, match=r"Runtime\(\) missing .* 'agents': write Runtime\(\[agent\]\)"
    ):
        make()
    with pytest.raises(TypeError, match=r"Runtime\(\) got .* 'stor': write store$"):
        make([], stor="memory:")


async def test_a_type_error_within_a_method_is_not_taken_for_a_wrong_call() -> None:
    class Broken(list[Agent]):
        def __iter__(self) -> Any:
            raise TypeError("mine")

    async with Runtime([Agent("a", model="demo")]) as runtime:
        with pytest.raises(TypeError, match=r"^mine$"):
            runtime.replace(Broken([Agent("a", model="demo")]))


def test_a_method_says_what_it_takes_and_that_it_is_async() -> None:
    """Web frameworks look at both; on 3.11, a function cannot be marked for `inspect`."""
    is_async = (inspect if sys.version_info >= (3, 12) else asyncio).iscoroutinefunction

    assert list(inspect.signature(Runtime.find_run).parameters) == ["self", "run_id"]
    assert is_async(Runtime.find_run)
    assert not is_async(Runtime.stream)


@pytest.mark.parametrize(("call", "told"), NAMES.values(), ids=NAMES)
async def test_a_wrong_name_is_a_type_error_of_the_runtime(call: Call, told: str) -> None:
    async with Runtime([Agent("a", model="demo")]) as runtime:
        with pytest.raises(TypeError, match=told):
            await call(runtime)


def test_what_cannot_be_read_back_is_left_out_and_the_rest_is_kept() -> None:
    result = ToolResult(
        tool_name="t",
        status="success",  # type: ignore[arg-type]
        message=WRONG,
        data={"a": 1},
        metadata={"good": 1, "bad": object()},
    )
    kept = leave_out_unstorable(result)
    assert kept is not None
    assert (kept.message, kept.data, kept.metadata) == (None, {"a": 1}, {"good": 1})
    assert leave_out_unstorable(ToolResult.success(WRONG, 1)) is None
