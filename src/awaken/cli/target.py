"""Loading `module:agent` from the command line, and opening its runtime."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from awaken.cli.exit_codes import Mistake
from awaken.cli.store_address import bus_address, store_address
from awaken.core.spec import AgentSpec
from awaken.errors import BuildError, ConfigError, ResolveError
from awaken.runtime import Agent, RemoteAgent, Runtime
from awaken.runtime.open_by_name import import_from_folder

_EXPECTED = "an Agent, a list of Agents, or a function without arguments that returns a Runtime"

TargetAgent = Agent | RemoteAgent


class Target:
    """The object that the user named: agents, or a runtime that the user's code makes."""

    def __init__(self, name: str, found: Sequence[TargetAgent] | Runtime) -> None:
        self.name = name
        self._found = found

    def open(self, store: str | None, model: str | None) -> Runtime:
        """Open the runtime; a given store or model replaces that of the agents.

        Raises:
            Mistake: the agents do not fit together, or the user's code makes its own runtime.
        """
        if isinstance(self._found, Runtime):
            for option, value in (("--store", store), ("--model", model)):
                if value is not None:
                    raise Mistake(
                        f"{self.name} makes its own Runtime, which {option} cannot change: "
                        f"leave {option} out, or point at the agents instead"
                    )
            return self._found
        # This command does not resume runs of other threads: `awaken resume` does that, and it
        # resumes tasks that are still running when this command ends.
        runtime = self._make(_replace_models(self._found, model), store, recover=False)
        # The command itself resumes runs to which background tasks report, because it shows their
        # events.
        runtime.leave_to_caller()
        return runtime

    def open_to_serve(self, store: str | None, bus: str | None) -> Runtime:
        """Open the runtime of a server, which carries out what clients ask for.

        Raises:
            Mistake: the agents do not fit together, or the user's own runtime cannot serve.
        """
        if not isinstance(self._found, Runtime):
            return self._make(self._found, store, recover=True, bus=bus_address(bus))
        for option, value in (("--store", store), ("--bus", bus)):
            if value is not None:
                raise Mistake(
                    f"{self.name} makes its own Runtime, which {option} cannot change: leave "
                    f"{option} out, or point at the agents instead"
                )
        if not self._found.recovers:
            raise Mistake(
                f"{self.name} is a Runtime with recover=False, which does not carry out what "
                "clients ask for: leave recover out"
            )
        return self._found

    def _make(
        self,
        agents: Sequence[TargetAgent],
        store: str | None,
        *,
        recover: bool,
        bus: str | None = None,
    ) -> Runtime:
        address = store_address(store)
        try:
            return Runtime(agents, store=address, bus=bus, recover=recover, on_close="leave")
        except (BuildError, ResolveError) as error:
            hint = "" if len(agents) > 1 else " (agents that work together are given as a list)"
            raise Mistake(f"{self.name} cannot run: {error}{hint}") from error
        except ConfigError as error:
            raise Mistake(str(error)) from error

    def agents(self, model: str | None = None) -> Sequence[Agent]:
        """The agents; a given model replaces theirs.

        Raises:
            Mistake: the target is a runtime, or some agents are remote.
        """
        if isinstance(self._found, Runtime):
            raise Mistake(
                f"{self.name} makes its own Runtime: point at the agents it is made of instead"
            )
        if elsewhere := [agent.id for agent in self._found if isinstance(agent, RemoteAgent)]:
            raise Mistake(
                f"{self.name} has agents that run elsewhere ({', '.join(elsewhere)}): point at "
                "those that run here"
            )
        return [agent for agent in _replace_models(self._found, model) if isinstance(agent, Agent)]

    def all_agents(self) -> Sequence[TargetAgent]:
        """All agents, including remote ones.

        Raises:
            Mistake: the target is a runtime.
        """
        if isinstance(self._found, Runtime):
            raise Mistake(
                f"{self.name} makes its own Runtime: point at the agents it is made of instead"
            )
        return list(self._found)

    @property
    def makes_runtime(self) -> bool:
        """Whether the user's code makes the runtime, and so chooses its store."""
        return isinstance(self._found, Runtime)

    def agent_ids(self) -> list[str]:
        """The ids of the agents, in the order in which they were given."""
        if isinstance(self._found, Runtime):
            return list(self._found.engine.registry.snapshot().agent_ids())
        return [agent.id for agent in self._found]

    def agent_id(self, requested: str | None) -> str:
        """The agent to ask: the requested one, else the first, or the only one of a runtime.

        Raises:
            Mistake: there is no such agent, or there are several.
        """
        known = self.agent_ids()
        if requested is not None and requested not in known:
            raise Mistake(f"{self.name} has no agent {requested!r}; it has: {', '.join(known)}")
        if requested is None and self.makes_runtime and len(known) != 1:
            raise Mistake(f"{self.name} has several agents ({', '.join(known)}): pick with --agent")
        return requested or known[0]


class _AgentWithModel(Agent):
    """A copy of an agent with another model."""

    def __init__(self, agent: Agent, model: str) -> None:
        vars(self).update(vars(agent))
        self.model = model
        self._remodelled = msgspec.structs.replace(agent.spec, model_id=model)

    @property
    def spec(self) -> AgentSpec:
        return self._remodelled


def _replace_models(agents: Sequence[TargetAgent], model: str | None) -> list[TargetAgent]:
    """The agents; a given model replaces that of local agents."""
    if model is None:
        return list(agents)
    return [
        _AgentWithModel(agent, model) if isinstance(agent, Agent) else agent for agent in agents
    ]


def load_target(text: str) -> Target:
    """Import the object that `text` names: `module:name`, or `path/to/file.py:name`.

    Raises:
        Mistake: there is no such module or name, or the object is not an agent.
    """
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise Mistake(
            f"{text!r} does not name an agent: write module:name or file.py:name, "
            "as in `awaken run app:agent …`"
        )
    module = _import(where)
    try:
        value = getattr(module, name)
    except AttributeError:
        raise Mistake(f"{where} has no {name!r}{_suggestion(module)}") from None
    return Target(text, _agents_or_runtime(text, value))


def load_served(text: str) -> Target:
    """Import what a server serves: as `load_target`, or a whole module or file without a name: its
    runtime, else its list of agents, else all its agents.

    Raises:
        Mistake: there is no such module or name, or there is nothing to serve in it.
    """
    where, colon, _ = text.rpartition(":")
    if colon and where:
        return load_target(text)
    module = _import(text)
    named = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    for kind in (Runtime, list | tuple):
        found = {n: v for n, v in named.items() if isinstance(v, kind) and _is_target(v)}
        if len(found) > 1:
            raise Mistake(
                f"{text} has several to serve: pick one, as in {text}:{next(iter(found))}"
            )
        if found:
            return Target(text, _agents_or_runtime(text, *found.values()))
    agents = {id(value): value for value in named.values() if isinstance(value, TargetAgent)}
    if not agents:
        raise Mistake(f"{text} has nothing to serve{_suggestion(module)}")
    return Target(text, list(agents.values()))


def _import(where: str) -> ModuleType:
    return _import_file(Path(where)) if where.endswith(".py") else _import_module(where)


def _import_module(name: str) -> ModuleType:
    try:
        return import_from_folder(name, str(Path.cwd()))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise Mistake(f"{name} needs {error.name}, which is not installed") from error
        raise Mistake(
            f"there is no module {name!r} in {Path.cwd()} or among the installed ones: "
            "change to its directory, or give its file, as in path/to/file.py:agent"
        ) from error
    except Exception as error:
        raise _import_mistake(name, error) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Mistake(f"there is no file {str(path)!r} (looked in {Path.cwd()})")
    # Modules beside the file can be imported, unless an installed one has the same name.
    sys.path.append(str(path.resolve().parent))
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_file"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Mistake(f"{str(path)!r} cannot be imported: is it Python?")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _import_mistake(str(path), error) from error
    return module


def _import_mistake(name: str, error: Exception) -> Mistake:
    """The error for a user's module that raised, with file and line."""
    place = ""
    if frames := traceback.extract_tb(error.__traceback__):
        place = f" ({frames[-1].filename}, line {frames[-1].lineno})"
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
    text = error.msg if isinstance(error, SyntaxError) else error
    return Mistake(f"{name} raised {type(error).__name__} when imported: {text}{place}")


def _agents_or_runtime(name: str, value: Any) -> Sequence[TargetAgent] | Runtime:
    # A tool is callable, too, and must not be called here.
    if callable(value) and not hasattr(value, "descriptor"):
        try:
            value = value()
        except Exception as error:
            raise Mistake(f"{name}() raised {type(error).__name__}: {error}") from error
    if inspect.iscoroutine(value):
        value.close()
        raise Mistake(f"{name} is async: make it a plain function that returns a Runtime")
    if isinstance(value, Runtime):
        return value
    agents = [value] if isinstance(value, TargetAgent) else value
    if isinstance(agents, list | tuple) and agents and _are_agents(agents):
        return list(agents)
    raise Mistake(f"{name} is {_describe_type(value)}: point at {_EXPECTED}")


def _describe_type(value: Any) -> str:
    if isinstance(value, list | tuple):
        kinds = sorted({type(item).__name__ for item in value})
        return f"a {type(value).__name__} of {', '.join(kinds) or 'nothing'}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _suggestion(module: ModuleType) -> str:
    names = [n for n, value in vars(module).items() if _is_target(value)]
    return f"; it has: {', '.join(names)}" if names else f" and no agents at all: make {_EXPECTED}"


def _is_target(value: object) -> bool:
    if isinstance(value, TargetAgent | Runtime):
        return True
    return isinstance(value, list | tuple) and bool(value) and _are_agents(value)


def _are_agents(items: Sequence[object]) -> bool:
    return all(isinstance(item, TargetAgent) for item in items)
