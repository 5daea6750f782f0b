"""What a user can get wrong at the front door: each mistake is named, with the next move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from front_kit import Piece, pay

from awaken import (
    Agent,
    AgentSpec,
    Command,
    Message,
    Phase,
    PhaseContext,
    Runtime,
    StateKey,
    ToolDescriptor,
    tool,
)
from awaken.codec import Json
from awaken.core.budget import Budget
from awaken.core.inference import InferenceOverride, ReasoningBudget
from awaken.core.spec import ContentMatch, ToolExecutorKind
from awaken.errors import (
    AgentNotFound,
    BuildError,
    ConfigError,
    InferenceFailed,
    PhaseError,
    ToolIdConflict,
    ValidationFailed,
)
from awaken.ext.handoff import HandoffPlugin
from awaken.plugin.hook import ConfigSchema
from awaken.plugin.registrar import Registrar
from awaken.stores.memory import MemoryStore
from awaken.testing import EchoTool, ScriptedModel, tool_call_response

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


class Late:
    """A plugin whose `register` nobody awaits."""

    id = "late"

    async def register(self, registrar: Registrar) -> None:
        return


# -- before a runtime exists ------------------------------------------------------------------


def takes_a_generator(words: Iterator[str]) -> str:
    """Not JSON."""
    return "".join(words)


def takes_anything_by_position(*words: str) -> str:
    """No names."""
    return "".join(words)


def takes_a_bare_context(ctx) -> str:  # type: ignore[no-untyped-def]
    """No type."""
    return str(ctx)


MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a blank agent id": (lambda: agent_of("  "), ConfigError, "agent's id .*not blank, not '  '"),
    "a model that is none": (
        lambda: Agent("a", model=42),  # type: ignore[call-overload]  # the mistake
        ConfigError,
        r"agent 'a': model is a name .* or an object with execute_stream\(request\), not int",
    ),
    "a tool that is none": (
        lambda: agent_of(tools=["echo"]),
        ConfigError,
        r"agent 'a': 'echo' is not a tool; give a function or an object.*: tools=\[echo\]",
    ),
    "a tool's name instead of tools": (
        lambda: agent_of(tools="echo"),
        ConfigError,
        r"agent 'a': 'echo' is not a tool; .* not its name: tools=\[echo\]",
    ),
    "a name among the runtime's tools": (
        lambda: Runtime([agent_of()], tools="web-search"),  # type: ignore[arg-type]
        ConfigError,
        r"the runtime: 'web-search' is not a tool; .*, not its name$",
    ),
    "a context without its type": (
        lambda: agent_of(tools=[takes_a_bare_context]),
        ConfigError,
        "parameter 'ctx': has no type: write `ctx: ToolCallContext` to get the call's context, or "
        "a type, as in `ctx: str`, to have the model give it",
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
    "a delegate the runtime was not given": (
        lambda: Runtime([agent_of(delegates=["b"])]),
        ValidationFailed,
        r"delegate 'b', which is not registered; known: 'a': add it to Runtime\(\[…\]\)",
    ),
    "an agent to hand over to that the runtime was not given": (
        lambda: Runtime([agent_of(handoffs=["b"])]),
        ConfigError,
        r"hand over to 'b', which this runtime does not have; it has: a: add it to "
        r"Runtime\(\[…\]\)",
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
    "a file instead of a store's address": (
        lambda: Runtime([agent_of()], store="data/my.db"),
        ConfigError,
        "store 'data/my.db' is no address: write 'sqlite:///data/my.db'",
    ),
    "a path instead of a store's address": (
        lambda: Runtime([agent_of()], store=Path("/var/my.db")),  # type: ignore[arg-type]
        ConfigError,
        r"store PosixPath\('/var/my.db'\) is no address: write 'sqlite:////var/my.db'",
    ),
    "a store that is none": (
        lambda: Runtime([agent_of()], store=5),  # type: ignore[arg-type]
        ConfigError,
        "store is an address such as 'sqlite:///awaken.db', or a store, not 5",
    ),
    "no store": (
        lambda: Runtime([agent_of()], store=None),  # type: ignore[arg-type]
        ConfigError,
        "store is an address such as 'sqlite:///awaken.db', or a store, not None",
    ),
    "a store's class": (
        lambda: Runtime([agent_of()], store=MemoryStore),  # type: ignore[arg-type]
        ConfigError,
        "store: MemoryStore is a class; give an instance of it, or an address",
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
        lambda: agent_of(tools=[echo, EchoTool()]),
        ConfigError,
        r"agent 'a' has two tools named 'echo': leave one out, or rename one, as in "
        r"tool\(function, name='…'\)",
    ),
    "one tool twice": (
        lambda: agent_of(tools=[echo], background=[echo]),
        ConfigError,
        "agent 'a' has two tools named 'echo'",
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
        "agent 'a': system_prompt is a text or a function of the run's context, not None",
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
    "a plugin that registers later": (
        lambda: agent_of(plugins=[Late()]),
        ConfigError,
        "agent 'a': register of plugin 'late' is async; write `def register",
    ),
    "an effort nobody knows": (
        lambda: agent_of(reasoning_effort="super"),
        ConfigError,
        "agent 'a': reasoning_effort is 'none', 'low', 'medium', 'high', 'max' or a "
        "ReasoningBudget, not 'super'",
    ),
    "an effort nobody knows, in a specification": (
        lambda: Runtime([spec_of(reasoning_effort=3)], models={"m": ScriptedModel([])}),
        ConfigError,
        "agent 's': reasoning_effort is 'none', .* not 3",
    ),
    "a budget that says something else at its limit": (
        lambda: agent_of(budget=Budget(at_limit="panic")),  # type: ignore[arg-type]
        ConfigError,
        "agent 'a': a budget's at_limit is 'stop' or 'ask', not 'panic'",
    ),
    "a budget below nothing": (
        lambda: agent_of(budget=Budget(tokens=-1)),
        ConfigError,
        "agent 'a': a budget's tokens is above 0, or left out for no limit, not -1",
    ),
    "what others call a system prompt": (
        lambda: agent_of(instructions="Be brief."),
        TypeError,
        "unexpected keyword argument 'instructions': write system_prompt=…",
    ),
    "what belongs to a run": (
        lambda: agent_of(temperature=0.5),
        TypeError,
        r"argument 'temperature': write settings=ModelSettings\(temperature=…\)",
    ),
    "an argument with a typing error": (
        lambda: agent_of(sytem_promt="Be brief."),
        TypeError,
        "unexpected keyword argument 'sytem_promt': write system_prompt=…",
    ),
    "an argument nobody knows": (
        lambda: agent_of(unknown=1),
        TypeError,
        "unexpected keyword argument 'unknown'$",
    ),
    "a plugin without an id": (
        lambda: agent_of(plugins=[object()]),
        ConfigError,
        "agent 'a': plugin <object.*> has no id",
    ),
    "a first value that cannot be made": (
        lambda: StateKey("k", initial=0),  # type: ignore[arg-type]
        ConfigError,
        "state key 'k': initial is 0, which cannot be called: pass a function",
    ),
    "an id that is no text": (lambda: Agent(5, model="demo"), ConfigError, "not 5"),  # type: ignore[call-overload]
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
        ConfigError,
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
        "cannot be a thread id",
    ),
    "an empty thread": (
        {"agent": "a", "input": "hi", "thread": ""},
        ConfigError,
        "cannot be a thread id",
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
        ConfigError,
        r"input is text or messages, not int: 1: write text, Message.user\(…\), or a list of both",
    ),
    "a number as input": (
        {"agent": "a", "input": 5},
        ConfigError,
        r"input is text or messages, not int: 5: write text, Message.user\(…\), or a list of both",
    ),
    "bytes as input": ({"agent": "a", "input": b"hi"}, ConfigError, "not bytes: b'hi': write text"),
    "messages as other libraries write them": (
        {"agent": "a", "input": [{"role": "user", "content": "hi"}]},
        ConfigError,
        r"input is text or messages, not a mapping: write Message.user\(…\)",
    ),
    "an agent that was forgotten": (
        {"agent": "Say hi!"},
        ConfigError,
        r"'Say hi!' was taken for the agent, and there is no input: write run\('a', 'Say hi!'\); "
        "agents are 'a', 'b'",
    ),
    "an agent that is none": (
        {"agent": 7, "input": "hi"},
        ConfigError,
        "agent is an agent's id, or an Agent, not 7",
    ),
    "settings that are none": (
        {"agent": "a", "input": "hi", "settings": {"temperature": 1}},
        ConfigError,
        r"a run: settings are ModelSettings, such as "
        r"ModelSettings\(temperature=0.2\), not \{",
    ),
    "a temperature in words": (
        {"agent": "a", "input": "hi", "settings": InferenceOverride(temperature="hot")},  # type: ignore[arg-type]
        ConfigError,
        "a run: temperature is a number of 0 or more, not 'hot'",
    ),
    "a temperature below nothing": (
        {"agent": "a", "input": "hi", "settings": InferenceOverride(temperature=-1)},
        ConfigError,
        "temperature is a number of 0 or more, not -1",
    ),
    "a share above one": (
        {"agent": "a", "input": "hi", "settings": InferenceOverride(top_p=1.5)},
        ConfigError,
        "top_p is a number from 0 to 1, not 1.5",
    ),
    "half a token": (
        {"agent": "a", "input": "hi", "settings": InferenceOverride(max_tokens=0.5)},  # type: ignore[arg-type]
        ConfigError,
        "max_tokens is a whole number of 1 or more, not 0.5",
    ),
    "a model that is no name": (
        {"agent": "a", "input": "hi", "settings": InferenceOverride(upstream_model=5)},  # type: ignore[arg-type]
        ConfigError,
        "upstream_model is the name of a model, not 5",
    ),
    "an effort of a run nobody knows": (
        {"agent": "a", "input": "hi", "settings": InferenceOverride(reasoning_effort="super")},  # type: ignore[arg-type]
        ConfigError,
        "reasoning_effort is 'none', 'low', .* not 'super'",
    ),
    "an effort below nothing": (
        {
            "agent": "a",
            "input": "hi",
            "settings": InferenceOverride(reasoning_effort=ReasoningBudget(budget=-1)),
        },
        ConfigError,
        "budget of reasoning_effort is a whole number of 0 or more, not -1",
    ),
    "a budget of a run below nothing": (
        {"agent": "a", "input": "hi", "budget": Budget(money=-1)},
        ConfigError,
        "a run: a budget's money is above 0",
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


def decide(ctx: Any) -> Any:
    """What somebody wrote who forgot the `async`."""


class Decider:
    """The same as an object."""

    def __call__(self, ctx: Any) -> Any:
        return None


FORGOTTEN: dict[str, tuple[Callable[[Registrar], None], str]] = {
    "hook": (lambda r: r.hook(Phase.RUN_START, decide), "decide.* in phase 'run_start'"),
    "gate": (lambda r: r.gate(decide), "decide.* in phase 'tool_gate'"),
    "policy": (lambda r: r.policy(decide), "decide.* in phase 'tool_gate'"),
    "object": (lambda r: r.gate(Decider()), "__call__.* in phase 'tool_gate'"),
}


@pytest.mark.parametrize("what", FORGOTTEN)
async def test_a_function_of_a_plugin_that_is_not_async_is_named(what: str) -> None:
    """Bad input: what to write is told instead of what cannot be awaited."""
    part, text = FORGOTTEN[what]
    model = ScriptedModel([tool_call_response("", "echo", "c1", {"text": "x"}), "done"])
    runtime = Runtime([Agent("a", model=model, tools=[echo], plugins=[Piece("mine", part)])])

    with pytest.raises(PhaseError, match=f"'mine' raised .* is not async: write `async def {text}"):
        await runtime.run("a", "hi")


def test_a_transform_that_is_async_is_refused() -> None:
    """Bad input: the other way round; nobody would await it."""

    async def shorten(messages: Sequence[Message], tools: object) -> Sequence[Message]:
        return messages

    plugin = Piece("mine", lambda r: r.transform(shorten))  # type: ignore[arg-type]
    text = "plugin 'mine': transform shorten is async; write `def shorten`"
    with pytest.raises(ValidationFailed, match=text):
        Runtime([agent_of(plugins=[plugin])])


async def test_a_key_no_agent_has_is_named_with_both_places_for_it() -> None:
    """Bad input: a key given to the agent is enough, no plugin need be written for it."""

    async def count(ctx: PhaseContext) -> Command:
        return Command().update(ONE, 1)

    plugin = Piece("mine", lambda r: r.hook(Phase.RUN_START, count))
    with pytest.raises(
        PhaseError, match=r"'shared.name' is not registered: .*Agent\(state=\[…\]\)"
    ):
        await Runtime([agent_of(plugins=[plugin])]).run("a", "hi")
    await Runtime([agent_of(plugins=[plugin], state=[ONE])]).run("a", "hi")


async def test_a_script_that_is_too_short_says_how_long_it_was() -> None:
    runtime = Runtime([Agent("a", model=ScriptedModel(["one", "two"]))])
    await runtime.run("a", "hi")
    await runtime.run("a", "hi")

    text = "scripted LLM exhausted: it had 2 responses, and another was asked for"
    with pytest.raises(InferenceFailed, match=text):
        await runtime.run("a", "hi")
