"""Validating and parsing an endpoint of an A2A agent."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from awaken.codec import from_json
from awaken.core.backend import ExecutionBackendFactoryError
from awaken.core.secret import RedactedString
from awaken.core.spec import RemoteEndpoint
from awaken.core.value import Value
from awaken.net.credentials import Credentials
from awaken.net.url_policy import AddressPolicy, HttpUrl, UrlRefused, networks, parse_url

BACKEND = "a2a"

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_OWN_HEADERS = frozenset(
    {"accept", "accept-encoding", "a2a-version", "connection", "content-length", "content-type"}
    | {"host", "transfer-encoding"}
)


class Binding(StrEnum):
    """The wire format of operations."""

    HTTP_JSON = "HTTP+JSON"
    JSONRPC = "JSONRPC"


_MILLIS = msgspec.Meta(ge=1, le=86_400_000)
_COUNT = msgspec.Meta(ge=0, le=2**31 - 1)


def _doc(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class A2aOptions(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of an endpoint."""

    poll_interval_ms: Annotated[
        int, _doc("How long to wait between two polls of a task."), _MILLIS
    ] = 2000
    history_length: Annotated[
        Annotated[int, _COUNT] | None,
        _doc("How many messages of a task's history to ask for; unset, the agent decides."),
    ] = None
    return_immediately: Annotated[
        bool, _doc("Whether sending a message returns as soon as there is a task.")
    ] = True
    streaming: Annotated[
        bool, _doc("Whether to follow a task as it goes, where the agent can do that.")
    ] = True
    binding: Annotated[Binding, _doc("How operations are written on the wire.")] = Binding.HTTP_JSON
    cancel_on_timeout: Annotated[
        bool, _doc("Whether a task that takes too long is cancelled on the other side.")
    ] = True
    resend_unknown: Annotated[
        bool,
        _doc("Whether a request is sent again if it is unknown whether it arrived before."),
    ] = False
    allow_private: Annotated[
        bool,
        _doc("Whether loopback, private, shared and unique local addresses are allowed."),
    ] = False
    allow_hosts: Annotated[
        tuple[str, ...],
        _doc("Names, *.names, addresses and networks that are allowed, whatever they are."),
    ] = ()
    token_hosts: Annotated[
        tuple[str, ...],
        _doc("Hosts (by https) or origins the credentials may go to besides their own."),
    ] = ()
    token_audience: Annotated[
        str | None, _doc("The origin the credentials are for; unset, that of base_url.")
    ] = None
    max_response_bytes: Annotated[
        int, _doc("How much one answer, or one stream, may hold."), msgspec.Meta(ge=1024)
    ] = 16 * 1024 * 1024
    a2a_server_id: Annotated[str | None, _doc("The source the agent was found at.")] = None


class A2aConfig(Value, frozen=True, kw_only=True):
    """A validated endpoint.

    `interface` is the URL for operations: the base URL, followed by the target with HTTP+JSON.
    """

    interface: HttpUrl
    target: str | None
    timeout: float
    credentials: Credentials | None
    policy: AddressPolicy
    options: A2aOptions

    @property
    def target_key(self) -> str:
        """The name of this agent in remote state."""
        base = f"a2a:{self.interface.origin}{self.interface.target.rstrip('/')}"
        if self.options.binding is Binding.JSONRPC and self.target:
            return f"{base}#{self.target}"
        return base

    @property
    def poll_interval(self) -> float:
        return self.options.poll_interval_ms / 1000


def read_config(endpoint: RemoteEndpoint) -> A2aConfig:
    """Validate an endpoint.

    Raises:
        ExecutionBackendFactoryError: the endpoint cannot work; the text says why, without secrets.
    """
    if endpoint.backend != BACKEND:
        raise _config_error(f"backend is {endpoint.backend!r}, this one is {BACKEND!r}")
    if endpoint.timeout_ms < 1:
        raise _config_error(f"timeout_ms is {endpoint.timeout_ms}: it is at least 1")
    options = _options(endpoint.options)
    policy = AddressPolicy(allow_private=options.allow_private, allow_hosts=options.allow_hosts)
    interface = _interface(endpoint, options.binding)
    try:
        policy.check_url(interface)
        audience = parse_url(options.token_audience or endpoint.base_url).origin
        hosts = tuple(
            parse_url(host).origin if "://" in host else host.lower()
            for host in options.token_hosts
        )
    except UrlRefused as error:
        raise _config_error(error.message) from None
    return A2aConfig(
        interface=interface,
        target=endpoint.target,
        timeout=endpoint.timeout_ms / 1000,
        credentials=_credentials(endpoint.auth, audience, hosts),
        policy=policy,
        options=options,
    )


def _config_error(text: str) -> ExecutionBackendFactoryError:
    return ExecutionBackendFactoryError(f"a2a endpoint: {text}")


def _options(values: dict[str, Any]) -> A2aOptions:
    try:
        options = from_json(values, A2aOptions)
    except msgspec.ValidationError as error:
        text, _, name = str(error).partition(" - at `$.")
        if name:
            raise _config_error(f"option {name.rstrip('`')}: {text}") from None
        known = ", ".join(A2aOptions.__struct_fields__)
        raise _config_error(f"options: {text}; known: {known}") from None
    for entry in options.allow_hosts:
        if not entry.strip() or ("/" in entry and not networks((entry,))):
            raise _config_error(f"option allow_hosts: {entry!r} is neither a host nor a network")
    return options


def _interface(endpoint: RemoteEndpoint, binding: Binding) -> HttpUrl:
    try:
        base = parse_url(endpoint.base_url)
    except UrlRefused as error:
        raise _config_error(f"base_url {error.message}") from None
    if "?" in base.target:
        raise _config_error("base_url must not have a query")
    if endpoint.target is None or binding is Binding.JSONRPC:
        return base
    segments = endpoint.target.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise _config_error(f"target {endpoint.target!r} is not a path below base_url")
    path = "/".join(quote(segment, safe="") for segment in segments)
    return msgspec.structs.replace(base, target=f"{base.target.rstrip('/')}/{path}")


def _credentials(
    auth: dict[str, Any] | None, audience: str, hosts: tuple[str, ...]
) -> Credentials | None:
    if auth is None:
        return None
    kind, values = auth.get("type"), {key: auth[key] for key in auth if key != "type"}
    if kind == "bearer":
        header, prefix, secret = "Authorization", "Bearer ", _secret(values, "token", "bearer")
    elif kind == "api_key":
        header, prefix, secret = _header(values), "", _secret(values, "key", "api_key")
    else:
        raise _config_error(f"auth type {kind!r} is unknown: it is 'bearer' or 'api_key'")
    if values:
        raise _config_error(f"auth type {kind!r} has no {', '.join(sorted(map(repr, values)))}")
    return Credentials(
        header=header, secret=RedactedString(prefix + secret), audience=audience, hosts=hosts
    )


def _secret(values: dict[str, Any], name: str, kind: str) -> str:
    secret = values.pop(name, None)
    if not isinstance(secret, str) or not secret.strip() or secret.strip() == "***":
        raise _config_error(f"auth type {kind!r} needs a {name}")
    if not _HEADER_VALUE.fullmatch(secret):
        raise _config_error(f"auth: the {name} holds characters a header cannot carry")
    return secret


def _header(values: dict[str, Any]) -> str:
    header = values.pop("header", "X-API-Key")
    if not isinstance(header, str) or not _HEADER_NAME.fullmatch(header):
        raise _config_error("auth: header is not the name of a header")
    if header.lower() in _OWN_HEADERS:
        raise _config_error(f"auth: header {header!r} is set by the protocol")
    return header
