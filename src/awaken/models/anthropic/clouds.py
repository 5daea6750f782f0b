"""Claude on Amazon Bedrock and Google Vertex AI, through other clients of the same SDK."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.secret import RedactedString
from awaken.errors import ConfigError
from awaken.models.anthropic.executor import (
    AnthropicMessages,
    add_native_tools,
    common_options,
    http_client,
)
from awaken.models.provider_tools import NativeTool
from awaken.models.response_limits import limit_page
from awaken.models.sdk import PROVIDER_TIMEOUT, find_key, sdk

REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
LOCATIONS = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")


class BedrockMessages(AnthropicMessages):
    """Claude on Amazon Bedrock.

    Args:
        api_key: a Bedrock key, by default `AWS_BEARER_TOKEN_BEDROCK`. Without a key, requests are
            signed with the credentials given here, or those that AWS's own library finds
            (variables, profiles, roles).
        region: by default `AWS_REGION`, `AWS_DEFAULT_REGION`, or the profile's.

    Raises:
        ConfigError: an option cannot work, no region is known, or the SDK is not installed.
    """

    platform = "bedrock"

    def __init__(
        self,
        *,
        api_key: str | RedactedString | None = None,
        region: str | None = None,
        access_key: str | None = None,
        secret_key: str | RedactedString | None = None,
        session_token: str | RedactedString | None = None,
        profile: str | None = None,
        base_url: str | None = None,
        timeout: float = PROVIDER_TIMEOUT,
        max_tokens: int | None = None,
        default_headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        native: Sequence[NativeTool] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._extra_body = add_native_tools(extra_body, native, self.platform)
        module = sdk("anthropic", extra="bedrock", provider="bedrock")
        boto = sdk("boto3", extra="bedrock", provider="bedrock")
        if (access_key is None) != (secret_key is None):
            raise ConfigError("access_key and secret_key belong together: give both or neither")
        key = find_key(api_key, ["AWS_BEARER_TOKEN_BEDROCK"], provider="bedrock")
        secrets = {
            "api_key": key,
            "aws_access_key": find_key(access_key, provider="bedrock", argument="access_key"),
            "aws_secret_key": find_key(secret_key, provider="bedrock", argument="secret_key"),
            "aws_session_token": find_key(
                session_token, provider="bedrock", argument="session_token"
            ),
        }
        options = {
            **common_options(base_url, timeout, default_headers),
            **{name: _expose(value) for name, value in secrets.items()},
            "aws_region": region or first_env_value(REGIONS) or region_of_profile(boto, profile),
            "aws_profile": profile,
        }
        if key is not None and (access_key or profile):
            raise ConfigError(
                "a Bedrock key and AWS credentials are both given: keep one, "
                "and unset AWS_BEARER_TOKEN_BEDROCK to use the other"
            )

        def make() -> Any:
            # Bedrock's events are not lines of text; botocore refuses events of more than 24 MiB.
            http = http_client(module, limit_page)
            return module.AsyncAnthropicBedrock(http_client=http, **options)

        self._set_up(
            module,
            make,
            [each for each in secrets.values() if each is not None],
            max_tokens,
            default_headers,
            clock,
        )


class VertexMessages(AnthropicMessages):
    """Claude on Google Vertex AI.

    Args:
        project: by default `ANTHROPIC_VERTEX_PROJECT_ID`, `GOOGLE_CLOUD_PROJECT` or
            `GCLOUD_PROJECT`.
        region: by default `CLOUD_ML_REGION` or `GOOGLE_CLOUD_LOCATION`; may be `global`.
        access_token: used as it is; without one, Google's own library finds the credentials.
        credentials: `google.auth` credentials to use instead.

    Raises:
        ConfigError: an option cannot work, no project or region is known, or the SDK is not
            installed.
    """

    platform = "vertex"

    def __init__(
        self,
        *,
        project: str | None = None,
        region: str | None = None,
        access_token: str | RedactedString | None = None,
        credentials: Any = None,
        base_url: str | None = None,
        timeout: float = PROVIDER_TIMEOUT,
        max_tokens: int | None = None,
        default_headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        native: Sequence[NativeTool] = (),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._extra_body = add_native_tools(extra_body, native, self.platform)
        module = sdk("anthropic", extra="vertex", provider="vertex")
        sdk("google.auth", extra="vertex", provider="vertex")
        token = find_key(access_token, provider="vertex", argument="access_token")
        options = {
            **common_options(base_url, timeout, default_headers),
            "project_id": _require_setting(project, PROJECTS, "a project", "project"),
            "region": _require_setting(region, LOCATIONS, "a region", "region"),
            "access_token": _expose(token),
            "credentials": credentials,
        }

        def make() -> Any:
            return module.AsyncAnthropicVertex(http_client=http_client(module), **options)

        secrets = [token] if token is not None else []
        self._set_up(module, make, secrets, max_tokens, default_headers, clock)


def open_bedrock() -> BedrockMessages:
    """Amazon Bedrock, as the environment describes it."""
    return BedrockMessages()


def open_vertex() -> VertexMessages:
    """Google Vertex AI, as the environment describes it."""
    return VertexMessages()


def region_of_profile(boto: Any, profile: str | None) -> str:
    try:
        region = boto.Session(profile_name=profile).region_name
    except Exception as error:
        raise ConfigError(f"AWS's settings cannot be used: {error}") from error
    if not region:
        raise ConfigError(
            f"bedrock needs a region: export {' or '.join(REGIONS)}, or give it as region"
        )
    return str(region)


def _require_setting(given: str | None, names: Sequence[str], what: str, argument: str) -> str:
    found = given or first_env_value(names)
    if not found:
        raise ConfigError(
            f"vertex needs {what}: export {' or '.join(names)}, or give it as {argument}"
        )
    return found


def first_env_value(names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _expose(key: RedactedString | None) -> str | None:
    return key.expose_secret() if key is not None else None
