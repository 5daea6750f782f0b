"""Models behind OpenAI's two APIs: OpenAI, Azure, and every server with a chat completions API."""

from awaken.models.openai.chat import AzureChat, OpenAIChat
from awaken.models.openai.open import (
    open_azure,
    open_cerebras,
    open_deepseek,
    open_fireworks,
    open_groq,
    open_huggingface,
    open_llamacpp,
    open_mistral,
    open_moonshot,
    open_ollama,
    open_openai,
    open_openai_chat,
    open_openrouter,
    open_together,
    open_vllm,
    open_xai,
    open_zai,
)
from awaken.models.openai.providers import ChatDialect
from awaken.models.openai.responses import OpenAIResponses

__all__ = [
    "AzureChat",
    "ChatDialect",
    "OpenAIChat",
    "OpenAIResponses",
    "open_azure",
    "open_cerebras",
    "open_deepseek",
    "open_fireworks",
    "open_groq",
    "open_huggingface",
    "open_llamacpp",
    "open_mistral",
    "open_moonshot",
    "open_ollama",
    "open_openai",
    "open_openai_chat",
    "open_openrouter",
    "open_together",
    "open_vllm",
    "open_xai",
    "open_zai",
]
