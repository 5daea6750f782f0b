"""Secrets stay secret (01 §1.11)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.codec import dumps, dumps_text, from_json, loads, to_json
from awaken.core.secret import RedactedString
from awaken.core.spec import AgentSpec, ProviderSpec, RemoteEndpoint

SECRET = "sk-abcdefghijklmnop"


class Holder(msgspec.Struct):
    key: RedactedString | None = None


def test_a_secret_prints_as_stars() -> None:
    """01/C-20: never in repr or str."""
    secret = RedactedString(SECRET)

    assert repr(secret) == "RedactedString(***)"
    assert str(secret) == f"{secret}" == "***"
    assert "%s %r" % (secret, secret) == "*** RedactedString(***)"  # noqa: UP031  # as loggers do
    assert secret.expose_secret() == SECRET


def test_a_secret_stays_hidden_inside_optionals_containers_and_specs() -> None:
    """01/C-20: also inside an optional or a spec's repr."""
    secret = RedactedString(SECRET)
    provider = ProviderSpec(id="p", adapter="openai", api_key=secret)

    for value in (Holder(key=secret), [secret], {"k": secret}, provider):
        assert SECRET not in repr(value)
        assert SECRET not in str(value)
    assert "RedactedString(***)" in repr(provider)


def test_an_endpoints_auth_stays_out_of_its_repr() -> None:
    """01/C-20: the token of an endpoint, and of an agent that has one."""
    endpoint = RemoteEndpoint(
        base_url="https://agent.example", auth={"type": "bearer", "token": SECRET}
    )
    agent = AgentSpec(id="a", model_id="m", system_prompt="", endpoint=endpoint)

    assert SECRET not in repr(endpoint)
    assert SECRET not in repr(agent)
    assert "https://agent.example" in repr(agent)


def test_secrets_are_equal_by_value() -> None:
    assert RedactedString("a") == RedactedString("a")
    assert RedactedString("a") != RedactedString("b")
    assert RedactedString("a") != "a"
    assert len({RedactedString("a"), RedactedString("a")}) == 1


def test_a_secret_is_plain_text_on_the_wire() -> None:
    """01/C-20: JSON is how a spec is stored, so there the secret is whole."""
    provider = ProviderSpec(id="p", adapter="openai", api_key=RedactedString(SECRET))

    assert to_json(provider)["api_key"] == SECRET
    assert loads(dumps(provider), ProviderSpec) == provider
    assert from_json(to_json(provider), ProviderSpec).api_key == RedactedString(SECRET)


def test_a_secret_outside_a_specification_is_written_as_stars() -> None:
    for value in (
        RedactedString(SECRET),
        {"k": [RedactedString(SECRET)]},
        Holder(key=RedactedString(SECRET)),
    ):
        assert SECRET not in dumps_text(value)
        assert "***" in dumps_text(value)
    assert to_json({RedactedString(SECRET): 1}) == {"***": 1}


def test_a_secret_that_is_not_text_is_refused_without_being_printed() -> None:
    with pytest.raises(msgspec.ValidationError, match="text") as failure:
        from_json({"key": 123456789012345}, Holder)
    assert "123456789012345" not in str(failure.value)


@pytest.mark.parametrize(
    ("secret", "preview"),
    [
        ("abcdefghijklmnopqrst", "abcd***qrst"),
        ("abcdefghijklmnopqrs", "***"),
        ("abcdefghijkl", "***"),
        ("", "***"),
        ("äöüß" * 5, "äöüß***äöüß"),
        ("🔑🔒🔓🗝" * 5, "🔑🔒🔓🗝***🔑🔒🔓🗝"),
        ("🔑" * 19, "***"),
    ],
)
def test_a_preview_shows_both_ends_of_a_long_secret_only(secret: str, preview: str) -> None:
    """01/C-21: four code points at each end, safe on multi-byte text, masked under twenty."""
    assert RedactedString(secret).preview() == preview


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_a_preview_never_shows_more_than_eight_characters(secret: str) -> None:
    """01/C-21: whatever the text."""
    preview = RedactedString(secret).preview()

    if len(secret) < 20:
        assert preview == "***"
    else:
        assert (preview[:4], preview[-4:], len(preview)) == (secret[:4], secret[-4:], 11)
