"""What an endpoint may say, what a backend can do, and what is published for editors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from awaken.backend import ExecutionBackendFactory, ExecutionBackendFactoryError
from awaken.backend.a2a import A2aBackendFactory
from awaken.backend.a2a.config import Binding, read_config
from awaken.codec import dumps_text
from awaken.core.backend import (
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendOutputCapability,
    BackendTranscriptCapability,
    BackendWaitCapability,
)
from awaken.core.spec import RemoteEndpoint

URL = "https://agents.example/a2a"


def endpoint(**fields: Any) -> RemoteEndpoint:
    return RemoteEndpoint(**{"base_url": URL, **fields})


def test_the_defaults() -> None:
    config = read_config(endpoint())
    assert config.target_key == f"a2a:{URL}"
    assert config.timeout == 300
    assert config.poll_interval == 2
    assert config.credentials is None
    options = config.options
    assert options.history_length is None
    assert options.return_immediately is True
    assert options.cancel_on_timeout is True
    assert options.resend_unknown is False
    assert options.allow_private is False
    assert options.binding is Binding.HTTP_JSON


def test_a_target_stands_behind_the_base_url() -> None:
    assert read_config(endpoint(base_url=f"{URL}/", target="x")).target_key == f"a2a:{URL}/x"
    both = read_config(endpoint(target="x", options={"binding": "JSONRPC"}))
    assert both.target_key == f"a2a:{URL}#x"


def test_the_old_flat_form_is_understood() -> None:
    old = RemoteEndpoint.read(
        {"base_url": URL, "bearer_token": "t", "agent_id": "x", "poll_interval_ms": 50}
    )
    config = read_config(old)
    assert config.poll_interval == 0.05
    assert config.target == "x"
    assert config.credentials is not None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"backend": "grpc"}, "backend is 'grpc', this one is 'a2a'"),
        ({"timeout_ms": 0}, "timeout_ms is 0"),
        ({"base_url": "https://me:pw@a.example"}, "carries a user name"),
        ({"base_url": "http://localhost:8000"}, "this machine: .* allow_private"),
        ({"base_url": "http://10.0.0.1"}, "private address"),
        ({"base_url": "http://169.254.169.254"}, "link-local address"),
        ({"target": "../x"}, "is not a path below base_url"),
        ({"target": ""}, "is not a path below base_url"),
        ({"auth": {"type": "basic"}}, "auth type 'basic' is unknown: it is 'bearer' or 'api_key'"),
        ({"auth": {"type": "bearer", "token": "a\nb"}}, "characters a header cannot carry"),
        ({"auth": {"type": "bearer", "token": "t", "x": 1}}, "auth type 'bearer' has no 'x'"),
        ({"auth": {"type": "api_key"}}, "auth type 'api_key' needs a key"),
        ({"auth": {"type": "api_key", "key": ""}}, "auth type 'api_key' needs a key"),
        ({"auth": {"type": "api_key", "key": "***"}}, "auth type 'api_key' needs a key"),
        ({"auth": {"type": "api_key", "key": "k", "header": "a b"}}, "not the name of a header"),
        ({"auth": {"type": "api_key", "key": "k", "header": "Host"}}, "is set by the protocol"),
        ({"options": {"poll_interval_ms": "x"}}, "option poll_interval_ms: Expected `int`"),
        ({"options": {"poll_interval_ms": True}}, "option poll_interval_ms: Expected `int`"),
        ({"options": {"poll_interval_ms": 0}}, "option poll_interval_ms: Expected `int` >= 1"),
        ({"options": {"history_length": -1}}, "option history_length: Expected `int` >= 0"),
        ({"options": {"return_immediately": 1}}, "option return_immediately: Expected `bool`"),
        ({"options": {"binding": "GRPC"}}, "option binding: Invalid enum value 'GRPC'"),
        ({"options": {"allow_hosts": ["10.0.0.0/64"]}}, "neither a host nor a network"),
        ({"options": {"token_hosts": ["ftp://x"]}}, "not an http or https URL"),
        ({"options": {"pol_interval": 1}}, "unknown field `pol_interval`; known: poll_interval_ms"),
    ],
)
def test_a_mistake_is_named(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(ExecutionBackendFactoryError, match=error):
        A2aBackendFactory().validate(endpoint(**fields))


@pytest.mark.parametrize("base_url", ["", "  ", "agents.example", "https://"])
def test_a_base_url_that_is_none_is_refused_where_it_is_written(base_url: str) -> None:
    with pytest.raises(ValueError, match=r"base_url .* http\(s\) URL"):
        endpoint(base_url=base_url)


@pytest.mark.parametrize("token", [None, "", "  ", "***", 7])
def test_a_token_that_is_none_is_refused_where_it_is_written(token: Any) -> None:
    with pytest.raises(ValueError, match="needs a token"):
        endpoint(auth={"type": "bearer", "token": token})


def test_a_secret_is_not_in_what_is_printed() -> None:
    auth = {"type": "bearer", "token": "hunter2"}
    config = read_config(endpoint(auth=auth))
    backend = A2aBackendFactory().build(endpoint(auth=auth))
    assert "hunter2" not in repr(config) + repr(backend) + repr(endpoint(auth=auth))
    with pytest.raises(ExecutionBackendFactoryError) as caught:
        read_config(endpoint(auth={"type": "bearer", "token": "hunter2\x7f"}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("hosts", "url", "may"),
    [
        ([], "https://agents.example/other/path", True),
        ([], "https://agents.example:8443/", False),
        ([], "http://agents.example/", False),
        ([], "https://other.example/", False),
        (["other.example"], "https://other.example/", True),
        (["other.example"], "https://other.example:8443/", True),
        (["other.example"], "http://other.example/", False),
        (["other.example"], "https://sub.other.example/", False),
        (["http://other.example:80/"], "http://other.example/", True),
        (["https://other.example:8443"], "https://other.example/", False),
    ],
)
def test_credentials_are_for_an_origin(hosts: list[str], url: str, may: bool) -> None:
    """03/DB-14 token audience = origin."""
    config = read_config(
        endpoint(auth={"type": "bearer", "token": "t"}, options={"token_hosts": hosts})
    )
    other = read_config(endpoint(base_url=url)).interface
    assert config.credentials is not None
    assert config.credentials.may_go_to(other) is may


def test_what_it_can_do() -> None:
    factory: ExecutionBackendFactory = A2aBackendFactory()
    assert factory.backend() == "a2a"
    assert factory.build(endpoint()).capabilities() == BackendCapabilities(
        cancellation=BackendCancellationCapability.REMOTE_ABORT,
        decisions=False,
        overrides=False,
        frontend_tools=False,
        continuation=BackendContinuationCapability.REMOTE_STATE,
        waits=BackendWaitCapability.INPUT_AND_AUTH,
        transcript=BackendTranscriptCapability.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE,
        output=BackendOutputCapability.TEXT_AND_ARTIFACTS,
    )


def test_editors_get_a_schema_with_password_fields() -> None:
    published = A2aBackendFactory().config_schema()
    assert list(published) == [
        "version",
        "schema",
        "display_name",
        "description",
        "default_config",
        "ui_schema",
    ]
    validator = jsonschema_rs.validator_for(published["schema"])
    good = {
        "base_url": URL,
        "auth": {"type": "bearer", "token": "t"},
        "options": {"poll_interval_ms": 5, "allow_hosts": ["x"], "binding": "JSONRPC"},
    }
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "options": {"poll_interval_ms": "5"}})
    assert not validator.is_valid({**good, "options": {"other": 1}})
    assert not validator.is_valid({**good, "auth": {"type": "bearer"}})
    secrets = [
        one["properties"][name]
        for one, name in zip(
            published["schema"]["properties"]["auth"]["oneOf"], ("token", "key"), strict=True
        )
    ]
    assert all(secret["format"] == "password" for secret in secrets)
    assert published["ui_schema"]["auth"]["token"] == {"ui:widget": "password"}
    default = {**published["default_config"], "base_url": URL}
    assert validator.is_valid(default)
    assert dumps_text(published)


WITHOUT_EXTRA = """
import sys
sys.modules["a2a"] = None
import awaken, awaken.backend, awaken.backend.a2a
from awaken.backend.a2a import A2aBackendFactory
from awaken.core.backend import ExecutionBackendFactoryError
from awaken.core.spec import RemoteEndpoint
try:
    A2aBackendFactory().build(RemoteEndpoint(base_url="https://a.example"))
except ExecutionBackendFactoryError as error:
    print(error)
print(sorted(m for m in ("google.protobuf", "httpx", "pydantic") if m in sys.modules))
"""


def test_without_the_extra_the_error_says_what_to_install() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA], capture_output=True, text=True, check=True
    )
    error, loaded = ran.stdout.splitlines()
    assert 'pip install "awaken[a2a]"' in error
    assert loaded == "[]"
