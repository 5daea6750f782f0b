"""What tools report that they are doing, as data parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from awaken.codec import Json
from awaken.domain.event import ActivityDelta, ActivitySnapshot
from awaken.protocol.json_patch import PatchError, patched

_IDS = ("thread_id", "run_id", "parent_run_id")
"""What reports of progress say about their run."""


class Activities:
    """The latest report of each call, by its type.

    Args:
        outside: an id as clients see it.
    """

    def __init__(self, outside: Callable[[str], str]) -> None:
        self._outside = outside
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
        if isinstance(content, dict):
            ids = {name: content[name] for name in _IDS if isinstance(content.get(name), str)}
            content = content | {name: self._outside(value) for name, value in ids.items()}
        data = {"toolCallId": message_id, "activityType": kind, "content": content}
        return {"type": "data-activity", "id": id, "data": data}


def _id(message_id: str, kind: str) -> str:
    return f"{message_id}:{kind}"
