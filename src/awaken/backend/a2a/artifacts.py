"""What a task has made so far, put together piece by piece as its stream tells it.

A piece is read when it comes, and never again: an agent may send a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a.types.a2a_pb2 import Artifact, Part
from google.protobuf.json_format import MessageToDict

from awaken.backend.a2a.http import TooLarge
from awaken.backend.a2a.parts import media_type, part_text, plain
from awaken.codec import Json
from awaken.contract.backend import BackendOutputArtifact

MAX_PIECES = 50_000
"""How many artifacts, parts and entries of metadata a task may have together."""
_PIECE = 64
"""What a piece takes besides its text, roughly, in bytes."""


class Artifacts:
    """The artifacts of one task, in the order they came.

    `size` is roughly how many bytes they take.
    """

    def __init__(self, artifacts: Iterable[Artifact] = ()) -> None:
        self._all: list[_Artifact] = []
        self._by_id: dict[str, _Artifact] = {}
        self._pieces = self.size = 0
        for artifact in artifacts:
            self._add(artifact)

    def update(self, artifact: Artifact, *, append: bool) -> None:
        """Take one in, in the place of the one with its id, or behind what that has.

        Raises:
            TooLarge: the task has more pieces than it may have.
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
        """All of them, as they are now."""
        return tuple(made.output() for made in self._all)


class _Artifact:
    """One artifact while it is made."""

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
        """Take over what an artifact says of itself, without its parts."""
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
        # Text follows upon text as it is: what an agent writes bit by bit comes as many parts.
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
