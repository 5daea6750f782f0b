"""Which URLs and addresses a request may go to."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from awaken.net.url_policy import (
    AddressPolicy,
    HttpUrl,
    UrlRefused,
    connect_allowed,
    kind_of,
    parse_redirect,
    parse_url,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://a.example", "https://a.example/"),
        ("HTTPS://A.Example:443/X/", "https://a.example/X/"),
        ("http://a.example:8080/x?y=1#z", "http://a.example:8080/x?y=1"),
        ("http://a.example./", "http://a.example/"),
        ("http://[2606:4700::0:1]:80/", "http://[2606:4700::1]/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ],
)
def test_a_url_is_taken_apart_once(text: str, url: str) -> None:
    parsed = parse_url(text)
    assert str(parsed) == url
    assert parse_url(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ftp://a.example/", "not an http or https URL"),
        ("file:///etc/passwd", "not an http or https URL"),
        ("a.example", "not an http or https URL"),
        ("https://", "no valid host"),
        ("https:///x", "no valid host"),
        ("https://a b.example/", "blanks"),
        ("https://a.example\\@b.example/", "blanks, control characters or backslashes"),
        ("https://a.example/\r\nX: y", "blanks"),
        ("https://a.example:99999/", "not a URL"),
        ("https://a.example:0/", "port 0"),
        ("https://[::1/", "not a URL"),
        ("https://a..example/", "no valid host"),
        ("https://-a.example/", "no valid host"),
        ("https://a.example/ü", "not percent-encoded"),
    ],
)
def test_what_is_no_url_is_refused(text: str, error: str) -> None:
    with pytest.raises(UrlRefused, match=error):
        parse_url(text)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(UrlRefused, match="carries a user name") as caught:
        parse_url("https://me:hunter2@a.example/x")
    assert "hunter2" not in str(caught.value)


INSIDE = [
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "unspecified"),
    ("10.0.0.1", "private"),
    ("10.255.255.255", "private"),
    ("100.64.0.1", "shared"),
    ("100.127.255.254", "shared"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.8", "reserved"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "reserved"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmark"),
    ("198.19.255.255", "benchmark"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("fc00::1", "unique local"),
    ("fdff::1", "unique local"),
    ("fe80::1", "link-local"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation"),
    ("2001:2::1", "benchmark"),
    ("2001:0:4136:e378::1", "tunnel"),
    ("100::1", "reserved"),
    ("4000::1", "reserved"),
    # IPv4 inside IPv6
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::ffff:169.254.169.254", "link-local"),
    ("::127.0.0.1", "loopback"),
    ("2002:7f00:1::1", "loopback"),
    ("2002:a00:1::", "private"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b::a9fe:a9fe", "link-local"),
    ("64:ff9b:1::1", "reserved"),
]
OUTSIDE = [
    "8.8.8.8",
    "1.1.1.1",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.0.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize(("address", "kind"), INSIDE)
def test_addresses_that_are_not_public_are_refused(address: str, kind: str) -> None:
    """03/MH-5 private-host rules; 03/DB-14 IPv4 inside IPv6 too."""
    assert kind_of(ip_address(address)) == kind
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(UrlRefused, match=f"{kind} address"):
        AddressPolicy().check_url(parse_url(f"http://{host}/"))


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_not(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    AddressPolicy().check_url(parse_url(f"http://{host}/"))


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "agent.localhost"])
def test_this_machine_by_name_is_refused(host: str) -> None:
    with pytest.raises(UrlRefused, match="is this machine"):
        AddressPolicy().check_url(parse_url(f"http://{host}:8000/"))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "10.1.2.3", "100.64.0.1", "[fc00::1]"])
def test_private_addresses_can_be_opened(host: str) -> None:
    AddressPolicy(allow_private=True).check_url(parse_url(f"http://{host}/"))


@pytest.mark.parametrize("host", ["169.254.169.254", "224.0.0.1", "0.0.0.0", "[fe80::1]"])
def test_what_is_no_place_for_an_agent_has_to_be_named(host: str) -> None:
    url = parse_url(f"http://{host}/")
    with pytest.raises(UrlRefused, match=r"option allow_hosts$"):
        AddressPolicy(allow_private=True).check_url(url)
    AddressPolicy(allow_hosts=(url.host,)).check_url(url)


@pytest.mark.parametrize(
    ("entry", "host", "allowed"),
    [
        ("10.1.0.0/16", "10.1.200.3", True),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("10.1.0.0/16", "[::ffff:10.1.0.1]", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("fc00::/7", "[fd00::1]", True),
        ("agent.localhost", "agent.localhost", True),
        ("agent.localhost", "other.localhost", False),
        ("*.localhost", "agent.localhost", True),
        ("*.localhost", "localhost", False),
    ],
)
def test_hosts_and_networks_can_be_opened_one_by_one(entry: str, host: str, allowed: bool) -> None:
    policy, url = AddressPolicy(allow_hosts=(entry,)), parse_url(f"http://{host}/")
    if allowed:
        policy.check_url(url)
    else:
        with pytest.raises(UrlRefused):
            policy.check_url(url)


@pytest.mark.parametrize("host", ["0x7f000001", "2130706433", "127.1", "0177.0.0.1"])
async def test_addresses_in_disguise_are_seen_when_they_are_looked_up(host: str) -> None:
    url = parse_url(f"http://{host}/")
    AddressPolicy().check_url(url)  # still only a name
    with pytest.raises(UrlRefused, match="loopback"):
        await AddressPolicy().resolve(url.host, 80)


async def test_one_address_inside_is_enough_to_refuse_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def both(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, ("8.8.8.8", port)), (*kind, ("10.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with pytest.raises(UrlRefused, match=r"\(10.0.0.1\) has a private address"):
        await AddressPolicy().resolve("agent.example", 443)
    assert await AddressPolicy(allow_hosts=("agent.example",)).resolve("agent.example", 443) == [
        "8.8.8.8",
        "10.0.0.1",
    ]


def test_an_origin_has_no_default_port_and_keeps_the_brackets() -> None:
    assert HttpUrl(scheme="https", host="a.example", port=443).origin == "https://a.example"
    assert HttpUrl(scheme="http", host="::1", port=8000).origin == "http://[::1]:8000"


def test_a_redirect_leads_to_a_url_that_is_as_safe() -> None:
    url = parse_url("https://a.example/x/y")
    assert str(parse_redirect(url, "../z")) == "https://a.example/z"
    assert str(parse_redirect(url, "//b.example")) == "https://b.example/"
    with pytest.raises(UrlRefused, match="not encrypted"):
        parse_redirect(url, "http://a.example/")


async def test_addresses_share_the_time_of_a_connection() -> None:
    tried: list[tuple[str, float | None]] = []

    async def three(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "8.8.4.4", "1.1.1.1"]

    async def fail(address: str, seconds: float | None) -> None:
        tried.append((address, seconds))
        raise LookupError(address)

    for timeout in (30.0, None):
        with pytest.raises(LookupError, match=r"1\.1\.1\.1"):
            await connect_allowed(
                AddressPolicy(),
                "a.example",
                80,
                fail,
                (LookupError,),
                timeout=timeout,
                lookup=three,
            )

    assert [address for address, _ in tried] == ["8.8.8.8", "8.8.4.4", "1.1.1.1"] * 2
    assert [seconds and round(seconds) for _, seconds in tried] == [10, 15, 30, None, None, None]


async def test_an_error_that_is_no_failed_connection_ends_the_attempts() -> None:
    async def two(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "8.8.4.4"]

    async def break_off(address: str, seconds: float | None) -> None:
        raise KeyError(address)

    with pytest.raises(KeyError, match=r"8\.8\.8\.8"):
        await connect_allowed(
            AddressPolicy(), "a.example", 80, break_off, (OSError,), timeout=1, lookup=two
        )
