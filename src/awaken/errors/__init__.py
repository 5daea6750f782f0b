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
│   ├── RegistryConflict · ValidationFailed · DiscoveryFailed
├── AgentLoopError                a run started and could not continue
│   ├── InferenceFailed · StorageError · PhaseError · RuntimeFailed · InvalidResume
│   │   └── ArgumentsRefused      (of InvalidResume) a tool refuses edited arguments
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
│   │   └── UnreadableRecord      (of Serialization) a stored row cannot be decoded
│   │   └── UnreadableValue       (of Serialization) a value could not be read back: not written
│   ├── InvalidCursor             a reader wants to go on from where the thread has no event
│   ├── RequestNotKept · TextGone   what a model was asked cannot be read back
│   ├── CommitTooLarge            an `InvalidRecord`: the row of a commit would exceed 1 MiB
│   ├── BlobError                 a blob cannot be read
│   │   ├── BlobNotFound · BlobDamaged · BlobRangeBeyondEnd
│   ├── DecisionRefused           an approver's answer cannot be taken
│   └── StoreUnavailable          the file, disk or server of a store cannot be used
└── ConfigError                   a wrong name, address or argument: the message says what to do
    └── InvalidId                 an id that a caller may not use for something new
"""

from awaken.errors.base import AwakenError, ConfigError, InvalidId
from awaken.errors.base import describe as describe
from awaken.errors.base import name_of as name_of
from awaken.errors.base import type_of as type_of
from awaken.errors.resolve import (
    BackgroundToolNotFound,
    BuildError,
    DelegateNotFound,
    DiscoveryFailed,
    EnvBuildFailed,
    InvalidPluginConfig,
    InvalidRemoteEndpointConfig,
    ModelNotFound,
    ModelPriceUnknown,
    PluginNotFound,
    ProviderNotFound,
    RegistryConflict,
    RemoteAgentNotDirectlyRunnable,
    ResolveError,
    ToolIdConflict,
    UnsupportedRemoteBackend,
    ValidationFailed,
)
from awaken.errors.runtime import (
    AgentLoopError,
    AgentNotFound,
    ArgumentsRefused,
    BudgetExhausted,
    InferenceFailed,
    InvalidResume,
    NoOutput,
    NoPreview,
    PhaseError,
    ResolveFailed,
    RunAbandoned,
    RunLeft,
    RunNotOk,
    RuntimeFailed,
    RuntimeFault,
    StorageError,
    ThreadAlreadyRunning,
    ToolsetFailed,
)
from awaken.errors.state import (
    Cancelled,
    EffectHandlerAlreadyRegistered,
    HandlerAlreadyRegistered,
    HookFailed,
    InvalidTransition,
    KeyAlreadyRegistered,
    KeyDecode,
    KeyEncode,
    MutationBaseRevisionMismatch,
    ParallelMergeConflict,
    PhaseRunLoopExceeded,
    PluginAlreadyInstalled,
    PluginNotInstalled,
    ReducerFailed,
    RevisionConflict,
    StateError,
    ToolAlreadyRegistered,
    UnknownEffectHandler,
    UnknownKey,
    UnknownScheduledActionHandler,
)
from awaken.errors.stores import (
    AlreadyExists,
    BlobDamaged,
    BlobError,
    BlobNotFound,
    BlobRangeBeyondEnd,
    CommitTooLarge,
    CommitUnknown,
    DecisionRefused,
    InvalidCursor,
    InvalidRecord,
    KeyReused,
    LeaseLost,
    NotFound,
    RequestNotKept,
    RewindRefused,
    RunOpen,
    Serialization,
    StaleFence,
    StoreError,
    StoreUnavailable,
    TextGone,
    ThreadBusy,
    ThreadDeleted,
    ThreadOwned,
    UnreadableRecord,
    UnreadableValue,
    VersionConflict,
)

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
