"""What a scope's clients are told of failures: no scope, in any view of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from edge_kit import Desk, open_desk

from awaken import Agent, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.errors import AlreadyExists
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

GO = {"prompt": "Go"}
LONG = "x" * 1_500_000
"""More than a commit may have: the error quotes the thread."""
ORDINARY = "see acme/widgets, big-acme/del and https://example.org/acme/del/1"
"""A text of a tool, in which the scope is an ordinary word."""


@tool
async def look() -> str:
    """Look it up."""
    return ORDINARY


@tool
async def copy() -> str:
    """Copy a thread that is there."""
    raise AlreadyExists("thread", "acme/del~copy")


def clerk(request: InferenceRequest) -> StreamResult:
    if request.messages[-1].role is not Role.TOOL:
        return tool_call_response("", "look", "c1", {})
    return text_response(LONG)


def desk_agent(request: InferenceRequest) -> StreamResult:
    last = request.messages[-1]
    if last.role is Role.USER and not last.text().startswith("<background-task-event"):
        return tool_call_response("", last.text(), "c1", {} if last.text() == "copy" else GO)
    return text_response("It failed.")


def lead(request: InferenceRequest) -> StreamResult:
    """The model of a delegate that has a delegate itself, and says what that has said."""
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return text_response(last.text())
    return tool_call_response("", "agent_run_clerk", "c1", GO)


async def views_of(desk: Desk, thread: str) -> dict[str, str]:
    """All that a client may read of a thread, by the name of the view."""
    views: dict[str, str] = {}
    runs = (await desk.ask("boss", "GET", "/v1/runs?limit=100")).json()["items"]
    paths = {
        "messages": f"/v1/threads/{thread}/messages?visibility=all",
        "events": f"/v1/threads/{thread}/events?tree=true",
        "chat": f"/v1/ai-sdk/agents/desk/chat/{thread}/messages",
        "runs": "/v1/runs",
        "threads": "/v1/threads",
        "state": f"/v1/threads/{thread}/state",
    }
    for run in runs:
        paths[f"run {run['run_id']}"] = f"/v1/runs/{run['run_id']}?details=true"
        paths[f"steps {run['run_id']}"] = f"/v1/runs/{run['run_id']}/steps"
        paths[f"request {run['run_id']}"] = f"/v1/runs/{run['run_id']}/steps/1/request"
        paths[f"messages {run['run_id']}"] = f"/v1/threads/{run['thread_id']}/messages"
    for name, path in paths.items():
        views[name] = (await desk.ask("boss", "GET", path)).text
    asked = {
        "threadId": thread,
        "runId": "again",
        "messages": [],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
    }
    path = f"/v1/ag-ui/agents/desk/threads/{thread}/connect"
    for method, body in (("GET", None), ("POST", asked)):
        answer = await desk.ask("boss", method, path, json=body)
        if answer.is_success:
            views["connect"] = answer.text
    assert "connect" in views
    return views


def without_ordinary(text: str) -> str:
    return text.replace(ORDINARY, "")


@pytest.mark.parametrize("call", ["agent_run_clerk", "agent_run_lead", "agent_run_worker", "copy"])
async def test_a_delegate_that_fails_names_no_scope_in_any_view(tmp_path: Path, call: str) -> None:
    worker = Agent("worker", model=FunctionModel(clerk), tools=[look])
    agents = [
        Agent(
            "desk",
            model=FunctionModel(desk_agent),
            tools=[copy],
            delegates=["clerk", "lead"],
            background=[worker],
        ),
        worker,
        Agent("lead", model=FunctionModel(lead), delegates=["clerk"]),
        Agent("clerk", model=FunctionModel(clerk), tools=[look]),
    ]
    store = f"sqlite:///{tmp_path}/f.db"
    async with open_desk(tmp_path, agents=agents, store=store) as desk:
        asked: dict[str, Any] = {"agent_id": "desk", "messages": [call]}
        ran = await desk.ask("boss", "POST", "/v1/threads/del/runs?wait=60", json=asked)
        assert ran.json()["response"] == "It failed."
        await desk.runtime.wait("acme/del", timeout=60)
        views = await views_of(desk, "del")
    said = [item["message"]["content"] for item in json.loads(views["messages"])["items"]]
    assert "thread 'del~" in json.dumps(said), "the model is told which thread it was"
    for name, view in {"run": ran.text, **views}.items():
        assert "acme" not in without_ordinary(view), (name, view)
    if call != "copy":
        assert any(ORDINARY in view for view in views.values()), "what tools say is left as it is"
