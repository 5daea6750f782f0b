"""Who may look at the console: words, sessions, keys, and the files it is made of."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import re
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from console_kit import Shop, open_shop

import console_libraries
from awaken.core.access import AuthMode
from awaken.server import app
from awaken.server.auth import LOCAL, TokenClaims, Tokens
from awaken.server.console import Pages, Sessions
from awaken.server.console.pages import FOLDER
from awaken.server.console.sessions import SESSION_SECONDS, WORD_SECONDS
from awaken.server.errors import HttpRefusal
from awaken.server.keys import add_key, revoke_key
from awaken.server.route import Route
from awaken.server.routes import ROUTES
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""What a browser says of a link on another site that leads here."""


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[tuple[Shop, Path]]:
    keys = tmp_path / "keys.toml"
    add_key(keys, name="boss", roles=("admin",))
    async with open_shop(tmp_path, keys=keys) as shop:
        yield shop, keys


def as_bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def begin(shop: Shop, key: str) -> str:
    made = await shop.client.post("/v1/session", json={}, headers=as_bearer(key))
    assert made.status_code == 201
    return str(made.json()["token"])


async def test_a_word_works_once_and_for_ten_minutes() -> None:
    """07/CO-4: one of this node, and one that every node knows."""
    clock, access = FakeClock(), MemoryStore().access
    sessions, elsewhere = (Sessions(access, AuthMode.OPEN, clock=clock) for _ in range(2))
    used, late = sessions.make_word(LOCAL), sessions.make_word(LOCAL)
    shared, late_too = [await sessions.share_word(LOCAL, None) for _ in range(2)]
    assert (await sessions.redeem(used))[0].principal == LOCAL
    session, token = await elsewhere.redeem(shared)
    assert session.principal == LOCAL
    for word in (used, shared, "never made", token):
        with pytest.raises(HttpRefusal):
            await sessions.redeem(word)
    assert await sessions.find(as_bearer(token)) is not None, "a token is no word"
    with pytest.raises(HttpRefusal):
        await sessions.find(as_bearer(f"awc_{late_too}"))
    clock.advance(WORD_SECONDS)
    for word in (late, late_too):
        with pytest.raises(HttpRefusal):
            await sessions.redeem(word)


async def test_a_session_ends_by_itself_when_it_is_signed_out_and_if_it_was_changed() -> None:
    clock, access = FakeClock(), MemoryStore().access
    sessions = Sessions(access, AuthMode.OPEN, clock=clock)
    tokens = [(await sessions.begin(LOCAL))[1] for _ in range(2)]
    first = await sessions.find(as_bearer(tokens[0]))
    assert first is not None
    assert first[0].principal == LOCAL
    await sessions.end(first[0])
    other_store = Sessions(MemoryStore().access, AuthMode.OPEN, clock=clock)
    foreign = (await other_store.begin(LOCAL))[1]
    for token in (tokens[0], tokens[1][:-1], foreign, "awc_"):
        with pytest.raises(HttpRefusal):
            await sessions.find(as_bearer(token))
    assert await sessions.find(as_bearer(tokens[1])) is not None
    clock.advance(SESSION_SECONDS)
    with pytest.raises(HttpRefusal):
        await sessions.find(as_bearer(tokens[1]))


async def test_a_session_of_an_open_server_is_not_good_at_one_with_keys() -> None:
    """Who could do everything while no one was asked may not do so when keys are asked for."""
    access = MemoryStore().access
    _, token = await Sessions(access, AuthMode.OPEN).begin(LOCAL)
    word = await Sessions(access, AuthMode.OPEN).share_word(LOCAL, None)
    for auth_mode in (AuthMode.KEYS, AuthMode.OWN):
        with pytest.raises(HttpRefusal):
            await Sessions(access, auth_mode).find(as_bearer(token))
    with pytest.raises(HttpRefusal):
        await Sessions(access, AuthMode.KEYS).redeem(word)
    assert await Sessions(access, AuthMode.OPEN).find(as_bearer(token)) is not None


def address_of(route: Route) -> str:
    return re.sub(r"\{\w+\}", "none", route.path)


async def test_every_route_refuses_requests_of_others(
    keyed: tuple[Shop, Path], tmp_path: Path
) -> None:
    """07/CO-46, 07/CO-4: without a token, from a foreign page, from a page on another port of this
    machine, to a foreign host; a used word, a stream token for another thread. No answer sets a
    cookie."""
    shop, keys = keyed
    token = as_bearer(await begin(shop, add_key(keys, name="ann", roles=("admin",))))
    port = shop.address.rpartition(":")[2]
    others: dict[str, tuple[int, dict[str, str]]] = {
        "without a token": (401, {}),
        "a foreign page": (403, {**token, "origin": "https://evil.example"}),
        "another port": (403, {**token, "origin": f"http://127.0.0.1:{int(port) + 1}"}),
        "a picture": (403, {**token, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}),
        "a foreign host": (403, {"host": "evil.example"}),
    }
    cookies, allowed = [], []
    (tmp_path / "open").mkdir()
    async with open_shop(tmp_path / "open") as open_one:
        for route in ROUTES:
            if not route.needs:
                continue
            for who, (status, head) in others.items():
                asked = open_one if "host" in head else shop
                answer = await asked.client.request(
                    route.method, address_of(route), headers=head, json={}
                )
                cookies += [route.path] if "set-cookie" in answer.headers else []
                if answer.status_code != status:
                    allowed.append((who, route.method, route.path, answer.status_code))
    assert allowed == []
    word = {"word": shop.link().partition("#t=")[2]}
    foreign = {"origin": "http://127.0.0.1:1"}
    answers = [
        await shop.client.post("/v1/session", json={}),
        await shop.client.post("/v1/session", json={"word": "wrong"}),
        await shop.client.post("/v1/session", headers=foreign, json=word),
        await shop.client.get("/console/", headers=foreign),
        await shop.client.get("/console/", headers=LINK),
        await shop.client.post("/v1/session", json=word),
        await shop.client.post("/v1/session", json=word),
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 403, 403, 200, 201, 401]
    assert cookies == []
    assert not any("set-cookie" in answer.headers for answer in answers)


async def test_a_stream_token_is_good_for_its_thread_and_for_seconds(
    keyed: tuple[Shop, Path],
) -> None:
    """07/CO-46."""
    shop, keys = keyed
    for thread in ("order-7", "order-8"):
        await shop.waiting_run(thread)
    token = as_bearer(await begin(shop, add_key(keys, name="ann", roles=("read",))))
    asked = {"thread_id": "order-7", "ttl": 30}
    made = (await shop.client.post("/v1/tokens", json=asked, headers=token)).json()["token"]
    stream = {"accept": "text/event-stream"}
    for path in ("/v1/threads/order-8/events", "/v1/tickets/events"):
        other = await shop.client.get(path, params={"token": made}, headers=stream)
        assert other.status_code in (401, 403, 404), path
    plain = await shop.client.get("/v1/threads/order-7", params={"token": made})
    assert plain.status_code == 401, "in an address it is for streams alone"
    clock = FakeClock()
    tokens = Tokens(MemoryStore().access.signing_secret, clock=clock)
    claims = TokenClaims(principal=LOCAL, thread="order-7", expires_at_ms=tokens.expiry(30))
    late = await tokens.make(claims)
    assert await tokens.read(late) == claims
    clock.advance(31)
    with pytest.raises(HttpRefusal):
        await tokens.read(late)


async def test_a_token_is_in_no_log_and_does_not_work_from_another_origin(
    keyed: tuple[Shop, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """07/CO-49, where the page cannot look: logs, errors and exports."""
    shop, keys = keyed
    caplog.set_level(logging.DEBUG)
    key = add_key(keys, name="ann", roles=("admin",))
    token = await begin(shop, key)
    told = []
    for path in ("/v1/me", "/v1/none", "/v1/runs/none", "/v1/tickets/export", "/v1/audit"):
        told.append((await shop.client.get(path, headers=as_bearer(token))).text)
    head = {**as_bearer(token), "origin": "http://127.0.0.1:1"}
    foreign = await shop.client.get("/v1/me", headers=head)
    assert foreign.status_code == 403
    for secret in (token, key):
        assert secret not in caplog.text
        assert not any(secret in text for text in (*told, foreign.text))


async def test_a_session_of_a_key_ends_with_the_key(keyed: tuple[Shop, Path]) -> None:
    shop, keys = keyed
    key = add_key(keys, name="ann", roles=("read",))
    token = await begin(shop, key)
    me = await shop.client.get("/v1/me", headers=as_bearer(token))
    assert (me.json()["name"], me.json()["roles"]) == ("ann", ["read"])
    again = await shop.client.post("/v1/session", json={}, headers=as_bearer(token))
    assert again.status_code == 403, "a session must not prolong itself"
    boss = add_key(keys, name="chief", roles=("admin",))
    word = await shop.client.post("/v1/session/words", headers=as_bearer(boss))
    other = await shop.client.post("/v1/session", json={"word": word.json()["word"]})
    revoke_key(keys, key.split("_")[1])
    revoke_key(keys, boss.split("_")[1])
    for ended in (token, other.json()["token"]):
        gone = await shop.client.get("/v1/me", headers=as_bearer(ended))
        assert gone.status_code == 401


async def test_a_session_is_signed_out_on_every_node(keyed: tuple[Shop, Path]) -> None:
    """Nodes share a store and a key file. What is remembered of a session goes when it is over."""
    shop, keys = keyed
    key = add_key(keys, name="ann", roles=("read",))
    other = httpx2.ASGITransport(app=app(shop.runtime, keys=keys))
    async with httpx2.AsyncClient(transport=other, base_url=shop.address) as elsewhere:
        tokens = [as_bearer(await begin(shop, key)) for _ in range(2)]
        assert [(await elsewhere.get("/v1/me", headers=one)).status_code for one in tokens] == [
            200
        ] * 2
        assert (await shop.client.delete("/v1/session", headers=tokens[0])).status_code == 204
        for client in (shop.client, elsewhere, elsewhere):
            gone = await client.get("/v1/me", headers=tokens[0])
            assert (gone.status_code, gone.json()["error"]["code"]) == (401, "unauthorized")
            assert (await client.get("/v1/me", headers=tokens[1])).status_code == 200


async def test_a_viewer_may_not_write_or_see_state(keyed: tuple[Shop, Path]) -> None:
    """07/CO-47."""
    shop, keys = keyed
    token = await begin(shop, add_key(keys, name="eve", roles=("read",)))
    allowed = []
    for route in ROUTES:
        is_closed = route.method != "GET" or route.path.endswith("/state")
        if not is_closed or not route.needs or route.path == "/v1/session":
            continue
        path = re.sub(r"\{\w+\}", "none", route.path)
        answer = await shop.client.request(route.method, path, headers=as_bearer(token), json={})
        allowed += [(route.method, route.path)] if answer.status_code != 403 else []
    assert allowed in ([], [("POST", "/v1/tokens")]), "a viewer may make tokens that read"


async def test_every_file_of_the_page_is_sent_with_a_strict_policy(
    keyed: tuple[Shop, Path],
) -> None:
    """07/CO-46; files may be kept for ever, the page never."""
    shop, _ = keyed
    home = await shop.client.get("/", follow_redirects=True)
    assert home.url.path == "/console/"
    assert home.headers["cache-control"] == "no-store"
    build = Pages().build
    script = await shop.client.get(f"/console/static/{build}/app.mjs")
    assert "immutable" in script.headers["cache-control"]
    for answer in (home, script):
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert "require-trusted-types-for 'script'" in answer.headers["content-security-policy"]
    wrong: list[httpx2.Response] = [
        await shop.client.get(f"/console/static/{build}/../pages.py"),
        await shop.client.get(f"/console/static/{build}/index.html"),
        await shop.client.get("/console/static/0000/app.mjs"),
    ]
    assert {answer.status_code for answer in wrong} == {404}


def test_the_pages_never_make_html_of_text() -> None:
    """07/CO-44: what could is not in the source."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
        r"dangerouslySet|style=\"|createContextualFragment|srcdoc"
    )
    sources = [path for path in FOLDER.rglob("*") if path.suffix in (".mjs", ".html")]
    own = [path for path in sources if "vendor" not in path.parts]
    assert len(own) > 20
    found = {str(path): forbidden.findall(path.read_text()) for path in own}
    assert {path: words for path, words in found.items() if words} == {}
    assert max(len(path.read_text().splitlines()) for path in own) <= 300


def test_a_changed_byte_of_a_library_is_refused(tmp_path: Path) -> None:
    """07/CO-3."""
    archive = tmp_path / "library.tgz"
    with tarfile.open(archive, "w:gz") as members:
        for name, content in {
            "code.mjs": b'import"x";export{h}from "preact";',
            "LICENSE": b"MIT",
        }.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            members.addfile(entry, io.BytesIO(content))
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    files = {"code.mjs": "made.mjs", "LICENSE": "made.LICENSE"}
    package = console_libraries.Package("made", "1.0.0", digest, files)
    console_libraries.take(package, archive, tmp_path / "vendor")
    assert (tmp_path / "vendor" / "made.mjs").read_bytes().endswith(b'from"./preact.mjs";')
    archive.write_bytes(archive.read_bytes() + b"\0")
    with pytest.raises(console_libraries.WrongDigest):
        console_libraries.take(package, archive, tmp_path / "vendor")
