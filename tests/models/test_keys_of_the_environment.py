"""Keys of the environment are for their own provider: no other server gets one of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from mock_server import Answer, WireServer

from awaken.core.llm import InferenceExecutionError, InferenceRequest
from awaken.core.message import Message
from awaken.models.anthropic import AnthropicMessages
from awaken.models.google import GoogleGemini
from awaken.models.openai import AzureChat, OpenAIChat, OpenAIResponses

pytestmark = pytest.mark.anyio

VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
)
MAKE: dict[str, Callable[..., Any]] = {
    "chat": OpenAIChat,
    "responses": OpenAIResponses,
    "anthropic": AnthropicMessages,
    "google": GoogleGemini,
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, f"of-environment-{name}")


async def sent(make: Callable[..., Any], **options: Any) -> str:
    """All that a server is told by a client with these options."""
    async with WireServer([Answer(status=401)]) as server:
        model = make(base_url=server.url, **options)
        request = InferenceRequest(upstream_model="m", messages=(Message.user("Hi"),))
        with suppress(InferenceExecutionError):
            async for _ in model.execute_stream(request):
                pass
        await model.aclose()
        (asked,) = server.requests
    return f"{asked.path} {asked.headers}"


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_a_server_given_by_address_gets_no_key_of_the_environment(
    make: Callable[..., Any],
) -> None:
    assert "of-environment" not in await sent(make)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_it_gets_the_key_that_is_given_with_it(make: Callable[..., Any]) -> None:
    told = await sent(make, api_key="given-1")
    assert "given-1" in told
    assert "of-environment" not in told


@pytest.mark.parametrize("make", [OpenAIChat, OpenAIResponses, AzureChat])
async def test_an_organization_that_is_given_is_told(make: Callable[..., Any]) -> None:
    told = await sent(make, api_key="k", organization="org-1", project="proj-1")
    assert "org-1" in told
    assert "proj-1" in told


async def test_azure_is_told_nothing_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "of-azure")
    told = await sent(AzureChat)
    assert "of-azure" in told
    assert "of-environment" not in told
