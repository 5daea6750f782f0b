"""Principals: the people and programs on whose behalf something is done."""

from __future__ import annotations

from awaken.core.value import Value


class Principal(Value, frozen=True, kw_only=True):
    """Who asks, as the edge has authenticated them.

    `scope` is the tenant whose threads they may see; the default scope is the empty text. `agents`
    are the agents they may run, or `None` for all of them.
    """

    id: str
    scope: str = ""
    roles: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None


def id_of(principal: Principal | None) -> str | None:
    """The name under which something is recorded that a principal did, if one is known."""
    return principal.id if principal is not None else None


def scope_of(principal: Principal | None) -> str:
    """The scope of a principal; the default scope, the empty text, if none is known."""
    return principal.scope if principal is not None else ""
