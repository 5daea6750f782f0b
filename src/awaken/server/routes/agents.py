"""`/v1/agents`: the agents that the caller may use."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp

from awaken.core.spec import AgentSpec
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import NOT_FOUND, HttpRefusal
from awaken.server.response_types import PageView, ResponsePart
from awaken.server.route import KeyRole, Route

_ANYONE = (KeyRole.INVOKE, KeyRole.READ, KeyRole.DECIDE, KeyRole.INSPECT)


class AgentView(ResponsePart, frozen=True, kw_only=True):
    """An agent. `input` are the kinds of content that its model reads, such as `text` and `image`;
    null: its model does not say. With an `output_schema`, its answers are JSON of that schema, else
    text."""

    id: str
    description: str | None
    input: tuple[str, ...] | None
    output_schema: dict[str, Any] | None


def _view(call: ApiCall, spec: AgentSpec) -> AgentView:
    return AgentView(
        id=spec.id,
        description=spec.description,
        input=call.runtime.reads(spec),
        output_schema=spec.output.schema if spec.output is not None else None,
    )


async def list_agents(call: ApiCall) -> ASGIApp:
    return JsonResponse(PageView(items=tuple(_view(call, spec) for spec in _visible(call))))


async def get_agent(call: ApiCall) -> ASGIApp:
    for spec in _visible(call):
        if spec.id == call.path("agent"):
            return JsonResponse(_view(call, spec))
    raise HttpRefusal(404, "agent_not_found", NOT_FOUND.format("agent"))


def _visible(call: ApiCall) -> list[AgentSpec]:
    mine = call.principal.agents
    return [spec for spec in call.runtime.agents if mine is None or spec.id in mine]


ROUTES = (
    Route(
        method="GET",
        path="/v1/agents",
        handle=list_agents,
        name="list_agents",
        summary="List the agents",
        needs=_ANYONE,
        answers={200: PageView[AgentView]},
    ),
    Route(
        method="GET",
        path="/v1/agents/{agent}",
        handle=get_agent,
        name="get_agent",
        summary="Get one agent",
        needs=_ANYONE,
        answers={200: AgentView},
    ),
)
