"""OpenAI's own models, through the Responses API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from awaken.core.llm import InferenceRequest, ModelAbilities
from awaken.models.openai.connection import ConnectionOptions, connect, parse_options
from awaken.models.openai.executor import OpenAIExecutor
from awaken.models.openai.responses_request import ResponsesOptions, responses_body
from awaken.models.openai.responses_stream import ResponsesReader
from awaken.models.provider_tools import (
    CodeExecution,
    FileSearch,
    NativeTool,
    NativeTools,
    WebSearch,
    native_tool_fields,
)
from awaken.models.settings import add_extra_fields
from awaken.models.wire import original_names


def _web_search(tool: WebSearch) -> dict[str, Any]:
    domains = list(tool.allowed_domains)
    return {"type": "web_search", **({"filters": {"allowed_domains": domains}} if domains else {})}


_NATIVE: NativeTools = {
    WebSearch: (("allowed_domains",), _web_search),
    CodeExecution: ((), lambda _: {"type": "code_interpreter", "container": {"type": "auto"}}),
    FileSearch: (
        ("stores",),
        lambda tool: {"type": "file_search", "vector_store_ids": list(tool.stores)},
    ),
}

_ABILITIES = ModelAbilities(native_output=True, input=frozenset({"image", "document"}))


class OpenAIResponses(OpenAIExecutor):
    """Models behind the Responses API. Nothing is stored at the provider.

    Args:
        name: marks the origin of reasoning. Two accounts cannot read each other's reasoning, so
            give them different names.
        reasoning_summary: how reasoning is summarised for people; by default it is not. OpenAI
            refuses summaries to organisations that it has not verified.
        encrypted_reasoning: switch it off for servers of open models, whose reasoning is plain
            text.
        extra_body: fields to send with every request, such as `{"service_tier": "flex"}`; `tools`
            are added to the agent's.
        native: tools that OpenAI runs itself, such as `WebSearch()`.
        stream: switch it off for models that may not stream; the answer then comes at once.
        connection: see `ConnectionOptions`.

    Raises:
        ConfigError: the extra or the key is missing, or an option makes no sense.
    """

    path = "/responses"

    def __init__(
        self,
        *,
        name: str = "openai",
        reasoning_summary: Literal["auto", "concise", "detailed"] | None = None,
        encrypted_reasoning: bool = True,
        extra_body: Mapping[str, Any] | None = None,
        native: Sequence[NativeTool] = (),
        stream: bool = True,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        if tools := native_tool_fields(native, _NATIVE, name):
            extra_body = add_extra_fields({"tools": tools}, extra_body or {})
        super().__init__(name, connect(name, connection), extra_body, stream)
        options = ResponsesOptions(summary=reasoning_summary, encrypted=encrypted_reasoning)
        self._options = parse_options(name, options)

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return _ABILITIES

    def _body(self, request: InferenceRequest) -> dict[str, Any]:
        return responses_body(request, self._options, self._name)

    def _reader(self, request: InferenceRequest) -> ResponsesReader:
        return ResponsesReader(self._name, original_names(request.tools))
