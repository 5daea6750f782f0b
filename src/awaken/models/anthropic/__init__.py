"""Claude, through Anthropic's own API, Amazon Bedrock and Google Vertex AI."""

from awaken.models.anthropic.clouds import (
    BedrockMessages,
    VertexMessages,
    open_bedrock,
    open_vertex,
)
from awaken.models.anthropic.executor import AnthropicMessages, open_anthropic

__all__ = [
    "AnthropicMessages",
    "BedrockMessages",
    "VertexMessages",
    "open_anthropic",
    "open_bedrock",
    "open_vertex",
]
