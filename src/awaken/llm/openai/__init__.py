"""Models behind OpenAI's two APIs: OpenAI, Azure, and every server with a chat completions API."""

from awaken.llm.openai.chat import AzureChat, OpenAIChat
from awaken.llm.openai.chat_request import ChatDialect
from awaken.llm.openai.endpoints import (
    open_azure,
    open_llamacpp,
    open_ollama,
    open_openai,
    open_openai_chat,
    open_openrouter,
    open_vllm,
)
from awaken.llm.openai.responses import OpenAIResponses

__all__ = [
    "AzureChat",
    "ChatDialect",
    "OpenAIChat",
    "OpenAIResponses",
    "open_azure",
    "open_llamacpp",
    "open_ollama",
    "open_openai",
    "open_openai_chat",
    "open_openrouter",
    "open_vllm",
]
