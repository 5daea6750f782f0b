"""A secret that reaches the runtime by mistake is not shown, and not kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, RedactedString, Runtime, StateKey, ToolCallResume, tool
from awaken.codec import dumps
from awaken.core.message import Role
from awaken.core.profile import ProfileOwner
from awaken.core.state.command import Command
from awaken.core.tool import ToolDescriptor, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput
from awaken.errors import AwakenError, Serialization
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

KEY = "sk-SECRETSECRETSECRET"


@dataclass
class Account:
    user: str
    key: RedactedString


class Plain:
    """A tool that makes its own result."""

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="account", name="account", description="")

    def validate_args(self, args: Any) -> None:
        return None

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success("account", {"key": RedactedString(KEY)}))


def written(folder: Path) -> bytes:
    """All that is in the files of a folder."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def tools(kind: str) -> Any:
    returned: dict[str, Any] = {
        "dict": {"user": "ann", "key": RedactedString(KEY)},
        "bare": RedactedString(KEY),
        "dataclass": Account("ann", RedactedString(KEY)),
        "key": {RedactedString(KEY): 1},
        "tuple": [(RedactedString(KEY), {1: RedactedString(KEY)})],
    }
    if kind == "own result":
        return Plain()

    @tool(effect="read")
    async def account() -> Any:
        """The account."""
        if kind == "error":
            raise ValueError(RedactedString(KEY), f"{RedactedString(KEY)}")
        return returned[kind]

    return account


@pytest.mark.parametrize(
    "kind", ["dict", "bare", "dataclass", "key", "tuple", "own result", "error"]
)
async def test_a_secret_in_a_tools_result_is_written_as_stars(kind: str, tmp_path: Path) -> None:
    shown: list[str] = []

    def answer(request: Any) -> Any:
        if request.messages[-1].role is Role.TOOL:
            shown.append(request.messages[-1].text())
            return text_response("done")
        return tool_call_response("", "account", "c1", {})

    agent = Agent("a", model=FunctionModel(answer), tools=[tools(kind)])
    told: list[bytes] = []
    async with (
        Runtime([agent], store=f"sqlite:///{tmp_path / 'awaken.db'}") as runtime,
        runtime.stream("a", "go", thread="t") as events,
    ):
        async for event in events:
            told.append(dumps(event.event))
    assert "***" in shown[0]
    for place in (shown[0].encode(), b"".join(told), written(tmp_path)):
        assert KEY.encode() not in place


async def test_a_secret_in_edited_arguments_is_written_as_stars(tmp_path: Path) -> None:
    got: list[str] = []

    @tool(needs_approval=True)
    async def login(key: str) -> str:
        """Log in."""
        got.append(key)
        return "in"

    def answer(request: Any) -> Any:
        if request.messages[-1].role is Role.TOOL:
            return text_response("done")
        return tool_call_response("", "login", "c1", {"key": "?"})

    agent = Agent("a", model=FunctionModel(answer), tools=[login])
    async with Runtime([agent], store=f"sqlite:///{tmp_path / 'awaken.db'}") as runtime:
        (ticket,) = (await runtime.run("a", "go", thread="t")).tickets
        edit = ToolCallResume.edit({"key": RedactedString(KEY)})
        await runtime.run(thread="t", answers={ticket: edit})
    assert got == ["***"]
    assert KEY.encode() not in written(tmp_path)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_durable_state_refuses_a_secret(store: str, tmp_path: Path) -> None:
    """Stars could not be read back, and the secret itself must not be kept."""
    session = StateKey[Any, Any]("session", initial=dict)

    @tool(effect="read")
    async def login(ctx: ToolCallContext) -> Any:
        """Log in."""
        return ToolOutput(
            ToolResult.success("login", "in"),
            Command().update(session, {"key": [RedactedString(KEY)]}),
        )

    def answer(request: Any) -> Any:
        if request.messages[-1].role is Role.TOOL:
            return text_response(request.messages[-1].text())
        return tool_call_response("", "login", "c1", {})

    agent = Agent("a", model=FunctionModel(answer), tools=[login], state=[session])
    address = "memory:" if store == "memory" else f"sqlite:///{tmp_path / 'awaken.db'}"
    async with Runtime([agent], store=address) as runtime:
        result = await runtime.run("a", "go", thread="t")
    assert "state update refused" in result.response
    assert "a RedactedString cannot be stored in durable state" in result.response
    assert KEY.encode() not in written(tmp_path)


async def test_a_profile_refuses_a_secret(tmp_path: Path) -> None:
    async with Runtime([], store=f"sqlite:///{tmp_path / 'awaken.db'}") as runtime:
        with pytest.raises(Serialization, match="look the secret up"):
            await runtime.store.profiles.set(ProfileOwner(), "k", {"key": RedactedString(KEY)})
    with pytest.raises(TypeError, match="look the secret up"):
        await MemoryStore().profiles.set(ProfileOwner(), "k", RedactedString(KEY))


@pytest.mark.parametrize("where", ["result", "state"])
async def test_an_error_without_a_text_is_told_by_its_name(where: str) -> None:
    class Huge:
        def to_wire(self) -> Any:
            raise MemoryError

    def exhausted(_: Any) -> Any:
        raise MemoryError

    session = StateKey[Any, Any]("session", initial=dict, encode=exhausted)
    shown: list[str] = []

    @tool(effect="read")
    async def load() -> Any:
        """Load."""
        if where == "result":
            return Huge()
        return ToolOutput(ToolResult.success("load", "in"), Command().update(session, {"a": 1}))

    def answer(request: Any) -> Any:
        if request.messages[-1].role is Role.TOOL:
            shown.append(request.messages[-1].text())
            return text_response("done")
        return tool_call_response("", "load", "c1", {})

    async with Runtime(
        [Agent("a", model=FunctionModel(answer), tools=[load], state=[session])]
    ) as runtime:
        try:
            await runtime.run("a", "go", thread="t")
        except AwakenError as error:
            shown.append(str(error))
    assert "out of memory" in shown[0]
