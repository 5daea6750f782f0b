"""Gates, policies and the ways calls run (01 §3.6)."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import Any

import pytest
from run_kit import Piece, of_kind, record_of, results, state_of, ticket, told

from answer_kit import by_id
from awaken import (
    Agent,
    Block,
    Command,
    Merge,
    Phase,
    PhaseContext,
    RunRequest,
    Runtime,
    SetResult,
    StateKey,
    Suspend,
    ToolCallContext,
    ToolDescriptor,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.event import CollectingSink, RunFinish, ToolCallDone
from awaken.core.identity import Adapter, RunMode
from awaken.core.intercept import (
    Allow,
    AuditOnly,
    Deny,
    ReplaceResult,
    ToolInterceptPayload,
    ToolPolicyContext,
    ToolPolicyDecision,
)
from awaken.core.lifecycle import NATURAL_END, Blocked, Failed
from awaken.core.message import Message
from awaken.core.spec import ToolExecutorKind
from awaken.core.suspension import ToolCallOutcome
from awaken.core.tool import ToolKind
from awaken.core.transcript import INTERRUPTED
from awaken.errors import HookFailed, PhaseError
from awaken.testing import ScriptedModel, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

BLOCK = Block(reason="not allowed")
SUSPEND = Suspend(ticket=ticket())
RESULT = SetResult(result=ToolResult.success_with_message("pay", None, "paid by the gate"))


def gate_of(verdict: ToolInterceptPayload | None) -> Any:
    async def gate(_: PhaseContext) -> ToolInterceptPayload | None:
        return verdict

    return gate


class Payer:
    """An agent that pays once, gates around it, and a count of payments."""

    def __init__(self, *plugins: Piece, **options: Any) -> None:
        self.paid = 0
        self.model = ScriptedModel([tool_call_response("", "pay", "c1", {"n": 3}), "done"])

        @tool
        async def pay(n: int) -> str:
            """Pay."""
            self.paid += 1
            return f"paid {n}"

        self.agent = Agent("payer", model=self.model, tools=[pay], plugins=plugins, **options)
        self.runtime = Runtime([self.agent])


def gates(*verdicts: ToolInterceptPayload | None) -> list[Piece]:
    """One plugin a gate, in order."""

    def piece(number: int, verdict: ToolInterceptPayload | None) -> Piece:
        return Piece(f"gate-{number}", lambda r: r.gate(gate_of(verdict)))

    return [piece(number, verdict) for number, verdict in enumerate(verdicts)]


# -- which word counts ------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations([BLOCK, SUSPEND, RESULT, None])))
async def test_a_block_beats_everything_in_any_order(
    order: tuple[ToolInterceptPayload | None, ...],
) -> None:
    """01/P-14."""
    payer = Payer(*gates(*order))

    result = await payer.runtime.run("payer", "pay", thread="t")

    assert result.termination == Blocked(value="not allowed")
    assert payer.paid == 0
    assert results(await payer.runtime.messages("t")) == {"c1": "not allowed"}


@pytest.mark.parametrize("order", list(permutations([SUSPEND, RESULT, None])))
async def test_a_suspension_beats_a_result_in_any_order(
    order: tuple[ToolInterceptPayload | None, ...],
) -> None:
    """01/P-14."""
    payer = Payer(*gates(*order))

    result = await payer.runtime.run("payer", "pay")

    assert result.suspended
    assert [found.ticket_id for found in result.tickets] == ["ask"]
    assert payer.paid == 0


async def test_the_first_of_equals_wins() -> None:
    """01/P-14: of two results as of two blocks."""
    other = SetResult(result=ToolResult.success_with_message("pay", None, "second"))
    replaced, blocked = Payer(*gates(RESULT, other)), Payer(*gates(BLOCK, Block(reason="too late")))

    await replaced.runtime.run("payer", "pay", thread="t")
    end = await blocked.runtime.run("payer", "pay")

    assert results(await replaced.runtime.messages("t")) == {"c1": "paid by the gate"}
    assert end.termination == Blocked(value="not allowed")


async def test_gates_that_say_nothing_let_the_call_run() -> None:
    """01 §3.6: no payload, no interception."""
    payer = Payer(*gates(None, None))

    await payer.runtime.run("payer", "pay", thread="t")

    assert payer.paid == 1
    assert results(await payer.runtime.messages("t")) == {"c1": "paid 3"}


async def test_gates_are_asked_one_after_another() -> None:
    """01 §3.6: in registration order, the next when the one before has answered."""
    order: list[str] = []

    def slow(name: str) -> Any:
        async def gate(_: PhaseContext) -> None:
            order.append(f"{name} asked")
            await asyncio.sleep(0)
            order.append(f"{name} answered")

        return gate

    first, second = slow("first"), slow("second")
    payer = Payer(Piece("p", lambda r: r.gate(first), lambda r: r.gate(second)))

    await payer.runtime.run("payer", "pay")

    assert order == ["first asked", "first answered", "second asked", "second answered"]


# -- what follows -----------------------------------------------------------------------------


async def test_a_blocked_run_says_so_everywhere() -> None:
    """01 §3.6: the result is an error, later calls are closed, the lifecycle is done."""
    payer = Payer(*gates(BLOCK))
    calls = tool_calls_response("", ("pay", "c1", {"n": 1}), ("pay", "c2", {"n": 2}))
    runtime = Runtime([Agent("payer", model=ScriptedModel([calls]), plugins=payer.agent.plugins)])
    sink = CollectingSink()

    result = await runtime.run("payer", "pay", thread="t", sink=sink)

    assert results(await runtime.messages("t")) == {"c1": "not allowed", "c2": INTERRUPTED}
    outcomes = [done.outcome for done in of_kind(sink.events(), ToolCallDone)]
    assert outcomes == [ToolCallOutcome.DENIED, ToolCallOutcome.FAILED]
    record = await record_of(runtime, result.run_id)
    assert record.status.value == "done"
    assert record.state is not None
    lifecycle = record.state.extensions["__runtime.run_lifecycle"]
    assert lifecycle["status_reason"] == "blocked:not allowed"


async def test_which_hooks_see_an_intercepted_call() -> None:
    """01 §3.6: after a block and a set result yes, after a suspension no; before it never."""
    seen: dict[str, list[str]] = {"before": [], "after": []}

    def watch(verdict: ToolInterceptPayload) -> Payer:
        async def before(_: PhaseContext) -> None:
            seen["before"].append(type(verdict).__name__)

        async def after(ctx: PhaseContext) -> None:
            assert ctx.tool_result is not None
            seen["after"].append(f"{type(verdict).__name__} {ctx.tool_result.status.value}")

        watcher = Piece(
            "watcher",
            lambda r: r.hook(Phase.BEFORE_TOOL_EXECUTE, before),
            lambda r: r.hook(Phase.AFTER_TOOL_EXECUTE, after),
        )
        return Payer(*gates(verdict), watcher)

    for verdict in (BLOCK, SUSPEND, RESULT):
        await watch(verdict).runtime.run("payer", "pay")

    assert seen == {"before": [], "after": ["Block error", "SetResult success"]}


async def test_a_set_result_that_is_pending_suspends() -> None:
    """01 §3.6."""
    pending = ToolResult.suspended_with("pay", "wait for it", ticket("later"))
    payer = Payer(*gates(SetResult(result=pending)))

    result = await payer.runtime.run("payer", "pay")

    assert [found.ticket_id for found in result.tickets] == ["later"]


async def test_a_suspended_call_is_told_with_its_ticket() -> None:
    """01 §3.6: `tool_call_done(suspended)`, then a pause."""
    payer, sink = Payer(*gates(SUSPEND)), CollectingSink()

    await payer.runtime.run("payer", "pay", sink=sink)

    [done] = of_kind(sink.events(), ToolCallDone)
    assert done.outcome is ToolCallOutcome.SUSPENDED
    assert done.result.suspension == SUSPEND.ticket
    [finish] = of_kind(sink.events(), RunFinish)
    assert finish.termination.__struct_config__.tag == "suspended"


async def test_a_gate_that_raises_ends_the_run_and_answers_the_call() -> None:
    """01 §3.6, D-12, bad input: the plugin is named, the record closed, no call left open."""

    async def breaks(_: PhaseContext) -> None:
        raise ValueError("no such luck")

    payer = Payer(Piece("broken-gate", lambda r: r.gate(breaks)))
    sink = CollectingSink()

    with pytest.raises(PhaseError, match=r"'broken-gate'.*no such luck.*tool_gate") as failed:
        await payer.runtime.run("payer", "pay", thread="t", sink=sink)

    assert isinstance(failed.value.__cause__, HookFailed)
    assert payer.paid == 0
    assert results(await payer.runtime.messages("t")) == {"c1": INTERRUPTED}
    [finish] = of_kind(sink.events(), RunFinish)
    assert isinstance(finish.termination, Failed)
    record = await record_of(payer.runtime, sink.events()[0].run_id)
    assert record.status.value == "done"


@pytest.mark.parametrize("verdict", [True, Deny(reason="no"), ToolResult.success("pay")])
async def test_a_gate_that_says_something_else_is_named(verdict: Any) -> None:
    """Bad input: neither silence nor a call without an answer; the kinds there are, are listed."""

    async def odd(_: PhaseContext) -> Any:
        return verdict

    payer = Payer(Piece("odd-gate", lambda r: r.gate(odd)))

    with pytest.raises(PhaseError, match=r"'odd-gate'.*Block, Suspend, SetResult"):
        await payer.runtime.run("payer", "pay", thread="t")

    assert payer.paid == 0
    assert results(await payer.runtime.messages("t")) == {"c1": INTERRUPTED}


@pytest.mark.parametrize("decision", [None, True, Block(reason="no")])
async def test_a_policy_that_says_something_else_lets_nothing_pass(decision: Any) -> None:
    """Bad input: a policy that forgot to decide has not allowed anything."""

    async def odd(_: ToolPolicyContext) -> Any:
        return decision

    payer = Payer(Piece("odd-policy", lambda r: r.policy(odd)))

    with pytest.raises(PhaseError, match=r"'odd-policy'.*Allow, AuditOnly, Deny"):
        await payer.runtime.run("payer", "pay")
    assert payer.paid == 0


# -- policies ---------------------------------------------------------------------------------


async def test_a_denied_tool_never_runs_and_the_policy_saw_the_call() -> None:
    """01/P-15: the policy context carries run mode and adapter, and all the rest."""
    seen: list[ToolPolicyContext] = []

    async def deny(context: ToolPolicyContext) -> ToolPolicyDecision:
        seen.append(context)
        return Deny(reason="too expensive")

    payer = Payer(Piece("policy", lambda r: r.policy(deny)))
    request = RunRequest(
        thread_id="t",
        agent_id="payer",
        messages=(Message.user("pay"),),
        run_mode=RunMode.SCHEDULED,
        adapter=Adapter.AG_UI,
        dispatch_id="d1",
    )

    result = await payer.runtime.engine.run(request)

    assert result.termination == Blocked(value="too expensive")
    assert payer.paid == 0
    assert seen == [
        ToolPolicyContext(
            thread_id="t",
            run_id=result.run_id,
            dispatch_id="d1",
            run_mode=RunMode.SCHEDULED,
            adapter=Adapter.AG_UI,
            tool_name="pay",
            tool_kind=ToolKind.OTHER,
            arguments={"n": 3},
        )
    ]


POLICIES: list[tuple[ToolPolicyDecision, str]] = [
    (Allow(), "paid 3"),
    (AuditOnly(), "paid 3"),
    (ReplaceResult(result=ToolResult.success_with_message("pay", None, "replaced")), "replaced"),
]


@pytest.mark.parametrize(("decision", "answer"), POLICIES)
async def test_what_a_policy_may_decide(decision: ToolPolicyDecision, answer: str) -> None:
    """01 §1.9: allow and audit pass, a replaced result stands."""

    async def decide(_: ToolPolicyContext) -> ToolPolicyDecision:
        return decision

    payer = Payer(Piece("policy", lambda r: r.policy(decide)))

    await payer.runtime.run("payer", "pay", thread="t")

    assert results(await payer.runtime.messages("t")) == {"c1": answer}


async def test_a_policy_may_suspend_and_shares_the_gates_order() -> None:
    """01/P-14, P-15: wrapped as a gate among gates."""

    async def suspend(_: ToolPolicyContext) -> ToolPolicyDecision:
        return Suspend(ticket=ticket("by policy"))

    policy = Piece("policy", lambda r: r.policy(suspend))

    waiting = await Payer(*gates(RESULT), policy).runtime.run("payer", "pay")
    blocked = await Payer(policy, *gates(BLOCK)).runtime.run("payer", "pay")

    assert [found.ticket_id for found in waiting.tickets] == ["by policy"]
    assert blocked.termination == Blocked(value="not allowed")


class Named:
    """A tool of a given name and, perhaps, a kind of its own saying."""

    def __init__(self, name: str, kind: ToolKind | None) -> None:
        self._descriptor = ToolDescriptor(id=name, name=name, description="", kind=kind)

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Any) -> Any:
        return args

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success(self._descriptor.name))


KINDS: list[tuple[str, ToolKind | None, ToolKind]] = [
    ("tools_overview", None, ToolKind.OTHER),
    ("merge", None, ToolKind.OTHER),
    ("list_files", None, ToolKind.READ),
    ("listFiles", None, ToolKind.READ),
    ("search", None, ToolKind.SEARCH),
    ("run_shell", None, ToolKind.EXECUTE),
    ("delete_rows", None, ToolKind.EDIT),
    ("tidy", ToolKind.EDIT, ToolKind.EDIT),
    ("delete_nothing", ToolKind.READ, ToolKind.READ),
]


@pytest.mark.parametrize(("name", "declared", "expected"), KINDS)
async def test_policies_are_told_the_kind_a_tool_declares_or_its_words_suggest(
    name: str, declared: ToolKind | None, expected: ToolKind
) -> None:
    """D-25: "tools" holds no "ls" and "merge" no "rg"; what a descriptor says goes first."""
    seen: list[ToolKind] = []

    async def look(context: ToolPolicyContext) -> ToolPolicyDecision:
        seen.append(context.tool_kind)
        return AuditOnly()

    agent = Agent(
        "a",
        model=ScriptedModel([tool_call_response("", name, "c1", {}), "done"]),
        tools=[Named(name, declared)],
        plugins=[Piece("policy", lambda r: r.policy(look))],
    )

    await Runtime([agent]).run("a", "go")

    assert seen == [expected]


# -- several calls in one step ----------------------------------------------------------------

OPEN: StateKey[bool, bool] = StateKey("door.open", initial=bool)


async def test_a_gate_is_asked_again_after_an_earlier_call_changed_the_state() -> None:
    """01/P-16: what was allowed runs first, and may change the gate's mind."""
    asked: list[tuple[str | None, bool | None]] = []

    @tool
    async def unlock() -> ToolOutput:
        """Unlock."""
        return ToolOutput(ToolResult.success("unlock"), Command().update(OPEN, True))

    @tool
    async def enter() -> str:
        """Enter."""
        return "inside"

    async def guard(ctx: PhaseContext) -> ToolInterceptPayload | None:
        asked.append((ctx.tool_name, ctx.read(OPEN)))
        return Block(reason="locked") if ctx.tool_name == "enter" and not ctx.read(OPEN) else None

    calls = tool_calls_response("", ("unlock", "c1", {}), ("enter", "c2", {}))
    agent = Agent(
        "guest",
        model=ScriptedModel([calls, "made it"]),
        tools=[unlock, enter],
        state=[OPEN],
        plugins=[Piece("guard", lambda r: r.gate(guard))],
    )
    runtime = Runtime([agent])

    result = await runtime.run("guest", "go in", thread="t")

    assert result.response == "made it"
    assert asked == [("unlock", None), ("enter", None), ("enter", True)]
    assert results(await runtime.messages("t"))["c2"] == "inside"


class Three:
    """Tools `a` and `c`, and `b` between them, which waits for somebody."""

    def __init__(self, **options: Any) -> None:
        self.ran: list[str] = []

        @tool
        async def a() -> str:
            """A."""
            self.ran.append("a")
            return "a ran"

        @tool(needs_approval=True)
        async def b() -> str:
            """B."""
            self.ran.append("b")
            return "b ran"

        @tool
        async def c() -> str:
            """C."""
            self.ran.append("c")
            return "c ran"

        calls = tool_calls_response("", ("a", "1", {}), ("b", "2", {}), ("c", "3", {}))
        self.model = ScriptedModel([calls, "done"])
        self.runtime = Runtime([Agent("three", model=self.model, tools=[a, b, c], **options)])


async def test_one_after_another_nothing_runs_behind_a_suspension() -> None:
    """01/P-17: yet every call has a result. Design §8: the suspended one gets it when answered,
    and the model then reads all of them in call order."""
    three = Three(sequential=True)

    result = await three.runtime.run("three", "go", thread="t")

    assert result.suspended
    assert three.ran == ["a"]
    assert results(await three.runtime.messages("t")) == {"1": "a ran", "3": INTERRUPTED}

    await three.runtime.run(thread="t", answers=await by_id(three.runtime, {"2": True}))

    assert three.ran == ["a", "b"]
    assert told(three.model.requests[1].messages[2:]) == [
        "tool: a ran",
        "tool: b ran",
        f"tool: {INTERRUPTED}",
    ]


async def test_side_by_side_all_run_whoever_is_suspended() -> None:
    """01/P-18: and the model reads the results in call order."""
    three = Three()

    result = await three.runtime.run("three", "go", thread="t")

    assert result.suspended
    assert three.ran == ["a", "c"]
    await three.runtime.run(thread="t", answers=await by_id(three.runtime, {"2": True}))
    assert told(three.model.requests[1].messages[2:]) == [
        "tool: a ran",
        "tool: b ran",
        "tool: c ran",
    ]


async def test_results_keep_call_order_whoever_ends_first() -> None:
    """01/P-18: the log too."""
    done = {name: asyncio.Event() for name in "abc"}

    def waits_for(name: str, other: str | None) -> Any:
        async def work() -> str:
            """Work."""
            if other is not None:
                await done[other].wait()
            done[name].set()
            return name

        return tool(work, name=name)

    calls = tool_calls_response("", ("a", "1", {}), ("b", "2", {}), ("c", "3", {}))
    tools = [waits_for("a", "b"), waits_for("b", "c"), waits_for("c", None)]
    runtime = Runtime([Agent("x", model=ScriptedModel([calls, "done"]), tools=tools)])

    await runtime.run("x", "go", thread="t")

    log = await runtime.messages("t")
    assert [message.tool_call_id for message in log if message.tool_call_id] == ["1", "2", "3"]


# -- state written side by side ---------------------------------------------------------------

NOTE: StateKey[str, str] = StateKey("note", initial=str)
COUNT: StateKey[int, int] = StateKey(
    "count", initial=int, apply=int.__add__, merge=Merge.COMMUTATIVE
)


def writers(**options: Any) -> tuple[Runtime, ScriptedModel]:
    @tool
    async def write(word: str) -> ToolOutput:
        """Write."""
        command = Command().update(NOTE, word).update(COUNT, 1)
        return ToolOutput(ToolResult.success_with_message("write", None, f"wrote {word}"), command)

    calls = tool_calls_response(
        "", ("write", "c1", {"word": "one"}), ("write", "c2", {"word": "two"})
    )
    model = ScriptedModel([calls, "done"])
    agent = Agent("w", model=model, tools=[write], state=[NOTE, COUNT], **options)
    return Runtime([agent]), model


async def test_of_two_parallel_writers_of_an_exclusive_key_the_loser_is_told() -> None:
    """D-3: nothing is lost silently. Design §8: a call that ran keeps its result, its state write
    is refused as a whole, and the model is told."""
    runtime, model = writers()

    result = await runtime.run("w", "go")

    answers = results(model.requests[1].messages)
    assert answers["c1"] == "wrote one"
    assert answers["c2"].startswith("wrote two\n[state update refused:")
    assert '"note"' in answers["c2"]
    assert "[c1] and [c2]" in answers["c2"]
    assert await state_of(runtime, result.run_id, NOTE) == "one"
    assert await state_of(runtime, result.run_id, COUNT) == 1
    assert result.termination == NATURAL_END


@pytest.mark.parametrize(
    "options", [{"sequential": True}, {"tool_executor": ToolExecutorKind.SEQUENTIAL}]
)
async def test_writers_one_after_another_both_count(options: dict[str, Any]) -> None:
    """D-3: each sees what the one before did."""
    runtime, _ = writers(**options)

    result = await runtime.run("w", "go")

    assert await state_of(runtime, result.run_id, NOTE) == "two"
    assert await state_of(runtime, result.run_id, COUNT) == 2


async def test_completing_a_call_is_one_commit() -> None:
    """01 §3.6: status, the tool's own change and the after-hooks' go together."""
    seen: list[tuple[str | None, int | None]] = []

    @tool
    async def write() -> ToolOutput:
        """Write."""
        return ToolOutput(ToolResult.success("write"), Command().update(NOTE, "by the tool"))

    async def after(ctx: PhaseContext) -> Command:
        seen.append((ctx.read(NOTE), ctx.read(COUNT)))
        return Command().update(COUNT, 1)

    agent = Agent(
        "w",
        model=ScriptedModel([tool_call_response("", "write", "c1", {}), "done"]),
        tools=[write],
        state=[NOTE, COUNT],
        plugins=[Piece("after", lambda r: r.hook(Phase.AFTER_TOOL_EXECUTE, after))],
    )
    runtime = Runtime([agent])

    result = await runtime.run("w", "go")

    assert seen == [(None, None)]
    assert await state_of(runtime, result.run_id, NOTE) == "by the tool"
    assert await state_of(runtime, result.run_id, COUNT) == 1
