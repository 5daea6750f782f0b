"""The artifacts of a task, put together from the pieces of its stream.

Each piece is read only once, when it comes: an agent may send a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a.types.a2a_pb2 import Artifact, Part
from google.protobuf.json_format import MessageToDict

from awaken.backend.a2a.parts import media_type, part_text, plain
from awaken.codec import Json
from awaken.core.backend_result import BackendOutputArtifact
from awaken.net.pinned import TooLarge

MAX_PIECES = 50_000
"""The most artifacts, parts and entries of metadata of a task, together."""
_PIECE = 64
"""The approximate overhead of a piece in bytes, besides its text."""


class Artifacts:
    """The artifacts of one task, in the order in which they came.

    `size` is their approximate size in bytes.
    """

    def __init__(self, artifacts: Iterable[Artifact] = ()) -> None:
        self._all: list[_Artifact] = []
        self._by_id: dict[str, _Artifact] = {}
        self._pieces = self.size = 0
        for artifact in artifacts:
            self._add(artifact)

    def update(self, artifact: Artifact, *, append: bool) -> None:
        """Add an artifact. It replaces the one with its id; with `append`, it extends that one.

        Raises:
            TooLarge: the task has too many pieces.
        """
        known = self._by_id.get(artifact.artifact_id)
        if known is None:
            self._add(artifact)
            return
        if not append:
            self._count(-known.pieces, -known.size)
            known.clear()
            known.describe(artifact)
        before, size = known.pieces, known.size
        known.extend(artifact)
        self._count(known.pieces - before, known.size - size)

    def _add(self, artifact: Artifact) -> None:
        made = _Artifact()
        made.describe(artifact)
        made.extend(artifact)
        self._all.append(made)
        self._by_id.setdefault(artifact.artifact_id, made)
        self._count(1 + made.pieces, _PIECE + made.size)

    def _count(self, pieces: int, size: int) -> None:
        self._pieces += pieces
        self.size += size
        if self._pieces > MAX_PIECES:
            raise TooLarge(f"the agent's task has more than {MAX_PIECES} artifacts and parts")

    @property
    def text(self) -> str:
        """The text of the first artifact that has any."""
        return next((text for one in self._all if (text := one.text)), "")

    def outputs(self) -> tuple[BackendOutputArtifact, ...]:
        """All artifacts in their present state."""
        return tuple(made.output() for made in self._all)


class _Artifact:
    """One unfinished artifact."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.pieces = self.size = 0
        self._about: dict[str, Any] = {}
        self._parts: list[Json] = []
        self._metadata: dict[str, Json] = {}
        self._texts: list[str] = []
        self._was_text = True
        self._kinds: set[str | None] = set()

    def describe(self, artifact: Artifact) -> None:
        """Take over an artifact's description, without its parts."""
        about = Artifact(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            extensions=artifact.extensions,
        )
        self._about = plain(MessageToDict(about))

    def extend(self, artifact: Artifact) -> None:
        """Add its parts and its metadata."""
        for part in artifact.parts:
            self._extend(part)
        if artifact.HasField("metadata"):
            before = len(self._metadata)
            self._metadata.update(plain(MessageToDict(artifact.metadata)))
            self.pieces += len(self._metadata) - before
        self.size += artifact.ByteSize() + _PIECE * len(artifact.parts)

    def _extend(self, part: Part) -> None:
        self._parts.append(plain(MessageToDict(part)))
        self._kinds.add(media_type(part))
        self.pieces += 1
        text = part_text(part)
        if not text:
            return
        # Adjacent texts are joined without a separator: text that an agent streams comes in many
        # parts.
        is_text = part.WhichOneof("content") == "text"
        if self._texts and not (is_text and self._was_text):
            self._texts.append("\n\n")
        self._texts.append(text)
        self._was_text = is_text

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def output(self) -> BackendOutputArtifact:
        content = {
            key: self._about[key] for key in self._about if key not in ("artifactId", "name")
        }
        if self._metadata:
            content["metadata"] = plain(self._metadata)
        if self._parts:
            content["parts"] = list(self._parts)
        return BackendOutputArtifact(
            id=self._about.get("artifactId"),
            name=self._about.get("name"),
            media_type=next(iter(self._kinds)) if len(self._kinds) == 1 else None,
            content={key: content[key] for key in sorted(content)},
        )
