"""Fetching an agent's card and turning it into an `AgentSpec`."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Sequence

import msgspec
from a2a.types.a2a_pb2 import AgentCard, AgentInterface
from google.protobuf.json_format import ParseDict

from awaken.backend.a2a.config import BACKEND, A2aConfig, Binding, read_config
from awaken.backend.a2a.factory import RemoteSource
from awaken.backend.a2a.messages import UNREADABLE
from awaken.codec import Json, loads, one_line, printable
from awaken.core.backend import ExecutionBackendError, ExecutionBackendFactoryError
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.errors import DiscoveryFailed
from awaken.net.pinned import Http, HttpRequest, SizeLimit

CARD_PATH = "/.well-known/agent-card.json"
MAX_CARD = SizeLimit(size=256 * 1024, why="the most a card may have")
MAX_DESCRIPTION = 4_000
MAX_NAME = 64
MAX_TENANT = 200
MAX_WHY = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VERSION = "1.0"


async def fetch_agent(source: RemoteSource) -> AgentSpec:
    """See `awaken.backend.a2a.factory.discover`."""
    config = read_config(source.endpoint)
    try:
        async with asyncio.timeout(source.timeout):
            body = await _fetch(source, config)
    except TimeoutError:
        raise _discovery_error(source, f"no answer within {source.timeout * 1000:.0f} ms") from None
    except ExecutionBackendError as error:
        raise _discovery_error(source, error.message) from error
    return agent_on_card(source, body)


async def _fetch(source: RemoteSource, config: A2aConfig) -> bytes:
    url = msgspec.structs.replace(config.interface, target=CARD_PATH)
    request = HttpRequest(method="GET", url=url, read_timeout=source.timeout)
    async with (
        Http(config.policy, config.credentials, limit=MAX_CARD) as http,
        http.stream(request) as answer,
    ):
        if answer.status != 200:
            raise _discovery_error(source, f"{url} answered {answer.status}")
        return await answer.read()


def agent_on_card(source: RemoteSource, body: bytes) -> AgentSpec:
    """The agent that a card describes, with the source's credentials and options.

    Raises:
        DiscoveryFailed: it is not a card, or offers no usable interface.
    """
    value, card = _read(source, body)
    interface = _choose(source, card.supported_interfaces, value)
    _check_tenant(source, interface.tenant)
    endpoint = _endpoint(source, card, interface)
    return AgentSpec(
        id=_id(interface.tenant, card.name),
        model_id=BACKEND,
        system_prompt="",
        description=_description(card.description) or None,
        endpoint=endpoint,
        registry=source.name,
    )


def _read(source: RemoteSource, body: bytes) -> tuple[dict[str, Json], AgentCard]:
    try:
        value = loads(body)
        if not isinstance(value, dict):
            raise _discovery_error(source, "the card is no JSON object")
        credentials = read_config(source.endpoint).credentials
        if credentials is not None and credentials.is_in(body):
            value = credentials.without_secret(value)
        return value, ParseDict(value, AgentCard(), ignore_unknown_fields=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, *UNREADABLE) as error:
        raise _discovery_error(source, f"the card cannot be read: {error}") from error


def _choose(
    source: RemoteSource, offered: Sequence[AgentInterface], card: dict[str, Json]
) -> AgentInterface:
    """The first usable interface: this version first, HTTP+JSON before JSON-RPC."""
    known = {binding.value: binding for binding in Binding}
    usable = [one for one in offered if one.protocol_binding.upper() in known]
    order = list(Binding)

    def rank(one: AgentInterface) -> tuple[bool, int]:
        return one.protocol_version != _VERSION, order.index(known[one.protocol_binding.upper()])

    if usable:
        return min(usable, key=rank)
    names = [f"{one.protocol_binding or '?'} {one.protocol_version}".strip() for one in offered]
    if not names and "protocolVersion" in card:
        names = [f"{card.get('preferredTransport', 'JSONRPC')} {card['protocolVersion']}"]
    raise _discovery_error(
        source,
        f"the card offers {', '.join(names) or 'no interface'}; "
        f"needed is {' or '.join(known)} of version {_VERSION}",
    )


def _check_tenant(source: RemoteSource, tenant: str) -> None:
    if len(tenant) > MAX_TENANT or not tenant.isprintable():
        raise _discovery_error(
            source,
            f"the tenant on its card is {one_line(tenant, MAX_NAME)!r}: it has more than "
            f"{MAX_TENANT} characters, or some that cannot be printed",
        )


def _endpoint(source: RemoteSource, card: AgentCard, interface: AgentInterface) -> RemoteEndpoint:
    options = {
        **source.endpoint.options,
        "a2a_server_id": source.name,
        "binding": interface.protocol_binding.upper(),
    }
    credentials = read_config(source.endpoint).credentials
    if credentials is not None:
        # A card may name any host: the credentials are only for the host that the user has named.
        options["token_audience"] = credentials.audience
    if not card.capabilities.streaming:
        options["streaming"] = False
    try:
        endpoint = msgspec.structs.replace(
            source.endpoint,
            base_url=interface.url,
            target=source.endpoint.target or interface.tenant or None,
            options=options,
        )
        read_config(endpoint)
    except (ValueError, ExecutionBackendFactoryError) as error:
        raise _discovery_error(source, f"its interface cannot be used: {error}") from error
    if _scheme(source.endpoint.base_url) == "https" and _scheme(interface.url) == "http":
        raise _discovery_error(
            source,
            f"its card, which came by https, names {interface.url!r}: what is said to it could be "
            "read on the way; have the agent name an https address",
        )
    return endpoint


def _scheme(url: str) -> str:
    return url.partition(":")[0].strip().lower()


def _id(tenant: str, name: str) -> str:
    """The agent's id here: its tenant if that is a valid id, else a slug of its tenant or name."""
    if _NAME.fullmatch(tenant):
        return tenant
    plain = unicodedata.normalize("NFKD", (tenant or name)[: 4 * MAX_NAME])
    slug = re.sub(r"[^a-z0-9]+", "-", plain.encode("ascii", "ignore").decode().lower())
    return slug[:MAX_NAME].strip("-") or "agent"


def _description(text: str) -> str:
    """The agent's own description for models: limited in length, and printable text only."""
    lines = (printable(line) for line in text[:MAX_DESCRIPTION].splitlines())
    return "\n".join(lines) + ("…" if len(text) > MAX_DESCRIPTION else "")


def _discovery_error(source: RemoteSource, why: str) -> DiscoveryFailed:
    return DiscoveryFailed(f"agent source {source.name!r}: {one_line(why, MAX_WHY)}")
