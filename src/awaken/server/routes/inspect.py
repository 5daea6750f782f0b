"""The parts of a step that developers inspect: the request to the model, and the state before and
after the step."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from starlette.types import ASGIApp

from awaken.codec import Json, to_json
from awaken.core.llm import InferenceRequest
from awaken.core.request_manifest import FailedAttempt, RequestManifest, UnloggedMessage
from awaken.core.run import RunRecord
from awaken.core.tool import ToolError
from awaken.errors import (
    AwakenError,
    NotFound,
    RequestNotKept,
    TextGone,
)
from awaken.runtime.live.outline import StepOutline, outline
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import HttpRefusal, not_found_error
from awaken.server.lookup import find_run, find_ticket
from awaken.server.request_types import RequestPart
from awaken.server.response_types import ResponsePart
from awaken.server.route import KeyRole, Route
from awaken.server.routes.steps import run_commits

Source = Literal["log", "changed", "added"]


class RequestAsked(RequestPart, frozen=True, kw_only=True):
    """`neutral` is the request as the agent's model got it; `provider` adds the body that its
    provider would get, without the key."""

    form: Literal["neutral", "provider"] = "neutral"


class RequestView(ResponsePart, frozen=True, kw_only=True):
    """The request that led to the answer of a step.

    `sources` says of each message whether it stands in the log as it is, was `changed`, or was
    `added` for this request. `first_ms` is the time to the first piece of the answer.
    """

    message_id: str
    model: str
    answered_by: str | None
    request: Json
    sources: tuple[Source, ...]
    attempts: tuple[FailedAttempt, ...]
    first_ms: int | None
    provider: Json = None
    provider_problem: str | None = None


class StepState(ResponsePart, frozen=True, kw_only=True):
    """The state of the run's thread before a step and after it, by the names of its keys. The state
    after a step is the state before the next one."""

    step: int
    before: dict[str, Any]
    after: dict[str, Any]


async def get_request(call: ApiCall) -> ASGIApp:
    asked: RequestAsked = call.query
    run, _ = await find_run(call, call.path("run"), (KeyRole.INSPECT,))
    step, _ = await _step(call, run)
    store = call.runtime.store
    try:
        manifest = await store.load_manifest(run.thread_id, step.message_id)
        request = await store.load_request(run.thread_id, step.message_id)
    except (NotFound, RequestNotKept, TextGone) as error:
        raise HttpRefusal(404, "request_not_kept", str(error)) from None
    body, problem = _preview(call, run, step, request) if asked.form == "provider" else (None, None)
    settings = manifest.settings
    return JsonResponse(
        RequestView(
            message_id=step.message_id,
            model=settings.model if settings is not None else request.upstream_model,
            answered_by=manifest.answered_by,
            request=to_json(_outside(call, request)),
            sources=_sources(manifest),
            attempts=manifest.attempts,
            first_ms=manifest.first_ms,
            provider=body,
            provider_problem=problem,
        )
    )


def _outside(call: ApiCall, request: InferenceRequest) -> InferenceRequest:
    """The request with the ids that this client sees."""
    ids, key = call.ids, request.routing_key
    if key is not None:
        key = msgspec.structs.replace(
            key, thread_id=ids.outside_if(key.thread_id), run_id=ids.outside_if(key.run_id)
        )
    return msgspec.structs.replace(
        request, messages=[ids.message(one) for one in request.messages], routing_key=key
    )


def _sources(manifest: RequestManifest) -> tuple[Source, ...]:
    found: list[Source] = []
    for entry in manifest.shown:
        if isinstance(entry, UnloggedMessage):
            found.append("added" if entry.seq is None else "changed")
        else:
            found += ["log"] * (entry[1] - entry[0] + 1)
    return tuple(found)


def _preview(
    call: ApiCall, run: RunRecord, step: StepOutline, request: InferenceRequest
) -> tuple[Json, str | None]:
    try:
        return call.runtime.preview(step.agent_id or run.agent_id, request), None
    except AwakenError as error:
        return None, str(error)


async def get_state(call: ApiCall) -> ASGIApp:
    run, thread = await find_run(call, call.path("run"), (KeyRole.INSPECT,))
    step, following = await _step(call, run)
    store = call.runtime.store

    async def state_at(seq: int) -> dict[str, Any]:
        found = (await store.state_at(thread.id, seq)).extensions if seq > 0 else {}
        return call.ids.values(found, thread.id)

    if following is not None:
        last = following.seq - 1
    else:
        last = max(
            commit.first_event + len(commit.events) - 1
            for commit in await run_commits(call, run, step.seq, None)
        )
    before, after = await state_at(step.seq - 1), await state_at(last)
    return JsonResponse(StepState(step=step.step, before=before, after=after))


async def _step(call: ApiCall, run: RunRecord) -> tuple[StepOutline, StepOutline | None]:
    """The step that the path names, and the one behind it if there is one."""
    number = call.path("step")
    if not number.isdecimal() or not 1 <= int(number) <= 2**31:
        raise not_found_error("step")
    rows = await outline(call.runtime.store, run.run_id, after_step=int(number) - 1, limit=2)
    if not rows or rows[0].step != int(number):
        raise not_found_error("step")
    return rows[0], rows[1] if len(rows) > 1 else None


class ArgumentsGiven(RequestPart, frozen=True, kw_only=True):
    """Arguments with which an approver would have a call made."""

    arguments: Any


class ArgumentsChecked(ResponsePart, frozen=True, kw_only=True):
    """Why the tool refuses the arguments, in its own words; null if it takes them."""

    problem: str | None


async def check_arguments(call: ApiCall) -> ASGIApp:
    given: ArgumentsGiven = call.body
    ticket = await find_ticket(call, call.path("ticket"))
    problem = None
    try:
        await call.runtime.check_arguments(ticket, given.arguments)
    except ToolError as error:
        problem = str(error)
    return JsonResponse(ArgumentsChecked(problem=problem))


_STEP = "/v1/runs/{run}/steps/{step}"
ROUTES = (
    Route(
        method="POST",
        path="/v1/tickets/{ticket}/arguments",
        handle=check_arguments,
        name="check_arguments",
        summary="Check other arguments for the call that a ticket asks about",
        needs=(KeyRole.INVOKE, KeyRole.DECIDE),
        body=ArgumentsGiven,
        answers={200: ArgumentsChecked},
        is_audited=False,
    ),
    Route(
        method="GET",
        path=_STEP + "/request",
        handle=get_request,
        name="get_step_request",
        summary="What the model was asked in a step",
        needs=(KeyRole.INSPECT,),
        query=RequestAsked,
        answers={200: RequestView},
        is_audited=True,
    ),
    Route(
        method="GET",
        path=_STEP + "/state",
        handle=get_state,
        name="get_step_state",
        summary="The state before a step of a run, and after it",
        needs=(KeyRole.INSPECT,),
        answers={200: StepState},
        is_audited=True,
    ),
)
