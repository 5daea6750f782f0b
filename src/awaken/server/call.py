"""One request that has passed the edge, as handlers see it, and the credential of its caller."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from awaken.codec import dumps
from awaken.core.access import NO_TERMS, Terms
from awaken.core.event import RunEvent
from awaken.core.identity import Principal
from awaken.runtime.live.follow import EventFollower
from awaken.runtime.runtime import Runtime
from awaken.server.client_ids import ClientIds


class ApiCall:
    """A request, its principal, and the runtime that carries it out.

    `query` and `body` have the types that the route names. `ids` converts ids between the client
    and the store.
    """

    __slots__ = ("body", "ids", "principal", "query", "request", "runtime")

    def __init__(
        self, request: Request, runtime: Runtime, principal: Principal, query: Any, body: Any
    ) -> None:
        self.request, self.runtime, self.principal = request, runtime, principal
        self.query, self.body = query, body
        self.ids = ClientIds(principal.scope)

    def path(self, name: str) -> str:
        """A part of the path, as the client wrote it."""
        return str(self.request.path_params[name])

    def address(self, path: str) -> str:
        """A path of this server, as clients reach it: the application may be mounted somewhere."""
        return f"{self.request.scope.get('root_path', '')}{path}"

    def has(self, *roles: str) -> bool:
        """Whether the caller has one of these roles; an `admin` has all of them."""
        return _is_one_of(self.principal.roles, roles)

    def has_token_maker(self, *roles: str) -> bool:
        """Whether the maker of the request's stream token has one of these roles itself, whichever
        roles it gave to the token."""
        return _is_one_of(self.request.scope.get("token_maker_roles", ()), roles)

    @property
    def only_thread(self) -> str | None:
        """The id of the one thread that the request may touch, if it came with a stream token."""
        thread: str | None = self.request.scope.get("token_thread")
        return thread

    @property
    def token_thread_created_at(self) -> int | None:
        """When the thread of the stream token was created; `None` if there was no thread yet when
        the token was made, or if the token's maker could not see it."""
        created_at: int | None = self.request.scope.get("token_thread_created_at")
        return created_at

    @property
    def terms(self) -> Terms:
        """The terms of the caller's key: its rate, its burst and its budget."""
        terms: Terms = self.request.scope.get("terms", NO_TERMS)
        return terms

    @property
    def wants_stream(self) -> bool:
        """Whether the client asks for a stream of events."""
        accepts = self.request.headers.get("accept", "")
        return "text/event-stream" in accepts and self.request.method != "HEAD"

    def follow(self, thread_id: str, *, after: int = 0, tree: bool = False) -> EventFollower:
        """The events of a thread, by its id inside, as `Runtime.follow` gives them, with the ids
        that this client sees."""
        events = self.runtime.follow(thread_id, after=after, tree=tree)
        return EventFollower(_strip_scope(events, self.ids)) if self.ids.scope else events


class JsonResponse(Response):
    """A response in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content)


class Credential(NamedTuple):
    """The key or session of a request, by id. Either may be revoked while a stream of the request
    is open."""

    key: str | None = None
    session: str | None = None


def _is_one_of(own: Collection[str], roles: tuple[str, ...]) -> bool:
    return "admin" in own or any(role in own for role in roles)


async def _strip_scope(
    events: EventFollower, ids: ClientIds
) -> AsyncGenerator[list[RunEvent], None]:
    async with aclosing(events):
        async for batch in events.batches():
            yield [ids.event(event) for event in batch]
