"""The executor of the local model."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from awaken.core.llm import InferenceRequest, LlmStreamEvent, ModelAbilities, ProviderError
from awaken.errors import ConfigError
from awaken.models.local.process import ModelProcess, check_installed, find_bundled_model
from awaken.models.local.request import plain_request
from awaken.models.openai import OpenAIChat
from awaken.models.sdk import sdk

CONTEXT = 8_192
MAX_TOKENS = 512
TIMEOUT = 600.0
"""The most seconds until the first word, and between two; reading a long thread is slow."""

# llama.cpp sometimes closes a connection just when the next request uses it.
ONE_REQUEST_EACH = {"connection": "close"}

log = logging.getLogger("awaken.llm")


class LocalModel:
    """A real, small language model on this machine: no key, no network, no cost.

    It chats, and keeps to a JSON schema. It reads only text and calls no tools: it is not offered
    those of an agent. It runs in a process of its own, which starts with the first request and ends
    with `aclose` or with this process.

    Args:
        model_path: a GGUF file; by default `AWAKEN_LOCAL_MODEL`, or the installed model.
        context: the most tokens of request and answer together.
        threads: by default all cores but one.
        max_tokens: the longest answer, if a request sets no limit.
        timeout: the most seconds until the first word, and between two.

    Raises:
        ConfigError: a part is not installed, or an option makes no sense.
    """

    name = "local"

    def __init__(
        self,
        *,
        model_path: str | os.PathLike[str] | None = None,
        context: int = CONTEXT,
        threads: int | None = None,
        max_tokens: int = MAX_TOKENS,
        timeout: float = TIMEOUT,
    ) -> None:
        check_installed()
        sdk("openai", extra="local", provider="the local model")
        if threads is None:
            threads = max(1, (os.cpu_count() or 2) - 1)
        for option, value in (
            ("context", context),
            ("threads", threads),
            ("max_tokens", max_tokens),
        ):
            if value < 1:
                raise ConfigError(f"the local model: {option} is {value}, it must be at least 1")
        self._path = _model_file(model_path)
        self._context, self._max_tokens, self._timeout = context, max_tokens, timeout
        self._process = ModelProcess(self._path, context=context, threads=threads)
        self._chat: OpenAIChat | None = None
        self._url = ""
        self._told = False

    def __repr__(self) -> str:
        return f"LocalModel({self._path.name!r})"

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(
            native_output=True,
            input=frozenset(),
            context_window=self._context,
            max_output_tokens=self._context,
        )

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked = plain_request(request, self._max_tokens)
        if request.tools and not self._told:
            self._told = True
            log.warning("the local model calls no tools: this agent's are not offered to it")
        chat = self._at(await asyncio.to_thread(self._process.start))
        stream: Any = chat.execute_stream(asked)
        async with aclosing(stream):
            try:
                async for event in stream:
                    yield event
            except ProviderError:
                # A retry must not be sent to a process that is just ending.
                await asyncio.to_thread(self._process.wait_end)
                raise

    async def aclose(self) -> None:
        """End the model's process; the next request starts another."""
        chat, self._chat, self._url = self._chat, None, ""
        if chat is not None:
            await chat.aclose()
        await asyncio.to_thread(self._process.stop)

    def _at(self, url: str) -> OpenAIChat:
        if self._chat is None or self._url != url:
            self._url = url
            self._chat = OpenAIChat(
                name=self.name,
                base_url=f"{url}/v1",
                api_key=self._process.key,
                timeout=self._timeout,
                default_headers=ONE_REQUEST_EACH,
                start="its process has ended; it is started again when it is asked again",
            )
        return self._chat


def open_local() -> LocalModel:
    """The installed model, or the one that `AWAKEN_LOCAL_MODEL` names."""
    return LocalModel()


def _model_file(given: str | os.PathLike[str] | None) -> Path:
    named = given or os.environ.get("AWAKEN_LOCAL_MODEL")
    if not named:
        return find_bundled_model()
    path = Path(named).expanduser()
    if not path.is_file():
        raise ConfigError(f"the local model: there is no file {str(path)!r}; name a GGUF file")
    return path
