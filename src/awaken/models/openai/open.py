"""Servers known by name, configured by the environment."""

from __future__ import annotations

import os
from functools import partial
from urllib.parse import urlsplit

from awaken.errors import ConfigError
from awaken.models.openai.chat import AzureChat, OpenAIChat
from awaken.models.openai.providers import CHAT_PROVIDERS
from awaken.models.openai.responses import OpenAIResponses
from awaken.models.sdk import find_key, secret

OLLAMA_PORT = 11434


def open_openai() -> OpenAIResponses:
    """OpenAI: `OPENAI_API_KEY`, and `OPENAI_BASE_URL` for another address."""
    return OpenAIResponses()


def open_openai_chat() -> OpenAIChat:
    """OpenAI through the older of its APIs; configured like `open_openai`."""
    return OpenAIChat()


def open_azure() -> AzureChat:
    """Azure: `AZURE_OPENAI_ENDPOINT`, `AZURE_OPENAI_API_KEY`, perhaps `OPENAI_API_VERSION`."""
    return AzureChat()


def open_ollama() -> OpenAIChat:
    """Ollama on this machine, or at `OLLAMA_HOST`."""
    return OpenAIChat(
        name="ollama",
        base_url=ollama_url(os.environ.get("OLLAMA_HOST", "")),
        start="start it with `ollama serve`, or set OLLAMA_HOST",
    )


def open_vllm() -> OpenAIChat:
    """vLLM on this machine, or at `VLLM_BASE_URL`; its key, if any: `VLLM_API_KEY`."""
    return OpenAIChat(
        name="vllm",
        base_url=os.environ.get("VLLM_BASE_URL") or "http://localhost:8000/v1",
        api_key=find_key(None, ["VLLM_API_KEY"], provider="vllm"),
        start="start it with `vllm serve MODEL`, or set VLLM_BASE_URL",
    )


def open_llamacpp() -> OpenAIChat:
    """llama.cpp on this machine, or at `LLAMACPP_BASE_URL`; its key, if any: `LLAMA_API_KEY`."""
    return OpenAIChat(
        name="llamacpp",
        base_url=os.environ.get("LLAMACPP_BASE_URL") or "http://localhost:8080/v1",
        api_key=find_key(None, ["LLAMA_API_KEY"], provider="llamacpp"),
        # It sometimes closes a kept connection just when the next request uses it.
        default_headers={"connection": "close"},
        start="start it with `llama-server -m MODEL.gguf --jinja`, or set LLAMACPP_BASE_URL",
    )


def open_provider(name: str) -> OpenAIChat:
    """A provider of the table in `providers`, with its key from the environment.

    Raises:
        ConfigError: the key is missing, or the SDK.
    """
    known = CHAT_PROVIDERS[name]
    return OpenAIChat(
        name=name, base_url=known.url, api_key=secret(None, known.keys, provider=name)
    )


open_cerebras = partial(open_provider, "cerebras")
open_deepseek = partial(open_provider, "deepseek")
open_fireworks = partial(open_provider, "fireworks")
open_groq = partial(open_provider, "groq")
open_huggingface = partial(open_provider, "huggingface")
open_mistral = partial(open_provider, "mistral")
open_moonshot = partial(open_provider, "moonshot")
open_openrouter = partial(open_provider, "openrouter")
open_together = partial(open_provider, "together")
open_xai = partial(open_provider, "xai")
open_zai = partial(open_provider, "zai")


def ollama_url(host: str) -> str:
    """The address of Ollama's API for what `OLLAMA_HOST` may hold: a host, a port, or both.

    Raises:
        ConfigError: it is neither.
    """
    host = host.strip().rstrip("/")
    try:
        parts = urlsplit(host if "://" in host else f"http://{host}")
        name, given_port = parts.hostname or "localhost", parts.port
    except ValueError as error:
        raise ConfigError(f"OLLAMA_HOST is {host!r}, which is no address: {error}") from None
    # These addresses mean that Ollama listens everywhere; a client cannot connect to them.
    if name in ("0.0.0.0", "::"):
        name = "localhost"
    name = f"[{name}]" if ":" in name else name
    port = given_port or (None if "://" in host else OLLAMA_PORT)
    place = f"{name}:{port}" if port is not None else name
    return f"{parts.scheme}://{place}{parts.path}/v1"
