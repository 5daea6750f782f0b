"""The suite for backends finds whoever does not do what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import pytest
from plain_backend import PlainBackend, PlainSubject

from awaken.core.backend import (
    BackendAbortRequest,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateRunRequest,
    BackendOutputArtifact,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    BackendWaitCapability,
    ExecutionBackend,
    ExecutionBackendError,
    RemoteError,
)
from awaken.core.event import ActivitySnapshot, AgentEvent, EventSink, RunEvent, TextDelta
from awaken.core.lifecycle import NATURAL_END
from awaken.core.message import Message
from awaken.core.run import PersistedState
from awaken.testing.conformance import BackendCheck, backend_checks
from awaken.testing.conformance.backends import helpers, stopping

pytestmark = pytest.mark.anyio

CHECKS = {check.__name__: check for check in backend_checks()}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
async def test_a_backend_that_does_what_it_says_passes(check: BackendCheck) -> None:
    await check(PlainSubject(PlainBackend()))


def test_checks_have_names_of_their_own() -> None:
    assert len(CHECKS) == len(backend_checks())


class Modest(PlainBackend):
    """Can do nothing but answer delegates."""

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.remote_stateless_text()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        return await ExecutionBackend.execute_root(self, request)

    async def run(
        self, agent_id: str, run_id: str, messages: Sequence[Message], *, answered: bool = False
    ) -> BackendRunResult:
        if agent_id == "asking":
            raise RemoteError("it asks, and nobody answers")
        return await super().run(agent_id, run_id, messages, answered=answered)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
async def test_a_backend_that_claims_little_passes(check: BackendCheck) -> None:
    await check(PlainSubject(Modest()))


# -- liars ------------------------------------------------------------------------------------


class Spoiled(PlainBackend):
    """Spoils every result."""

    def spoil(self, result: BackendRunResult) -> BackendRunResult:
        return result

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        return self.spoil(await super().execute_root(request))

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        return self.spoil(await super().execute_delegate(request))


def spoiling(**changes: object) -> type[PlainBackend]:
    class Liar(Spoiled):
        def spoil(self, result: BackendRunResult) -> BackendRunResult:
            return msgspec.structs.replace(result, **changes)

    return Liar


def telling(make: Callable[[str], RunEvent]) -> type[PlainBackend]:
    """Tells something of its run while it answers."""

    async def tell(sink: EventSink, run_id: str) -> None:
        await sink.emit(make(run_id))

    class Liar(PlainBackend):
        async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
            await tell(request.sink, request.run_identity.run_id)
            return await super().execute_root(request)

        async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
            result = await super().execute_delegate(request)
            await tell(request.sink, result.run_id or "")
            return result

    return Liar


def event(
    run_id: str,
    kind: AgentEvent | None = None,
    *,
    thread_id: str = "thread-of-run",
    seq: int | None = None,
) -> RunEvent:
    activity = ActivitySnapshot(message_id="m", activity_type="a", content=None)
    return RunEvent(thread_id=thread_id, run_id=run_id, at_ms=1, seq=seq, event=kind or activity)


class Fickle(PlainBackend):
    def capabilities(self) -> BackendCapabilities:
        self.asked = getattr(self, "asked", 0) + 1
        return msgspec.structs.replace(super().capabilities(), overrides=self.asked % 2 == 0)


class Idle(ExecutionBackend):
    """Runs nothing."""


class Refusing(PlainBackend):
    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        raise RemoteError("no delegates, please")


class Raw(PlainBackend):
    def fail(self) -> BackendRunResult:
        raise ValueError("from the depths")


class Speechless(PlainBackend):
    def fail(self) -> BackendRunResult:
        raise RemoteError(" ")


class Rosy(PlainBackend):
    def fail(self) -> BackendRunResult:
        return self.answer("failing", "run", "all is well")


class Trimming(PlainBackend):
    def answer(self, agent_id: str, run_id: str, text: str) -> BackendRunResult:
        return super().answer(agent_id, run_id, text.strip())


class Short(PlainBackend):
    def answer(self, agent_id: str, run_id: str, text: str) -> BackendRunResult:
        return super().answer(agent_id, run_id, text[:65_536])


class Forgetful(PlainBackend):
    async def run(
        self, agent_id: str, run_id: str, messages: Sequence[Message], *, answered: bool = False
    ) -> BackendRunResult:
        return await super().run(agent_id, run_id, messages[-1:], answered=answered)


class Mixing(PlainBackend):
    """Keeps what it works on where the next run does."""

    async def run(
        self, agent_id: str, run_id: str, messages: Sequence[Message], *, answered: bool = False
    ) -> BackendRunResult:
        self.current = messages
        await asyncio.sleep(0)
        return await super().run(agent_id, run_id, self.current, answered=answered)


class Vague(PlainBackend):
    """Claims less than it does: its waits are not announced."""

    def capabilities(self) -> BackendCapabilities:
        return msgspec.structs.replace(super().capabilities(), waits=BackendWaitCapability.AUTH)


class Stateful(Spoiled):
    def capabilities(self) -> BackendCapabilities:
        none = BackendContinuationCapability.NONE
        return msgspec.structs.replace(super().capabilities(), continuation=none)

    def spoil(self, result: BackendRunResult) -> BackendRunResult:
        return msgspec.structs.replace(result, state=PersistedState())


class Deaf(PlainBackend):
    """Does not hear its token."""

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        request.control.cancellation_token = None
        return await super().execute_root(request)


class Stubborn(PlainBackend):
    """Does not let itself be cancelled."""

    async def work(self) -> None:
        self.working.set()
        while True:
            try:
                await asyncio.wait_for(asyncio.Event().wait(), 0.5)
            except asyncio.CancelledError:
                continue
            except TimeoutError:
                return


class Untidy(PlainBackend):
    """Works in a task that it forgets."""

    async def work(self) -> None:
        self.forgotten = asyncio.ensure_future(super().work())
        await asyncio.shield(self.forgotten)


class Quiet(PlainBackend):
    """Says that it has stopped, and goes on."""

    async def work(self) -> None:
        self.working.set()
        await asyncio.Event().wait()


class Powerless(PlainBackend):
    async def abort(self, request: BackendAbortRequest) -> None:
        return


class Touchy(PlainBackend):
    async def abort(self, request: BackendAbortRequest) -> None:
        if request.run_identity.run_id not in self.runs:
            raise RemoteError("there is no such run")


class Unresumed(PlainBackend):
    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        return await super().execute_root(msgspec.structs.replace(request, is_continuation=False))


def refusing(feature: str) -> type[PlainBackend]:
    class Liar(PlainBackend):
        async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
            if getattr(request, feature):
                raise RemoteError(f"no {feature}, please")
            return await super().execute_root(request)

    return Liar


ARTIFACT = BackendRunOutput(text="hello", artifacts=(BackendOutputArtifact(content=1),))
LIARS: list[tuple[type[ExecutionBackend], str]] = [
    (Fickle, "what_it_can_do_does_not_change"),
    (Idle, "it_runs_agents_in_one_way_at_least"),
    (Refusing, "it_runs_agents_in_one_way_at_least"),
    (Forgetful, "the_whole_conversation_is_read_if_it_says_so_as_a_root"),
    (refusing("overrides"), "overrides_are_taken_if_it_says_so"),
    (refusing("frontend_tools"), "frontend_tools_are_taken_if_it_says_so"),
    (Vague, "an_agent_that_asks_waits_if_it_says_so_as_a_delegate"),
    (Rosy, "a_failure_is_reported_as_a_root"),
    (Raw, "a_failure_is_reported_as_a_root"),
    (Speechless, "a_failure_is_reported_as_a_delegate"),
    (Unresumed, "a_run_that_waits_is_continued_if_it_says_so"),
    (spoiling(agent_id="another"), "an_agent_answers_as_a_root"),
    (spoiling(steps=-1), "an_agent_answers_as_a_root"),
    (spoiling(run_id="another"), "an_agent_answers_as_a_root"),
    (spoiling(run_id="parent-run"), "an_agent_answers_as_a_delegate"),
    (spoiling(response="something else"), "an_agent_answers_as_a_delegate"),
    (spoiling(output=ARTIFACT), "an_agent_answers_as_a_root"),
    (spoiling(status=BackendRunStatus.failed("x")), "an_agent_answers_as_a_root"),
    (spoiling(status=BackendRunStatus.failed("")), "an_agent_answers_as_a_root"),
    (spoiling(status=BackendRunStatus.suspended()), "an_agent_answers_as_a_root"),
    (spoiling(status=BackendRunStatus.timeout()), "an_agent_answers_as_a_root"),
    (Stateful, "an_agent_answers_as_a_root"),
    (spoiling(termination=NATURAL_END), "a_token_stops_a_run_if_it_says_so_as_a_root"),
    (spoiling(run_id="one"), "runs_after_one_another_are_apart_as_a_delegate"),
    (spoiling(run_id="one"), "runs_at_once_do_not_mix_as_a_delegate"),
    (Trimming, "an_unusual_prompt_arrives_unchanged_as_a_root"),
    (Short, "a_huge_prompt_arrives_unchanged_as_a_delegate"),
    (Mixing, "runs_at_once_do_not_mix_as_a_root"),
    (telling(lambda run_id: event("other")), "a_roots_events_are_its_own"),
    (telling(lambda run_id: event(run_id, thread_id="other")), "a_roots_events_are_its_own"),
    (telling(lambda run_id: event(run_id, seq=1)), "a_roots_events_are_its_own"),
    (
        telling(lambda run_id: event(run_id, TextDelta(delta="hello"))),
        "a_root_leaves_its_borders_to_its_caller",
    ),
    (telling(lambda run_id: event("parent-run")), "a_delegates_events_are_its_own"),
    (telling(lambda run_id: event("other")), "a_delegates_events_are_its_own"),
    (telling(lambda run_id: event(run_id, seq=1)), "a_delegates_events_are_its_own"),
    (Deaf, "a_token_stops_a_run_if_it_says_so_as_a_root"),
    (Deaf, "a_token_that_is_cancelled_already_stops_it_at_once_as_a_root"),
    (Quiet, "a_token_stops_a_run_if_it_says_so_as_a_root"),
    (Stubborn, "a_cancelled_caller_leaves_nothing_behind_as_a_root"),
    (Untidy, "a_cancelled_caller_leaves_nothing_behind_as_a_delegate"),
    (Quiet, "a_cancelled_caller_leaves_nothing_behind_as_a_root"),
    (Powerless, "abort_stops_a_run_if_it_says_so"),
    (Quiet, "abort_stops_a_run_if_it_says_so"),
    (Touchy, "abort_of_what_does_not_run_is_harmless"),
]


class PickedSubject(PlainSubject):
    """A subject of any backend."""

    def __init__(self, backend: ExecutionBackend) -> None:
        self.any = backend
        if isinstance(backend, PlainBackend):
            super().__init__(backend)

    def backend(self, part: object) -> ExecutionBackend:
        return self.any


@pytest.mark.parametrize(("liar", "name"), LIARS)
async def test_a_liar_is_found(
    liar: type[ExecutionBackend], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (helpers, stopping):
        monkeypatch.setattr(module, "MAX_WAIT_SECONDS", 0.2)
    before = asyncio.all_tasks()

    with pytest.raises((AssertionError, ExecutionBackendError, TimeoutError)):
        await CHECKS[name](PickedSubject(liar()))

    for task in asyncio.all_tasks() - before:
        task.cancel()


async def test_what_only_the_subject_sees_counts() -> None:
    class Littered(PlainSubject):
        def list_leaks(self) -> Sequence[str]:
            return ["a process"]

    for check in CHECKS.values():
        if "leaves_nothing_behind" in check.__name__:
            with pytest.raises(AssertionError, match="a process"):
                await check(Littered(PlainBackend()))


async def test_a_slow_agent_that_ends_is_a_mistake_of_the_subject() -> None:
    class Quick(PlainBackend):
        async def work(self) -> None:
            return

    with pytest.raises(AssertionError, match="the slow agent ended by itself"):
        await CHECKS["a_token_stops_a_run_if_it_says_so_as_a_root"](PlainSubject(Quick()))
