"""`/v1/runs/{run}/outline` and `/steps`, `/v1/threads/{thread}/state`: a run, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from starlette.types import ASGIApp

from awaken.core.event import RunEvent
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commits import CallPhase
from awaken.core.store.threads import CommitView
from awaken.core.thread import Thread
from awaken.core.tool import Recover, ToolEffect
from awaken.core.tool_context import ToolTraits
from awaken.errors import AwakenError, InvalidCursor
from awaken.runtime.live.outline import StepOutline, outline
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import not_found_error
from awaken.server.lookup import find_run, find_thread
from awaken.server.request_types import Count, PageSize, RequestPart
from awaken.server.response_types import ResponsePart
from awaken.server.route import KeyRole, Route

_PAGE = 100
_MAX_COMMITS = 2_000
"""The most commits of a step that are read: a step that waited for long may have as many."""


class OutlineAsked(RequestPart, frozen=True, kw_only=True):
    """Which steps: those behind the step `after`, at most `limit`."""

    after: Count = 0
    limit: PageSize = 200


class Outline(ResponsePart, frozen=True, kw_only=True):
    """The steps of a run, in order. `root_thread_id` is the thread at the top of its tree, by which
    the whole tree is followed."""

    run_id: str
    thread_id: str
    root_thread_id: str
    steps: int
    items: tuple[StepOutline, ...]
    has_more: bool


class LedgerLine(ResponsePart, frozen=True, kw_only=True):
    """A line of the call ledger: at `at`, the call with this `key`, which never repeats, was in
    this `phase`. `effect` and `recovery` are what its tool declares, if it is known here."""

    at: int
    key: str
    call_id: str
    tool_name: str
    phase: CallPhase
    stopped: bool
    effect: ToolEffect | None
    recovery: Recover | None


class StepView(ResponsePart, frozen=True, kw_only=True):
    """One step of a run: its row of the outline, its events, the messages that it wrote, and what
    the ledger says of its calls."""

    step: StepOutline
    events: tuple[RunEvent, ...]
    messages: tuple[Message, ...]
    ledger: tuple[LedgerLine, ...]


class StateAsked(RequestPart, frozen=True, kw_only=True):
    """When: after the event `at`, or now."""

    at: Count | None = None


class StateView(ResponsePart, frozen=True, kw_only=True):
    """The state of a thread after the event `at`, by the names of its keys."""

    thread_id: str
    at: int
    state: dict[str, Any]


async def get_outline(call: ApiCall) -> ASGIApp:
    asked: OutlineAsked = call.query
    run, thread = await find_run(call, call.path("run"))
    items = await _steps(call, run, asked.after, asked.limit)
    ids = call.ids
    return JsonResponse(
        Outline(
            run_id=ids.outside(run.run_id),
            thread_id=ids.outside(run.thread_id),
            root_thread_id=thread.family if thread.parent_thread_id else ids.outside(thread.id),
            steps=run.steps,
            items=items,
            has_more=bool(items) and items[-1].step < run.steps,
        )
    )


async def get_step(call: ApiCall) -> ASGIApp:
    run, _ = await find_run(call, call.path("run"))
    number = call.path("step")
    if not number.isdecimal() or not 1 <= int(number) <= 2**31:
        raise not_found_error("step")
    rows = await _steps(call, run, int(number) - 1, 2)
    if not rows or rows[0].step != int(number):
        raise not_found_error("step")
    stop = rows[1].seq if len(rows) > 1 else None
    commits = await run_commits(call, run, rows[0].seq, stop)
    events = [event for commit in commits for event in commit.events if event.run_id == run.run_id]
    return JsonResponse(
        StepView(
            step=rows[0],
            events=tuple(map(call.ids.event, _between(events, rows[0].seq, stop))),
            messages=tuple(call.ids.message(one) for commit in commits for one in commit.messages),
            ledger=tuple(_ledger(call, rows[0].agent_id or run.agent_id, commits, rows[1:])),
        )
    )


def _ledger(
    call: ApiCall, agent: str, commits: list[CommitView], following: Sequence[StepOutline]
) -> Iterator[LedgerLine]:
    """The ledger's lines in these commits, without those of calls of the following step."""
    other = following[0].message_id if following else ""
    for commit in commits:
        for entry in commit.calls:
            if entry.key.rpartition(":")[0] == other:
                continue
            traits = _traits(call, agent, entry.tool_name)
            yield LedgerLine(
                at=commit.at_ms,
                key=entry.key,
                call_id=entry.call_id,
                tool_name=entry.tool_name,
                phase=entry.phase,
                stopped=entry.stopped,
                effect=traits.effect if traits is not None else None,
                recovery=traits.recovery if traits is not None else None,
            )


def _traits(call: ApiCall, agent: str, tool: str) -> ToolTraits | None:
    try:
        return call.runtime.tool_traits(agent, tool)
    except AwakenError:
        return None


async def _steps(call: ApiCall, run: RunRecord, after: int, limit: int) -> tuple[StepOutline, ...]:
    return tuple(await outline(call.runtime.store, run.run_id, after_step=after, limit=limit))


async def run_commits(
    call: ApiCall, run: RunRecord, seq: int, stop: int | None
) -> list[CommitView]:
    """The run's commits from the one with event `seq` on, and before the one with event `stop`."""
    found: list[CommitView] = []
    after, last = seq - 1, 0
    while len(found) < _MAX_COMMITS:
        page = await call.runtime.store.load_commits(run.thread_id, after=after, limit=_PAGE)
        fresh = [commit for commit in page if commit.position > last]
        for commit in fresh:
            if stop is not None and commit.first_event >= stop:
                return found
            last, after = commit.position, commit.first_event + len(commit.events) - 1
            if commit.run_id == run.run_id:
                found.append(commit)
        if not fresh or len(page) < _PAGE:
            break
    return found


def _between(events: list[RunEvent], start: int, stop: int | None) -> list[RunEvent]:
    return [
        event
        for event in events
        if (event.seq or 0) >= start and (stop is None or (event.seq or 0) < stop)
    ]


async def get_state(call: ApiCall) -> ASGIApp:
    asked: StateAsked = call.query
    thread = await find_thread(call, call.path("thread"), (KeyRole.INSPECT,))
    at, extensions = await _state(call, thread, asked.at)
    return JsonResponse(
        StateView(
            thread_id=call.ids.outside(thread.id),
            at=at,
            state=call.ids.values(dict(extensions), thread.id),
        )
    )


async def _state(call: ApiCall, thread: Thread, at: int | None) -> tuple[int, dict[str, Any]]:
    store = call.runtime.store
    if at is None:
        return thread.event_count, (await store.load_thread_state(thread.id)).extensions
    if not 1 <= at <= thread.event_count:
        raise InvalidCursor(thread.id, at, thread.event_count)
    return at, (await store.state_at(thread.id, at)).extensions


_READ = (KeyRole.INVOKE, KeyRole.READ)
ROUTES = (
    Route(
        method="GET",
        path="/v1/runs/{run}/outline",
        handle=get_outline,
        name="get_outline",
        summary="A row for each step of a run, in pages",
        needs=_READ,
        query=OutlineAsked,
        answers={200: Outline},
        takes_tokens=True,
    ),
    Route(
        method="GET",
        path="/v1/runs/{run}/steps/{step}",
        handle=get_step,
        name="get_step",
        summary="One step of a run: its events and the messages that it wrote",
        needs=_READ,
        answers={200: StepView},
        takes_tokens=True,
    ),
    Route(
        method="GET",
        path="/v1/threads/{thread}/state",
        handle=get_state,
        name="get_thread_state",
        summary="The state of a thread, as it is or as it was",
        needs=(KeyRole.INSPECT,),
        query=StateAsked,
        answers={200: StateView},
        is_audited=True,
        errors=(410,),
    ),
)
