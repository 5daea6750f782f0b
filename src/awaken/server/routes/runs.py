"""`/v1` runs: submit them, and read their records."""

from __future__ import annotations

import re

import msgspec
from starlette.types import ASGIApp

from awaken.codec import digest
from awaken.core.lifecycle import RunStatus
from awaken.core.run import PersistedState, RunKind, RunRecord
from awaken.core.store.commands import Submitted
from awaken.core.store.threads import RunQuery
from awaken.errors import NotFound, RunAbandoned
from awaken.ids import UUID7
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import HttpRefusal
from awaken.server.lookup import (
    READERS,
    find_run,
    find_thread,
    may_see_in,
    page_view,
    visible_page,
)
from awaken.server.protocols.base import Intake
from awaken.server.request_types import (
    KEY,
    Count,
    Id,
    Line,
    NewRunAsked,
    PageSize,
    RequestPart,
    RunAsked,
    Seconds,
)
from awaken.server.response_types import PageView, ResponsePart, ResultView, RunView
from awaken.server.route import KeyRole, Route
from awaken.server.routes.events import StreamAsked, stream_events
from awaken.server.submit import Extras, carry_out, parse_messages

_READ = (KeyRole.INVOKE, KeyRole.READ)


class SubmitQuery(RequestPart, frozen=True, kw_only=True):
    """`wait` is how many seconds the answer may take, so that it can say how the run ended."""

    wait: Seconds = 0


class RunsAsked(RequestPart, frozen=True, kw_only=True):
    """Which runs to list, newest first."""

    agent: Id | None = None
    kind: RunKind | None = None
    parent_run_id: Id | None = None
    status: RunStatus | None = None
    updated_after: Count | None = None
    limit: PageSize = 50
    cursor: Line | None = None


class RunDetailsAsked(RequestPart, frozen=True, kw_only=True):
    """`details`: the answer has the run's request and its state, too."""

    details: bool = False


class RunAccepted(ResponsePart, frozen=True, kw_only=True):
    """A run that will be carried out; `events` is where to follow it, from `cursor` on."""

    run_id: str
    thread_id: str
    status: str
    cursor: str
    events: str


async def submit_to_thread(call: ApiCall) -> ASGIApp:
    return await _submit(call, call.ids.new(call.path("thread")))


async def submit(call: ApiCall) -> ASGIApp:
    asked: NewRunAsked = call.body
    if asked.thread_id is not None:
        return await _submit(call, call.ids.new(asked.thread_id))
    return await _submit(call, call.ids.new(_new_thread(call)))


async def _submit(call: ApiCall, thread_id: str) -> ASGIApp:
    asked: RunAsked = call.body
    at = asked.not_before
    taken = await carry_out(
        call,
        Intake(
            thread_id=thread_id,
            agent_id=asked.agent_id,
            messages=parse_messages(call, asked.messages),
            settings=asked.settings.settings() if asked.settings is not None else None,
            frontend_tools=tuple(tool.descriptor() for tool in asked.frontend_tools),
            mode=asked.mode,
            key=idempotency_key(call),
        ),
        Extras(
            not_before_ms=max(0, round(at.timestamp() * 1000)) if at is not None else None,
            budget=asked.budget.budget() if asked.budget is not None else None,
            user=asked.user,
            labels=asked.labels,
        ),
    )
    if call.wants_stream:
        return await stream_events(
            call, thread_id, StreamAsked(), run_id=taken.run_id, after=taken.cursor, until="run"
        )
    query: SubmitQuery = call.query
    is_async = "respond-async" in call.request.headers.get("prefer", "").lower()
    if query.wait and not is_async and at is None:
        try:
            result = await call.runtime.wait(taken.run_id, timeout=query.wait)
        except (TimeoutError, RunAbandoned, NotFound):
            pass  # the run continues, or waits for a node that has its agent
        else:
            return JsonResponse(ResultView.of(result, call.ids))
    return JsonResponse(_to_run_accepted(call, taken), status_code=202)


def _to_run_accepted(call: ApiCall, taken: Submitted) -> RunAccepted:
    run_id, thread_id = call.ids.outside(taken.run_id), call.ids.outside(taken.thread_id)
    return RunAccepted(
        run_id=run_id,
        thread_id=thread_id,
        status="accepted",
        cursor=str(taken.cursor),
        events=call.address(f"/v1/threads/{thread_id}/events?after={taken.cursor}"),
    )


def _new_thread(call: ApiCall) -> str:
    """The id of a new thread. The same key from the same caller means the same thread: a key is
    known to its thread only."""
    key = idempotency_key(call)
    return UUID7.new() if key is None else f"k-{digest([call.principal.id, key])}"


def idempotency_key(call: ApiCall) -> str | None:
    """The key under which the request is carried out once.

    Raises:
        HttpRefusal: it is empty, too long, or not one word.
    """
    key = call.request.headers.get("idempotency-key")
    if key is not None and not re.fullmatch(KEY, key):
        raise HttpRefusal(
            400, "bad_header", "an Idempotency-Key has 1 to 255 printable characters, no blanks"
        )
    return key


async def list_runs(call: ApiCall) -> ASGIApp:
    return await _list(call, None)


async def list_runs_of_thread(call: ApiCall) -> ASGIApp:
    return await _list(call, (await find_thread(call, call.path("thread"))).id)


async def _list(call: ApiCall, thread_id: str | None) -> ASGIApp:
    asked: RunsAsked = call.query
    parent = asked.parent_run_id
    query = RunQuery(
        scope=call.principal.scope,
        thread_id=thread_id,
        agent_id=asked.agent,
        kind=asked.kind,
        parent_run_id=(await find_run(call, parent))[0].run_id if parent is not None else None,
        status=asked.status,
        updated_after_ms=asked.updated_after,
        limit=asked.limit,
        cursor=asked.cursor,
    )

    async def is_visible(run: RunRecord) -> bool:
        return thread_id is not None or await may_see_in(call, run.thread_id, READERS)

    page = await visible_page(call.runtime.list_runs, query, is_visible)
    views = (RunView.of(run, call) for run in page)
    return JsonResponse(page_view(call, page, views))


async def get(call: ApiCall) -> ASGIApp:
    asked: RunDetailsAsked = call.query
    run, _ = await find_run(call, call.path("run"))
    if asked.details:
        call.request.scope["is_audited"] = True
        if not call.has(KeyRole.INSPECT):
            raise HttpRefusal(
                403, "missing_role", "the request and the state need the role inspect"
            )
        store = call.runtime.store
        of_thread = await store.load_thread_state(run.thread_id)
        of_run = await store.load_run_state(run.run_id)
        state = PersistedState(extensions=of_thread.extensions | of_run.extensions)
        run = msgspec.structs.replace(run, state=state)
    return JsonResponse(RunView.of(run, call, has_details=asked.details))


_SUBMITTED = {200: ResultView, 202: RunAccepted}
ROUTES = (
    Route(
        method="POST",
        path="/v1/threads/{thread}/runs",
        handle=submit_to_thread,
        name="submit_thread_run",
        summary="Submit a run to a thread, which is begun if there is none",
        needs=(KeyRole.INVOKE,),
        query=SubmitQuery,
        body=RunAsked,
        answers=_SUBMITTED,
        errors=(409, 422),
        streams=True,
        submits=True,
        takes_tokens=True,
    ),
    Route(
        method="POST",
        path="/v1/runs",
        handle=submit,
        name="submit_run",
        summary="Submit a run, in a new thread or in the one that is named",
        needs=(KeyRole.INVOKE,),
        query=SubmitQuery,
        body=NewRunAsked,
        answers=_SUBMITTED,
        errors=(404, 409, 422),
        streams=True,
        submits=True,
    ),
    Route(
        method="GET",
        path="/v1/runs",
        handle=list_runs,
        name="list_runs",
        summary="List runs",
        needs=_READ,
        query=RunsAsked,
        answers={200: PageView[RunView]},
        errors=(404, 410),
    ),
    Route(
        method="GET",
        path="/v1/threads/{thread}/runs",
        handle=list_runs_of_thread,
        name="list_thread_runs",
        summary="List the runs of a thread",
        needs=_READ,
        query=RunsAsked,
        answers={200: PageView[RunView]},
        errors=(410,),
        takes_tokens=True,
    ),
    Route(
        method="GET",
        path="/v1/runs/{run}",
        handle=get,
        name="get_run",
        summary="Get one run",
        needs=_READ,
        query=RunDetailsAsked,
        answers={200: RunView},
        takes_tokens=True,
    ),
)
