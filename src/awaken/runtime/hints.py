"""Suggestions for misspelt names in error messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

_MAKERS = {
    "gpt-": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "google",
    "grok": "xai",
    "deepseek-": "deepseek",
    "mistral-": "mistral",
    "magistral": "mistral",
    "kimi": "moonshot",
    "glm-": "zai",
}
"""Prefixes of model names, and the provider each belongs to."""
SETTINGS = (
    *("temperature", "top_p", "max_tokens", "seed", "stop_sequences", "tool_choice"),
    *("parallel_tool_calls", "timeout"),
)
_ARGUMENTS = {
    "instruction": "system_prompt",
    "instructions": "system_prompt",
    "prompt": "system_prompt",
    "system": "system_prompt",
    "system_message": "system_prompt",
    "functions": "tools",
    "toolsets": "tools",
    "deps_type": "deps",
    "context_type": "deps",
    "dependencies": "deps",
    "model_settings": "settings",
    "usage_limits": "budget",
    "output_validator": "output_check",
    "output_guardrails": "output_check",
    "retries": "max_output_retries",
    "output_retries": "max_output_retries",
    "capabilities": "plugins",
    "middleware": "plugins",
    "sub_agents": "delegates",
    "subagents": "delegates",
    "hooks": "plugins",
    "max_iterations": "max_rounds",
    "max_steps": "max_rounds",
    "max_turns": "max_rounds",
    "output_schema": "output",
    "output_type": "output",
    "response_format": "output",
    "response_model": "output",
    "result_type": "output",
}
"""Arguments as other libraries call them, and their names here."""
_NO_SERVERS = "@tool functions: tools of MCP servers cannot be used yet"
_OTHER_WAYS = {
    "mcp_servers": _NO_SERVERS,
    "guardrails": "plugins=[…] with a gate or a hook, or output_check=…",
    "input_guardrails": "@agent.on(Phase.RUN_START), a hook that may end the run",
    "memory": "profile=[…] for what is kept of a user, and run(…, thread='…') for a conversation",
    "skills": "tools=[…], or delegates=[…] for another agent",
    "history_processors": "context_policy=ContextWindowPolicy.of(…), or a plugin with a transform",
    "name": "Agent('helper', …): the first argument is its id",
    "instrument": "nothing: events and requests are kept; `awaken show` and `watch` show them",
    **dict.fromkeys(("store", "checkpointer"), "Runtime([agent], store='sqlite:///awaken.db')"),
}
"""Arguments that an agent has no match for, and what to write instead."""


def near(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word closest to `word`, or `None` if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415  # only an error needs it

    plain = "".join(word.lower().split())
    return next(iter(get_close_matches(plain, known, 1, 0.75)), None)


def suggest_model(name: str, complete: Collection[str], providers: Collection[str]) -> str | None:
    """Returns the model name the caller probably meant, or `None`.

    Args:
        complete: names that are a model by themselves; the others need a provider before them.
    """
    provider, mark, model = name.partition(":" if ":" in name else "/")
    if model.strip():
        meant = near(provider, providers)
        return f"{meant}:{model.strip()}" if meant is not None else None
    if mark:
        return None
    for beginning, maker in _MAKERS.items():
        if name.lower().startswith(beginning):
            return f"{maker}:{name}"
    meant = near(name, [*complete, *providers])
    return f"{meant}:…" if meant in providers else meant


def unknown_argument(name: str, known: Iterable[str]) -> TypeError:
    """The error for an unknown argument of `Agent`: Python's text, and what to write instead."""
    told = f"Agent.__init__() got an unexpected keyword argument {name!r}"
    if name in SETTINGS:
        setting = "stop" if name == "stop_sequences" else name
        return TypeError(f"{told}: write settings=ModelSettings({setting}=…)")
    if name in _OTHER_WAYS:
        return TypeError(f"{told}: write {_OTHER_WAYS[name]}")
    meant = _ARGUMENTS.get(name) or near(name, known)
    return TypeError(f"{told}: write {meant}=…" if meant is not None else told)


def missing_argument(id: object, model: object) -> TypeError:
    """The error for an agent without an id or a model."""
    if model is None and isinstance(id, str) and ":" in id:
        return TypeError(f"Agent() has no id, only a model: write Agent('helper', model={id!r})")
    missing = "id" if id is None else "model"
    return TypeError(f"Agent() has no {missing}: write Agent('helper', model='openai:gpt-5-mini')")


OF_RESULT = {
    "data": "output",
    "value": "output",
    "final_output": "output",
    "structured_response": "output",
    "text": "response",
    "content": "response",
    "answer": "response",
    "message": "response",
    "messages": "await runtime.messages(result.thread_id)",
    "all_messages": "await runtime.messages(result.thread_id)",
    "new_messages": "await runtime.messages(result.thread_id)",
    "error": "reason",
    "status": "ok, or termination",
}
"""Attributes of a result as other libraries call them, and what to read here."""
_GIVEN_TOOLS = "@tool above the function, and Agent(…, tools=[…])"
OF_AGENT = {
    "tool": _GIVEN_TOOLS,
    "tool_plain": _GIVEN_TOOLS,
    "toolset": "@toolset above the function, and Agent(…, tools=[…])",
    "instructions": "Agent(…, system_prompt=…), a text or a function",
    "system_prompt": "Agent(…, system_prompt=…), a text or a function",
    "output_validator": "Agent(…, output_check=…)",
    "as_tool": "Agent(…, delegates=[…])",
    "invoke": "agent.run_sync(…)",
    "ainvoke": "await agent.run(…)",
    **dict.fromkeys(
        ("run_stream", "run_streamed", "run_stream_events", "iter", "astream"), "agent.stream(…)"
    ),
}
"""Attributes of an agent as other libraries call them, and what to write here."""
OF_RUNTIME = {
    "invoke": "runtime.run_sync(…)",
    "ainvoke": "await runtime.run(…)",
    **dict.fromkeys(("run_stream", "run_streamed", "astream"), "runtime.stream(…)"),
    "get_state": "await runtime.state(thread)",
    "get_state_history": "runtime.events(thread), or runtime.fork(thread, …)",
}
"""Attributes of a runtime as other libraries call them, and what to write here."""


def unknown_attribute(
    thing: object, name: str, elsewhere: Mapping[str, str], verb: str = "write"
) -> AttributeError:
    """The error for an unknown attribute: Python's text, and what to write or read instead."""
    told = f"{type(thing).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(told)
    known = [one for one in dir(type(thing)) if not one.startswith("_")]
    meant = elsewhere.get(name) or near(name, known)
    return AttributeError(f"{told}: {verb} {meant}" if meant is not None else told)
