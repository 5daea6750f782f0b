"""Models: the providers, the wrappers around them, and the types that a model of your own uses.

Re-exports only; a provider's module is loaded when one of its names is first used.
"""

from typing import TYPE_CHECKING

from awaken.contract.llm import (
    AllModelsUnavailable,
    AnswerListener,
    AnswerTooLarge,
    ContentBlockStop,
    ContentFiltered,
    ContextOverflow,
    InferenceCancelled,
    InferenceExecutionError,
    InferenceRequest,
    InferenceTimeout,
    InvalidRequest,
    LlmExecutor,
    LlmStreamEvent,
    ModelAbilities,
    ModelMissing,
    NoCredit,
    Overloaded,
    PoolAttemptsExhausted,
    ProviderError,
    RateLimited,
    ReasoningDone,
    RoutingKey,
    Stop,
    StreamDriver,
    StreamInterrupted,
    StreamSnapshot,
    ToolCallSigned,
    Unauthorized,
    Usage,
    abilities_of,
    preview_of,
)
from awaken.domain.estimate import DEFAULT_COUNTER, TokenCounter
from awaken.domain.inference import (
    CompactionMode,
    ContextWindowPolicy,
    ReasoningBudget,
    ReasoningEffort,
    StopReason,
    StreamResult,
    TokenUsage,
)
from awaken.domain.message import (
    Audio,
    Base64Source,
    BlobSource,
    Citation,
    ContentBlock,
    Document,
    Image,
    MediaSource,
    MessageMetadata,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
    Visibility,
)
from awaken.domain.output import OutputFormat
from awaken.domain.pool import (
    ModelPoolSpec,
    PoolHome,
    PoolMemberSpec,
    PoolRole,
    PoolRouting,
    PoolSwitch,
    StickyScope,
)
from awaken.domain.spec import Modalities, ModelSpec, ProviderSpec
from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.llm.anthropic import AnthropicMessages, BedrockMessages, VertexMessages
    from awaken.llm.bedrock import BedrockConverse
    from awaken.llm.breaker import CircuitOpen
    from awaken.llm.demo import DemoModel
    from awaken.llm.google import GoogleGemini
    from awaken.llm.history import import_history
    from awaken.llm.local import LocalModel
    from awaken.llm.mend import MendingExecutor
    from awaken.llm.native import CodeExecution, FileSearch, WebSearch
    from awaken.llm.openai import AzureChat, ChatDialect, OpenAIChat, OpenAIResponses
    from awaken.llm.openai.connection import ConnectionOptions
    from awaken.llm.retry import LlmRetryPolicy, RetryingExecutor
    from awaken.stream.listener import StreamListener

__all__ = [
    "DEFAULT_COUNTER",
    "AllModelsUnavailable",
    "AnswerListener",
    "AnswerTooLarge",
    "AnthropicMessages",
    "Audio",
    "AzureChat",
    "Base64Source",
    "BedrockConverse",
    "BedrockMessages",
    "BlobSource",
    "ChatDialect",
    "CircuitOpen",
    "Citation",
    "CodeExecution",
    "CompactionMode",
    "ConnectionOptions",
    "ContentBlock",
    "ContentBlockStop",
    "ContentFiltered",
    "ContextOverflow",
    "ContextWindowPolicy",
    "DemoModel",
    "Document",
    "FileSearch",
    "GoogleGemini",
    "Image",
    "InferenceCancelled",
    "InferenceExecutionError",
    "InferenceRequest",
    "InferenceTimeout",
    "InvalidRequest",
    "LlmExecutor",
    "LlmRetryPolicy",
    "LlmStreamEvent",
    "LocalModel",
    "MediaSource",
    "MendingExecutor",
    "MessageMetadata",
    "Modalities",
    "ModelAbilities",
    "ModelMissing",
    "ModelPoolSpec",
    "ModelSpec",
    "NoCredit",
    "Opaque",
    "OpenAIChat",
    "OpenAIResponses",
    "OutputFormat",
    "Overloaded",
    "PoolAttemptsExhausted",
    "PoolHome",
    "PoolMemberSpec",
    "PoolRole",
    "PoolRouting",
    "PoolSwitch",
    "ProviderError",
    "ProviderSpec",
    "RateLimited",
    "ReasoningBudget",
    "ReasoningDone",
    "ReasoningEffort",
    "RetryingExecutor",
    "Role",
    "RoutingKey",
    "StickyScope",
    "Stop",
    "StopReason",
    "StreamDriver",
    "StreamInterrupted",
    "StreamListener",
    "StreamResult",
    "StreamSnapshot",
    "Text",
    "Thinking",
    "TokenCounter",
    "TokenUsage",
    "ToolCallSigned",
    "ToolResultBlock",
    "ToolUse",
    "Unauthorized",
    "UrlSource",
    "Usage",
    "VertexMessages",
    "Video",
    "Visibility",
    "WebSearch",
    "abilities_of",
    "import_history",
    "preview_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "awaken.llm.bedrock": "BedrockConverse",
        "awaken.llm.breaker": "CircuitOpen",
        "awaken.llm.anthropic": "AnthropicMessages BedrockMessages VertexMessages",
        "awaken.llm.demo": "DemoModel",
        "awaken.llm.google": "GoogleGemini",
        "awaken.llm.history": "import_history",
        "awaken.llm.local": "LocalModel",
        "awaken.llm.mend": "MendingExecutor",
        "awaken.llm.native": "CodeExecution FileSearch WebSearch",
        "awaken.llm.openai": "AzureChat ChatDialect OpenAIChat OpenAIResponses",
        "awaken.llm.openai.connection": "ConnectionOptions",
        "awaken.llm.retry": "LlmRetryPolicy RetryingExecutor",
        "awaken.stream.listener": "StreamListener",
    },
)
