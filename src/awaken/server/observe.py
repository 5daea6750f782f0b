"""Counts and logs the requests of an application.

The log has one line for each request, as text or as JSON. The line has no body, no query, no header
and no key of the request: those may hold secrets.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awaken.clock import SYSTEM_CLOCK
from awaken.codec import dumps_text
from awaken.core.identity import Principal
from awaken.ids import UUID7
from awaken.runtime.runtime import Runtime
from awaken.server.edge import CLIENT_LEFT
from awaken.server.metrics import Metrics
from awaken.server.open_streams import IsValid, OpenStreams

log = logging.getLogger("awaken.server")
requests = logging.getLogger("awaken.server.requests")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")
_UNKNOWN = "unknown"


def add_observer(application: Starlette, runtime: Runtime, is_valid: IsValid) -> Starlette:
    """Add an observer to an application, as its `state.observer`. `is_valid` says whether the key
    or session of an open stream is still valid."""
    application.state.observer = observer = Observer(runtime, is_valid)
    application.add_middleware(ObserverMiddleware, observer)
    return application


class Observer:
    """Counts requests and streams of one application, and logs each request when it is over."""

    def __init__(self, runtime: Runtime, is_valid: IsValid) -> None:
        self.streams = OpenStreams(is_valid)
        self.metrics = Metrics(runtime, self.streams)

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log a request that is over."""
        route: str = getattr(scope.get("route"), "path", _UNKNOWN)
        method: str = scope["method"]
        self.metrics.count_request(route, method, status, seconds)
        principal: Principal | None = scope.get("principal")
        facts: dict[str, Any] = {
            "request_id": scope["request_id"],
            "method": method,
            "path": scope["path"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "scope": principal.scope if principal else None,
            "principal": principal.id if principal else None,
            "run": scope.get("submitted_run") or scope.get("path_params", {}).get("run"),
        }
        requests.info(
            "%s %s %d %.0f ms",
            method,
            scope["path"],
            status,
            seconds * 1000,
            extra={"facts": facts},
        )


class ObserverMiddleware:
    """Gives each request its id, and reports it to the observer when it is over."""

    def __init__(self, app: ASGIApp, observer: Observer) -> None:
        self._app, self._observer = app, observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["streams"] = self._observer.streams
        scope["request_id"] = request_id = _request_id(scope)
        began, status = SYSTEM_CLOCK.monotonic(), CLIENT_LEFT

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            self._observer.note(scope, status, SYSTEM_CLOCK.monotonic() - began)


def _request_id(scope: Scope) -> str:
    """The id that the client has given to the request, else a new one."""
    value = next((text for name, text in scope["headers"] if name == b"x-request-id"), b"")
    text: str = value.decode("latin-1")
    return text if _REQUEST_ID.fullmatch(text) else UUID7.new()


LogFormat = Literal["text", "json", "none"]


def set_up_logs(format: LogFormat, out: TextIO | None = None) -> None:
    """Send the log of this process to `out`, else to standard error. Warnings and errors in
    threads, which Python itself would print there, are logged as well."""
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("awaken").setLevel(logging.WARNING if format == "none" else logging.INFO)
    logging.captureWarnings(True)
    threading.excepthook, sys.unraisablehook = _log_thread_error, _log_unraisable
    # Uvicorn would log an error for every stream that is closed because its client does not read.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; `facts` are further fields of it. Control characters and
    invisible characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if error := _error_of(self, record):
            line["error"] = error
        text = dumps_text(line)
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class TextFormatter(logging.Formatter):
    """A record as a line for people; control characters are made visible. The lines of a traceback
    are indented, so that no text in it looks like a line of the log."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        line = f"{_time(record):%H:%M:%S} {_visible(text)}"
        if record.levelno > logging.INFO:
            line = f"{_time(record):%H:%M:%S} {record.levelname.lower()}: {_visible(text)}"
        if error := _error_of(self, record):
            line = "\n    ".join([line, *map(_visible, error.split("\n"))])
        return line


def _error_of(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The traceback of a record, or an empty text."""
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _log_thread_error(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "a thread"
    error = args.exc_value
    log.error("%s ended with an error", name, exc_info=error)


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    log.error("an error was raised where no caller can catch it", exc_info=found.exc_value)
