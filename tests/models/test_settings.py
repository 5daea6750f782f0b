"""Model settings on the wire of each provider (09 §2.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from awaken import Agent, ModelSettings, Runtime, tool
from awaken.core.inference import InferenceOverride, StreamResult
from awaken.core.llm import InferenceRequest, InvalidRequest
from awaken.core.message import Message
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.models.anthropic.request import prepare
from awaken.models.google.request import gemini_request
from awaken.models.local.request import plain_request
from awaken.models.openai.chat_request import chat_body
from awaken.models.openai.providers import OPENAI
from awaken.models.openai.responses_request import ResponsesOptions, responses_body
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

LOOK = ToolDescriptor(id="look", name="look", description="Look.")


def asked(**settings: Any) -> InferenceRequest:
    return InferenceRequest(
        upstream_model="m",
        messages=[Message.user("hi")],
        tools=(LOOK,),
        overrides=InferenceOverride(**settings),
    )


def _anthropic(request: InferenceRequest) -> dict[str, Any]:
    sent = prepare(request).options
    return {**sent, **sent.get("extra_body", {})}


WIRES: dict[str, Callable[[InferenceRequest], dict[str, Any]]] = {
    "chat": lambda request: chat_body(request, OPENAI, "openai"),
    "responses": lambda request: responses_body(request, ResponsesOptions(), "openai"),
    "anthropic": _anthropic,
    "google": lambda request: gemini_request(request)["config"],
}
DROPPED, REFUSED = "dropped", "refused"
TABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "temperature": (
        0.5,
        {key: {"temperature": 0.5} for key in WIRES},
    ),
    "top_p": (0.5, {key: {"top_p": 0.5} for key in WIRES}),
    "max_tokens": (
        9,
        {
            "chat": {"max_completion_tokens": 9},
            "responses": {"max_output_tokens": 9},
            "anthropic": {"max_tokens": 9},
            "google": {"max_output_tokens": 9},
        },
    ),
    "seed": (
        3,
        {"chat": {"seed": 3}, "responses": DROPPED, "anthropic": DROPPED, "google": {"seed": 3}},
    ),
    "stop": (
        ["END"],
        {
            "chat": {"stop": ["END"]},
            "responses": REFUSED,
            "anthropic": {"stop_sequences": ["END"]},
            "google": {"stop_sequences": ["END"]},
        },
    ),
    "tool_choice": (
        "look",
        {
            "chat": {"tool_choice": {"type": "function", "function": {"name": "look"}}},
            "responses": {"tool_choice": {"type": "function", "name": "look"}},
            "anthropic": {"tool_choice": {"type": "tool", "name": "look"}},
            "google": {
                "tool_config": {
                    "function_calling_config": {
                        "mode": "ANY",
                        "allowed_function_names": ["look"],
                    }
                }
            },
        },
    ),
    "parallel_tool_calls": (
        False,
        {
            "chat": {"parallel_tool_calls": False},
            "responses": {"parallel_tool_calls": False},
            "anthropic": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            "google": DROPPED,
        },
    ),
    "extra": ({"top_k": 5}, {key: {"top_k": 5} for key in WIRES}),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("setting", TABLE)
def test_a_setting_reaches_the_wire_or_is_refused(
    setting: str, wire: str, caplog: pytest.LogCaptureFixture
) -> None:
    """09/FD-11"""
    value, expected = TABLE[setting]
    request = asked(**{setting: value})
    if expected[wire] is REFUSED:
        with pytest.raises(InvalidRequest, match=f"cannot obey {setting}"):
            WIRES[wire](request)
        return
    with caplog.at_level(logging.WARNING, "awaken.llm"):
        sent = WIRES[wire](request)
    if expected[wire] is not DROPPED:
        assert {name: sent.get(name) for name in expected[wire]} == expected[wire]
    else:
        assert setting not in sent
    assert not [record for record in caplog.records if expected[wire] is not DROPPED]


def test_no_setting_is_left_out_of_the_table() -> None:
    """09/FD-11: `reasoning_effort` is in the table of `docs/providers.md`, and `timeout` is kept
    for all adapters alike (see `test_idle_windows`)."""
    elsewhere = {"reasoning_effort", "timeout"}
    assert {*TABLE, *elsewhere} == set(ModelSettings.__struct_fields__)


def test_a_dropped_setting_is_told_once_for_each_model(caplog: pytest.LogCaptureFixture) -> None:
    """09/FD-11"""
    request = replace(asked(seed=3), upstream_model="told-once")
    with caplog.at_level(logging.WARNING, "awaken.llm"):
        for _ in range(3):
            WIRES["responses"](request)
        WIRES["responses"](replace(request, upstream_model="told-too"))
    assert caplog.messages == [
        "model told-once has no setting seed: it is not sent",
        "model told-too has no setting seed: it is not sent",
    ]


@pytest.mark.parametrize(
    ("choice", "chat", "anthropic", "google"),
    [("required", "required", "any", "ANY"), ("none", "none", "none", "NONE")],
)
def test_words_for_the_choice_of_tools(choice: str, chat: str, anthropic: str, google: str) -> None:
    request = asked(tool_choice=choice)
    assert WIRES["chat"](request)["tool_choice"] == chat
    assert WIRES["responses"](request)["tool_choice"] == chat
    assert WIRES["anthropic"](request)["tool_choice"] == {"type": anthropic}
    config = WIRES["google"](request)["tool_config"]["function_calling_config"]
    assert config == {"mode": google}


def test_a_tool_that_is_not_offered_cannot_be_chosen() -> None:
    with pytest.raises(InvalidRequest, match="no such tool is offered: offered are 'look'"):
        WIRES["chat"](asked(tool_choice="jump"))
    with pytest.raises(InvalidRequest, match="cannot obey tool_choice"):
        plain_request(asked(tool_choice="required"), 10)
    with pytest.raises(InvalidRequest, match="cannot obey stop"):
        plain_request(asked(stop=["END"]), 10)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"seed": 0.5}, "seed is a whole number"),
        ({"stop": "END"}, "stop is a list of texts"),
        ({"tool_choice": ""}, "tool_choice is 'auto', 'none', 'required' or a tool's id"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls is True or False"),
        ({"timeout": 0}, "timeout is a number of seconds above 0"),
        ({"extra": 1}, "extra is a dict"),
        ({"temperature": -1}, "temperature is a number of 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=f"agent 'a': {why}"):
        Agent("a", model="demo", settings=ModelSettings(**settings))


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("choice", ["required", "look"])
async def test_an_agents_settings_and_a_runs_and_one_forced_call(choice: str) -> None:
    """09/FD-12: the model calls as long as it is forced to."""
    seen: list[tuple[Any, ...]] = []

    def answer(request: InferenceRequest) -> StreamResult:
        given = request.overrides or InferenceOverride()
        seen.append((given.temperature, given.seed, given.tool_choice))
        if given.tool_choice is not None:
            return tool_call_response("", "look", "c", {})
        return text_response("done")

    settings = ModelSettings(temperature=0.2, seed=1, tool_choice=choice)
    agent = Agent("a", model=FunctionModel(answer), tools=[look], settings=settings)
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "go", thread="t")
        await runtime.run("a", "go", thread="t", settings=ModelSettings(temperature=0.9))

    assert seen == [
        (0.2, 1, choice),
        (0.2, 1, None),
        (0.9, 1, choice),
        (0.9, 1, None),
    ]
