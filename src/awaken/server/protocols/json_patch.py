"""JSON patches (RFC 6902), by which a tool changes its last report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from awaken.codec import Json


class PatchError(ValueError):
    """A patch is malformed, or does not fit the document."""


def apply_patch(document: Json, patch: Sequence[Json]) -> Json:
    """A copy of the document with the patch applied.

    Raises:
        PatchError: the patch is malformed, or does not fit.
    """
    root = [deepcopy(document)]
    for operation in patch:
        try:
            _apply(root, operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise PatchError(f"{operation!r} does not fit: {error!r}") from error
    return root[0]


def _apply(root: list[Json], operation: Mapping[str, Any]) -> None:
    path = _steps(operation["path"])
    match operation["op"]:
        case "add":
            _add(root, path, deepcopy(operation["value"]))
        case "remove":
            _remove(root, path)
        case "replace":
            _remove(root, path)
            _add(root, path, deepcopy(operation["value"]))
        case "move":
            _add(root, path, _remove(root, _steps(operation["from"])))
        case "copy":
            _add(root, path, deepcopy(_find(root, _steps(operation["from"]))))
        case "test":
            if _find(root, path) != operation["value"]:
                raise ValueError("the value is another one")
        case other:
            raise ValueError(f"there is no operation {other!r}")


def _steps(pointer: str) -> list[str]:
    """The parts of a JSON pointer, from a list that holds the document alone."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON pointer")
    parts = pointer.split("/")[1:]
    return ["0", *(part.replace("~1", "/").replace("~0", "~") for part in parts)]


def _find(node: Any, path: Sequence[str]) -> Any:
    for step in path:
        node = node[int(step)] if isinstance(node, list) else node[step]
    return node


def _add(root: list[Json], path: Sequence[str], value: Json) -> None:
    parent, last = _find(root, path[:-1]), path[-1]
    if parent is root:
        root[:] = [value]
    elif isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if not 0 <= index <= len(parent):
            raise IndexError(last)
        parent.insert(index, value)
    else:
        parent[last] = value


def _remove(root: list[Json], path: Sequence[str]) -> Json:
    parent, last = _find(root, path[:-1]), path[-1]
    if parent is root:
        return root[0]
    return parent.pop(int(last)) if isinstance(parent, list) else parent.pop(last)
