"""Every error the library raises, in one tree.

AwakenError
├── StateError                    the typed state and the phases that change it
│   ├── RevisionConflict          another writer changed an exclusive key first
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
│   │   └── ToolsetFailed         (of ResolveFailed) a toolset could not be asked for a run's tools
│   ├── BudgetExhausted           a run has spent its budget
│   ├── RunLeft                   the runtime left the run before it ended
│   └── RunAbandoned              the caller waits for a run that no worker continues
├── ResolveError                  an agent's spec names something the registries do not have
│   ├── ModelNotFound · ModelPriceUnknown · ProviderNotFound · PluginNotFound · InvalidPluginConfig
│   ├── EnvBuildFailed · ToolIdConflict · DelegateNotFound · BackgroundToolNotFound
│   └── RemoteAgentNotDirectlyRunnable · UnsupportedRemoteBackend · InvalidRemoteEndpointConfig
├── BuildError                    a registration failed, before any run
│   └── RegistryConflict · ValidationFailed · DiscoveryFailed
├── AgentLoopError                a run started and could not continue
│   └── InferenceFailed · StorageError · PhaseError · RuntimeFailed · InvalidResume
│       └── ArgumentsRefused      (of InvalidResume) a tool refuses edited arguments
├── InferenceExecutionError       a model call failed (see `awaken.core.llm`)
├── ExecutionBackendError         a backend could not run an agent (see `awaken.core.backend`)
├── ToolError                     a tool failed (see `awaken.core.tool`)
├── BackgroundTaskError           a background task was refused (see `awaken.core.task`)
├── NoOutput                      a run has no answer that fits its agent's output type
│   └── RunNotOk                  a run has not finished: it was stopped, waits, or failed
├── NoPreview                     a model cannot show what it would send to its provider
├── StoreError                    a store refused or failed
│   ├── VersionConflict · StaleFence · ThreadOwned · RunOpen · CommitUnknown
│   │   └── ThreadBusy            (of ThreadOwned) a submission is refused while a run is open
│   ├── KeyReused · ThreadDeleted   a submission cannot be taken
│   ├── RewindRefused             a thread cannot be rewound to the message that was named
│   ├── LeaseLost                 this node may start no effects, and has waited too long
│   ├── NotFound · AlreadyExists · InvalidRecord · Serialization
│   │   ├── UnreadableRecord      (of Serialization) a stored row cannot be decoded
│   │   └── UnreadableValue       (of Serialization) a value could not be read back: not written
│   ├── InvalidCursor             a reader wants to go on from where the thread has no event
│   ├── RequestNotKept · TextGone   what a model was asked cannot be read back
│   ├── CommitTooLarge            an `InvalidRecord`: the row of a commit would exceed 1 MiB
│   ├── BlobError                 a blob cannot be read
│   │   └── BlobNotFound · BlobDamaged · BlobRangeBeyondEnd
│   ├── DecisionRefused           an approver's answer cannot be taken
│   └── StoreUnavailable          the file, disk or server of a store cannot be used
│       └── SearchUnavailable     the search index cannot be used; everything else works
└── ConfigError                   a wrong name, address or argument: the message says what to do
    ├── InvalidId                 an id that a caller may not use for something new
    └── InvalidSearch             a part of a search query is wrong
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = [
    "AgentLoopError",
    "AgentNotFound",
    "AlreadyExists",
    "ArgumentsRefused",
    "AwakenError",
    "BackgroundToolNotFound",
    "BlobDamaged",
    "BlobError",
    "BlobNotFound",
    "BlobRangeBeyondEnd",
    "BudgetExhausted",
    "BuildError",
    "Cancelled",
    "CommitTooLarge",
    "CommitUnknown",
    "ConfigError",
    "DecisionRefused",
    "DelegateNotFound",
    "DiscoveryFailed",
    "EffectHandlerAlreadyRegistered",
    "EnvBuildFailed",
    "HandlerAlreadyRegistered",
    "HookFailed",
    "InferenceFailed",
    "InvalidCursor",
    "InvalidId",
    "InvalidPluginConfig",
    "InvalidRecord",
    "InvalidRemoteEndpointConfig",
    "InvalidResume",
    "InvalidSearch",
    "InvalidTransition",
    "KeyAlreadyRegistered",
    "KeyDecode",
    "KeyEncode",
    "KeyReused",
    "LeaseLost",
    "ModelNotFound",
    "ModelPriceUnknown",
    "MutationBaseRevisionMismatch",
    "NoOutput",
    "NoPreview",
    "NotFound",
    "ParallelMergeConflict",
    "PhaseError",
    "PhaseRunLoopExceeded",
    "PluginAlreadyInstalled",
    "PluginNotFound",
    "PluginNotInstalled",
    "ProviderNotFound",
    "ReducerFailed",
    "RegistryConflict",
    "RemoteAgentNotDirectlyRunnable",
    "RequestNotKept",
    "ResolveError",
    "ResolveFailed",
    "RevisionConflict",
    "RewindRefused",
    "RunAbandoned",
    "RunLeft",
    "RunNotOk",
    "RunOpen",
    "RuntimeFailed",
    "RuntimeFault",
    "SearchUnavailable",
    "Serialization",
    "StaleFence",
    "StateError",
    "StorageError",
    "StoreError",
    "StoreUnavailable",
    "TextGone",
    "ThreadAlreadyRunning",
    "ThreadBusy",
    "ThreadDeleted",
    "ThreadOwned",
    "ToolAlreadyRegistered",
    "ToolIdConflict",
    "ToolsetFailed",
    "UnknownEffectHandler",
    "UnknownKey",
    "UnknownScheduledActionHandler",
    "UnreadableRecord",
    "UnreadableValue",
    "UnsupportedRemoteBackend",
    "ValidationFailed",
    "VersionConflict",
]


class AwakenError(Exception):
    """The base class of all errors that this library raises on purpose."""


class ConfigError(AwakenError):
    """A name, address or argument given to the library cannot work."""


class InvalidId(ConfigError):
    """A caller gave something new an id that is not allowed. Nothing was written."""

    def __init__(
        self,
        id: object,
        *,
        what: str = "thread id",
        allowed: str = "1 to 200 letters, digits and characters of . _ : @ = + -",
    ) -> None:
        given = repr(id)
        shown = given if len(given) <= 80 else f"{given[:80]}… ({len(given)} characters)"
        super().__init__(f"{shown} cannot be a {what}: use {allowed}")
        self.id = id


class InvalidSearch(ConfigError):
    """A part of a search query is wrong; `part` is the part."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self.part = part


# -- runs that cannot start or be found -------------------------------------------------------


class RuntimeFault(AwakenError):
    """The runtime could not start or find a run."""


class ThreadAlreadyRunning(RuntimeFault):
    """The thread has an active run; a thread has one run at a time."""

    def __init__(self, thread_id: str, owner: str | None = None) -> None:
        where = f" (in {owner})" if owner else ""
        super().__init__(
            f"thread already has an active run{where}: {thread_id}: wait for it "
            "(when_busy='queue' does), cancel it, or send it a message"
        )
        self.thread_id, self.owner = thread_id, owner


class AgentNotFound(RuntimeFault):
    """No agent with that id is registered."""

    def __init__(self, agent_id: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(repr(name) for name in sorted(known))
        super().__init__(
            f"agent not found: {agent_id!r}; registered: {names}"
            if names
            else f"agent not found: {agent_id!r}; none is registered"
        )
        self.agent_id = agent_id


class ResolveFailed(RuntimeFault):
    """An agent is registered but cannot be made ready to run."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ToolsetFailed(ResolveFailed):
    """A toolset could not say which tools it has for a run; the run did not start."""

    def __init__(self, toolset: str, why: str) -> None:
        super().__init__(
            f"toolset {toolset!r} could not be asked for its tools: {why}; "
            "@toolset(required=False) lets runs start without them"
        )
        self.toolset = toolset


class BudgetExhausted(RuntimeFault):
    """Too little of a run's budget is left for its next call.

    `name` is the limit that was reached, `level` how many levels above the run it was set. `asks`
    means that an approver is to be asked for more; `may_come_back` means that calls under way may
    cost less than they have reserved.
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
    """The run was left before it ended; another worker can recover it.

    Its runtime was closed or drained, or lost the claim on the thread. It stopped at the end of a
    step or, if that did not come in time, at its last commit.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id!r} was left before it ended: recover it to continue")
        self.run_id = run_id


class RunAbandoned(RuntimeFault):
    """The caller waits for the end of a run that no worker will continue."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"no worker continues run {run_id!r}: {why}")
        self.run_id = run_id


# -- runs that could not continue -------------------------------------------------------------


class AgentLoopError(AwakenError):
    """A run started and could not continue; its record says so too."""

    prefix = "agent loop failed"

    def __init__(self, cause: object) -> None:
        super().__init__(f"{self.prefix}: {describe(cause)}")
        self.cause = cause


class InferenceFailed(AgentLoopError):
    """The model call failed."""

    prefix = "inference failed"


class StorageError(AgentLoopError):
    """The store refused or failed during the run."""

    prefix = "storage failed"


class PhaseError(AgentLoopError):
    """A hook, gate, reducer or handler failed."""

    prefix = "phase error"


class RuntimeFailed(AgentLoopError):
    """The runtime around the loop failed."""

    prefix = "runtime error"


class InvalidResume(AgentLoopError):
    """The run to continue, or the question to answer, does not exist or is finished."""

    prefix = "invalid resume"


class ArgumentsRefused(InvalidResume):
    """The tool of a ticket's call refuses the arguments of an answer; the ticket stays open."""

    def __init__(self, ticket: str, reason: str) -> None:
        super().__init__(f"the arguments for ticket {ticket!r} are refused: {reason}")
        self.ticket, self.reason = ticket, reason


# -- results and previews that do not exist ---------------------------------------------------


class NoOutput(AwakenError):
    """A run has no output: no answer that fits its agent's output type."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"run {run_id!r} has no output: {why}")
        self.run_id = run_id


class RunNotOk(NoOutput):
    """A run has no output because it has not finished; `reason` says why, and what to do."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(run_id, reason)
        self.reason = reason


class NoPreview(AwakenError):
    """A model cannot show what it would send to its provider."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"model {model!r} cannot show what it sends: its executor has no method preview"
        )
        self.model = model


# -- what an agent names, found before it runs ------------------------------------------------


class ResolveError(AwakenError):
    """An agent's spec names something that the registries do not have, or that does not fit."""


class ModelNotFound(ResolveError):
    """The agent's `model_id` is not a registered model or pool."""

    def __init__(self, model_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(_missing("model", model_id, agent_id, known))
        self.model_id = model_id


class ModelPriceUnknown(ResolveError):
    """The agent has a money budget, and its model has no price."""

    def __init__(self, model_id: str, agent_id: str) -> None:
        super().__init__(
            f"agent {agent_id!r} has a money budget, but model {model_id!r} has no price: give "
            f"one, as in Runtime(prices={{{model_id!r}: Price(input=…, output=…)}})"
        )
        self.model_id = model_id
        self.agent_id = agent_id


class ProviderNotFound(ResolveError):
    """The model's provider is not registered."""

    def __init__(self, provider_id: str, model_id: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        super().__init__(
            f"model {model_id!r} asks for provider {provider_id!r}, which is not registered; "
            f"known: {names}"
        )
        self.provider_id = provider_id


class PluginNotFound(ResolveError):
    """One of the agent's `plugin_ids` is not a registered plugin."""

    def __init__(self, plugin_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(_missing("plugin", plugin_id, agent_id, known))
        self.plugin_id = plugin_id


class BackgroundToolNotFound(ResolveError):
    """One of the agent's `background_tools` is not a tool of the agent."""

    def __init__(self, tool_id: str, agent_id: str, known: Iterable[str]) -> None:
        super().__init__(
            f"agent {agent_id!r} lists {tool_id!r} in background_tools but has no such tool; "
            f"it has: {', '.join(known) or 'none'}"
        )
        self.tool_id = tool_id
        self.agent_id = agent_id


class DelegateNotFound(ResolveError):
    """One of the agent's `delegates` is not a registered agent."""

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
    """Two tools of an agent have the same id."""

    def __init__(self, tool_id: str, sources: str, *, in_sets: bool = False) -> None:
        how = ", as a toolset's prefixed('…') does" if in_sets else ""
        super().__init__(f"tool {tool_id!r} comes from {sources}: rename one of the two{how}")
        self.tool_id = tool_id


class RemoteAgentNotDirectlyRunnable(ResolveError, ResolveFailed):
    """An agent with an endpoint cannot be resolved as a local one."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"agent '{agent_id}' is endpoint-backed and cannot be resolved locally")
        self.agent_id = agent_id


class UnsupportedRemoteBackend(ResolveError):
    """An endpoint names a backend that is not registered."""

    def __init__(self, agent_id: str, backend: str, known: Iterable[str] = ()) -> None:
        super().__init__(_missing("backend", backend, agent_id, known))
        self.backend = backend


class InvalidRemoteEndpointConfig(ResolveError):
    """The backend refused the configuration of an endpoint."""

    def __init__(self, agent_id: str, why: object) -> None:
        super().__init__(f"endpoint of agent {agent_id!r} is invalid: {why}")
        self.agent_id = agent_id


def _missing(kind: str, wanted: str, agent_id: str, known: Iterable[str]) -> str:
    names = ", ".join(repr(name) for name in sorted(known)) or "none"
    return f"agent {agent_id!r} asks for {kind} {wanted!r}, which is not registered; known: {names}"


# -- registrations ----------------------------------------------------------------------------


class BuildError(AwakenError):
    """A registration failed, before any run."""


class RegistryConflict(BuildError):
    """An id was registered twice."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} is registered twice: ids are unique, rename one")
        self.kind, self.name = kind, name


class ValidationFailed(BuildError):
    """One or more agents cannot be resolved; the message lists all of them."""


class DiscoveryFailed(BuildError):
    """A remote agent's card could not be fetched."""


# -- the typed state, and the phases that change it -------------------------------------------


class StateError(AwakenError):
    """A change of typed state, or a phase, was refused; the state did not change."""


class RevisionConflict(StateError):
    """An exclusive key has changed since the snapshot that the update was made from."""

    def __init__(self, *, expected: int, actual: int, key: str) -> None:
        super().__init__(
            f"state key {key!r} changed at revision {actual}, the update was made from {expected}: "
            "read a new snapshot and make the update again"
        )
        self.expected, self.actual, self.key = expected, actual, key


class MutationBaseRevisionMismatch(StateError):
    """Two batches made from different snapshots cannot be joined."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(
            f"batches were made from revisions {left} and {right}: join only batches of the same "
            "revision"
        )
        self.left, self.right = left, right


class ParallelMergeConflict(StateError):
    """Two commands made from the same snapshot write one exclusive key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"state key {key!r} is exclusive and was written twice from one snapshot: "
            "make it Merge.COMMUTATIVE, or write it in one place only"
        )
        self.key = key


class UnknownKey(StateError):
    """A state key that is not registered, or a call or suspension that does not exist."""

    def __init__(self, key: str, what: str | None = None) -> None:
        super().__init__(
            what
            or f"state key {key!r} is not registered: give it to the agent, as in "
            "Agent(state=[…]), or register it in a plugin of this agent"
        )
        self.key = key


class KeyAlreadyRegistered(StateError):
    """A second state key with the same name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"state key {key!r} is already registered: pick another name")
        self.key = key


class KeyDecode(StateError):
    """A stored value, a payload or a config section does not fit its type."""

    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"cannot decode {key!r}: {describe(why)}")
        self.key = key


class KeyEncode(StateError):
    """A value cannot be encoded as JSON, or could not be read back from it."""

    def __init__(self, key: str, why: object) -> None:
        super().__init__(f"cannot encode {key!r}: {describe(why)}")
        self.key = key


class PluginAlreadyInstalled(StateError):
    """A plugin was installed twice in one state store."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin!r} is already installed")
        self.plugin = plugin


class PluginNotInstalled(StateError):
    """A plugin to uninstall is not installed."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin!r} is not installed")
        self.plugin = plugin


class HandlerAlreadyRegistered(StateError):
    """Two plugins register a handler for the same scheduled action."""

    def __init__(self, key: str) -> None:
        super().__init__(f"scheduled action {key!r} already has a handler")
        self.key = key


class EffectHandlerAlreadyRegistered(StateError):
    """Two plugins register a handler for the same effect."""

    def __init__(self, key: str) -> None:
        super().__init__(f"effect {key!r} already has a handler")
        self.key = key


class ToolAlreadyRegistered(StateError):
    """Two plugins register a tool with the same id."""

    def __init__(self, tool_id: str) -> None:
        super().__init__(f"tool {tool_id!r} is already registered: rename one of the two")
        self.tool_id = tool_id


class UnknownScheduledActionHandler(StateError):
    """An action was scheduled that no plugin of the agent handles."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"no handler for scheduled action {key!r}: give the agent the plugin that has it"
        )
        self.key = key


class UnknownEffectHandler(StateError):
    """An effect was emitted that no plugin of the agent handles."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no handler for effect {key!r}: give the agent the plugin that has it")
        self.key = key


class PhaseRunLoopExceeded(StateError):
    """Actions of a phase kept scheduling actions of the same phase."""

    def __init__(self, phase: str, max_rounds: int) -> None:
        super().__init__(
            f"phase '{phase}' still had actions after {max_rounds} rounds: a handler must not "
            "schedule an action of its own phase each time"
        )
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
        raised = text_of(why, repr)
        super().__init__(f"reducer of state key {key!r} raised {raised}: nothing was changed")
        self.key = key


class HookFailed(StateError):
    """A plugin's hook or gate raised; nothing of its phase was committed."""

    def __init__(self, plugin: str, phase: str, why: object) -> None:
        super().__init__(f"plugin {plugin!r} raised {text_of(why, repr)} in phase '{phase}'")
        self.plugin, self.phase = plugin, phase


class Cancelled(StateError):
    """The run's token was cancelled."""

    def __init__(self) -> None:
        super().__init__("cancelled")


# -- stores -----------------------------------------------------------------------------------


class StoreError(AwakenError):
    """A store refused or failed."""


class VersionConflict(StoreError):
    """A thread or entry has another version than the writer expected: read it again."""

    def __init__(self, thread_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"version conflict: expected {expected}, actual {actual}")
        self.thread_id, self.expected, self.actual = thread_id, expected, actual


class StaleFence(StoreError):
    """Another process owns the thread now."""

    def __init__(self, thread_id: str, *, epoch: int, current: int) -> None:
        super().__init__(
            f"thread {thread_id!r} is at epoch {current}, this writer's claim has epoch {epoch}: "
            "stop writing, another owner has claimed the thread"
        )
        self.thread_id, self.epoch, self.current = thread_id, epoch, current


class ThreadOwned(StoreError):
    """The thread has a live owner."""

    def __init__(self, thread_id: str, owner: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is owned by {owner}, which is alive: wait until it releases "
            "the thread, or send a command"
        )
        self.thread_id, self.owner = thread_id, owner


class ThreadBusy(ThreadOwned):
    """A submission, or a rewind, was refused because a run of its thread is open or waits to
    start."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        StoreError.__init__(
            self,
            f"run {run_id!r} of thread {thread_id!r} has not ended: wait for its end, submit with "
            "mode 'interrupt', or, unless the thread is to be rewound, with 'queue' or 'steer'",
        )
        self.thread_id, self.owner, self.run_id = thread_id, "", run_id


class LeaseLost(StoreError):
    """This node lost its lease and did not regain it in time; its runs are left to other nodes."""

    def __init__(self, owner: str, seconds: float) -> None:
        super().__init__(
            f"{owner} has had no lease for {seconds:g} seconds: its runs are left to other nodes; "
            "see whether the store can be reached"
        )
        self.owner, self.seconds = owner, seconds


class KeyReused(StoreError):
    """The key of a submission belongs to another submission of the thread."""

    def __init__(self, thread_id: str, key: str) -> None:
        super().__init__(
            f"key {key!r} was used for another submission to thread {thread_id!r}: give each "
            "submission its own key, and the same key only to a repetition"
        )
        self.thread_id, self.key = thread_id, key


class ThreadDeleted(StoreError):
    """A submission names a thread that was deleted."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"thread {thread_id!r} was deleted: submit to another thread")
        self.thread_id = thread_id


class RewindRefused(StoreError):
    """A thread cannot be rewound to before a message: the log does not have it, or it is out of
    view already. Nothing was changed."""

    def __init__(self, thread_id: str, message_id: str, *, is_hidden: bool) -> None:
        wrong = "was rewound already" if is_hidden else "is not in its log"
        super().__init__(
            f"thread {thread_id!r} cannot be rewound to before message {message_id!r}, which "
            f"{wrong}: read the thread's messages and name one of them"
        )
        self.thread_id, self.message_id, self.is_hidden = thread_id, message_id, is_hidden


class RunOpen(StoreError):
    """A thread cannot be deleted because of an open run."""

    def __init__(self, thread_id: str, run_id: str, *, of: str) -> None:
        where = "" if of == thread_id else f" of thread {of!r}"
        super().__init__(
            f"thread {thread_id!r} cannot be deleted while run {run_id!r}{where} is open: "
            "cancel that run or let it end first; if no worker can end it any more (its agent is "
            "no longer registered, say), delete the thread with force=True"
        )
        self.thread_id, self.run_id = thread_id, run_id


class DecisionRefused(StoreError):
    """An answer cannot be taken: no ticket matches, or it is stale, expired or answered."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"the answer to {target!r} was refused: {why}")
        self.target, self.why = target, why


class StoreUnavailable(StoreError):
    """The file, disk or server of a store cannot be used; the message says why and what to do."""


class SearchUnavailable(StoreUnavailable):
    """The search index cannot be used; the message says why. Everything else works."""


class CommitUnknown(StoreError):
    """The answer was lost: the commit may or may not be written. Read before retrying."""

    def __init__(self, why: object) -> None:
        super().__init__(f"commit outcome unknown: {why}")


class NotFound(StoreError):
    """There is no such thread, run or entry."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} does not exist")
        self.kind, self.name = kind, name


class RequestNotKept(StoreError):
    """There is no record of what a model was asked for a message."""

    def __init__(self, thread_id: str, message_id: str) -> None:
        super().__init__(
            f"the request for message {message_id!r} of thread {thread_id!r} was not kept: the "
            "message is no model's answer, or it was made with keep_requests=False or by an "
            "earlier version"
        )
        self.thread_id, self.message_id = thread_id, message_id


class TextGone(StoreError):
    """A text that a kept request refers to is not in the store any more."""

    def __init__(self, thread_id: str, digest: str) -> None:
        super().__init__(
            f"text {digest} of thread {thread_id!r} is gone: the request cannot be built again"
        )
        self.thread_id, self.digest = thread_id, digest


class InvalidCursor(StoreError):
    """A reader wants to go on behind an event that its thread does not have."""

    def __init__(self, thread_id: str, cursor: int, last: int) -> None:
        super().__init__(
            f"thread {thread_id!r} has no event {cursor}: its last one is {last}. Go on from the "
            "last event that was read, or from 0"
        )
        self.thread_id, self.cursor, self.last = thread_id, cursor, last


class AlreadyExists(StoreError):
    """There already is a thread, run or entry with that name."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} already exists")
        self.kind, self.name = kind, name


class InvalidRecord(StoreError):
    """A record breaks a rule of the store."""


class Serialization(StoreError):
    """A value cannot be encoded, or stored data cannot be decoded."""


class UnreadableRecord(Serialization):
    """A stored row cannot be decoded by this version of awaken.

    `kind` and `name` say which row, and `thread_id` its thread, if it has one and that is known.
    For a commit, `messages` are the positions in the log of its first and its last message.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        reason: str,
        *,
        thread_id: str | None = None,
        messages: tuple[int, int] | None = None,
    ) -> None:
        where = f" of thread {thread_id!r}" if thread_id not in (None, name) else ""
        shown = name if kind == "commit" else repr(name)
        super().__init__(
            f"{kind} {shown}{where} cannot be read ({reason}): `awaken db check` lists all such "
            "rows, and says which of them it can mend"
        )
        self.kind, self.name, self.reason = kind, name, reason
        self.thread_id, self.messages = thread_id, messages


class UnreadableValue(Serialization):
    """A value was not written, since it could not be read back: a part of it has a wrong type."""

    def __init__(self, what: str, why: object) -> None:
        super().__init__(
            f"{what} was not written, since it could not be read back: {why}. A plugin, hook or "
            "store key has made a value of a wrong type: give it the type that is expected"
        )
        self.what = what


class CommitTooLarge(InvalidRecord):
    """The row of a commit would be too large; `parts` are the largest parts and their sizes."""

    def __init__(
        self, thread_id: str, *, size: int, limit: int, parts: tuple[tuple[str, int], ...]
    ) -> None:
        named = ", ".join(f"{name} has {length}" for name, length in parts)
        super().__init__(
            f"a commit to thread {thread_id!r} has {size} bytes, more than {limit}: {named}. "
            "Send less at a time; keep files and other large values in blobs, and only their ids "
            "in messages and state"
        )
        self.thread_id, self.size, self.limit, self.parts = thread_id, size, limit, parts


# -- blobs ------------------------------------------------------------------------------------


class BlobError(StoreError):
    """A blob cannot be read."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(f"blob {id[:64]!r} {why}")
        self.id = id


class BlobNotFound(BlobError):
    """The scope has no blob with that id.

    A deleted blob, one of another scope and one that never was give the same error: a caller
    learns nothing about other scopes.
    """

    def __init__(self, id: str) -> None:
        super().__init__(id, "does not exist: it was deleted, or belongs to another scope")


class BlobDamaged(BlobError):
    """The stored bytes of a blob are not those that were put."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(id, f"is damaged: {why}: restore it from a backup, or put it again")


class BlobRangeBeyondEnd(BlobError):
    """A range of a blob was asked for that begins behind its end, or ends before it begins."""

    def __init__(self, id: str, *, start: int, stop: int | None, size: int) -> None:
        span = f"{start}-{'' if stop is None else stop}"
        super().__init__(id, f"has {size} bytes: there is no range {span} in it")
        self.start, self.stop, self.size = start, stop, size


# -- the texts of errors ----------------------------------------------------------------------


def describe(error: object) -> str:
    """The text of an error, or its class name if the text is empty."""
    if isinstance(error, MemoryError):
        return "out of memory"
    return text_of(error, str) or type(error).__name__


def type_of(value: object) -> str:
    """The type of a value as a sentence names it: `an int`, `a dict`, `None`."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def name_of(function: object) -> str:
    """The name of a function in messages; of another thing that can be called, its type."""
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type_of(function)


def text_of(value: object, convert: Callable[[object], str]) -> str:
    try:
        return convert(value)
    except BaseException:  # `__str__` of an error may be user code, and may raise
        return f"{type(value).__name__} (its text cannot be read)"
