"""Where public names are: for errors about names that are looked for in the wrong place, under the
word of another library, or at an earlier path.

Loaded when such an error is made, never by a program that finds its names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

PUBLIC = (
    "awaken",
    "awaken.events",
    "awaken.models",
    "awaken.toolsets",
    "awaken.tool",
    "awaken.plugin",
    "awaken.ext.compaction",
    "awaken.ext.handoff",
    "awaken.ext.stop",
    "awaken.ext.tasks",
    "awaken.ext",
    "awaken.stores",
    "awaken.blobs",
    "awaken.bus",
    "awaken.errors",
    "awaken.runtime",
    "awaken.runtime.replay",
    "awaken.server",
    "awaken.backend",
    "awaken.clock",
    "awaken.ids",
    "awaken.testing",
    "awaken.testing.conformance",
    "awaken.testing.chaos",
)
"""The public modules, in the order in which a name is looked for."""

MOVED: Mapping[str, str] = {
    "awaken.llm": "awaken.models",
    "awaken.contract": "awaken.core",
    "awaken.control": "awaken.core.aio",
    "awaken.state": "awaken.core.state",
    **dict.fromkeys(("awaken.budget", "awaken.stream"), "awaken.core"),
    **dict.fromkeys(("awaken.loop", "awaken.phase", "awaken.registry"), "awaken.engine"),
    "awaken.live": "awaken.runtime.live",
    "awaken.protocol": "awaken.server.protocols",
}
"""Earlier paths of modules, and where their names are now."""

_LOOP = "awaken.Agent(…, tools=[…]): the loop of model and tools is built in"
_TEAM = "awaken.Agent(…, delegates=[…]), or handoffs=[…]"
_STEPS = "a function that awaits awaken.Runtime.run for one agent after the other"
_MESSAGE = "awaken.Message"
_MODEL = "awaken.Agent('helper', model='openai:gpt-5-mini')"
_CONVERSATION = "awaken.Runtime(…, store='sqlite:///…'), and run(…, thread='…')"
_IN_MEMORY = "awaken.Runtime(…, store='memory:')"
_APPROVAL = "@awaken.tool(needs_approval=True)"
_DECISION = "awaken.ToolCallResume.approve() or .deny(), given to awaken.Runtime.decide"
_GUARD = "awaken.Agent(…, output_check=…), or an awaken.Plugin with a gate or a hook"
_NO_MCP = "@awaken.tool functions: tools of MCP servers cannot be used yet"
_OUTPUT = "awaken.Agent(…, output=…), with the type of the answer"
_PICTURE = "awaken.models.Image(source=awaken.models.UrlSource(url='https://…'))"
_EVENTS = "the events of awaken.events, from agent.stream(…)"
_LIMIT = "awaken.errors.BudgetExhausted, or the `termination` of an awaken.RunResult"

FOREIGN: Mapping[str, str] = {
    # Pydantic AI
    "ModelRetry": "awaken.Retry",
    "UsageLimits": "awaken.Budget",
    "UsageLimitExceeded": _LIMIT,
    "RunUsage": "awaken.models.TokenUsage",
    "AgentRunResult": "awaken.RunResult",
    "StreamedRunResult": "awaken.runtime.RunStream",
    "FunctionToolset": "awaken.toolsets.Toolset",
    "AbstractToolset": "awaken.toolsets.Toolset",
    "TestModel": "awaken.testing.ScriptedModel, or model='demo'",
    "FallbackModel": "awaken.Agent(…, model=[first, second])",
    "DeferredToolRequests": f"{_APPROVAL}, and the tickets of the run's result",
    **dict.fromkeys(("DeferredToolResults", "ToolApproved", "ToolDenied"), _DECISION),
    "ApprovalRequired": _APPROVAL,
    "CallDeferred": "awaken.Suspend",
    "ToolReturn": "awaken.ToolOutput",
    **dict.fromkeys(("NativeOutput", "PromptedOutput", "TextOutput", "StructuredDict"), _OUTPUT),
    "BinaryContent": "awaken.models.Image.from_bytes(…), or awaken.Message.user(Path('cat.png'))",
    "ImageUrl": _PICTURE,
    "AudioUrl": "awaken.models.Audio",
    "VideoUrl": "awaken.models.Video",
    "DocumentUrl": "awaken.models.Document",
    **dict.fromkeys(
        ("ModelMessage", "ModelRequest", "ModelResponse", "ModelMessagesTypeAdapter"), _MESSAGE
    ),
    **dict.fromkeys(("TextPart", "UserPromptPart", "SystemPromptPart"), _MESSAGE),
    "UnexpectedModelBehavior": "awaken.errors.InferenceFailed",
    # OpenAI Agents SDK, Swarm
    "Runner": "awaken.Runtime, or agent.run_sync(…)",
    "RunConfig": "arguments of awaken.Runtime.run",
    "RunContextWrapper": "awaken.RunContext",
    "RunResultStreaming": "awaken.runtime.RunStream",
    "function_tool": "awaken.tool",
    "handoff": "awaken.Agent(…, handoffs=[…])",
    **dict.fromkeys(
        (
            "Session",
            "SessionABC",
            "SQLiteSession",
            "SQLAlchemySession",
            "OpenAIConversationsSession",
        ),
        _CONVERSATION,
    ),
    **dict.fromkeys(
        (
            *("InputGuardrail", "OutputGuardrail", "input_guardrail", "output_guardrail"),
            *("GuardrailFunctionOutput", "tool_input_guardrail", "tool_output_guardrail"),
        ),
        _GUARD,
    ),
    **dict.fromkeys(("AgentHooks", "RunHooks"), "awaken.Plugin, or @agent.on(awaken.Phase.…)"),
    "AgentOutputSchema": _OUTPUT,
    "ItemHelpers": _EVENTS,
    "MaxTurnsExceeded": "awaken.events.StoppedReason, in the `termination` of an awaken.RunResult",
    "WebSearchTool": "awaken.models.WebSearch",
    "FileSearchTool": "awaken.models.FileSearch",
    "CodeInterpreterTool": "awaken.models.CodeExecution",
    "Swarm": _TEAM,
    # LangGraph, LangChain
    **dict.fromkeys(("StateGraph", "MessageGraph", "MessagesState", "Graph"), _LOOP),
    **dict.fromkeys(("ToolNode", "tools_condition", "AgentExecutor"), _LOOP),
    **dict.fromkeys(("create_react_agent", "create_agent"), "awaken.Agent"),
    **dict.fromkeys(("create_supervisor", "create_swarm", "create_handoff_tool"), _TEAM),
    "add_messages": "nothing: awaken.Runtime keeps the messages of a thread",
    "interrupt": _APPROVAL,
    **dict.fromkeys(("MemorySaver", "InMemorySaver", "InMemoryStore"), _IN_MEMORY),
    **dict.fromkeys(
        ("SqliteSaver", "AsyncSqliteSaver"), "awaken.Runtime(…, store='sqlite:///awaken.db')"
    ),
    **dict.fromkeys(
        ("PostgresSaver", "AsyncPostgresSaver"), "awaken.Runtime(…, store='postgresql://…')"
    ),
    "BaseCheckpointSaver": "awaken.stores.Store",
    **dict.fromkeys(("BaseTool", "StructuredTool"), "awaken.tool, or awaken.TypedTool"),
    **dict.fromkeys(("RunnableConfig", "InjectedState", "ToolRuntime"), "awaken.RunContext"),
    **dict.fromkeys(("Runnable", "RunnableLambda"), "awaken.Agent"),
    **dict.fromkeys(
        ("BaseMessage", "AnyMessage", "HumanMessage", "AIMessage", "SystemMessage", "ToolMessage"),
        _MESSAGE,
    ),
    **dict.fromkeys(
        ("PromptTemplate", "ChatPromptTemplate"),
        "awaken.Agent(…, system_prompt=…), a text or a function",
    ),
    **dict.fromkeys(("init_chat_model", "ChatOpenAI", "ChatAnthropic", "LLM"), _MODEL),
    "get_stream_writer": "awaken.ToolCallContext.report_progress",
    # others
    **dict.fromkeys(("Crew", "GroupChat", "RoundRobinGroupChat", "AgentWorkflow"), _TEAM),
    **dict.fromkeys(("Flow", "SequentialAgent", "ParallelAgent", "LoopAgent"), _STEPS),
    **dict.fromkeys(
        ("LlmAgent", "AssistantAgent", "ReActAgent", "FunctionAgent", "ToolCallingAgent"),
        "awaken.Agent",
    ),
    "ConversableAgent": "awaken.Agent",
    "AgentTool": "awaken.Agent(…, delegates=[…])",
    "InMemoryRunner": _IN_MEMORY,
    "InMemorySessionService": _IN_MEMORY,
    **dict.fromkeys(("MCPServerStdio", "MCPServerStreamableHTTP", "MCPServerSse"), _NO_MCP),
    **dict.fromkeys(("MCPToolset", "McpToolset", "HostedMCPTool", "MultiServerMCPClient"), _NO_MCP),
}
"""Names that other libraries export, and what to import or write here."""


def find_public(module: str, name: str) -> str | None:
    """What to use in place of `name`, which `module` does not have, or `None`.

    Only public modules get an answer.
    """
    if module not in PUBLIC:
        return None
    if name in FOREIGN:
        return FOREIGN[name]
    if (moved := MOVED.get(f"{module}.{name}")) is not None:
        return moved
    homes = (home for home in PUBLIC if name in _exports(home))
    return next((f"{home}.{name}" for home in homes), None)


def _exports(module: str) -> Sequence[str]:
    try:
        return getattr(import_module(module), "__all__", ())
    except ImportError:
        return ()  # it needs an extra that is not installed
