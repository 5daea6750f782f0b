"""The step that finds out who makes a request: by key, stream token or session, or as the caller's
own code says."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.types import Scope

from awaken.domain.principal import Principal
from awaken.server.console.sessions import Sessions
from awaken.server.edge import Arrival
from awaken.server.errors import Refused, unauthorized
from awaken.server.keys import Authenticator, KeyFile, bearer
from awaken.server.table import Role
from awaken.server.tokens import Tokens

LOCAL = Principal(id="local", roles=tuple(Role))
"""Who makes requests to a server without keys."""


class Everyone:
    """Lets everyone in, with all roles, as on one's own machine."""

    def authenticate(self, head: Mapping[str, str]) -> Principal | None:
        return LOCAL


class Authentication:
    """Finds out who makes a request. One without credentials goes on, to the routes that need no
    key; one with wrong ones is refused."""

    def __init__(self, authenticator: Authenticator, tokens: Tokens, sessions: Sessions) -> None:
        self._authenticator, self._tokens = authenticator, tokens
        self._sessions = sessions

    def check(self, arrival: Arrival) -> None:
        head, scope = arrival.request_headers, arrival.scope
        if len(head.getlist("authorization")) > 1:
            raise unauthorized("there is more than one Authorization header")
        token = _token(arrival)
        if token is not None:
            found = self._tokens.read(token)
            if found.path not in (None, own_path(scope)):
                raise Refused(403, "not_with_a_token", "this token is good for another path")
            scope["principal"], scope["terms"] = found.principal, found.terms
            scope["token_thread"] = found.thread
            return
        session = self._sessions.find(head)
        if session is not None:
            scope["principal"], scope["terms"] = session.principal, session.terms
            scope["session"] = session
            return
        principal = self._authenticator.authenticate(head)
        if principal is None and "authorization" in head:
            raise unauthorized("the key is not known")
        scope["principal"] = principal
        if isinstance(self._authenticator, KeyFile):
            scope["terms"] = self._authenticator.terms_of(head)


def own_path(scope: Scope) -> str:
    """The path of a request, wherever the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _token(arrival: Arrival) -> str | None:
    """The stream token of a request. In the query it is for streams alone: other addresses may end
    up in logs and histories."""
    given = bearer(arrival.request_headers)
    if given is not None:
        return given if Tokens.is_token(given) else None
    wants_stream = "text/event-stream" in arrival.request_headers.get("accept", "")
    if arrival.scope["method"] != "GET" or not wants_stream:
        return None
    asked = parse_qs(arrival.scope["query_string"].decode("latin-1"))
    return next(iter(asked.get("token", ())), None)
