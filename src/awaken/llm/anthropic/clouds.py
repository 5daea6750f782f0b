"""Claude at Amazon Bedrock and Google Vertex AI: other clients of the same SDK."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.domain.secret import RedactedString
from awaken.errors import ConfigError
from awaken.llm.anthropic.executor import AnthropicMessages, common_options
from awaken.llm.sdk import PROVIDER_TIMEOUT, sdk

REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
LOCATIONS = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")


class BedrockMessages(AnthropicMessages):
    """Claude at Amazon Bedrock.

    Args:
        api_key: a Bedrock key, else `AWS_BEARER_TOKEN_BEDROCK`; without one the credentials given
            here, or those AWS's own library finds (variables, profiles, roles), sign the requests.
        region: else `AWS_REGION`, `AWS_DEFAULT_REGION`, or the profile's.

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
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        module = sdk("anthropic", extra="bedrock", whose="BedrockMessages")
        boto = sdk("boto3", extra="bedrock", whose="BedrockMessages")
        if (access_key is None) != (secret_key is None):
            raise ConfigError("access_key and secret_key belong together: give both or neither")
        options = {
            **common_options(base_url, timeout, default_headers),
            "api_key": _exposed(api_key),
            "aws_region": region or _found(REGIONS) or _region_of_profile(boto, profile),
            "aws_access_key": access_key,
            "aws_secret_key": _exposed(secret_key),
            "aws_session_token": _exposed(session_token),
            "aws_profile": profile,
        }
        key = options["api_key"] or os.environ.get("AWS_BEARER_TOKEN_BEDROCK")
        if key and (access_key or profile):
            raise ConfigError(
                "a Bedrock key and AWS credentials are both given: keep one, "
                "and unset AWS_BEARER_TOKEN_BEDROCK to use the other"
            )
        secrets = [key, options["aws_secret_key"], options["aws_session_token"]]

        def make() -> Any:
            return module.AsyncAnthropicBedrock(**options)

        self._set_up(module, make, _redacted(secrets), max_tokens, default_headers, clock)


class VertexMessages(AnthropicMessages):
    """Claude at Google Vertex AI.

    Args:
        project: else `ANTHROPIC_VERTEX_PROJECT_ID`, `GOOGLE_CLOUD_PROJECT` or `GCLOUD_PROJECT`.
        region: else `CLOUD_ML_REGION` or `GOOGLE_CLOUD_LOCATION`; `global` is one, too.
        access_token: to use as it is; without one Google's own library finds the credentials.
        credentials: of `google.auth`, to use instead.

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
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        module = sdk("anthropic", extra="vertex", whose="VertexMessages")
        sdk("google.auth", extra="vertex", whose="VertexMessages")
        options = {
            **common_options(base_url, timeout, default_headers),
            "project_id": _needed(project, PROJECTS, "a project", "project"),
            "region": _needed(region, LOCATIONS, "a region", "region"),
            "access_token": _exposed(access_token),
            "credentials": credentials,
        }

        def make() -> Any:
            return module.AsyncAnthropicVertex(**options)

        secrets = _redacted([options["access_token"]])
        self._set_up(module, make, secrets, max_tokens, default_headers, clock)


def open_bedrock() -> BedrockMessages:
    """Amazon Bedrock, as the environment describes it."""
    return BedrockMessages()


def open_vertex() -> VertexMessages:
    """Google Vertex AI, as the environment describes it."""
    return VertexMessages()


def _region_of_profile(boto: Any, profile: str | None) -> str:
    try:
        region = boto.Session(profile_name=profile).region_name
    except Exception as error:
        raise ConfigError(f"AWS's settings cannot be used: {error}") from error
    if not region:
        raise ConfigError(
            f"BedrockMessages needs a region: export {' or '.join(REGIONS)}, or give it as region"
        )
    return str(region)


def _needed(given: str | None, names: Sequence[str], what: str, argument: str) -> str:
    found = given or _found(names)
    if not found:
        raise ConfigError(
            f"VertexMessages needs {what}: export {' or '.join(names)}, or give it as {argument}"
        )
    return found


def _found(names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)


def _exposed(given: str | RedactedString | None) -> str | None:
    return given.expose_secret() if isinstance(given, RedactedString) else given


def _redacted(secrets: Sequence[str | None]) -> list[RedactedString]:
    return [RedactedString(secret) for secret in secrets if secret]
