"""What tools report that they are doing, as data parts."""

from __future__ import annotations

from collections.abc import Iterator

from awaken.codec import Json
from awaken.core.event import ActivityDelta, ActivitySnapshot
from awaken.server.protocols.json_patch import PatchError, patched


class Activities:
    """The latest report of each call, by its type."""

    def __init__(self) -> None:
        self._content: dict[str, Json] = {}

    def shown(self, event: ActivitySnapshot) -> Iterator[Json]:
        yield self._part(event.message_id, event.activity_type, event.content)

    def changed(self, event: ActivityDelta) -> Iterator[Json]:
        """The report with a change; none if it does not fit what was reported before."""
        before = self._content.get(_id(event.message_id, event.activity_type))
        try:
            content = patched(before, event.patch)
        except PatchError:
            return
        yield self._part(event.message_id, event.activity_type, content)

    def _part(self, message_id: str, kind: str, content: Json) -> Json:
        id = _id(message_id, kind)
        self._content[id] = content
        data = {"toolCallId": message_id, "activityType": kind, "content": content}
        return {"type": "data-activity", "id": id, "data": data}


def _id(message_id: str, kind: str) -> str:
    return f"{message_id}:{kind}"
