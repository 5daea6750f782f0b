"""Checks of cancelling: runs stop as the backend declares, and leave nothing behind."""

from __future__ import annotations

import asyncio

from awaken.core.aio.cancel import CancellationToken
from awaken.core.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendStatusKind,
    ExecutionBackend,
    ExecutionBackendError,
)
from awaken.core.run import PersistedState
from awaken.testing.conformance.backends.helpers import (
    Ask,
    BackendPart,
    BackendSubject,
    BothWays,
    NotSupported,
    Way,
    as_root,
    check_completed,
    check_stopped,
    run_slow_agent,
    wait_for_end,
)
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS

check = BothWays()

SLOW, ECHO = BackendPart.SLOW, BackendPart.ECHO


async def abort(subject: BackendSubject, ask: Ask, backend: ExecutionBackend) -> None:
    """Ask the backend to stop a run, with the run's saved state."""
    agent_id = subject.agent_id(ask.part)
    await backend.abort(
        BackendAbortRequest(
            agent_id=agent_id,
            run_identity=ask.identity(agent_id),
            persisted_state=PersistedState(extensions=dict(ask.saved)) if ask.saved else None,
        )
    )


async def nothing_is_left(subject: BackendSubject, before: set[asyncio.Task[object]]) -> None:
    """Check that no asyncio task is left, and nothing that only the subject can see."""
    left = asyncio.all_tasks() - before
    if left:
        _, left = await asyncio.wait(left, timeout=MAX_WAIT_SECONDS)
    assert not left, f"tasks are left over: {left}"
    assert list(subject.list_leaks()) == []


# -- the caller is cancelled ------------------------------------------------------------------


@check
async def a_cancelled_caller_leaves_nothing_behind(subject: BackendSubject, way: Way) -> None:
    """02 §2.9: cancelled and joined, then aborted; afterwards the backend can run agents again."""
    backend = subject.backend(SLOW)
    cancellation = backend.capabilities().cancellation
    before: set[asyncio.Task[object]] = asyncio.all_tasks()
    for number in range(2):
        ask = Ask(part=SLOW, run=f"run-{number}")
        async with run_slow_agent(subject, way, ask, backend) as run:
            run.cancel()
            _, stuck = await asyncio.wait([run], timeout=MAX_WAIT_SECONDS)
            assert not stuck, "the cancelled run does not end"
            assert run.cancelled(), "a cancelled caller must get CancelledError"
        if cancellation.supports_remote_abort and way is as_root:
            await abort(subject, ask, backend)
        if cancellation is not BackendCancellationCapability.NONE and (
            way is as_root or cancellation.supports_cooperative_token
        ):
            await check_stopped(subject)
        await nothing_is_left(subject, before)


# -- the token --------------------------------------------------------------------------------


@check
async def a_token_stops_a_run_if_it_says_so(subject: BackendSubject, way: Way) -> None:
    """02 §2.2: `cooperative_token`."""
    backend = subject.backend(SLOW)
    if not backend.capabilities().cancellation.supports_cooperative_token:
        return
    before: set[asyncio.Task[object]] = asyncio.all_tasks()
    token = CancellationToken()
    async with run_slow_agent(subject, way, Ask(part=SLOW, token=token), backend) as run:
        token.cancel()
        result = await wait_for_end(run)

    assert result.status.kind is BackendStatusKind.CANCELLED
    await check_stopped(subject)
    await nothing_is_left(subject, before)


@check
async def a_token_that_is_cancelled_already_stops_it_at_once(
    subject: BackendSubject, way: Way
) -> None:
    backend = subject.backend(SLOW)
    if not backend.capabilities().cancellation.supports_cooperative_token:
        return
    token = CancellationToken()
    token.cancel()

    async with asyncio.timeout(MAX_WAIT_SECONDS):
        result = await way(subject, Ask(part=SLOW, token=token), backend)

    assert result.status.kind is BackendStatusKind.CANCELLED


@check
async def a_token_of_a_run_that_is_over_changes_nothing(subject: BackendSubject, way: Way) -> None:
    backend = subject.backend(ECHO)
    token = CancellationToken()
    check_completed(await way(subject, Ask(token=token), backend), "hello")

    token.cancel()

    check_completed(await way(subject, Ask(run="another"), backend), "hello")


# -- abort ------------------------------------------------------------------------------------


@check.alone
async def abort_stops_a_run_if_it_says_so(subject: BackendSubject) -> None:
    """02 §2.2, 02/B10: `remote_abort`, with the state that the run has saved."""
    backend = subject.backend(SLOW)
    if not backend.capabilities().cancellation.supports_remote_abort:
        return
    before: set[asyncio.Task[object]] = asyncio.all_tasks()
    ask = Ask(part=SLOW)
    try:
        async with run_slow_agent(subject, as_root, ask, backend) as run:
            await abort(subject, ask, backend)
            try:
                kind = (await wait_for_end(run)).status.kind
            except ExecutionBackendError:
                kind = BackendStatusKind.FAILED
    except NotSupported:
        return

    assert kind in (BackendStatusKind.CANCELLED, BackendStatusKind.FAILED)
    await check_stopped(subject)
    await nothing_is_left(subject, before)


@check.alone
async def abort_of_what_does_not_run_is_harmless(subject: BackendSubject) -> None:
    """02 §2.7: before a run, after it, for another run, and a second time."""
    backend = subject.backend(ECHO)
    ask = Ask()
    await abort(subject, ask, backend)
    try:
        check_completed(await as_root(subject, ask, backend), "hello")
    except NotSupported:
        return
    for name in ("run", "run", "nobody's"):
        await abort(subject, Ask(run=name, saved=ask.saved), backend)

    check_completed(await as_root(subject, Ask(run="another"), backend), "hello")
