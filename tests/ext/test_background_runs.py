"""Tasks seen from whole runs: who waits, who is told, who takes whom along (03 §1.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from background_kit import Gate, MemoryJournal, settle, until_cancelled
from background_stage import ThreadStage

from awaken import Agent, PhaseContext, Registrar, Runtime, ToolCallContext, tool
from awaken.backend import BackendDelegateRunRequest, BackendRunResult, LocalBackend
from awaken.core.event import NullEventSink, RunFinish
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Phase, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, Role, Visibility
from awaken.core.run import RunRecord, WaitingReason
from awaken.core.state.key import StateKey
from awaken.core.task import (
    AMBIENT_TASK_JOURNAL,
    TaskParentContext,
    TaskStatus,
    find_ambient_journal,
)
from awaken.ext.tasks import (
    BackgroundTaskManager,
    BackgroundTaskPlugin,
    TaskContext,
    TaskOptions,
    TaskResult,
)
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE, BACKGROUND_TASKS
from awaken.ext.tasks.task import TaskBody
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, ScriptedModel, tool_call_response

pytestmark = pytest.mark.anyio

START = tool_call_response("", "start", "c1", {})


def starter(body: TaskBody, options: TaskOptions | None = None) -> Any:
    """A tool that starts a task and does not wait for it."""

    @tool
    async def start(ctx: ToolCallContext) -> str:
        manager = ctx.service(BackgroundTaskManager)
        return await manager.spawn(
            ctx.run_identity.thread_id,
            "work",
            "leaf",
            "some work",
            TaskParentContext(),
            body,
            options or TaskOptions(),
        )

    return start


class Scene:
    """A runtime of one agent with the plugin."""

    def __init__(
        self,
        model: ScriptedModel | FunctionModel,
        *tools: Any,
        plugin: BackgroundTaskPlugin | None = None,
        store: MemoryStore | None = None,
        plugins: Any = (),
        **options: Any,
    ) -> None:
        self.plugin = plugin or BackgroundTaskPlugin()
        self.store = store or MemoryStore()
        agent = Agent("a", model=model, tools=tools, plugins=[self.plugin, *plugins], **options)
        self.runtime = Runtime([agent], store=self.store)

    async def run(self, text: str | None = "hi", thread: str = "t", **options: Any) -> Any:
        async with asyncio.timeout(100):
            return await self.runtime.run("a", text, thread=thread, **options)

    async def record(self, thread: str = "t") -> RunRecord:
        record = await self.store.latest_run(thread)
        assert record is not None
        return record

    async def state(self, key: StateKey[Any, Any]) -> Any:
        record = await self.record()
        assert record.state is not None
        stored = record.state.extensions.get(key.name)
        return None if stored is None else key.load(stored)

    async def statuses(self) -> dict[str, str]:
        state = await self.state(BACKGROUND_TASK_STATE)
        return {task_id: task.status.value for task_id, task in state.tasks.items()}


def read(request: InferenceRequest) -> list[str]:
    """What the model was told besides what people said."""
    return [m.text() for m in request.messages if m.visibility is Visibility.INTERNAL]


def event(task_id: str, kind: str, rest: str) -> str:
    return (
        f'<background-task-event kind="{kind}" task_id="{task_id}">\n'
        f'{{"kind":"{kind}","task_id":"{task_id}",{rest}}}\n</background-task-event>'
    )


# -- how runs end -----------------------------------------------------------------------------


async def test_a_run_without_tasks_ends_done() -> None:
    """03/MH-1: `done`/`natural`."""
    scene = Scene(ScriptedModel(["done"]))

    result = await scene.run()

    record = await scene.record()
    assert result.termination == NATURAL_END
    assert (record.status, record.waiting) == (RunStatus.DONE, None)


async def test_a_run_with_a_running_task_waits_for_it() -> None:
    """03/MH-1: `waiting`/`awaiting_tasks`, and what is under way is in its state."""
    gate = Gate()
    scene = Scene(ScriptedModel([START, "started"]), starter(gate))

    async with scene.runtime.stream("a", "hi", thread="t") as events:
        told = [e.event async for e in events]

    record = await scene.record()
    assert record.status is RunStatus.WAITING
    assert record.waiting is not None
    assert record.waiting.reason is WaitingReason.BACKGROUND_TASKS
    finish = told[-1]
    assert isinstance(finish, RunFinish)
    assert finish.termination == NATURAL_END
    assert finish.result == {
        "response": "started",
        "status": "waiting",
        "status_reason": "awaiting_tasks",
    }
    assert await scene.statuses() == {"bg_0": "running"}
    view = await scene.state(BACKGROUND_TASKS)
    assert [task.task_id for task in view.tasks] == ["bg_0"]
    await scene.plugin.close()


async def test_a_task_that_ends_within_the_run_is_read_before_the_end() -> None:
    """03 §1.5: drained at the natural end; the run goes on, and then it is done."""
    gate = Gate()

    def answer(request: InferenceRequest) -> Any:
        if not any(m.role is Role.TOOL for m in request.messages):
            return START
        if not read(request):
            gate.open.set()
            return wait_then("I wait")
        return "it is through"

    async def wait_then(text: str) -> str:
        await settle()
        return text

    scene = Scene(FunctionModel(answer), starter(gate))

    result = await scene.run()

    assert result.response == "it is through"
    assert (await scene.record()).status is RunStatus.DONE
    assert await scene.statuses() == {"bg_0": "completed"}
    log = await scene.store.load_messages("t")
    [told] = [m for m in log if m.visibility is Visibility.INTERNAL]
    assert told.text() == event("bg_0", "completed", '"result":"through"')
    assert (await scene.state(BACKGROUND_TASKS)).tasks == ()


async def test_a_cancelled_run_is_done_and_its_task_too() -> None:
    """03/MH-1: cancelled → `done`; the guard cancels the run's tasks."""
    asked = asyncio.Event()

    def answer(request: InferenceRequest) -> Any:
        return START if len(request.messages) == 1 else hang()

    async def hang() -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    scene = Scene(FunctionModel(answer), starter(until_cancelled))
    running = asyncio.create_task(scene.run())
    await asked.wait()
    assert scene.runtime.engine.cancel("t")

    result = await running

    record = await scene.record()
    assert result.termination == CANCELLED
    assert record.status is RunStatus.DONE
    await settle()
    assert [e.record.status for e in scene.plugin.manager.handles.ended.values()] == [
        TaskStatus.CANCELLED
    ]


async def test_a_suspended_run_waits_for_the_decision_first() -> None:
    """03/MH-1: suspended → `waiting`, though a task runs beside it."""
    gate = Gate()

    @tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    scene = Scene(
        ScriptedModel([START, tool_call_response("", "pay", "c2", {}), "started and paid"]),
        starter(gate),
        pay,
    )

    result = await scene.run()

    record = await scene.record()
    assert result.suspended
    assert record.status is RunStatus.WAITING
    assert record.waiting is not None
    assert record.waiting.reason is WaitingReason.TOOL_PERMISSION
    again = await scene.run(None, answers={result.tickets[0]: True})
    assert again.response == "started and paid"
    record = await scene.record()
    assert record.waiting is not None
    assert record.waiting.reason is WaitingReason.BACKGROUND_TASKS
    await scene.plugin.close()


async def test_nobody_waits_for_an_internal_task() -> None:
    """02/8.31: no waiting, no event, no further inference."""
    gate = Gate()
    model = ScriptedModel([START, "done"])
    scene = Scene(model, starter(gate, TaskOptions(internal=True)))

    result = await scene.run()

    assert result.response == "done"
    assert (await scene.record()).status is RunStatus.DONE
    gate.open.set()
    await settle()
    assert model.calls == 2


# -- the next run -----------------------------------------------------------------------------


def agent_of(model: ScriptedModel, *tools: Any, id: str = "a", **options: Any) -> Agent:
    plugins = options.pop("plugins", None) or [BackgroundTaskPlugin()]
    return Agent(id, model=model, tools=tools, plugins=plugins, **options)


async def test_a_task_that_ended_between_runs_is_told_in_the_next_one() -> None:
    """03/DB-1: the record and the event reach the run that comes next, and it is done."""
    gate = Gate()
    model = ScriptedModel([START, "started", "hello again", "it is through"])
    stage = ThreadStage(agent_of(model, starter(gate)))
    await stage.run()
    assert stage.lifecycle == ("waiting", "awaiting_tasks")
    gate.open.set()
    await settle()

    result = await stage.run("anything new?")

    assert result.response == "it is through"
    assert read(model.requests[3]) == [event("bg_0", "completed", '"result":"through"')]
    assert stage.statuses == {"bg_0": "completed"}
    assert stage.lifecycle == ("done", "natural")


async def test_a_task_that_still_runs_reports_to_the_next_run() -> None:
    """03/DB-1: live tasks are not orphans, and their ids are not used again."""
    gates = [Gate(), Gate()]
    model = ScriptedModel([START, "one", tool_call_response("", "second", "c2", {}), "two", "both"])

    @tool
    async def second(ctx: ToolCallContext) -> str:
        manager = ctx.service(BackgroundTaskManager)
        thread = ctx.run_identity.thread_id
        task_id = await manager.spawn(thread, "work", None, "x", TaskParentContext(), gates[1])
        for gate in gates:
            gate.open.set()
        await manager.wait(["bg_0", task_id])
        return task_id

    scene = Scene(model, starter(gates[0]), second)
    await scene.run()

    result = await scene.run("go on")

    assert result.response == "two"
    assert await scene.statuses() == {"bg_0": "completed", "bg_1": "completed"}
    assert len(read(model.requests[3])) == 2, "both are told, right behind the results"


async def test_after_a_restart_ghosts_hold_no_run_up() -> None:
    """03/DB-1: a new process repairs every record; ids go on, nobody waits for ever."""
    plugin = BackgroundTaskPlugin()
    before = ThreadStage(
        agent_of(ScriptedModel([START, "started"]), starter(Gate()), plugins=[plugin])
    )
    await before.run()
    kept = before.kept
    await plugin.close()  # the process ends; what it kept says that the task runs
    model = ScriptedModel(["hello", "I see it was lost", START, "started anew"])
    later = BackgroundTaskPlugin()
    after = ThreadStage(agent_of(model, starter(Gate()), plugins=[later]), kept=kept)
    assert before.statuses == {"bg_0": "running"}

    result = await after.run("are you there?")

    assert result.response == "I see it was lost"
    assert read(model.requests[1]) == [
        event("bg_0", "failed", '"error":"task orphaned: runtime restarted while running"')
    ]
    assert after.lifecycle == ("done", "natural")
    await after.run("again")
    assert after.statuses == {"bg_0": "failed", "bg_1": "running"}
    await later.close()


async def test_two_threads_at_once_keep_their_tasks_apart() -> None:
    """03/DB-1: one plugin object, two runs: each thread's records and events are its own."""
    gate = Gate()

    def answer(request: InferenceRequest) -> Any:
        text = request.messages[0].text()
        if text == "one" and len(request.messages) == 1:
            return START
        return f"answer to {text}"

    scene = Scene(FunctionModel(answer), starter(gate))
    await scene.run("one", thread="t1")
    await scene.run("two", thread="t2")
    gate.open.set()
    await settle()
    again = await scene.run("three", thread="t2")

    assert again.response == "answer to two"
    log = await scene.store.load_messages("t2")
    assert [m for m in log if m.visibility is Visibility.INTERNAL] == []
    assert (await scene.record("t2")).status is RunStatus.DONE
    await scene.runtime.wait("t1", timeout=5)
    log = await scene.store.load_messages("t1")
    assert len([m for m in log if m.visibility is Visibility.INTERNAL]) == 1


async def test_cancelling_a_waiting_run_cancels_its_tasks() -> None:
    """03 §1.3: nobody runs the thread when it is cancelled; the task is told all the same."""
    scene = Scene(ScriptedModel([START, "started"]), starter(until_cancelled))
    await scene.run()
    run_id = (await scene.record()).run_id

    await scene.runtime.cancel("t")
    await settle(50)

    record = await scene.store.load_run(run_id)
    assert record is not None
    assert record.status is RunStatus.DONE
    assert scene.plugin.manager.handles.live == {}


async def test_a_run_cancelled_before_its_first_phase_takes_its_tasks_along() -> None:
    """03 §1.3: it waited for them, goes on only to be cancelled, and never comes to its guard."""
    plugin = BackgroundTaskPlugin()
    model = ScriptedModel([START, "started"])
    stage = ThreadStage(agent_of(model, starter(until_cancelled), plugins=[plugin]))
    await stage.run(run_id="run-1")
    stage.token.cancel()

    result = await stage.run(run_id="run-1")
    await settle()

    assert result.termination == CANCELLED
    assert plugin.manager.handles.live == {}


# -- delegates --------------------------------------------------------------------------------


async def delegate(agent: Agent) -> BackendRunResult:
    """Run an agent on behalf of nobody in particular."""
    runtime = Runtime([agent], store=MemoryStore())
    message = Message.user("go")
    async with asyncio.timeout(100):
        return await LocalBackend().execute_delegate(
            BackendDelegateRunRequest(
                agent_id=agent.id,
                messages=[message],
                new_messages=[message],
                sink=NullEventSink(),
                resolver=runtime.engine.registry.snapshot(),
            )
        )


class Ending:
    """A plugin that lets a task go on once the run around it has stepped."""

    id = "ending"

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.steps = 0

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.STEP_END, self.step_end)

    async def step_end(self, _: PhaseContext) -> None:
        self.steps += 1
        if self.steps == 2:
            asyncio.get_running_loop().call_soon(self._gate.open.set)


@pytest.mark.parametrize("has_plugin", [True, False])
async def test_a_sub_agent_waits_for_its_task_before_returning(has_plugin: bool) -> None:
    """03/MH-1, 02/L12: also one without the plugin, which the backend brings then."""
    gate = Gate()
    model = ScriptedModel([START, "I wait", "it is through"])
    plugins: list[Any] = [Ending(gate), *([BackgroundTaskPlugin()] if has_plugin else [])]
    agent = Agent("helper", model=model, tools=[starter(gate)], plugins=plugins)

    result = await delegate(agent)

    assert result.response == "it is through"
    assert result.termination == NATURAL_END
    assert read(model.requests[2]) == [event("bg_0", "completed", '"result":"through"')]


async def test_a_delegate_that_is_not_kept_keeps_no_tasks() -> None:
    """02 §2.14: its thread is on no record; a journal could tell nobody how its task ended."""
    gate = Gate()
    model = ScriptedModel([START, "I wait", "it is through"])
    agent = Agent("helper", model=model, tools=[starter(gate)], plugins=[Ending(gate)])
    journal = MemoryJournal(takes_over=True)
    mark = AMBIENT_TASK_JOURNAL.set(lambda: journal)
    try:
        result = await delegate(agent)
        assert find_ambient_journal() is journal
    finally:
        AMBIENT_TASK_JOURNAL.reset(mark)

    assert result.response == "it is through"
    assert journal.tasks == {}


async def test_a_delegate_leaves_no_task_behind() -> None:
    """02/8.19: it ended early; nobody would ever hear of its task."""
    told = asyncio.Event()

    async def body(ctx: TaskContext) -> TaskResult:
        await ctx.cancelled()
        told.set()
        return TaskResult.cancelled()

    agent = Agent(
        "helper",
        model=ScriptedModel([START, tool_call_response("", "start", "c2", {})]),
        tools=[starter(body)],
        max_rounds=2,
    )

    result = await delegate(agent)

    assert result.status.message is not None
    assert "max_rounds" in result.status.message
    async with asyncio.timeout(100):
        await told.wait()


# -- handing over -----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
async def test_an_agent_that_takes_over_looks_after_the_tasks(shared: bool) -> None:
    """03/DB-1: with the same plugin or its own, the next speaker waits, and is told."""
    gate = Gate()
    plugin = BackgroundTaskPlugin()
    over = tool_call_response("", "handoff", "h1", {"agent": "second"})
    second = ScriptedModel(["now me", "what is new", "it is through"])
    others = [plugin] if shared else [BackgroundTaskPlugin()]
    stage = ThreadStage(
        agent_of(
            ScriptedModel([START, over]),
            starter(gate),
            id="first",
            plugins=[plugin],
            handoffs=["second"],
        ),
        agent_of(second, id="second", plugins=others),
    )

    one = await stage.run()
    assert (one.response, stage.lifecycle) == ("now me", ("waiting", "awaiting_tasks"))
    gate.open.set()
    await settle()
    two = await stage.run("and?")

    assert two.response == "it is through"
    assert read(second.requests[2]) == [event("bg_0", "completed", '"result":"through"')]
    assert stage.lifecycle == ("done", "natural")
    assert stage.statuses == {"bg_0": "completed"}
