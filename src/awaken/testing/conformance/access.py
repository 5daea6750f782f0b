"""Checks of what servers keep in a store: keys, sessions and the audit (06 §3.2)."""

from __future__ import annotations

from awaken.core.access import AuthMode, Deed, KeyEntry, KeyRole, Session
from awaken.core.budget import Budget
from awaken.core.identity import Principal
from awaken.core.store.store import Store
from awaken.errors import AlreadyExists, StoreError
from awaken.testing.conformance.concurrency import race
from awaken.testing.conformance.helpers import StoreCheck, Suite, expect_error

check = Suite[StoreCheck]()

ENTRY = KeyEntry(
    sha256="a" * 64,
    name="Änne \U0001f511 \0",
    scope="acme",
    roles=(KeyRole.INVOKE, KeyRole.READ),
    agents=("support",),
    rate=2.5,
    burst=7,
    budget=Budget(tokens=1_000, money=0.5),
)
OTHER = KeyEntry(sha256="b" * 64, roles=(KeyRole.ADMIN,))


def make_session(id: str, until: int = 1_000, scope: str = "", key: str | None = None) -> Session:
    who = Principal(id=f"who of {id} \0", scope=scope, roles=("read",))
    return Session(id=id, principal=who, expires_at_ms=until, auth_mode=AuthMode.KEYS, key=key)


def a_deed(at: int, scope: str = "", who: str = "ann") -> Deed:
    return Deed(
        at=at,
        who=who,
        scope=scope,
        method="POST",
        route="/v1/runs",
        on={"run": "r \0"},
        status=202,
        address="::1",
    )


@check
async def a_key_is_kept_until_it_is_revoked(store: Store) -> None:
    assert await store.access.find_key("k1") is None
    await store.access.add_key("k2", OTHER)
    await store.access.add_key("k1", ENTRY)

    assert await store.access.find_key("k1") == ENTRY
    assert list(await store.access.list_keys()) == [("k1", ENTRY), ("k2", OTHER)]
    assert [await store.access.revoke_key("k1") for _ in range(2)] == [True, False]
    assert await store.access.find_key("k1") is None
    assert list(await store.access.list_keys()) == [("k2", OTHER)]


@check
async def an_id_is_given_to_one_key(store: Store) -> None:
    """The key that was there first goes on, unchanged."""
    await store.access.add_key("k", ENTRY)
    await expect_error(AlreadyExists, store.access.add_key("k", OTHER))
    assert await store.access.find_key("k") == ENTRY


@check
async def the_secret_is_made_once(store: Store) -> None:
    found, _ = await race(StoreError, *[store.access.signing_secret() for _ in range(8)])
    assert (len(found), len(set(found))) == (8, 1)
    assert len(found[0]) >= 32


@check
async def a_session_is_kept_until_it_is_ended(store: Store) -> None:
    one, two = make_session("s1", key="k"), make_session("s2", scope="acme")
    for session in (one, two):
        await store.access.begin_session(session, now_ms=1)

    assert await store.access.find_session("s1") == one
    assert await store.access.end_session("s1") == one
    assert await store.access.end_session("s1") is None
    assert await store.access.find_session("s1") is None
    assert await store.access.find_session("s2") == two


@check
async def of_those_that_end_a_session_one_gets_it(store: Store) -> None:
    """So a one-time word begins one session."""
    await store.access.begin_session(make_session("s"), now_ms=1)
    ended, _ = await race(StoreError, *[store.access.end_session("s") for _ in range(10)])
    assert len([session for session in ended if session is not None]) == 1


@check
async def sessions_that_are_over_go_when_another_begins(store: Store) -> None:
    await store.access.begin_session(make_session("old", until=100), now_ms=1)
    await store.access.begin_session(make_session("young", until=101), now_ms=1)
    assert await store.access.find_session("old") is not None

    await store.access.begin_session(make_session("new", until=900), now_ms=100)

    left = [id for id in ("old", "young", "new") if await store.access.find_session(id)]
    assert left == ["young", "new"]


@check
async def deeds_are_listed_newest_first_page_by_page(store: Store) -> None:
    """By when they were noted: clocks of nodes differ. Numbers fall from page to page."""
    for at in (5, 3, 9, 1):
        await store.access.note_deed(a_deed(at))
    await store.access.note_deed(a_deed(7, "acme"))

    page = await store.access.list_deeds("", limit=3)
    rest = await store.access.list_deeds("", limit=3, before=int(page.cursor or ""))

    assert [deed for _, deed in (*page, *rest)] == [a_deed(at) for at in (1, 9, 3, 5)]
    assert (len(page), rest.cursor) == (3, None)
    numbers = [number for number, _ in (*page, *rest)]
    assert numbers == sorted(set(numbers), reverse=True)
    assert [deed for _, deed in await store.access.list_deeds("acme", limit=9)] == [
        a_deed(7, "acme")
    ]
    assert len(await store.access.list_deeds("none", limit=9)) == 0


@check
async def old_deeds_are_deleted(store: Store) -> None:
    for at, scope in ((10, ""), (20, "acme"), (30, "")):
        await store.access.note_deed(a_deed(at, scope))

    assert await store.access.delete_deeds(before_ms=20) == 1
    assert await store.access.delete_deeds(before_ms=21) == 1

    assert [deed.at for _, deed in await store.access.list_deeds("", limit=9)] == [30]
    assert len(await store.access.list_deeds("acme", limit=9)) == 0


@check
async def a_tenant_is_forgotten_alone(store: Store) -> None:
    scopes = ("", "acme", "acme-2")
    for scope in scopes:
        await store.access.add_key(f"k{scope}", KeyEntry(sha256="c" * 64, scope=scope))
        await store.access.begin_session(make_session(f"s{scope}", scope=scope), now_ms=1)
        await store.access.note_deed(a_deed(1, scope))

    assert await store.access.clear_scope("acme") == 3
    assert await store.access.clear_scope("acme") == 0

    assert {id for id, _ in await store.access.list_keys()} == {"k", "kacme-2"}
    assert await store.access.find_session("sacme") is None
    assert await store.access.find_session("sacme-2") is not None
    assert [len(await store.access.list_deeds(scope, limit=9)) for scope in scopes] == [1, 0, 1]


@check
async def they_outlive_threads(store: Store) -> None:
    await store.access.add_key("k", OTHER)
    await store.access.note_deed(a_deed(1))
    await store.prune(before_ms=10**15)
    assert await store.access.find_key("k") == OTHER
    assert len(await store.access.list_deeds("", limit=9)) == 1


@check
async def very_many_deeds_are_deleted(store: Store) -> None:
    """Also more than a store deletes at once."""
    deeds = [a_deed(at, "acme" if at % 2 else "") for at in range(2_050)]
    await race(StoreError, *[store.access.note_deed(deed) for deed in deeds])
    assert await store.access.delete_deeds(before_ms=1_024) == 1_024
    assert await store.access.clear_scope("acme") == 513
    assert len(await store.access.list_deeds("", limit=9_999)) == 513
