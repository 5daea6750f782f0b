"""Reading back what a model was asked."""

from __future__ import annotations

from typing import Protocol

from awaken.core.llm import InferenceRequest
from awaken.core.request_manifest import RequestManifest


class Requests(Protocol):
    """Reads the requests that were committed with their answers."""

    async def load_request(self, thread_id: str, message_id: str) -> InferenceRequest:
        """The request that led to an answer, by the answer's message id.

        It is the request as the model got it, except that media in blobs are references.

        Raises:
            NotFound: no such thread, or no such message in it.
            RequestNotKept: the message is no model's answer, or its request was not kept.
            TextGone: a text of the request is not in the store any more.
        """
        ...

    async def load_manifest(self, thread_id: str, message_id: str) -> RequestManifest:
        """What is kept of that request, complete: also which messages are not from the log, and
        which attempts failed.

        Raises:
            NotFound, RequestNotKept: as `load_request`.
        """
        ...
