"""The server's log: one line for each request, as text or as JSON.

A line has no body, no query, no header and no key of the request: those may hold secrets.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from awaken.codec import dumps_text

LogFormat = Literal["text", "json", "none"]
requests = logging.getLogger("awaken.server.requests")


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; `facts` are further fields of it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return dumps_text(line)


class TextFormatter(logging.Formatter):
    """A record as a line for people; control characters are made visible."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        line = f"{_time(record):%H:%M:%S} {_visible(text)}"
        if record.levelno > logging.INFO:
            line = f"{_time(record):%H:%M:%S} {record.levelname.lower()}: {_visible(text)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def set_up_logs(format: LogFormat, out: TextIO | None = None) -> None:
    """Send the log of this process to `out`, else to standard error."""
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("awaken").setLevel(logging.WARNING if format == "none" else logging.INFO)
    # It would complain of every stream that is closed because its client takes nothing.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
