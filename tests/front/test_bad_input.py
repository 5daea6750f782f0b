"""What a user can get wrong at the front door: each mistake is named, with the next move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from front_kit import Piece, pay

from awaken import (
    Agent,
    AgentSpec,
    Message,
    Runtime,
    StateKey,
    ToolDescriptor,
    tool,
)
from awaken.codec import Json
from awaken.domain.spec import ContentMatch, ToolExecutorKind
from awaken.errors import (
    AgentNotFound,
    BuildError,
    ConfigError,
    ToolIdConflict,
    ValidationFailed,
)
from awaken.ext.handoff import HandoffPlugin
from awaken.plugin.hook import ConfigSchema
from awaken.plugin.registrar import Registrar
from awaken.testing import EchoTool, ScriptedModel

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def agent_of(id: str = "a", **options: Any) -> Agent:
    return Agent(id, model=ScriptedModel(["hello"] * 5), **options)


def spec_of(**changes: Any) -> AgentSpec:
    fields: dict[str, Any] = {"id": "s", "model_id": "m", "system_prompt": ""}
    return AgentSpec(**(fields | changes))


class Strict:
    """A plugin whose section must hold a number."""

    id = "strict"

    def register(self, registrar: Registrar) -> None:
        return

    def config_schemas(self) -> Sequence[ConfigSchema]:
        schema: Json = {"type": "object", "properties": {"limit": {"type": "integer"}}}
        return [ConfigSchema(key="strict", json_schema=schema)]


# -- before a runtime exists ------------------------------------------------------------------


def takes_a_generator(words: Iterator[str]) -> str:
    """Not JSON."""
    return "".join(words)


def takes_anything_by_position(*words: str) -> str:
    """No names."""
    return "".join(words)


MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a blank agent id": (lambda: agent_of("  "), ConfigError, "agent's id .*not blank, not '  '"),
    "a model that is none": (
        lambda: Agent("a", model=42),  # type: ignore[arg-type]  # the mistake
        ConfigError,
        r"agent 'a': model is a name .* or an object with execute_stream\(request\), not int",
    ),
    "a tool that is none": (
        lambda: agent_of(tools=["echo"]),
        ConfigError,
        r"agent 'a': 'echo' is not a tool; give a function or an object",
    ),
    "two ways to run calls": (
        lambda: agent_of(sequential=True, tool_executor=ToolExecutorKind.PARALLEL_BATCH_APPROVAL),
        ConfigError,
        "agent 'a': give either sequential or tool_executor",
    ),
    "an annotation that is no JSON": (
        lambda: tool(takes_a_generator),
        ConfigError,
        "tool 'takes_a_generator', parameter 'words'",
    ),
    "parameters without names": (
        lambda: agent_of(tools=[takes_anything_by_position]),
        ConfigError,
        "tool 'takes_anything_by_position', parameter 'words'",
    ),
    "an unknown provider": (
        lambda: Runtime([Agent("a", model="papyrus:scroll-2")]),
        ConfigError,
        r"model 'papyrus:scroll-2': provider 'papyrus' is unknown; known: .*demo.*can be given",
    ),
    "an unknown model name": (
        lambda: Runtime([Agent("a", model="scroll")]),
        ConfigError,
        r"model 'scroll'.* is unknown; known: .*demo",
    ),
    "a model the spec names and nobody gave": (
        lambda: Runtime([spec_of(model_id="ghost")], models={"m": ScriptedModel([])}),
        ValidationFailed,
        r"agent 's' asks for model 'ghost', which is not registered; known: 'm'",
    ),
    "an unknown plugin": (
        lambda: Runtime(
            [spec_of(plugin_ids=("ghost",))], models={"m": ScriptedModel([])}, plugins=[Strict()]
        ),
        ValidationFailed,
        r"agent 's' asks for plugin 'ghost', which is not registered; known: 'strict'",
    ),
    "an unknown delegate": (
        lambda: Runtime([agent_of(delegates=["ghost"])]),
        ValidationFailed,
        r"agent 'a' asks for delegate 'ghost', which is not registered; known: 'a'",
    ),
    "an unknown store": (
        lambda: Runtime([agent_of()], store="papyrus:///scroll.db"),
        ConfigError,
        r"store 'papyrus:///scroll.db': scheme 'papyrus' is unknown; known: .*memory:",
    ),
    "an empty store address": (
        lambda: Runtime([agent_of()], store=""),
        ConfigError,
        "store '': scheme '' is unknown; known: .*memory:",
    ),
    "two agents of one id": (
        lambda: Runtime([agent_of(), agent_of()]),
        BuildError,
        "agent 'a' is registered twice: ids are unique, rename one",
    ),
    "a blank id of a spec": (
        lambda: Runtime([spec_of(id=" ")], models={"m": ScriptedModel([])}),
        BuildError,
        "agent id ' ' is blank",
    ),
    "two tools of one id in one agent": (
        lambda: Runtime([agent_of(tools=[echo, EchoTool()])]),
        ValidationFailed,
        "agent 'a'.*tool 'echo' is already registered: rename one",
    ),
    "a tool the runtime has, too": (
        lambda: Runtime([agent_of(tools=[echo])], tools=[EchoTool()]),
        ValidationFailed,
        "tool 'echo' comes from the runtime's tools and those of agent 'a': rename one",
    ),
    "two runtime tools of one id": (
        lambda: Runtime([agent_of()], tools=[echo, EchoTool()]),
        BuildError,
        "tool 'echo' is registered twice",
    ),
    "a section that breaks its schema": (
        lambda: Runtime([agent_of(plugins=[Strict()], sections={"strict": {"limit": "many"}})]),
        ValidationFailed,
        "section 'strict' of plugin 'strict' is invalid: .*limit",
    ),
    "a broken retry section": (
        lambda: Runtime([agent_of(sections={"retry": {"max_retries": "often"}})]),
        ValidationFailed,
        "section 'retry' of plugin 'retry' is invalid: .*max_retries",
    ),
    "a retry section with a typing error": (
        lambda: Runtime([agent_of(sections={"retry": {"max_retrys": 1}})]),
        ValidationFailed,
        "section 'retry' of plugin 'retry' is invalid: .*max_retrys",
    ),
    "a tool's class": (
        lambda: agent_of(tools=[EchoTool]),
        ConfigError,
        "agent 'a': EchoTool is a class, not a tool; give an instance",
    ),
    "a tool that is not in a list": (
        lambda: agent_of(tools=EchoTool()),
        ConfigError,
        "agent 'a': tools is a list, not ",
    ),
    "one name instead of a list": (
        lambda: agent_of(handoffs="bob"),
        ConfigError,
        r"agent 'a': handoffs is a list, not 'bob': write \['bob'\]",
    ),
    "an executor nobody knows": (
        lambda: agent_of(tool_executor="banana"),
        ConfigError,
        "agent 'a': Invalid enum value 'banana'",
    ),
    "a limit below nothing": (
        lambda: agent_of(max_rounds=-3),
        ConfigError,
        "agent 'a': max_rounds is 0 or more",
    ),
    "a prompt that is no text": (
        lambda: agent_of(system_prompt=None),
        ConfigError,
        "agent 'a': Expected `str`, got `null` - at `\\$.system_prompt`",
    ),
    "a stop condition in words": (
        lambda: agent_of(stop=["soon"]),
        ConfigError,
        "agent 'a': .*stop_conditions",
    ),
    "a pattern that is none": (
        lambda: agent_of(stop=[ContentMatch(pattern="(")]),
        ConfigError,
        "agent 'a': '\\(' is no regular expression",
    ),
    "a plugin's class": (
        lambda: agent_of(plugins=[HandoffPlugin]),
        ConfigError,
        "agent 'a': HandoffPlugin is a class, not a plugin; give an instance",
    ),
    "a plugin without an id": (
        lambda: agent_of(plugins=[object()]),
        ConfigError,
        "agent 'a': plugin <object.*> has no id",
    ),
    "a first value that cannot be made": (
        lambda: StateKey("k", initial=0),  # type: ignore[arg-type]
        ConfigError,
        "state key 'k': initial makes the first value.*0 cannot be called",
    ),
    "an id that is no text": (lambda: Agent(5, model="demo"), ConfigError, "not 5"),  # type: ignore[arg-type]
    "an agent instead of agents": (
        lambda: Runtime(agent_of()),  # type: ignore[arg-type]
        ConfigError,
        "the runtime's agents is a list, not Agent",
    ),
    "two ways to answer": (
        lambda: Runtime([agent_of()]).stream("a", "x", wait=True, on_approval=lambda _: True),
        ConfigError,
        "give either wait, and call decide, or on_approval",
    ),
    "a mapping as input": (
        lambda: Runtime([agent_of()]).stream("a", {"role": "user"}),
        TypeError,
        "not a mapping: write Message.user",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_the_making_is_named(what: str) -> None:
    """Bad input: nothing half-made is left behind, for nothing was returned."""
    make, error, text = MISTAKES[what]

    with pytest.raises(error, match=text):
        make()


# -- asking -----------------------------------------------------------------------------------

CLICK = ToolDescriptor(id="echo", name="echo", description="The client's own echo.")

REQUESTS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an unknown agent": (
        {"agent": "ghost", "input": "hi"},
        AgentNotFound,
        "agent not found: 'ghost'; registered: 'a', 'b'",
    ),
    "nothing to do": ({"agent": "a"}, ConfigError, "nothing to do: give input, or answers"),
    "no messages at all": (
        {"agent": "a", "input": []},
        ConfigError,
        "nothing to do: give input, or answers",
    ),
    "answers without a thread": (
        {"agent": "a", "answers": {"c1": True}, "thread": None},
        ConfigError,
        "answers belong to a thread: give the thread of the suspended run",
    ),
    "an answer that is none": (
        {"agent": "a", "answers": {"c1": "yes"}},
        ConfigError,
        "the answer to 'c1' is True, False or a ToolCallResume, not 'yes'",
    ),
    "a blank thread": (
        {"agent": "a", "input": "hi", "thread": "  "},
        ConfigError,
        "thread_id must not be blank",
    ),
    "an empty thread": (
        {"agent": "a", "input": "hi", "thread": ""},
        ConfigError,
        "thread_id must not be blank",
    ),
    "a blank agent": (
        {"agent": " ", "input": "hi"},
        ConfigError,
        "agent_id must not be blank",
    ),
    "a client's tool the agent has, too": (
        {"agent": "a", "input": "hi", "frontend_tools": [CLICK]},
        ToolIdConflict,
        "tool 'echo' comes from agent 'a' and the request: rename one",
    ),
    "input that is no message": (
        {"agent": "a", "input": [1]},
        TypeError,
        "input is text or messages, not int: 1",
    ),
}


@pytest.mark.parametrize("what", REQUESTS)
async def test_a_mistake_in_a_request_is_named_and_changes_nothing(what: str) -> None:
    """Bad input: no message, no run, and the thread is free."""
    fields, error, text = REQUESTS[what]
    runtime = Runtime([agent_of(tools=[echo]), agent_of("b")])
    await runtime.run("a", "before", thread="t")
    before = await runtime.messages("t"), await runtime.list_runs()

    with pytest.raises(error, match=text):
        await runtime.run(**({"thread": "t"} | fields))

    assert (await runtime.messages("t"), await runtime.list_runs()) == before
    assert (await runtime.run("a", "after", thread="t")).response == "hello"


async def test_running_in_step_with_a_loop_is_refused() -> None:
    """Bad input: and no coroutine is left unawaited."""
    runtime = Runtime([agent_of()])

    with pytest.raises(ConfigError, match=r"inside an event loop: await runtime.run"):
        runtime.run_sync("a", "hi", thread="t")
    assert list(await runtime.messages("t")) == []


async def test_a_bad_replacement_replaces_nothing() -> None:
    """01/R-8, bad input: the error names the agent, and the old ones go on."""
    runtime = Runtime([agent_of()])

    with pytest.raises(ValidationFailed, match=r"'b'.*'ghost'"):
        runtime.replace([agent_of("b", delegates=["ghost"])])

    assert (await runtime.run("a", "hi")).response == "hello"
    with pytest.raises(AgentNotFound):
        await runtime.run("b", "hi")
    assert runtime.replace([agent_of("c")]) == 2


ONE: StateKey[int, int] = StateKey("shared.name", initial=int)
OTHER: StateKey[str, str] = StateKey("shared.name", initial=str)


def test_a_key_two_plugins_understand_differently_is_refused() -> None:
    """D-27, bad input: the key is named; an agent's own keys count, too."""
    plugin = Piece("p", lambda r: r.key(ONE))

    with pytest.raises(ValidationFailed, match=r"'a'.*'shared.name' is already registered"):
        Runtime([agent_of(plugins=[plugin], state=[OTHER])])
    Runtime([agent_of(plugins=[plugin], state=[ONE])])


async def test_a_message_is_input_as_it_is() -> None:
    """The other side of it: text, a message, or a list of both are all fine."""
    runtime = Runtime([agent_of(tools=[pay])])

    for given in ("text", Message.user("text"), ["text"], [Message.user("text")]):
        await runtime.run("a", given, thread="t")

    assert [m.text() for m in await runtime.messages("t")][::2] == ["text"] * 4
