"""`/v1` runs: submit them and follow them."""

from __future__ import annotations

import msgspec
from starlette.types import ASGIApp

from awaken.codec import Json
from awaken.domain.event import RunEvent
from awaken.domain.message import Message
from awaken.server.call import Call, JsonResponse
from awaken.server.sse import EventStream, until_run_ends
from awaken.server.table import Role, Route


class RunAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that is asked for."""

    agent_id: str | None = None
    messages: tuple[Message | str, ...] = ()


class RunAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that will be carried out."""

    run_id: str
    thread_id: str
    cursor: int


class PlainEncoder:
    """The events themselves."""

    def start(self) -> list[Json]:
        return []

    def encode(self, event: RunEvent) -> list[Json]:
        return [event]

    def finish(self) -> list[Json]:
        return []


async def submit(call: Call) -> ASGIApp:
    asked: RunAsked = call.body
    thread = call.names.new(call.path("thread"))
    taken = await call.runtime.submit(
        asked.agent_id, asked.messages, thread=thread, principal=call.principal
    )
    if "text/event-stream" not in call.request.headers.get("accept", ""):
        accepted = RunAccepted(
            run_id=taken.run_id, thread_id=call.names.outside(thread), cursor=taken.cursor
        )
        return JsonResponse(accepted, status_code=202)
    events = call.runtime.follow(thread, after=taken.cursor)
    return EventStream(events, PlainEncoder(), is_last=until_run_ends(taken.run_id))


ROUTES = (
    Route(
        method="POST",
        path="/v1/threads/{thread}/runs",
        handle=submit,
        summary="Submit a run to a thread",
        needs=(Role.INVOKE,),
        body=RunAsked,
        answers={202: RunAccepted},
        streams=True,
        submits=True,
    ),
)
