"""How far it is from the front door to the loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from types import FrameType
from typing import Any

import pytest

import awaken
from awaken import Agent, Runtime
from awaken.core.event import CollectingSink, RunEvent, RunFinish
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.testing import FunctionModel, text_response

HOME = awaken.__path__[0]


def functions_beneath(frame: FrameType | None) -> list[str]:
    """Our coroutines on the stack, the outermost first."""
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(HOME) and code.co_flags & 0x80:
            found.append(code.co_qualname)
        frame = frame.f_back
    return found[::-1]


def awaited_by(coroutine: Coroutine[Any, Any, Any]) -> list[str]:
    """The coroutines one awaits, each awaiting the next."""
    found: list[str] = []
    inner: Any = coroutine
    while inner is not None and hasattr(inner, "cr_code"):
        found.append(inner.cr_code.co_qualname)
        inner = inner.cr_await
    return found


async def test_four_coroutines_lead_from_the_front_door_to_the_loop() -> None:
    seen: list[str] = []
    caller: list[str] = []

    def answer(_: InferenceRequest) -> StreamResult:
        seen.extend(functions_beneath(sys._getframe()))
        caller.extend(awaited_by(run))
        return text_response("Done.")

    async with Runtime([Agent("a", model=FunctionModel(answer))]) as runtime:
        run = runtime.run("a", "go")
        result = await run
    assert result.response == "Done."
    before_the_loop = seen[: seen.index("run_agent_loop")]
    assert caller == ["RunMethods.run", "Worker.run"]
    assert before_the_loop == [
        "Worker._drive",
        "Worker._attempt",
    ]


async def test_a_client_that_has_read_a_runs_last_event_can_start_the_next_one_at_once() -> None:
    responses: list[str | None] = []

    class Next(CollectingSink):
        """Starts a run of the same thread as soon as the first one says that it is over."""

        async def emit(self, event: RunEvent) -> None:
            await super().emit(event)
            if isinstance(event.event, RunFinish):
                group.create_task(next_run())

    async def next_run() -> None:
        responses.append((await runtime.run("a", "and now", thread="t")).response)

    async with (
        Runtime([Agent("a", model=FunctionModel(lambda _: text_response("Done.")))]) as runtime,
        asyncio.TaskGroup() as group,
    ):
        await runtime.run("a", "go", thread="t", sink=Next())
    assert responses == ["Done."]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_the_runtime_reaches_the_caller_and_not_the_event_loop(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Runtime(
        [Agent("a", model=FunctionModel(lambda _: text_response("Done.")))]
    ) as runtime:

        async def claim(*_: object, **__: object) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(runtime.store, "claim", claim)
            with pytest.raises(error):
                await runtime.run("a", "go", thread="t")
        assert (await runtime.run("a", "go", thread="t")).response == "Done."
