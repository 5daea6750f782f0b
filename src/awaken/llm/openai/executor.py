"""Asking through the SDK: opens a stream, reads it, and translates the SDK's errors."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from awaken.contract.llm import InferenceExecutionError, InferenceRequest, LlmStreamEvent
from awaken.errors import ConfigError
from awaken.llm.openai.connection import Connection, OwnConnection
from awaken.llm.openai.failures import translated
from awaken.llm.settings import with_extra


class AnswerReader(Protocol):
    """Reads the events of one answer."""

    @property
    def done(self) -> bool: ...

    def read(self, event: Any) -> list[LlmStreamEvent]: ...

    def read_whole(self, answer: Any) -> list[LlmStreamEvent]: ...

    def finish(self, *, complete: bool = False) -> list[LlmStreamEvent]: ...


class _EndMark:
    """Notices `[DONE]`, with which a server ends a stream; the SDK hides it."""

    _MARK = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\]")

    def __init__(self) -> None:
        self._tail = b""

    @property
    def seen(self) -> bool:
        return self._MARK.search(self._tail) is not None

    def watch(self, response: Any) -> None:
        read = response.aiter_bytes

        async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
            async with aclosing(read(chunk_size)) as chunks:
                async for chunk in chunks:
                    self._tail = (self._tail + chunk[-64:])[-64:]
                    yield chunk

        response.aiter_bytes = aiter_bytes


class OpenAIExecutor(ABC):
    """The common base of both APIs' executors."""

    path: str

    def __init__(
        self,
        name: str,
        connection: Connection | OwnConnection,
        extra_body: Mapping[str, Any] | None,
        stream: bool = True,
    ) -> None:
        if not name.strip():
            raise ConfigError("an executor of OpenAI's APIs needs a name: name='…'")
        self._name = name
        self._connection = connection
        self._extra_body = dict(extra_body or {})
        self._streams = stream
        # Events as plain dicts: creating the SDK's models takes far longer than reading the events.
        self._stream_class = connection.sdk.AsyncStream[object]

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._connection.address.url!r})"

    async def aclose(self) -> None:
        """Close the connections of this event loop; they are opened again when needed."""
        await self._connection.aclose()

    def preview(self, request: InferenceRequest) -> dict[str, Any]:
        """The body of the request to the server."""
        body = with_extra(self._body(request), self._extra_body)
        if not self._streams:
            body = {name: body[name] for name in body if name not in ("stream", "stream_options")}
        return body

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        body = self.preview(request)
        reader = self._reader(request)
        stream: Any = None
        end = _EndMark()
        try:
            if self._streams:
                stream = await self._post(body, stream=True, stream_cls=self._stream_class)
                end.watch(stream.response)
                read = reader.read
                async for event in stream:
                    for ours in read(event):
                        yield ours
            else:
                for ours in reader.read_whole(await self._post(body)):
                    yield ours
        except InferenceExecutionError as error:
            raise self._connection.address.scrubbed(error) from None
        except Exception as error:
            # Once the answer is complete, it does not matter how the connection ends.
            if not reader.done:
                raise self._translated(error) from self._tellable(error)
        finally:
            if stream is not None:
                await stream.close()
        for ours in reader.finish(complete=end.seen):
            yield ours

    async def _post(self, body: dict[str, Any], **how: Any) -> Any:
        security = {"security": {"bearer_auth": True}}
        client: Any = self._connection.client()
        return await client.post(self.path, body=body, cast_to=object, options=security, **how)

    def _translated(self, error: Exception) -> InferenceExecutionError:
        connection = self._connection
        now = connection.clock.now_ms()
        return translated(error, connection.sdk, connection.address, now)

    def _tellable(self, error: Exception) -> Exception | None:
        """The error as the cause of ours; `None` if its text contains the key."""
        text = str(error)
        return error if self._connection.address.scrub(text) == text else None

    @abstractmethod
    def _body(self, request: InferenceRequest) -> dict[str, Any]: ...

    @abstractmethod
    def _reader(self, request: InferenceRequest) -> AnswerReader: ...
