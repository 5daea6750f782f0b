"""Refusing requests with content that the model cannot read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from awaken.core.llm import AnswerListener, InferenceRequest, InvalidRequest, StreamDriver
from awaken.core.message import (
    Audio,
    Base64Source,
    BlobSource,
    ContentBlock,
    Document,
    Image,
    MediaSource,
    ToolResultBlock,
    UrlSource,
    Video,
)
from awaken.models.wrapper import ExecutorWrapper

_PLAIN = {Image: "Image", Audio: "Audio", Video: "Video"}


class ModalityGuard(ExecutorWrapper[StreamDriver]):
    """Wraps an executor, and refuses content that its model cannot read.

    Args:
        reads: the kinds that the model is declared to read: `text`, `image`, `audio`, `video`,
            `pdf`.
    """

    def __init__(self, inner: StreamDriver, model_id: str, reads: Sequence[str]) -> None:
        super().__init__(inner)
        self._model_id = model_id
        self._reads = frozenset(kind.lower() for kind in reads)

    async def drive(self, request: InferenceRequest, listener: AnswerListener) -> None:
        """
        Raises:
            InvalidRequest: the request contains a kind that the model does not read.
            InferenceExecutionError: the model did not answer.
        """
        self._check(request)
        await self._inner.drive(request, listener)

    def _check(self, request: InferenceRequest) -> None:
        for at, message in enumerate(request.messages):
            for place, kind in _kinds(message.content):
                if kind.lower() not in self._reads:
                    raise InvalidRequest(
                        f"model '{self._model_id}' does not support {kind} input at "
                        f"messages[{at}].content[{place}]"
                    )


def _kinds(content: Sequence[ContentBlock]) -> Iterator[tuple[int, str]]:
    """The index and kind of each block that is not text, including those inside tool results."""
    for place, block in enumerate(content):
        if isinstance(block, ToolResultBlock):
            yield from ((place, kind) for _, kind in _kinds(block.content))
            continue
        kind = _PLAIN.get(type(block))
        if kind is not None:
            yield place, kind
        elif isinstance(block, Document) and _is_pdf(block.source):
            yield place, "Pdf"


def _is_pdf(source: MediaSource) -> bool:
    match source:
        case Base64Source(media_type=kind) | BlobSource(media_type=kind):
            return kind.partition(";")[0].strip().lower() == "application/pdf"
        case UrlSource(url=url):
            path = url.partition("?")[0].partition("#")[0]
            return path.lower().endswith(".pdf") or url.lower().startswith("data:application/pdf")
