"""What a model, a tool or a client can put in a log line is text that a terminal only shows."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from awaken import Agent, Runtime, tool
from awaken.server.observe import LogFormat, set_up_logs
from awaken.testing import ScriptedModel, tool_call_response

STEERS = (
    "\x1b]0;PWNED\x07\x1b]52;c;cHduZWQ=\x07\x1b[2J\x9b31m\r\x08\u202eabc\u2028\x85\x00\U000e0001"
)


@pytest.fixture
def root() -> Iterator[None]:
    """Puts the logging of this process back."""
    root, hook, other = logging.getLogger(), threading.excepthook, sys.unraisablehook
    loggers = [root, logging.getLogger("awaken"), logging.getLogger("uvicorn.error")]
    before = root.handlers[:], [one.level for one in loggers]
    yield
    root.handlers, threading.excepthook, sys.unraisablehook = before[0], hook, other
    logging.captureWarnings(False)
    for one, level in zip(loggers, before[1], strict=True):
        one.setLevel(level)


class Lost:
    def __del__(self) -> None:
        raise ValueError(STEERS)


@tool
async def weather(city: str) -> str:
    """The weather."""
    raise ValueError(f"no such city: {city}\n12:00:00 GET /v1/all-is-well 200")


@pytest.mark.anyio
@pytest.mark.parametrize("format", ["text", "json"])
async def test_a_traceback_with_words_of_a_model_steers_no_terminal(
    root: None, format: LogFormat
) -> None:
    out = io.StringIO()
    set_up_logs(format, out)
    call = tool_call_response("", "weather", "c1", {"city": STEERS})
    async with Runtime([Agent("w", model=ScriptedModel([call, "done"]), tools=[weather])]) as rt:
        await rt.run("w", "hi")
    logging.getLogger("awaken.x").error("said %s", STEERS)
    thread = threading.Thread(target=lambda: int(STEERS), name=f"t{STEERS}")
    thread.start()
    thread.join()
    lost = Lost()
    del lost
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(STEERS, stacklevel=1)
    text = out.getvalue()
    assert text.count("PWNED") >= 6, "tool, line, thread twice, lost error, warning"
    assert "no such city" in text
    for line in text.split("\n"):
        assert line.isprintable(), line
        assert not line.startswith("12:00:00 GET"), "a text in a traceback is no line of the log"
    if format == "json":
        told = [json.loads(line) for line in text.splitlines()]
        assert STEERS in told[0]["error"], "programs read the text as it was"
