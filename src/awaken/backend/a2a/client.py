"""The protocol's operations, in both of its bindings over HTTP.

The types and their JSON are the SDK's. The SDK's client is not used: it cannot be limited to
checked addresses, does not escape ids in paths, and treats any line separator in an answer as the
end of a line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from a2a.types.a2a_pb2 import Message as A2aMessage
from a2a.utils.errors import A2A_ERROR_REASONS, JSON_RPC_ERROR_CODE_MAP
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message as ProtoMessage

from awaken.backend.a2a.config import A2aConfig, Binding
from awaken.backend.a2a.http import SseDecoder
from awaken.backend.a2a.messages import UNREADABLE
from awaken.codec import Json, dumps, loads, one_line
from awaken.core.backend import RemoteError
from awaken.core.value import Value
from awaken.net.pinned import Http, HttpRequest, HttpStream, TooLarge

REQUEST_TIMEOUT = 30.0
SILENCE_TIMEOUT = 60.0
"""Seconds after which a stream without any data, even keep-alives, is abandoned."""

MAX_VALUES = 250_000
"""The most JSON values of one answer; reading one takes some ten microseconds."""
_MAX_VALUES_AT_ONCE = 1_000
_MAX_ERROR_CHARS = 500
"""The most characters of an agent's error message that are passed on."""

OUTPUT_MODES = ("text/plain", "application/json", "application/octet-stream")
_JSON = "application/json, application/a2a+json"
_EVENTS = "text/event-stream"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_REASONS = {
    code: A2A_ERROR_REASONS.get(kind, kind.__name__)
    for kind, code in JSON_RPC_ERROR_CODE_MAP.items()
}
_ABOUT_REQUEST = frozenset(
    {"TASK_NOT_FOUND", "UNSUPPORTED_OPERATION", "INVALID_PARAMS", "INVALID_REQUEST"}
)
_ABOUT_REQUEST_STATUS = frozenset({400, 404, 409, 422})
_BUSY_STATUS = frozenset({429, 502, 503, 504})

P = TypeVar("P", bound=ProtoMessage)


class AgentRefused(RemoteError):
    """The agent answered with an error.

    `reason` is the protocol's name for the error, if the agent gave one.
    """

    def __init__(self, message: str, *, status: int, reason: str | None) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason

    @property
    def is_missing_task(self) -> bool:
        return self.reason == "TASK_NOT_FOUND"

    @property
    def is_about_request(self) -> bool:
        """Whether the request itself is at fault, not its sender or its time."""
        if self.reason is not None:
            return self.reason in _ABOUT_REQUEST
        return self.status in _ABOUT_REQUEST_STATUS

    @property
    def is_rejected(self) -> bool:
        """Whether the agent has certainly not acted on the request, because it refused the request
        or its sender."""
        return self.is_about_request or self.status in (401, 403)

    @property
    def is_busy(self) -> bool:
        """Whether a later attempt may succeed."""
        return self.status in _BUSY_STATUS


class BadAnswer(RemoteError):
    """The agent's answer does not follow the protocol."""


class Operation(Value, frozen=True, kw_only=True):
    """One operation in both bindings."""

    rpc: str
    method: str
    path: str


SEND = Operation(rpc="SendMessage", method="POST", path="/message:send")
GET = Operation(rpc="GetTask", method="GET", path="/tasks/{id}")
LIST = Operation(rpc="ListTasks", method="GET", path="/tasks")
CANCEL = Operation(rpc="CancelTask", method="POST", path="/tasks/{id}:cancel")
SUBSCRIBE = Operation(rpc="SubscribeToTask", method="GET", path="/tasks/{id}:subscribe")


class A2aClient:
    """One agent's operations, on the connections of one activation."""

    def __init__(self, config: A2aConfig, http: Http) -> None:
        self._config = config
        self._http = http

    async def send(self, message: A2aMessage, timeout: float) -> Task | A2aMessage:
        """Send a message. Returns the agent's task, or its answer without a task."""
        options = self._config.options
        configuration = SendMessageConfiguration(
            accepted_output_modes=OUTPUT_MODES, return_immediately=options.return_immediately
        )
        if options.history_length is not None:
            configuration.history_length = options.history_length
        answer = await self._call(
            SEND,
            SendMessageRequest(message=message, configuration=configuration),
            SendMessageResponse(),
            timeout,
        )
        if answer.HasField("task"):
            return self._check_task(answer.task)
        if answer.HasField("message"):
            return answer.message
        raise BadAnswer(f"{self._origin} answered a message with neither a task nor a message")

    async def get_task(self, task_id: str, *, whole_history: bool = False) -> Task:
        request = GetTaskRequest(id=task_id)
        if self._config.options.history_length is not None and not whole_history:
            request.history_length = self._config.options.history_length
        return self._check_task(await self._call(GET, request, Task(), REQUEST_TIMEOUT))

    async def list_tasks(self, context_id: str | None, page_token: str) -> ListTasksResponse:
        request = ListTasksRequest(context_id=context_id, page_size=100, page_token=page_token)
        return await self._call(LIST, request, ListTasksResponse(), REQUEST_TIMEOUT)

    async def cancel_task(self, task_id: str) -> Task:
        return await self._call(CANCEL, CancelTaskRequest(id=task_id), Task(), REQUEST_TIMEOUT)

    @asynccontextmanager
    async def subscribe(self, task_id: str) -> AsyncIterator[AsyncIterator[StreamResponse]]:
        """The events of a task from now on, until it is done or the stream ends.

        Raises:
            Refused: the agent refuses the subscription.
            BadAnswer: the answer is not a stream of events.
        """
        asked = self._request(SUBSCRIBE, SubscribeToTaskRequest(id=task_id), SILENCE_TIMEOUT)
        asked = msgspec.structs.replace(asked, accept=f"{_EVENTS}, {_JSON}")
        for method in (asked.method, "POST"):
            async with self._http.stream(msgspec.structs.replace(asked, method=method)) as answer:
                if answer.status == 405 and method == "GET":
                    continue  # some servers expect a POST
                if answer.media_type != _EVENTS or answer.status != 200:
                    await self._result(answer)
                    raise BadAnswer(f"{self._origin} sent an answer that is not an event stream")
                async with aclosing(self._events(answer)) as events:
                    yield events
                    return

    async def _events(self, answer: HttpStream) -> AsyncGenerator[StreamResponse, None]:
        decoder = SseDecoder()
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                try:
                    events = decoder.feed(chunk)
                except UnicodeDecodeError as error:
                    raise BadAnswer(f"{self._origin} streams invalid UTF-8: {error}") from error
                for name, data in events:
                    yield await self._event(name, data, answer)

    async def _event(self, name: str, data: str, answer: HttpStream) -> StreamResponse:
        value = self._json(data.encode())
        if name == "error":
            raise self._error(answer.status, value, answer)
        if self._is_rpc:
            value = self._rpc_result(answer, value)
        return await self._parse(value, StreamResponse())

    # -- asking -------------------------------------------------------------------------------

    @property
    def _origin(self) -> str:
        return self._config.interface.origin

    @property
    def _is_rpc(self) -> bool:
        return self._config.options.binding is Binding.JSONRPC

    async def _call(
        self, operation: Operation, request: ProtoMessage, into: P, timeout: float
    ) -> P:
        """
        Raises:
            Refused, BadAnswer, Unanswered, TooLarge, UrlRefused: there is no usable answer.
        """
        async with self._http.stream(self._request(operation, request, timeout)) as answer:
            return await self._parse(await self._result(answer), into)

    def _request(self, operation: Operation, request: ProtoMessage, timeout: float) -> HttpRequest:
        base = self._config.interface
        values: dict[str, Any] = MessageToDict(request)
        if self._is_rpc:
            if self._config.target:
                values["tenant"] = self._config.target
            body = {"jsonrpc": "2.0", "id": 1, "method": operation.rpc, "params": values}
            return HttpRequest(
                method="POST", url=base, accept=_JSON, body=dumps(body), read_timeout=timeout
            )
        path = operation.path
        if "{id}" in path:
            path = path.format(id=quote(values.pop("id"), safe=""))
        target = base.target.rstrip("/") + path
        body_bytes = dumps(values) if operation.method == "POST" else None
        if operation.method == "GET" and values:
            target += f"?{urlencode(values)}"
        return HttpRequest(
            method=operation.method,
            url=msgspec.structs.replace(base, target=target),
            accept=_JSON,
            body=body_bytes,
            read_timeout=timeout,
        )

    # -- the answer ---------------------------------------------------------------------------

    async def _result(self, answer: HttpStream) -> Json:
        if answer.header("content-encoding") not in ("", "identity"):
            raise BadAnswer(f"{self._origin} answers compressed, though asked not to")
        body = await answer.read()
        is_json = answer.media_type in ("", "application/json") or answer.media_type.endswith(
            "+json"
        )
        if answer.status >= 300:
            try:
                value = self._json(body) if is_json else None
            except BadAnswer:
                value = None
            raise self._error(answer.status, value, answer)
        if not is_json:
            raise BadAnswer(
                f"{self._origin} answered {answer.media_type!r} where JSON was asked for: "
                "is base_url the URL of an A2A interface?"
            )
        value = self._json(body)
        return self._rpc_result(answer, value) if self._is_rpc else value

    def _rpc_result(self, answer: HttpStream, value: Json) -> Json:
        if isinstance(value, dict) and value.get("error"):
            raise self._error(answer.status, value, answer)
        if not isinstance(value, dict) or "result" not in value:
            raise BadAnswer(f"{self._origin} sent an answer that is not a JSON-RPC response")
        return value["result"]

    def _error(self, status: int, value: Json, answer: HttpStream) -> AgentRefused:
        error = value.get("error") if isinstance(value, dict) else None
        said, reason = "", None
        if isinstance(error, dict):
            said = str(error.get("message") or "")
            reason = _reason(error)
        text = f"{self._origin} answered {reason or status}"
        if said:
            text += f": {one_line(self._redact(said), _MAX_ERROR_CHARS)}"
        if status in (401, 403) and not answer.credentials_sent:
            text += (
                f"; the credentials were not sent to {answer.url.origin}, for they are not for "
                "it: if it may have them, list it in the endpoint's option token_hosts"
            )
        return AgentRefused(text, status=status, reason=reason)

    def _redact(self, text: str) -> str:
        """The agent's text, with our own secret removed if it repeats that."""
        credentials = self._config.credentials
        return text if credentials is None else credentials.redact(text)

    def _json(self, data: bytes) -> Json:
        credentials = self._config.credentials
        try:
            value: Json = loads(data)
            if credentials is not None and credentials.is_in(data):
                return credentials.without_secret(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"{self._origin} sent an answer that is not JSON: {error}") from error
        return value

    async def _parse(self, value: Json, into: P) -> P:
        if not isinstance(value, dict):
            raise BadAnswer(f"{self._origin} sent an answer that is not a {into.DESCRIPTOR.name}")
        size = _count(value)
        if size > MAX_VALUES:
            raise TooLarge(f"{self._origin} answered with more than {MAX_VALUES} values")
        try:
            # Reading takes a second or two, in which other tasks should run.
            if size > _MAX_VALUES_AT_ONCE:
                return await asyncio.to_thread(_read, value, into)
            return _read(value, into)
        except UNREADABLE as error:
            name = into.DESCRIPTOR.name
            why = one_line(str(error), _MAX_ERROR_CHARS)
            raise BadAnswer(f"{self._origin} sent an answer that is not a {name}: {why}") from error

    def _check_task(self, task: Task) -> Task:
        if not task.id:
            raise BadAnswer(f"{self._origin} answered a task without an id")
        return task


def _read(value: dict[str, Json], into: P) -> P:
    return ParseDict(value, into, ignore_unknown_fields=True)


def _count(value: Json) -> int:
    """The number of JSON values in a value, including itself."""
    count, rest = 0, [value]
    while rest:
        one = rest.pop()
        count += 1
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
    return count


def _reason(error: dict[str, Any]) -> str | None:
    """The protocol's name for an error: from its details, else from its JSON-RPC code."""
    for details in (error.get("details"), error.get("data")):
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict) and detail.get("@type") == _ERROR_INFO:
                reason = detail.get("reason")
                return reason if isinstance(reason, str) else None
    code = error.get("code")
    return _REASONS.get(code) if isinstance(code, int) else None
