"""Asking through the SDK: opens a stream, reads it, and translates the SDK's errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from awaken.core.llm import InferenceExecutionError, InferenceRequest, LlmStreamEvent
from awaken.errors import ConfigError
from awaken.models.openai.connection import ManagedClients, UserClient
from awaken.models.openai.errors import missing_answer_error, parse_whole_answer, translate_error
from awaken.models.parsing import check_events
from awaken.models.response_limits import WatchedBody
from awaken.models.settings import add_extra_fields


class AnswerReader(Protocol):
    """Reads the events of one answer."""

    @property
    def done(self) -> bool: ...

    def read(self, event: Any) -> list[LlmStreamEvent]: ...

    def read_whole(self, answer: Any) -> list[LlmStreamEvent]: ...

    def finish(self, *, complete: bool = False) -> list[LlmStreamEvent]: ...


class OpenAIExecutor(ABC):
    """The common base of both APIs' executors."""

    path: str

    def __init__(
        self,
        name: str,
        connection: ManagedClients | UserClient,
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
        body = add_extra_fields(self._body(request), self._extra_body)
        if not self._streams:
            body = {name: body[name] for name in body if name not in ("stream", "stream_options")}
        return body

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked = self.preview(request)
        reader = self._reader(request)
        stream: Any = None
        body: WatchedBody | None = None
        with self._translate_errors():
            try:
                if self._streams:
                    stream = await self._post(asked, stream=True, stream_cls=self._stream_class)
                    body = WatchedBody(stream.response)
                    read = reader.read
                    async for event in stream:
                        for ours in check_events(read(event)):
                            yield ours
                else:
                    for ours in check_events(
                        reader.read_whole(parse_whole_answer(await self._post(asked)))
                    ):
                        yield ours
            except Exception as error:
                # Once the answer is complete, it does not matter how the connection ends.
                if not reader.done or isinstance(error, InferenceExecutionError):
                    raise
            finally:
                if stream is not None:
                    await stream.close()
            if body is not None and body.page is not None:
                raise missing_answer_error(body.page)
            last = check_events(reader.finish(complete=body is not None and body.is_marked))
        for ours in last:
            yield ours

    async def _post(self, body: dict[str, Any], **how: Any) -> Any:
        security = {"security": {"bearer_auth": True}}
        client: Any = self._connection.client()
        return await client.post(self.path, body=body, cast_to=object, options=security, **how)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises our errors for the SDK's, without the key in any text."""
        connection = self._connection
        address = connection.address
        try:
            yield
        except InferenceExecutionError as error:
            raise address.scrub_error(error) from None
        except Exception as error:
            told = address.scrub(str(error)) == str(error)
            now = connection.clock.now_ms()
            ours = translate_error(error, connection.sdk, address, now)
            raise ours from (error if told else None)

    @abstractmethod
    def _body(self, request: InferenceRequest) -> dict[str, Any]: ...

    @abstractmethod
    def _reader(self, request: InferenceRequest) -> AnswerReader: ...
