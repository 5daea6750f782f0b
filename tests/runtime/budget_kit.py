"""What tests of budgets share: models that say what they took, and agents that go on for ever."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from awaken import Agent, Message, RunResult, Runtime, tool
from awaken.core.budget import Amount, Spending
from awaken.core.inference import StreamResult, TokenUsage
from awaken.core.lifecycle import Stopped
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.state.run_keys import SPENDING
from awaken.testing import FunctionModel, text_response, tool_call_response

T = "t"


def took(prompt: int | None, output: int | None = 0) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, completion_tokens=output)


def says(text: str, usage: TokenUsage | None = None) -> StreamResult:
    """An answer, and what it took; nothing at all is said of that without a usage."""
    return msgspec.structs.replace(text_response(text), usage=usage)


def calls(name: str, args: Any, usage: TokenUsage | None = None, id: str = "c") -> StreamResult:
    """An answer of one call, and what it took."""
    return msgspec.structs.replace(tool_call_response("", name, id, args), usage=usage)


Scripted = StreamResult | Exception | Callable[[InferenceRequest], StreamResult]


class Meter(FunctionModel):
    """Follows a script, then answers with `ever`; keeps what it was asked, and refuses what no
    provider would take."""

    def __init__(self, *script: Scripted, ever: Scripted | None = None) -> None:
        super().__init__(self._next, name="meter")
        self.asked: list[InferenceRequest] = []
        self._script, self._ever = deque(script), ever

    async def _next(self, request: InferenceRequest) -> StreamResult:
        await asyncio.sleep(0)  # as any model, it lets others go on meanwhile
        assert_valid(request.messages)
        self.asked.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        answer = self._script.popleft() if self._script else self._ever
        assert answer is not None, "the script is over"
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    @property
    def allowed(self) -> list[int | None]:
        """How long each answer might have been."""
        return [r.overrides.max_tokens if r.overrides else None for r in self.asked]


def assert_valid(messages: Sequence[Message]) -> None:
    """Each call is answered right behind it, and nothing else is."""
    open_calls: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in open_calls, f"an answer to no call: {message}"
            open_calls.remove(message.tool_call_id)
            continue
        assert not open_calls, f"calls without a result: {open_calls}"
        open_calls = [call.id for call in message.tool_calls or ()]
    assert not open_calls, f"calls without a result: {open_calls}"


@tool(effect="read")
async def look() -> str:
    """Look around."""
    return "nothing new"


def walker(*script: Scripted, usage: TokenUsage | None = None, **options: Any) -> Agent:
    """An agent that looks around again and again, each time for `usage`."""
    model = Meter(*script, ever=calls("look", {}, usage or took(100, 20)))
    return Agent("walker", model=model, max_rounds=0, **({"tools": [look]} | options))


def meter_of(agent: Agent) -> Meter:
    assert isinstance(agent.model, Meter)
    return agent.model


def stopped_by_budget(result: RunResult) -> str:
    """Why a run was stopped, which must have been for its budget."""
    assert isinstance(result.termination, Stopped), result.termination
    assert result.termination.value.code == "budget"
    return result.termination.value.detail or ""


async def on_record(runtime: Runtime, run_id: str) -> Amount:
    """What a run's record says that it has spent."""
    record = await runtime.find_run(run_id)
    assert record is not None
    assert record.state is not None
    kept = record.state.extensions.get(SPENDING.name)
    return SPENDING.load(kept).spent if kept is not None else Spending().spent
