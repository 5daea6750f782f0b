"""Building a request again from its manifest, the log and the texts. No database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from awaken.codec import loads
from awaken.core.inference import OutputFormat
from awaken.core.llm import InferenceRequest, RoutingKey
from awaken.core.message import ContentBlock, Message
from awaken.core.request_manifest import RequestManifest, UnloggedMessage
from awaken.core.tool import ToolDescriptor

MessagesOf = Callable[[int, int], Sequence[Message]]
"""Reads the messages of a thread's log from one position to another."""
TextOf = Callable[[str], bytes]
"""Reads a text by its digest, or raises `TextGone`."""


def complete_manifest(
    manifest: RequestManifest, of_answer: Callable[[int], RequestManifest]
) -> RequestManifest:
    """The manifest with the parts that it shares with earlier manifests. `of_answer` reads the
    manifest of the answer at a position."""
    chain = [manifest]
    while (like := chain[-1].like) is not None:
        chain.append(of_answer(like))
    complete = chain.pop()
    while chain:
        complete = chain.pop().completed(complete)
    return complete


def rebuild_request(
    manifest: RequestManifest, messages_of: MessagesOf, text_of: TextOf
) -> InferenceRequest:
    """The request of a complete manifest.

    Raises:
        TextGone: `text_of` does not have one of its texts.
    """
    settings = manifest.settings
    assert settings is not None, "a complete manifest has settings"
    messages: list[Message] = []
    for entry in manifest.shown:
        if isinstance(entry, UnloggedMessage):
            messages.append(_load_unlogged(entry, messages_of, text_of))
        else:
            messages.extend(messages_of(*entry))
    system, tools, output = settings.system, settings.tools, settings.output
    return InferenceRequest(
        upstream_model=manifest.answered_by or settings.model,
        messages=messages,
        tools=loads(text_of(tools), tuple[ToolDescriptor, ...]) if tools else (),
        system=loads(text_of(system), tuple[ContentBlock, ...]) if system else (),
        overrides=manifest.overrides,
        enable_prompt_cache=settings.prompt_cache,
        output=loads(text_of(output), OutputFormat) if output else None,
        routing_key=RoutingKey(thread_id=settings.thread_id, run_id=settings.run_id),
    )


def _load_unlogged(entry: UnloggedMessage, messages_of: MessagesOf, text_of: TextOf) -> Message:
    message = loads(text_of(entry.text), Message)
    id = entry.id if entry.seq is None else messages_of(entry.seq, entry.seq)[0].id
    return msgspec.structs.replace(message, id=id)
