"""Every error the library raises, in one tree.

AwakenError
├── StateError                    the typed state and the phases that change it
│   ├── RevisionConflict          somebody else changed an exclusive key first
│   ├── MutationBaseRevisionMismatch
│   ├── ParallelMergeConflict     two writers of one exclusive key
│   ├── UnknownKey · KeyAlreadyRegistered · KeyDecode · KeyEncode
│   ├── PluginAlreadyInstalled · PluginNotInstalled
│   ├── HandlerAlreadyRegistered · EffectHandlerAlreadyRegistered · ToolAlreadyRegistered
│   ├── UnknownScheduledActionHandler · UnknownEffectHandler
│   ├── PhaseRunLoopExceeded      actions that keep scheduling actions
│   ├── InvalidTransition         a run cannot go from its status to the one asked for
│   ├── ReducerFailed · HookFailed     user code raised; nothing was changed
│   └── Cancelled
├── RuntimeFault                  the runtime cannot start or address a run
│   ├── ThreadAlreadyRunning · AgentNotFound · ResolveFailed
│   ├── BudgetExhausted           a run may use up no more
│   ├── RunLeft                   the runtime closed; whoever recovers the run goes on with it
│   └── RunAbandoned              nobody carries a run on for whose end somebody waits
├── ResolveError                  an agent's specification does not fit the registries
│   ├── ModelNotFound · ModelPriceUnknown · ProviderNotFound · PluginNotFound · InvalidPluginConfig
│   ├── EnvBuildFailed · ToolIdConflict · DelegateNotFound · BackgroundToolNotFound
│   └── RemoteAgentNotDirectlyRunnable · UnsupportedRemoteBackend · InvalidRemoteEndpointConfig
├── BuildError                    registering things before a run
│   ├── RegistryConflict · ValidationFailed · DiscoveryFailed
├── AgentLoopError                a run that started and could not go on
│   ├── InferenceFailed · StorageError · PhaseError · RuntimeFailed · InvalidResume
├── InferenceExecutionError       what a model call may answer (see `awaken.contract.llm`)
├── ExecutionBackendError         what a backend may answer (see `awaken.contract.backend`)
├── ToolError                     what a tool may answer (see `awaken.domain.tool`)
├── BackgroundTaskError           a task that cannot be had (see `awaken.contract.background`)
├── StoreError                    what a store may answer
│   ├── VersionConflict · StaleFence · ThreadOwned · RunOpen · CommitUnknown
│   ├── NotFound · AlreadyExists · InvalidRecord · Serialization
│   ├── DecisionRefused           an answer that fits no open ticket
│   └── StoreUnavailable          the file, disk or server behind a store
└── ConfigError                   the front door was used wrongly: the message says what to do
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


def describe(error: object) -> str:
    """An error in one line: its text, or its kind if that is empty or cannot be read."""
    if isinstance(error, MemoryError):
        return "out of memory"
    return _text_of(error, str) or type(error).__name__


def _text_of(value: object, convert: Callable[[object], str]) -> str:
    try:
        return convert(value)
    except BaseException:  # user code, too: an error's own text may raise
        return f"{type(value).__name__} (its text cannot be read)"


class AwakenError(Exception):
    """Anything this library raises on purpose."""


class ConfigError(AwakenError):
    """A name, address or argument given to the front door cannot work."""


# -- state and phases -------------------------------------------------------------------------


class StateError(AwakenError):
    """A change of typed state, or a phase, that was refused. State is as it was."""


class RevisionConflict(StateError):
    """An exclusive key changed since the snapshot the change was made from."""

    def __init__(self, *, expected: int, actual: int, key: str) -> None:
        super().__init__(
            f"state key {key!r} changed at revision {actual}, the change was made from {expected}: "
            "read a fresh snapshot and apply the change again"
        )
        self.expected, self.actual, self.key = expected, actual, key


class MutationBaseRevisionMismatch(StateError):
    """Two batches made from different snapshots cannot be joined."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"batches were made from revisions {left} and {right}: join only equals")
        self.left, self.right = left, right


class ParallelMergeConflict(StateError):
    """Two commands made side by side write one exclusive key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"state key {key!r} is exclusive and written twice from one snapshot: "
            "make it Merge.COMMUTATIVE or let one writer go first"
        )
        self.key = key


class UnknownKey(StateError):
    """A key, call or suspension nobody registered."""

    def __init__(self, key: str, what: str | None = None) -> None:
        super().__init__(
            what
            or f"state key {key!r} is not registered: give it to the agent, as in "
            "Agent(state=[…]), or register it in a plugin of this agent"
        )
        self.key = key


class KeyAlreadyRegistered(StateError):
    """A second key of one name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"state key {key!r} is already registered: pick another name")
        self.key = key


class KeyDecode(StateError):
    """A stored value or config section does not fit its type."""

    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"cannot decode {key!r}: {describe(why)}")
        self.key = key


class KeyEncode(StateError):
    """A value cannot be written as JSON."""

    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"cannot encode {key!r}: {describe(why)}")
        self.key = key


class PluginAlreadyInstalled(StateError):
    """The same plugin twice in one store."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin!r} is already installed")
        self.plugin = plugin


class PluginNotInstalled(StateError):
    """Uninstalling what was never installed."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin!r} is not installed")
        self.plugin = plugin


class HandlerAlreadyRegistered(StateError):
    """Two handlers for one scheduled action."""

    def __init__(self, key: str) -> None:
        super().__init__(f"scheduled action {key!r} already has a handler")
        self.key = key


class EffectHandlerAlreadyRegistered(StateError):
    """Two handlers for one effect."""

    def __init__(self, key: str) -> None:
        super().__init__(f"effect {key!r} already has a handler")
        self.key = key


class ToolAlreadyRegistered(StateError):
    """Two plugin tools of one id."""

    def __init__(self, tool_id: str) -> None:
        super().__init__(f"tool {tool_id!r} is already registered: rename one of the two")
        self.tool_id = tool_id


class UnknownScheduledActionHandler(StateError):
    """An action was scheduled that no plugin of the agent handles."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no handler for scheduled action {key!r}: load the plugin that brings it")
        self.key = key


class UnknownEffectHandler(StateError):
    """An effect was emitted that no plugin of the agent handles."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no handler for effect {key!r}: load the plugin that brings it")
        self.key = key


class PhaseRunLoopExceeded(StateError):
    """Actions of a phase kept scheduling actions of the same phase."""

    def __init__(self, phase: str, max_rounds: int) -> None:
        super().__init__(f"phase '{phase}' did not settle within {max_rounds} rounds of actions")
        self.phase, self.max_rounds = phase, max_rounds


class InvalidTransition(StateError):
    """A run's record cannot go from its status to the one asked for."""

    def __init__(self, run_id: str, status: str, target: str) -> None:
        super().__init__(
            f"run {run_id!r} is {status} and cannot become {target}: load its record again, and "
            "start a new run if this one is over"
        )
        self.run_id, self.status, self.target = run_id, status, target


class ReducerFailed(StateError):
    """A key's `apply` raised; the whole batch was dropped."""

    def __init__(self, key: str, why: object) -> None:
        raised = _text_of(why, repr)
        super().__init__(f"reducer of state key {key!r} raised {raised}: nothing was changed")
        self.key = key


class HookFailed(StateError):
    """A plugin's hook or gate raised; nothing of its phase was committed."""

    def __init__(self, plugin: str, phase: str, why: object) -> None:
        super().__init__(f"plugin {plugin!r} raised {_text_of(why, repr)} in phase '{phase}'")
        self.plugin, self.phase = plugin, phase


class Cancelled(StateError):
    """The run's token was cancelled."""

    def __init__(self) -> None:
        super().__init__("cancelled")


# -- runtime ----------------------------------------------------------------------------------


class RuntimeFault(AwakenError):
    """The runtime could not start or address a run."""


class ThreadAlreadyRunning(RuntimeFault):
    """One run per thread, and one owner per run id."""

    def __init__(self, thread_id: str, owner: str | None = None) -> None:
        where = f" (in {owner})" if owner else ""
        super().__init__(
            f"thread already has an active run{where}: {thread_id}: wait for it "
            "(when_busy='queue' does), cancel it, or send it a message"
        )
        self.thread_id, self.owner = thread_id, owner


class AgentNotFound(RuntimeFault):
    """No agent of that id is registered."""

    def __init__(self, agent_id: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(repr(name) for name in sorted(known))
        super().__init__(
            f"agent not found: {agent_id!r}; registered: {names}"
            if names
            else f"agent not found: {agent_id!r}; none is registered"
        )
        self.agent_id = agent_id


class ResolveFailed(RuntimeFault):
    """An agent is known and cannot be made ready to run."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BudgetExhausted(RuntimeFault):
    """A run may use up no more.

    `name` is what has run out, `level` how many levels above the run the limit was set. `asks` says
    that somebody is to be asked, `may_come_back` that calls under way may need less than was set
    aside for them.
    """

    def __init__(
        self,
        name: str,
        *,
        limit: float,
        left: float,
        wanted: float,
        level: int = 0,
        asks: bool = False,
        may_come_back: bool = False,
    ) -> None:
        needs = f", and the next call may take {wanted:g}" if wanted else ""
        super().__init__(f"the budget of {limit:g} {name} has {left:g} left{needs}")
        self.name = name
        self.limit = limit
        self.left = left
        self.wanted = wanted
        self.level = level
        self.asks = asks
        self.may_come_back = may_come_back


class RunLeft(RuntimeFault):
    """The runtime was closed and left the run to whoever recovers it: at the end of a step, or, if
    that did not come in time, at its last commit."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} was left when its runtime closed: recover it to go on")
        self.run_id = run_id


class RunAbandoned(RuntimeFault):
    """A run is not over, and nobody carries it on, so that waiting for its end is in vain."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"nobody carries run {run_id!r} on: {why}")
        self.run_id = run_id


# -- resolution and building ------------------------------------------------------------------


class ResolveError(AwakenError):
    """An agent's specification asks for something the registries do not hold."""


def _missing(kind: str, wanted: str, agent_id: str, known: Iterable[str]) -> str:
    names = ", ".join(repr(name) for name in sorted(known)) or "none"
    return f"agent {agent_id!r} asks for {kind} {wanted!r}, which is not registered; known: {names}"


class ModelNotFound(ResolveError):
    """`model_id` names no model binding."""

    def __init__(self, model_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(_missing("model", model_id, agent_id, known))
        self.model_id = model_id


class ModelPriceUnknown(ResolveError):
    """A budget counts money, and the model has no price."""

    def __init__(self, model_id: str, agent_id: str) -> None:
        super().__init__(
            f"agent {agent_id!r} has a budget in money, and model {model_id!r} has no price: give "
            f"one, as in Runtime(prices={{{model_id!r}: Price(input=…, output=…)}})"
        )
        self.model_id = model_id
        self.agent_id = agent_id


class ProviderNotFound(ResolveError):
    """A model binding names no provider."""

    def __init__(self, provider_id: str, model_id: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        super().__init__(
            f"model {model_id!r} asks for provider {provider_id!r}, which is not registered; "
            f"known: {names}"
        )
        self.provider_id = provider_id


class PluginNotFound(ResolveError):
    """`plugin_ids` names no plugin."""

    def __init__(self, plugin_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(_missing("plugin", plugin_id, agent_id, known))
        self.plugin_id = plugin_id


class BackgroundToolNotFound(ResolveError):
    """A tool that is to run in the background is not among the agent's."""

    def __init__(self, tool_id: str, agent_id: str, known: Iterable[str]) -> None:
        super().__init__(
            f"agent {agent_id!r} is to run {tool_id!r} in the background, and has no such tool; "
            f"it has: {', '.join(known) or 'none'}"
        )
        self.tool_id = tool_id
        self.agent_id = agent_id


class DelegateNotFound(ResolveError):
    """`delegates` names no agent."""

    def __init__(self, delegate_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        missing = _missing("delegate", delegate_id, agent_id, known)
        super().__init__(f"{missing}: add it to Runtime([…])")
        self.delegate_id = delegate_id


class InvalidPluginConfig(ResolveError):
    """A section of the agent's spec does not fit the plugin that reads it."""

    def __init__(self, plugin: str, section: str, why: object) -> None:
        super().__init__(f"section {section!r} of plugin {plugin!r} is invalid: {why}")
        self.plugin, self.section = plugin, section


class EnvBuildFailed(ResolveError):
    """The agent's plugins do not fit together."""

    def __init__(self, agent_id: str, why: object) -> None:
        super().__init__(f"plugins of agent {agent_id!r} do not fit together: {why}")
        self.agent_id = agent_id


class ToolIdConflict(ResolveError):
    """Two tools of one id for one agent."""

    def __init__(self, tool_id: str, sources: str) -> None:
        super().__init__(f"tool {tool_id!r} comes from {sources}: rename one of the two")
        self.tool_id = tool_id


class RemoteAgentNotDirectlyRunnable(ResolveError, ResolveFailed):
    """An agent with an endpoint cannot be resolved as a local one."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"agent '{agent_id}' is endpoint-backed and cannot be resolved locally")
        self.agent_id = agent_id


class UnsupportedRemoteBackend(ResolveError):
    """An endpoint names a backend nobody registered."""

    def __init__(self, agent_id: str, backend: str, known: Iterable[str] = ()) -> None:
        super().__init__(_missing("backend", backend, agent_id, known))
        self.backend = backend


class InvalidRemoteEndpointConfig(ResolveError):
    """An endpoint that its backend refuses."""

    def __init__(self, agent_id: str, why: object) -> None:
        super().__init__(f"endpoint of agent {agent_id!r} is invalid: {why}")
        self.agent_id = agent_id


class BuildError(AwakenError):
    """Something was registered wrongly, before any run."""


class RegistryConflict(BuildError):
    """A second registration of one id."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} is registered twice: ids are unique, rename one")
        self.kind, self.name = kind, name


class ValidationFailed(BuildError):
    """One or more agents cannot be resolved; the message lists all of them."""


class DiscoveryFailed(BuildError):
    """A remote agent's card could not be fetched."""


# -- the loop ---------------------------------------------------------------------------------


class AgentLoopError(AwakenError):
    """A run that started could not go on. Its record says so too."""

    prefix = "agent loop failed"

    def __init__(self, cause: object) -> None:
        super().__init__(f"{self.prefix}: {describe(cause)}")
        self.cause = cause


class InferenceFailed(AgentLoopError):
    """The model could not be asked."""

    prefix = "inference failed"


class StorageError(AgentLoopError):
    """The store refused or failed."""

    prefix = "storage failed"


class PhaseError(AgentLoopError):
    """A hook, gate, reducer or handler failed."""

    prefix = "phase error"


class RuntimeFailed(AgentLoopError):
    """The runtime around the loop failed."""

    prefix = "runtime error"


class InvalidResume(AgentLoopError):
    """The run to continue, or a decision, does not exist or is over."""

    prefix = "invalid resume"


# -- stores -----------------------------------------------------------------------------------


class NoOutput(AwakenError):
    """A run has no answer of its agent's output type."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"run {run_id!r} has no output: {why}")
        self.run_id = run_id


class StoreError(AwakenError):
    """A store refused or failed."""


class VersionConflict(StoreError):
    """The thread is longer than the writer believed."""

    def __init__(self, thread_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"version conflict: expected {expected}, actual {actual}")
        self.thread_id, self.expected, self.actual = thread_id, expected, actual


class StaleFence(StoreError):
    """Another process owns the thread now."""

    def __init__(self, thread_id: str, *, epoch: int, current: int) -> None:
        super().__init__(
            f"thread {thread_id!r} is owned at epoch {current}, this writer holds {epoch}: "
            "stop writing, another owner took over"
        )
        self.thread_id, self.epoch, self.current = thread_id, epoch, current


class ThreadOwned(StoreError):
    """Somebody who is alive runs the thread."""

    def __init__(self, thread_id: str, owner: str) -> None:
        super().__init__(f"thread {thread_id!r} is owned by {owner}, which is alive")
        self.thread_id, self.owner = thread_id, owner


class RunOpen(StoreError):
    """A thread cannot be deleted because of a run that is not over."""

    def __init__(self, thread_id: str, run_id: str, *, of: str) -> None:
        where = "" if of == thread_id else f" of thread {of!r}"
        super().__init__(
            f"thread {thread_id!r} cannot be deleted while run {run_id!r}{where} is open: "
            "cancel that run first, or let it end; one that nobody can end any more (its agent ran "
            "elsewhere, say, and never comes back) is deleted with force=True"
        )
        self.thread_id, self.run_id = thread_id, run_id


class DecisionRefused(StoreError):
    """An answer that cannot be taken: forged, stale, too late, or given before."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"the answer to {target!r} was refused: {why}")
        self.target, self.why = target, why


class StoreUnavailable(StoreError):
    """What is behind the store cannot be used; the message says why and what to do."""


class CommitUnknown(StoreError):
    """The answer was lost: the commit may or may not have happened. Read before retrying."""

    def __init__(self, why: object) -> None:
        super().__init__(f"commit outcome unknown: {why}")


class NotFound(StoreError):
    """No such thread, run or entry."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} does not exist")
        self.kind, self.name = kind, name


class AlreadyExists(StoreError):
    """A thread, run or entry of that name is already there."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} already exists")
        self.kind, self.name = kind, name


class InvalidRecord(StoreError):
    """A record that breaks a rule of the store."""


class Serialization(StoreError):
    """A value cannot be written, or what was read does not fit."""
