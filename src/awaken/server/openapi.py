"""The OpenAPI document, made from the route table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from awaken._version import __version__
from awaken.codec import Json
from awaken.server.errors import ErrorBody
from awaken.server.request_types import CURSOR, KEY, NEW_ID
from awaken.server.route import Route

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")
_TEXT = {"type": "string", "minLength": 1}
_STATUS = {
    200: "Done",
    201: "Made",
    202: "Accepted: it will be done",
    204: "Done; there is nothing to show",
    400: "The request makes no sense",
    401: "A key is missing or not known",
    403: "The key, the origin or the host may not do this",
    404: "There is no such thing, or this key may not see it",
    409: "The present state does not allow it",
    410: "The cursor is behind the end of the thread",
    412: "It was changed since",
    413: "The body is too large",
    422: "The idempotency key belongs to another request",
    429: "Too many requests, runs or streams",
    503: "The server cannot do this now",
}
_HEADERS: dict[str, tuple[Json, str]] = {
    "Idempotency-Key": (
        {"type": "string", "pattern": KEY},
        "The same request with the same key is carried out once",
    ),
    "If-Match": (
        {"type": "string", "pattern": r'^("[0-9]{1,15}"|\*)$'},
        "The ETag of an earlier answer: nothing is changed if another program was faster",
    ),
    "Last-Event-ID": (
        {"type": "string", "pattern": CURSOR},
        "The id of the last event that the client has; it beats `after`",
    ),
}


def document(routes: Sequence[Route]) -> Json:
    """The document of these routes, as JSON."""
    types = [type_ for route in routes for type_ in _types(route)]
    schemas, components = msgspec.json.schema_components([*types, ErrorBody], ref_template=_REF)
    by_type = dict(zip(map(repr, [*types, ErrorBody]), schemas, strict=True))
    paths: dict[str, dict[str, Json]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(
            route, by_type, components
        )
    for type_ in {route.query for route in routes if route.query is not None}:
        del components[_name(by_type[repr(type_)])]  # they are parameters, one by one
    for component in components.values():
        _simplify(component)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Awaken", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {f"Error{status}": _error(status) for status in _STATUS if status >= 400},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _simplify(schema: Json) -> None:
    """Write a schema in the words that generators of clients understand, in place. It stays equal
    but for defaults: answers leave out fields that have theirs, and generators for TypeScript take
    a field with a default for one that is always there."""
    if isinstance(schema, list):
        for part in schema:
            _simplify(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "array" and not schema.get("items"):
            schema["items"] = {}  # `maxItems` says that there is nothing behind `prefixItems`
        for name, part in schema.items():
            if name == "properties":
                for field in part.values():
                    field.pop("default", None)
            _simplify(part)


def _types(route: Route) -> list[Any]:
    given = [route.query, route.body if route.body is not bytes else None]
    return [type_ for type_ in (*given, *route.answers.values()) if type_ is not None]


def _operation(route: Route, schemas: dict[str, Json], components: dict[str, Json]) -> Json:
    shown: dict[str, Json] = {
        "summary": route.summary,
        "operationId": route.name,
        "parameters": _parameters(route, schemas, components),
        "responses": _responses(route, schemas),
        "security": [{"key": []}] if route.needs else [],
    }
    if route.protocol is not None:
        shown["externalDocs"] = {"url": route.protocol}
    if route.needs:
        shown["description"] = f"Needs one of the roles: {', '.join(route.needs)}."
    if route.body is not None:
        schema = schemas[repr(route.body)] if route.body is not bytes else {"type": "object"}
        shown["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return shown


def _parameters(
    route: Route, schemas: dict[str, Json], components: dict[str, Json]
) -> list[dict[str, Json]]:
    found = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(route, name)}
        for name in _PARAMETER.findall(route.path)
    ]
    if route.query is not None:
        query = components[_name(schemas[repr(route.query)])]
        for field, schema in query["properties"].items():
            is_needed = field in query.get("required", ())
            found.append(
                {"name": field, "in": "query", "required": is_needed, "schema": _drop_null(schema)}
            )
    for header in _headers(route):
        schema, about = _HEADERS[header]
        found.append({"name": header, "in": "header", "schema": schema, "description": about})
    return found


def _path_schema(route: Route, name: str) -> Json:
    """A run that is submitted to a thread may begin it, so its id is one for a new thread."""
    is_new = name == "thread" and 422 in route.errors
    return {"type": "string", "pattern": NEW_ID} if is_new else _TEXT


def _drop_null(schema: Json) -> Json:
    """The schema of a parameter that is given: it may be left out, but has no null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema


def _headers(route: Route) -> list[str]:
    if route.protocol is not None:
        return []
    if route.streams and route.method == "GET":
        return ["Last-Event-ID"]
    if 412 in route.errors:
        return ["If-Match"]
    return ["Idempotency-Key"] if 422 in route.errors else []


def _responses(route: Route, schemas: dict[str, Json]) -> dict[str, Json]:
    if route.protocol is not None:
        return {"default": {"description": "As the protocol says"}}
    shown: dict[str, Json] = {}
    for status, type_ in route.answers.items():
        shown[str(status)] = {"description": _STATUS.get(status, HTTPStatus(status).phrase)}
        if type_ is not None:
            shown[str(status)]["content"] = {route.media_type: {"schema": schemas[repr(type_)]}}
    if route.streams:
        answer = shown.setdefault("200", {"description": "A stream of events"})
        answer.setdefault("content", {})["text/event-stream"] = {"schema": _TEXT}
    for status in errors_of(route):
        shown.setdefault(str(status), {"$ref": f"#/components/responses/Error{status}"})
    return shown


def _error(status: int) -> Json:
    body = {"$ref": _REF.format(name=ErrorBody.__name__)}
    return {"description": _STATUS[status], "content": {"application/json": {"schema": body}}}


def _name(schema: Json) -> str:
    """The name of the component that a schema refers to."""
    return str(schema["$ref"].rpartition("/")[2])


def errors_of(route: Route) -> list[int]:
    """The statuses with which requests to a route may be refused, if they come whole: one whose
    body stops coming gets a 408, and one whose head is too long a 431."""
    found = {403, 503, *route.errors}
    if route.needs:
        found |= {401, 429}
    if route.query is not None or route.body is not None:
        found.add(400)
    if route.body is not None:
        found.add(413)
    if _PARAMETER.search(route.path):
        found.add(404)
    return sorted(found)
