"""What somebody probably meant by a name that is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_MAKERS = {
    "gpt-": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "google",
}
"""How names of models begin, and whose they are."""
_OF_A_RUN = ("temperature", "top_p", "max_tokens")
_ARGUMENTS = {
    "instruction": "system_prompt",
    "instructions": "system_prompt",
    "prompt": "system_prompt",
    "system": "system_prompt",
    "system_message": "system_prompt",
    "functions": "tools",
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
"""What other libraries call an agent's arguments."""


def near(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415  # only an error needs it

    plain = "".join(word.lower().split())
    return next(iter(get_close_matches(plain, known, 1, 0.75)), None)


def meant_model(name: str, complete: Collection[str], providers: Collection[str]) -> str | None:
    """The name of a model that was probably meant; `complete` ones stand by themselves."""
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
    """What Python says of an argument an agent has not got, and what to write instead."""
    told = f"Agent.__init__() got an unexpected keyword argument {name!r}"
    if name in _OF_A_RUN:
        return TypeError(f"{told}: write runtime.run(…, overrides=InferenceOverride({name}=…))")
    meant = _ARGUMENTS.get(name) or near(name, known)
    return TypeError(f"{told}: write {meant}=…" if meant is not None else told)
