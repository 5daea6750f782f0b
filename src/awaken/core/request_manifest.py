"""The stored form of a request to a model, from which the same request can be built again.

A manifest refers to the message log by ranges, and to everything else by the digests of texts,
each of which a store keeps once. A manifest says only what differs from an earlier one of the
thread, so it is small.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest
from awaken.core.value import Value


class RequestManifest(Value, frozen=True, kw_only=True):
    """The request that led to the answer `message_id`.

    `shown` are its messages. `like` is the position in the log of an earlier answer: the first
    `same` entries of that one's manifest come before `shown`, and its settings hold if this one has
    none. A manifest without `like` is complete.

    `answered_by` is the model that got the request, if it is another than the one asked, as in a
    pool. `attempts` failed before. `first_ms` is the time from the request to the first piece of
    the answer.
    """

    message_id: str
    like: int | None = None
    same: int = 0
    shown: tuple[Shown, ...] = ()
    settings: RequestSettings | None = None
    overrides: InferenceOverride | None = None
    answered_by: str | None = None
    attempts: tuple[FailedAttempt, ...] = ()
    first_ms: int | None = None

    def completed(self, earlier: RequestManifest) -> RequestManifest:
        """This manifest with the parts it leaves out; `earlier` is the complete manifest of
        `like`."""
        return msgspec.structs.replace(
            self,
            like=None,
            same=0,
            shown=(*earlier.shown[: self.same], *self.shown),
            settings=self.settings or earlier.settings,
        )


class UnloggedMessage(Value, frozen=True, kw_only=True):
    """A message that a model was shown and that the log does not have in this form.

    `text` is the digest of the message without its id. If it was shown in place of a message of the
    log, such as one that was shortened, `seq` is the position of that message, whose id it has.
    """

    text: str
    id: str | None = None
    seq: int | None = None


Shown = tuple[int, int] | UnloggedMessage
"""The messages of the log from one position to another, or a message that is not in the log."""


class RequestSettings(Value, frozen=True, kw_only=True):
    """The parts of a request that seldom change from one step of a run to the next.

    `system`, `tools` and `output` are digests of texts; `None` if the request has no such part.
    """

    thread_id: str
    run_id: str
    model: str
    system: str | None = None
    tools: str | None = None
    output: str | None = None
    prompt_cache: bool = False


class FailedAttempt(Value, frozen=True, kw_only=True):
    """A request to a model that failed before another one was made: the model, the class of the
    error, and how long the attempt took."""

    model: str
    error: str
    ms: int


class StoredText(msgspec.Struct, frozen=True, gc=False):
    """A part of a request, as JSON: a store keeps each such text once, by its digest."""

    digest: str
    body: bytes


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
        """The complete manifest of that request: with the messages that are not from the log, and
        the attempts that failed.

        Raises:
            NotFound, RequestNotKept: as `load_request`.
        """
        ...
