"""Parts of requests that OpenAI's two APIs share: names, ids, media, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from awaken.codec import digest, dumps_text
from awaken.core.inference import OutputFormat, ReasoningBudget, ReasoningEffort
from awaken.core.llm import InferenceRequest, inline_source
from awaken.core.message import (
    Base64Source,
    Citation,
    ContentBlock,
    MediaSource,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResultBlock,
    ToolUse,
)
from awaken.models.openai.schema import strict_schema
from awaken.models.wire import build_unsupported_error, wire_name

MAX_CALL_ID = 40
MAX_CACHE_KEY = 64

# The least tokens of a reasoning budget that count as each effort.
_EFFORTS = ((16_384, "high"), (4_096, "medium"), (1, "low"))


def wire_call_id(id: str) -> str:
    """A call's id in the length that the API accepts; deterministic."""
    return wire_name(id, MAX_CALL_ID)


def arguments_text(arguments: object) -> str:
    return "{}" if arguments is None else dumps_text(arguments)


def calls_of(content: Sequence[ContentBlock], calls: Sequence[ToolCall] | None) -> list[ToolCall]:
    """The calls of an assistant message, including those inside its content."""
    known = {call.id for call in calls or ()}
    inside = [
        ToolCall(id=block.id, name=block.name, arguments=block.input)
        for block in content
        if isinstance(block, ToolUse) and block.id not in known
    ]
    return [*inside, *(calls or ())]


# -- content ----------------------------------------------------------------------------------


def texts(blocks: Sequence[ContentBlock], model: str, place: str) -> str:
    """The text of blocks that must be text, as paragraphs.

    Raises:
        InvalidRequest: one of them is something else.
    """
    said: list[str] = []
    for index, block in enumerate(blocks):
        if isinstance(block, Text):
            said.append(block.text)
        elif not isinstance(block, Thinking | ToolUse | Opaque | Citation):
            raise build_unsupported_error(model, block, f"{place}[{index}]")
    return "\n\n".join(filter(None, said))


def flatten_results(blocks: Iterable[ContentBlock]) -> Iterator[ContentBlock]:
    """The blocks, with tool results replaced by their content."""
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield from flatten_results(block.content)
        else:
            yield block


def media_url(source: MediaSource) -> str:
    """The URL of a medium; inline content gets a `data:` URL."""
    inline = inline_source(source)
    if isinstance(inline, Base64Source):
        return f"data:{inline.media_type};base64,{inline.data}"
    return inline.url


def file_name(title: str | None, source: Base64Source) -> str:
    """A name for a file; the API takes the file's type from the ending."""
    ending = source.media_type.partition(";")[0].rpartition("/")[2]
    ending = {"plain": "txt", "markdown": "md"}.get(ending, ending)
    name = title or "document"
    return name if name.lower().endswith(f".{ending}") else f"{name}.{ending}"


def citation_of(origin: str, note: Mapping[str, Any]) -> Citation:
    """A citation for an annotation of either API; the chat API nests its fields."""
    fields = note.get(str(note.get("type"))) or note
    return Citation(
        origin=origin,
        data=dict(note),
        url=fields.get("url"),
        title=fields.get("title") or fields.get("filename"),
        quote=fields.get("content"),
        start=fields.get("start_index"),
        end=fields.get("end_index"),
    )


# -- parameters -------------------------------------------------------------------------------


def sampling(request: InferenceRequest, max_tokens: str) -> dict[str, Any]:
    """The temperature, top_p and token limit that are set. `max_tokens` is the name of the limit's
    field."""
    overrides = request.overrides
    if overrides is None:
        return {}
    given = {
        "temperature": overrides.temperature,
        "top_p": overrides.top_p,
        max_tokens: overrides.max_tokens,
    }
    return {name: value for name, value in given.items() if value is not None}


def effort_of(request: InferenceRequest) -> ReasoningEffort | None:
    return request.overrides.reasoning_effort if request.overrides is not None else None


def effort_name(effort: ReasoningEffort) -> str:
    """The effort as a word, because the API takes no budgets."""
    if not isinstance(effort, ReasoningBudget):
        return effort
    return next((name for least, name in _EFFORTS if effort.budget >= least), "none")


def json_format(output: OutputFormat) -> dict[str, Any]:
    """The output format; strict if strict mode can express the schema."""
    strict = strict_schema(output.schema)
    described: Mapping[str, Any] = (
        {"description": output.description} if output.description is not None else {}
    )
    return {
        "name": wire_name(output.name),
        "schema": output.schema if strict is None else strict,
        "strict": strict is not None,
        **described,
    }


def cache_key(request: InferenceRequest) -> str | None:
    """The key by which the requests of one thread share a cache, or `None`."""
    key = request.routing_key
    if not request.enable_prompt_cache or key is None or not key.thread_id:
        return None
    return key.thread_id if len(key.thread_id) <= MAX_CACHE_KEY else digest(key.thread_id)
