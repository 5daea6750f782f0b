"""Whatever user code raises, wherever it runs: the run ends, its thread is free, and the error
says whose it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from far_kit import Far, FarBackend, far_agent, says
from run_kit import Piece, results

from awaken import (
    Agent,
    Command,
    Phase,
    PhaseContext,
    Runtime,
    StateKey,
    ToolCallContext,
    TypedTool,
    tool,
)
from awaken.backend import BackendRootRunRequest, BackendRunResult
from awaken.core.event import RunEvent
from awaken.core.intercept import Allow, ToolPolicyContext, ToolPolicyDecision
from awaken.core.lifecycle import NATURAL_END, Failed, RunStatus
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.message import Role
from awaken.core.state.command import EffectSpec, MutationBatch, ScheduledActionSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.store.store import Store
from awaken.errors import AwakenError, HookFailed, StorageError
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, stream_of, text_response, tool_call_response

pytestmark = pytest.mark.anyio

PATIENCE = 100
"""Seconds after which a run counts as stuck."""


class Unreadable(BaseException):
    """Its text cannot be had either."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


ERRORS: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: LookupError("boom"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup(
        "boom", [asyncio.CancelledError(), ValueError("x")]
    ),
    "GeneratorExit": lambda: GeneratorExit("boom"),
    "SystemExit": lambda: SystemExit("boom"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("boom"),
    "pytest.fail": lambda: pytest.fail.Exception("boom"),
    "CancelledError": lambda: asyncio.CancelledError("boom"),
    "Unreadable": Unreadable,
}


class Bomb:
    """Raises when it is touched, until it is disarmed."""

    def __init__(self, make: Callable[[], BaseException]) -> None:
        self._make = make
        self.armed = True
        self.went_off = 0

    def __call__(self) -> None:
        if self.armed:
            self.went_off += 1
            raise self._make()


class Place:
    """Where user code runs: what a runtime with a bomb there is made of, and which words name it.

    `goes_on` says that the run is not disturbed, and that the log, or the model, is told.
    """

    def __init__(self, *names: str, goes_on: bool = False, **made: Any) -> None:
        self.names = names
        self.goes_on = goes_on
        self.store = made.pop("store", "memory:")
        self.sink = made.pop("sink", None)
        self.model = made.pop("model", None)
        self.says = made.pop("says", "Done.")
        self.made = made


@tool
async def work() -> str:
    """Work."""
    return "worked"


def answer(request: InferenceRequest) -> Any:
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return text_response("Done.")
    return tool_call_response("", "work", "c1", {})


# -- places -----------------------------------------------------------------------------------


def async_tool(bomb: Bomb) -> Place:
    @tool(name="work")
    async def breaks() -> str:
        bomb()
        return "worked"

    return Place("tool 'work'", goes_on=True, tools=[breaks])


def async_tool_with_a_timeout(bomb: Bomb) -> Place:
    @tool(name="work", timeout=PATIENCE)
    async def breaks() -> str:
        bomb()
        return "worked"

    return Place("tool 'work'", goes_on=True, tools=[breaks])


def sync_tool(bomb: Bomb) -> Place:
    @tool(name="work")
    def breaks() -> str:
        bomb()
        return "worked"

    return Place("tool 'work'", goes_on=True, tools=[breaks])


def validation(bomb: Bomb) -> Place:
    class Work(TypedTool[dict[str, str]]):
        """Work."""

        args_type = dict[str, str]
        tool_id = "work"

        def validate(self, args: dict[str, str]) -> None:
            bomb()

        async def run(self, args: dict[str, str], ctx: ToolCallContext) -> str:
            return "worked"

    return Place(goes_on=True, tools=[Work()])


def approval_check(bomb: Bomb) -> Place:
    def asks() -> bool:
        bomb()
        return False

    @tool(name="work", needs_approval=asks)
    async def asking() -> str:
        return "worked"

    return Place("tool 'work'", goes_on=True, tools=[asking])


def delegate(bomb: Bomb) -> Place:
    """A tool of an agent that works for another: what it raises is told to the former."""

    @tool
    async def breaks() -> str:
        """Break."""
        bomb()
        return "worked"

    def ask(request: InferenceRequest) -> Any:
        is_told = request.messages[-1].role is Role.TOOL
        return text_response("worked") if is_told else tool_call_response("", "breaks", "c2", {})

    def asks(request: InferenceRequest) -> Any:
        is_told = request.messages[-1].role is Role.TOOL
        call = tool_call_response("", "agent_run_helper", "c1", {"prompt": "help"})
        return text_response("Done.") if is_told else call

    helper = Agent("helper", model=FunctionModel(ask), tools=[breaks])
    return Place("tool 'breaks'", goes_on=True, model=FunctionModel(asks), delegates=[helper])


def output_type(bomb: Bomb) -> Place:
    @dataclass
    class Answer:
        n: int

        def __post_init__(self) -> None:
            bomb()

    model = FunctionModel(lambda _: text_response('{"n":1}'))
    return Place("output type of agent 'a'", model=model, output=Answer, says='{"n":1}')


def hook_of(phase: Phase, *, beside: bool) -> Callable[[Bomb], Place]:
    def place(bomb: Bomb) -> Place:
        async def breaks(_: PhaseContext) -> None:
            bomb()

        async def is_well(_: PhaseContext) -> None:
            return None

        plugins = [Piece("breaks", lambda r: r.hook(phase, breaks))]
        if beside:
            plugins.append(Piece("is well", lambda r: r.hook(phase, is_well)))
        return Place("'breaks'", f"'{phase.value}'", plugins=plugins)

    return place


def guard_of(phase: Phase) -> Callable[[Bomb], Place]:
    def place(bomb: Bomb) -> Place:
        def breaks(_: Snapshot) -> bool:
            bomb()
            return False

        async def never(_: PhaseContext) -> None:
            raise AssertionError("its guard said no")

        plugin = Piece("breaks", lambda r: r.hook(phase, never, when=breaks))
        return Place("'breaks'", f"'{phase.value}'", plugins=[plugin])

    return place


def policy(bomb: Bomb) -> Place:
    async def breaks(_: ToolPolicyContext) -> ToolPolicyDecision:
        bomb()
        return Allow()

    return Place("'breaks'", "'tool_gate'", plugins=[Piece("breaks", lambda r: r.policy(breaks))])


def gate(bomb: Bomb) -> Place:
    async def breaks(_: PhaseContext) -> None:
        bomb()

    return Place("'breaks'", "'tool_gate'", plugins=[Piece("breaks", lambda r: r.gate(breaks))])


def transform(bomb: Bomb) -> Place:
    def breaks(messages: Any, _: Any) -> Any:
        bomb()
        return messages

    return Place("'breaks'", plugins=[Piece("breaks", lambda r: r.transform(breaks))])


def reducer(bomb: Bomb) -> Place:
    def breaks(old: str, new: str) -> str:
        bomb()
        return new

    key: StateKey[str, str] = StateKey("fragile", initial=str, apply=breaks)

    async def writes(_: PhaseContext) -> Command:
        return Command().update(key, "x")

    plugin = Piece("p", lambda r: r.key(key), lambda r: r.hook(Phase.STEP_START, writes))
    return Place("'fragile'", plugins=[plugin])


def encoding(bomb: Bomb) -> Place:
    def breaks(value: str) -> str:
        bomb()
        return value

    key: StateKey[str, str] = StateKey("fragile", initial=str, encode=breaks)

    async def writes(_: PhaseContext) -> Command:
        return Command().update(key, "x")

    plugin = Piece("p", lambda r: r.key(key), lambda r: r.hook(Phase.STEP_START, writes))
    return Place("'fragile'", plugins=[plugin])


def effect(bomb: Bomb) -> Place:
    tells: EffectSpec[str] = EffectSpec("tell", str)

    async def emits(_: PhaseContext) -> Command:
        return Command().emit(tells, "x")

    async def breaks(_: str, __: Snapshot) -> None:
        bomb()

    plugin = Piece(
        "p", lambda r: r.hook(Phase.STEP_START, emits), lambda r: r.effect(tells, breaks)
    )
    return Place("effect 'tell'", goes_on=True, plugins=[plugin])


def action(bomb: Bomb) -> Place:
    does: ScheduledActionSpec[str] = ScheduledActionSpec("do", Phase.BEFORE_INFERENCE, str)

    async def schedules(_: PhaseContext) -> Command:
        return Command().schedule_action(does, "x")

    async def breaks(_: PhaseContext, __: str) -> None:
        bomb()

    plugin = Piece(
        "p", lambda r: r.hook(Phase.STEP_START, schedules), lambda r: r.action(does, breaks)
    )
    return Place("action 'do'", goes_on=True, plugins=[plugin])


class Activating(Piece):
    """Is told when its agent takes over."""

    def __init__(self, bomb: Bomb) -> None:
        super().__init__("breaks")
        self._bomb = bomb

    def on_activate(self, agent_spec: object, batch: MutationBatch) -> None:
        self._bomb()

    def on_deactivate(self, batch: MutationBatch) -> None:
        self._bomb()


class Binding(Piece):
    """Is told of its run's store."""

    def __init__(self, bomb: Bomb) -> None:
        super().__init__("breaks")
        self._bomb = bomb

    def bind_runtime_context(self, store: object, owner_inbox: object) -> None:
        self._bomb()


def activation(bomb: Bomb) -> Place:
    return Place("'breaks'", "on_activate", plugins=[Activating(bomb)])


def binding(bomb: Bomb) -> Place:
    return Place("'breaks'", "bind_runtime_context", plugins=[Binding(bomb)])


class Streaming:
    """A model that breaks in the middle of its answer, or before it."""

    name = "streaming"

    def __init__(self, bomb: Bomb, *, at_once: bool) -> None:
        self._bomb, self._at_once = bomb, at_once

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        if self._at_once:
            self._bomb()
        for event in stream_of(answer(request)):
            yield event
            self._bomb()


def model(bomb: Bomb) -> Place:
    return Place("inference failed", model=Streaming(bomb, at_once=True))


def model_stream(bomb: Bomb) -> Place:
    return Place("inference failed", model=Streaming(bomb, at_once=False))


class Sink:
    """Cannot take an event."""

    def __init__(self, bomb: Bomb) -> None:
        self._bomb = bomb

    async def emit(self, event: RunEvent) -> None:
        self._bomb()

    async def close(self) -> None:
        return


def sink(bomb: Bomb) -> Place:
    return Place("event sink", goes_on=True, sink=Sink(bomb))


PLACES: dict[str, Callable[[Bomb], Place]] = {
    place.__name__: place
    for place in (
        async_tool,
        async_tool_with_a_timeout,
        sync_tool,
        validation,
        approval_check,
        delegate,
        output_type,
        gate,
        policy,
        transform,
        reducer,
        encoding,
        effect,
        action,
        activation,
        binding,
        model,
        model_stream,
        sink,
    )
}
PLACES |= {
    f"hook of {phase.value}{' beside another' if beside else ''}": hook_of(phase, beside=beside)
    for phase in Phase
    if phase is not Phase.TOOL_GATE
    for beside in (False, True)
}

PLACES |= {
    f"guard of {phase.value}": guard_of(phase) for phase in Phase if phase is not Phase.TOOL_GATE
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("where", PLACES)
async def test_whatever_user_code_raises_ends_its_run_by_name(
    where: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    bomb = Bomb(ERRORS[error])
    place = PLACES[where](bomb)
    agent = Agent("a", model=place.model or FunctionModel(answer), **{"tools": [work]} | place.made)
    agents = [agent, *place.made.get("delegates", ())]
    async with Runtime(agents, store=place.store) as runtime, asyncio.timeout(PATIENCE):
        with caplog.at_level(logging.WARNING):
            if place.goes_on:
                result = await runtime.run("a", "go", thread="t", sink=place.sink)
                assert result.termination == NATURAL_END
                told = results(await runtime.messages("t"))["c1"]
                assert (told == "worked") is not bool(place.made.get("tools"))
                text = caplog.text
            else:
                with pytest.raises(AwakenError) as failed:
                    await runtime.run("a", "go", thread="t", sink=place.sink)
                text = str(failed.value)
        assert bomb.went_off
        for name in place.names:
            assert name in text
        for record in await runtime.list_runs():
            assert record.status is RunStatus.DONE

        bomb.armed = False
        second = await runtime.run("a", "again", thread="t", sink=place.sink)
        assert second.termination == NATURAL_END
        assert second.response == place.says


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_verify_raises_the_outcome_stays_unknown(
    error: str, caplog: pytest.LogCaptureFixture
) -> None:
    bomb, store, begun = Bomb(ERRORS[error]), MemoryStore(), asyncio.Event()

    @tool(name="work", verify=lambda _: bomb())
    async def hangs() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent("a", model=FunctionModel(answer), tools=[hangs])
    async with asyncio.timeout(PATIENCE):
        dying = asyncio.create_task(Runtime([agent], store=store).run("a", "go", thread="t"))
        await begun.wait()
        store.forsake()  # as if its process had died
        async with Runtime([agent], store=store) as runtime:
            [taken_up] = runtime.recovered
            assert (await taken_up).termination == NATURAL_END
            assert (
                "unknown whether 'work' took effect" in results(await runtime.messages("t"))["c1"]
            )
            assert "tool 'work' could not verify" in caplog.text
        dying.cancel()
        with pytest.raises((asyncio.CancelledError, AwakenError)):
            await dying
    assert bomb.went_off


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_a_tool_in_the_background_raises_its_run_is_told(error: str) -> None:
    bomb = Bomb(ERRORS[error])

    @tool(name="work")
    async def breaks() -> str:
        """Break."""
        bomb()
        return "worked"

    told = asyncio.Event()

    def ask(request: InferenceRequest) -> Any:
        said = [message.text() for message in request.messages]
        if any("failed" in text for text in said):
            told.set()
        return answer(request) if said == ["go"] else text_response("Done.")

    agent = Agent("a", model=FunctionModel(ask), background=[breaks])
    async with Runtime([agent]) as runtime, asyncio.timeout(PATIENCE):
        await runtime.run("a", "go", thread="t")
        await told.wait()
        second = await runtime.run("a", "again", thread="t", when_busy="queue")
        assert second.response == "Done."
    assert bomb.went_off == 1


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_a_backend_raises_ends_its_run(error: str) -> None:
    bomb = Bomb(ERRORS[error])

    async def breaks(_: BackendRootRunRequest) -> BackendRunResult:
        bomb()
        return says("never")

    runtime = Runtime([far_agent()], backends=[Far(FarBackend(breaks, says("Done.")))])
    async with runtime, asyncio.timeout(PATIENCE):
        result = await runtime.run("far", "go", thread="t")
        assert isinstance(result.termination, Failed)
        assert (await runtime.run("far", "again", thread="t")).response == "Done."
    assert bomb.went_off


# -- closing ----------------------------------------------------------------------------------


class Closing(Piece):
    """Has something to close."""

    def __init__(self, id: str, bomb: Callable[[], None]) -> None:
        super().__init__(id)
        self._bomb = bomb

    async def close(self, *, leave: bool = False) -> None:
        self._bomb()


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_a_plugin_raises_when_it_is_closed_everything_else_is_closed(
    error: str, tmp_path: Path
) -> None:
    bomb, closed = Bomb(ERRORS[error]), list[str]()
    plugins = [Closing("breaks", bomb), Closing("is well", lambda: closed.append("is well"))]
    agent = Agent("a", model=FunctionModel(answer), tools=[work], plugins=plugins)
    address = f"sqlite:///{tmp_path}/db"

    with pytest.raises(HookFailed, match=r"'breaks'.*'close'"):
        async with asyncio.timeout(PATIENCE), Runtime([agent], store=address) as runtime:
            await runtime.run("a", "go", thread="t")

    assert closed == ["is well"]
    bomb.armed = False
    async with asyncio.timeout(PATIENCE), Runtime([agent], store=address) as runtime:
        assert (await runtime.run("a", "again", thread="t")).response == "Done."


# -- stores -----------------------------------------------------------------------------------

_AnyStore: Any = object


class Brittle(_AnyStore):  # type: ignore[misc]  # it passes for whatever store it wraps
    """A store of a user's own, one method of which breaks after some calls."""

    def __init__(self, store: Store, door: str, bomb: Bomb, whole: int) -> None:
        self._store, self._door, self._bomb, self._whole = store, door, bomb, whole

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return found if name != self._door else partial(self._breaks, found)

    async def _breaks(self, found: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._whole -= 1
        if self._whole < 0:
            self._bomb()
        return await found(*args, **kwargs)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("door", "whole"),
    [("claim", 0), ("load_context", 0), ("commit", 0), ("commit", 1), ("commit", 2)],
)
async def test_whatever_a_store_raises_ends_the_run_and_frees_its_thread(
    door: str, whole: int, error: str, kind: str, tmp_path: Path
) -> None:
    bomb = Bomb(ERRORS[error])
    whole_store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "db")
    store = Brittle(whole_store, door, bomb, whole)
    agent = Agent("a", model=FunctionModel(answer), tools=[work])
    async with asyncio.timeout(PATIENCE), Runtime([agent], store=store) as runtime:
        with pytest.raises((LookupError, AwakenError, KeyboardInterrupt, SystemExit)) as failed:
            await runtime.run("a", "go", thread="t")

        assert bomb.went_off
        if door == "commit":
            assert isinstance(failed.value, StorageError)
        bomb.armed = False
        # On a slow machine recovery may be quicker, and carry the broken run on first.
        second = await runtime.run("a", "again", thread="t", when_busy="queue")
        assert second.termination == NATURAL_END
        assert second.response == "Done."
    await whole_store.close()
