"""The server's log: one line for each request, as text or as JSON.

A line has no body, no query, no header and no key of the request: those may hold secrets.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from awaken.codec import dumps_text

LogFormat = Literal["text", "json", "none"]
log = logging.getLogger("awaken.server")
requests = logging.getLogger("awaken.server.requests")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; `facts` are further fields of it. Characters that a terminal
    obeys, or does not show, are escaped."""

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


def set_up_logs(format: LogFormat, out: TextIO | None = None) -> None:
    """Send the log of this process to `out`, else to standard error; and with it what Python itself
    would print there of errors in threads and of warnings."""
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("awaken").setLevel(logging.WARNING if format == "none" else logging.INFO)
    logging.captureWarnings(True)
    threading.excepthook, sys.unraisablehook = _log_thread_error, _log_unraisable
    # It would complain of every stream that is closed because its client takes nothing.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


def _log_thread_error(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "a thread"
    error = args.exc_value
    log.error("%s ended with an error", name, exc_info=error)


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    log.error("an error was raised where no caller can catch it", exc_info=found.exc_value)
