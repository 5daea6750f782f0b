"""Agents, endpoints, models and providers as data (01 §4 config, §5.1, §7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from awaken.codec import Json, dumps, from_json, loads, to_json
from awaken.core.inference import ContextWindowPolicy, ReasoningBudget
from awaken.core.secret import RedactedString
from awaken.core.spec import (
    AgentSpec,
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    ModelSpec,
    ProviderSpec,
    RemoteEndpoint,
    StopConditionSpec,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from awaken.errors import ConfigError, KeyDecode

MINIMAL = {"id": "a", "model_id": "m", "system_prompt": "Be brief."}

# -- agents -----------------------------------------------------------------------------------


def test_a_minimal_spec_has_the_documented_defaults() -> None:
    """01/R-6: defaults of a minimal spec."""
    spec = AgentSpec.read(MINIMAL)

    assert (spec.id, spec.model_id, spec.system_prompt) == ("a", "m", "Be brief.")
    assert (spec.max_rounds, spec.max_continuation_retries) == (16, 2)
    assert (spec.plugin_ids, spec.delegates, spec.stop_conditions) == ((), (), ())
    assert spec.active_hook_filter == frozenset()
    assert spec.sections == {}
    assert spec.context_policy is None
    assert spec.reasoning_effort is None
    assert spec.allowed_tools is None
    assert spec.excluded_tools is None
    assert spec.endpoint is None
    assert spec.registry is None


def test_a_minimal_spec_writes_what_has_no_omit_mark() -> None:
    """01/R-6: the JSON of a minimal spec, and back."""
    spec = AgentSpec.read(MINIMAL)

    assert to_json(spec) == MINIMAL | {
        "max_rounds": 16,
        "max_continuation_retries": 2,
        "plugin_ids": [],
        "allowed_tools": None,
        "excluded_tools": None,
    }
    assert AgentSpec.read(loads(dumps(spec))) == spec


def test_a_full_spec_round_trips() -> None:
    """01/R-6: and nothing of a full one is lost."""
    spec = AgentSpec(
        id="a",
        model_id="m",
        system_prompt="",
        description="Helps.",
        max_rounds=0,
        context_policy=ContextWindowPolicy.default(),
        reasoning_effort=ReasoningBudget(budget=100),
        plugin_ids=("permission", "logging"),
        active_hook_filter=frozenset({"permission"}),
        allowed_tools=("read",),
        excluded_tools=(),
        allowed_tool_patterns=("fs_*",),
        excluded_tool_patterns=("*_raw",),
        endpoint=RemoteEndpoint(base_url="https://agent.example", target="x"),
        delegates=("helper",),
        stop_conditions=(MaxRounds(rounds=3), StopOnTool(tool_name="finish")),
        sections={"permission": {"mode": "strict"}},
        registry="remote",
    )

    assert AgentSpec.read(loads(dumps(spec))) == spec


@pytest.mark.parametrize("missing", MINIMAL)
def test_a_spec_needs_id_model_and_prompt(missing: str) -> None:
    """01/R-6: these three are required."""
    with pytest.raises(msgspec.ValidationError, match=missing):
        AgentSpec.read({key: value for key, value in MINIMAL.items() if key != missing})


@pytest.mark.parametrize("value", [[], "a", None, 3])
def test_a_spec_that_is_no_object_is_refused(value: Json) -> None:
    with pytest.raises(msgspec.ValidationError):
        AgentSpec.read(value)


@pytest.mark.parametrize("key", ["model", "max_round", "tools"])
def test_unknown_keys_of_a_spec_are_refused(key: str) -> None:
    """01/R-6: `model` is refused, `model_id` is right."""
    with pytest.raises(msgspec.ValidationError, match=key):
        AgentSpec.read(MINIMAL | {key: "x"})


def test_the_old_name_of_the_hook_filter_is_read() -> None:
    """01/R-6: `active_plugins` reads as `active_hook_filter`."""
    spec = AgentSpec.read(MINIMAL | {"active_plugins": ["b", "a", "a"]})

    assert spec.active_hook_filter == {"a", "b"}
    assert "active_plugins" not in to_json(spec)


def test_reading_a_spec_leaves_what_was_given_alone() -> None:
    given = MINIMAL | {"active_plugins": ["a"], "endpoint": {"base_url": "https://x.example"}}
    before = dict(given)

    AgentSpec.read(given)

    assert given == before


# -- sections ---------------------------------------------------------------------------------


class Retry(msgspec.Struct, frozen=True):
    attempts: int = 2
    codes: tuple[str, ...] = ()


SPEC = AgentSpec(id="a", model_id="m", system_prompt="")


def test_an_absent_section_is_the_types_default() -> None:
    """01/G-3: absent section, typed default."""
    assert SPEC.config("retry", Retry) == Retry()


def test_a_section_is_read_as_its_type() -> None:
    """01/G-3: the section counts, its own defaults included."""
    spec = SPEC.with_section("retry", {"attempts": 5})

    assert spec.config("retry", Retry) == Retry(attempts=5)


@pytest.mark.parametrize("section", [{"attempts": "many"}, [], "x", None])
def test_an_undecodable_section_is_a_decode_error_that_names_it(section: Json) -> None:
    """01/G-3: undecodable, `KeyDecode`."""
    with pytest.raises(KeyDecode) as failure:
        SPEC.with_section("retry", section).config("retry", Retry)
    assert failure.value.key == "retry"


def test_adding_a_section_leaves_the_spec_and_other_sections_alone() -> None:
    """01/G-3: a section survives, whoever reads it or not."""
    one = SPEC.with_section("retry", {"attempts": 5})
    two = one.with_section("other", {"x": [1]})
    three = two.with_section("retry", {"attempts": 6})

    assert SPEC.sections == {}
    assert one.sections == {"retry": {"attempts": 5}}
    assert two.sections == {"retry": {"attempts": 5}, "other": {"x": [1]}}
    assert three.sections == {"retry": {"attempts": 6}, "other": {"x": [1]}}
    assert AgentSpec.read(to_json(three)).sections == three.sections


# -- endpoints --------------------------------------------------------------------------------


def test_a_minimal_endpoint_has_the_documented_defaults() -> None:
    """01/R-7: the new form, with nothing but an address."""
    endpoint = RemoteEndpoint.read({"base_url": "https://agent.example/v1"})

    assert endpoint == RemoteEndpoint(
        backend="a2a", base_url="https://agent.example/v1", timeout_ms=300_000
    )
    assert to_json(endpoint) == {
        "backend": "a2a",
        "base_url": "https://agent.example/v1",
        "timeout_ms": 300_000,
    }


def test_the_new_form_of_an_endpoint_round_trips() -> None:
    """01/R-7: the new form."""
    new = {
        "backend": "a2a",
        "base_url": "http://localhost:9000",
        "auth": {"type": "bearer", "token": "secret"},
        "target": "planner",
        "timeout_ms": 5,
        "options": {"poll_interval_ms": 10},
    }

    assert to_json(RemoteEndpoint.read(new)) == new


def test_the_old_form_of_an_endpoint_becomes_the_new_one() -> None:
    """01/R-7: the old form."""
    old = {
        "base_url": "https://agent.example",
        "bearer_token": "secret",
        "agent_id": "planner",
        "poll_interval_ms": 10,
        "timeout_ms": 5,
    }

    assert RemoteEndpoint.read(old) == RemoteEndpoint(
        base_url="https://agent.example",
        auth={"type": "bearer", "token": "secret"},
        target="planner",
        timeout_ms=5,
        options={"poll_interval_ms": 10},
    )


def test_an_old_endpoint_with_empty_fields_has_neither_auth_nor_target() -> None:
    """01/R-7: nulls of the old form say nothing."""
    old = {"base_url": "https://agent.example", "bearer_token": None, "agent_id": None}

    assert RemoteEndpoint.read(old) == RemoteEndpoint(base_url="https://agent.example")


@pytest.mark.parametrize("old", ["bearer_token", "agent_id", "poll_interval_ms"])
@pytest.mark.parametrize(
    ("new", "value"), [("backend", "a2a"), ("auth", None), ("target", "x"), ("options", {})]
)
def test_a_mix_of_both_forms_is_refused(old: str, new: str, value: Any) -> None:
    """01/R-7: mixed, an error that names the new key."""
    mixed = {"base_url": "https://agent.example", old: 1, new: value}

    with pytest.raises(ConfigError, match=new):
        RemoteEndpoint.read(mixed)


def test_an_agents_endpoint_may_have_the_old_form_too() -> None:
    """01/R-7: the same inside a spec."""
    spec = AgentSpec.read(
        MINIMAL | {"endpoint": {"base_url": "https://x.example", "agent_id": "planner"}}
    )

    assert spec.endpoint == RemoteEndpoint(base_url="https://x.example", target="planner")


def test_other_kinds_of_auth_are_the_backends_business() -> None:
    """01/R-7: only bearer auth needs a token here."""
    auth = {"type": "mtls", "certificate": "/etc/agent.pem"}

    assert RemoteEndpoint.read({"base_url": "https://x.example", "auth": auth}).auth == auth


@pytest.mark.parametrize(
    "broken",
    [
        [],
        {},
        {"base_url": ""},
        {"base_url": "agent.example"},
        {"base_url": "ftp://agent.example"},
        {"base_url": "https://"},
        {"base_url": "https://agent.example?x=1"},
        {"base_url": "https://agent.example#top"},
        {"base_url": "https://agent.example", "backend": "  "},
        {"base_url": "https://agent.example", "auth": {"type": "bearer"}},
        {"base_url": "https://agent.example", "auth": {"type": "bearer", "token": " "}},
        {"base_url": "https://agent.example", "auth": {"type": "bearer", "token": "***"}},
        {"base_url": "https://agent.example", "auth": {"token": "x"}},
        {"base_url": "https://agent.example", "bearer": "x"},
    ],
    ids=str,
)
def test_a_broken_endpoint_is_refused(broken: Json) -> None:
    """01/R-7: blank backend, no http(s) host, query, fragment, a token that is none."""
    with pytest.raises(msgspec.ValidationError):
        RemoteEndpoint.read(broken)


# -- stop conditions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "json"),
    [
        (MaxRounds(rounds=3), {"type": "max_rounds", "rounds": 3}),
        (Timeout(seconds=30), {"type": "timeout", "seconds": 30}),
        (TokenBudget(max_total=1000), {"type": "token_budget", "max_total": 1000}),
        (ConsecutiveErrors(max=2), {"type": "consecutive_errors", "max": 2}),
        (StopOnTool(tool_name="finish"), {"type": "stop_on_tool", "tool_name": "finish"}),
        (ContentMatch(pattern="done|end"), {"type": "content_match", "pattern": "done|end"}),
        (LoopDetection(window=3), {"type": "loop_detection", "window": 3}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_stop_condition_round_trips(spec: StopConditionSpec, json: Json) -> None:
    """01/L-5: all seven specs (seconds become milliseconds where the policy is evaluated)."""
    assert loads(dumps(spec)) == json
    assert from_json(json, StopConditionSpec) == spec


def test_an_unknown_stop_condition_is_refused() -> None:
    """01/L-5: none is silently dropped."""
    with pytest.raises(msgspec.ValidationError, match="max_turns"):
        AgentSpec.read(MINIMAL | {"stop_conditions": [{"type": "max_turns", "turns": 3}]})


# -- models and providers ---------------------------------------------------------------------


@pytest.mark.parametrize("cutoff", ["2024-06", "2024-02-29", "1999-12-31"])
def test_a_models_cutoff_is_a_month_or_a_day(cutoff: str) -> None:
    json = {"id": "m", "provider_id": "p", "upstream_model": "u", "knowledge_cutoff": cutoff}

    assert to_json(from_json(json, ModelSpec)) == json


@pytest.mark.parametrize(
    "cutoff", ["2024", "2024-13", "2023-02-29", "2024-06-31", "2024-W01-1", "June", ""]
)
def test_a_models_cutoff_that_is_no_date_is_refused(cutoff: str) -> None:
    with pytest.raises(ValueError, match="knowledge_cutoff"):
        ModelSpec(id="m", provider_id="p", upstream_model="u", knowledge_cutoff=cutoff)


@pytest.mark.parametrize(
    ("type_", "json"),
    [
        (ModelSpec, {"id": "m", "provider_id": "p", "upstream_model": "u", "odd": 1}),
        (
            ModelSpec,
            {"id": "m", "provider_id": "p", "upstream_model": "u", "modalities": {"odd": []}},
        ),
        (ProviderSpec, {"id": "p", "adapter": "openai", "odd": 1}),
    ],
)
def test_models_and_providers_are_closed(type_: type, json: Json) -> None:
    with pytest.raises(msgspec.ValidationError, match="odd"):
        from_json(json, type_)


def test_empty_text_in_a_provider_is_no_value() -> None:
    provider = from_json(
        {"id": "p", "adapter": "openai", "api_key": "", "base_url": ""}, ProviderSpec
    )

    assert provider.api_key is None
    assert provider.base_url is None
    assert ProviderSpec(id="p", adapter="openai", api_key=RedactedString("")) == provider


def test_a_full_provider_round_trips() -> None:
    json = {
        "id": "p",
        "adapter": "openai",
        "api_key": "sk-1",
        "base_url": "https://llm.example/v1",
        "timeout_secs": 5,
        "adapter_options": {"organization": "o"},
    }

    assert to_json(from_json(json, ProviderSpec)) == json


def test_a_provider_writes_its_timeout_and_omits_empty_options() -> None:
    provider = ProviderSpec(id="p", adapter="openai")

    assert to_json(provider) == {"id": "p", "adapter": "openai", "timeout_secs": 300}
