"""The state as JSON for clients that follow it: only values that changed are encoded again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from awaken.codec import Json, loads
from awaken.core.state.key import KeyRegistration
from awaken.core.state.snapshot import MISSING, Snapshot


class JsonView(NamedTuple):
    """The JSON of a snapshot's public keys, sorted by name, with the snapshot and its keys.

    The next snapshot's JSON shares objects with this one, so neither may be changed.
    """

    keys: Mapping[str, KeyRegistration]
    snapshot: Snapshot
    json: dict[str, Json]


def json_view(
    keys: Mapping[str, KeyRegistration], snapshot: Snapshot, earlier: JsonView | None
) -> JsonView:
    """The public keys of a snapshot as JSON. Values unchanged since `earlier` are the same objects
    as there.

    Raises:
        KeyEncode: a value is not JSON-able.
    """
    if earlier is None or earlier.keys is not keys:
        earlier = JsonView(keys, Snapshot.of(0, {}), {})
    before, known = earlier.snapshot, earlier.json
    # With the same base, only values in the top layer can have changed.
    same_base = before.base is snapshot.base
    json = {**known} if same_base else {}
    values = snapshot.top if same_base else {**snapshot.base, **snapshot.top}
    for name, value in values.items():
        if name in known and before.find(name, MISSING) is value:
            json[name] = known[name]
        elif name in keys and keys[name].persistent and keys[name].key.public:
            json[name] = loads(keys[name].key.dump(value))
    if not same_base or len(json) > len(known):
        json = dict(sorted(json.items()))
    return JsonView(keys, snapshot, json)


class PublicState(NamedTuple):
    """The public keys as JSON, and how they changed: see `changes_between`."""

    revision: int
    values: dict[str, Json]
    changes: list[Json]


def changes_between(before: JsonView | None, after: JsonView) -> list[Json]:
    """A JSON patch (RFC 6902) that makes `{revision, extensions}` of one view that of the next.

    Empty if no public key changed, or there is no view before.
    """
    if before is None:
        return []
    patch: list[Json] = [
        {"op": "remove", "path": _path(name)} for name in before.json if name not in after.json
    ]
    for name, value in after.json.items():
        if name not in before.json:
            patch.append({"op": "add", "path": _path(name), "value": value})
        elif before.json[name] is not value and before.json[name] != value:
            patch.append({"op": "replace", "path": _path(name), "value": value})
    if patch:
        revision = after.snapshot.revision
        patch.insert(0, {"op": "replace", "path": "/revision", "value": revision})
    return patch


def _path(name: str) -> str:
    return "/extensions/" + name.replace("~", "~0").replace("/", "~1")
