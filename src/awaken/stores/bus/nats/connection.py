"""One connection to NATS that comes back by itself, and never makes its users wait.

What is published goes into a bounded outbox, which one task sends. While the connection is away
nothing is kept: live events are worth nothing later, and the store has what matters.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.secret import RedactedString, redact_address
from awaken.stores.bus.nats.address import NatsAddress

log = logging.getLogger("awaken.bus")

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 1.0
FLUSH_SECONDS = 2.0
"""Seconds in which the server has to say that it has read what was sent, else it is left."""
PING_EVERY = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 0.5
POLL_SECONDS = 0.25
"""Seconds after which the link looks whether its client has closed without a word."""
WINDOW = 64 * 1024
"""How many bytes are sent before the server has to say that it has read them."""
OUTBOX_BYTES = 4 * 1024 * 1024
MAX_UNHANDLED = 1_000
MAX_UNHANDLED_BYTES = 4 * 1024 * 1024

MessageCallback = Callable[[bytes, str], None]
"""Called with a message's data and the subject for answers. Must not raise."""
_NO_RESPONDERS = {"Status": "503"}
"""The headers of a server's answer if no process subscribes to a subject."""
_OPTIONS: dict[str, Any] = {
    "name": "awaken",
    "no_echo": True,
    "connect_timeout": CONNECT_SECONDS,
    "ping_interval": PING_EVERY,
    # The link connects again itself, and keeps no stale messages meanwhile.
    "allow_reconnect": False,
    "max_reconnect_attempts": 1,
    "reconnect_time_wait": 0,
    # Without these bounds no call of the client waits for a slow server. What it holds is bounded
    # by WINDOW.
    "pending_size": 0,
    "flusher_queue_size": 0,
}


class _Outgoing(NamedTuple):
    subject: str
    data: bytes
    reply: str = ""
    events: int = 0


class Link:
    """The connection to one of the servers of an address.

    `on_connect` is called when there is a connection again, `on_disconnect` when it has ended, and
    `on_overrun` with the subject of a message that was dropped because this process was too slow.
    `counts` has the number of dropped messages by reason; `sent` is the number of sent messages.
    """

    def __init__(
        self,
        address: NatsAddress,
        inbox: str,
        counts: Counter[str],
        *,
        on_connect: Callable[[], None],
        on_disconnect: Callable[[], None],
        on_overrun: Callable[[str], None],
    ) -> None:
        self._address, self._inbox, self._counts = address, inbox, counts
        self._on_connect, self._on_disconnect, self._on_overrun = (
            on_connect,
            on_disconnect,
            on_overrun,
        )
        self.is_up = False
        self.sent = 0
        self._client: Client | None = None
        self._callbacks: dict[str, MessageCallback] = {}
        self._subscriptions: dict[str, Subscription] = {}
        # Subjects whose subscription at the server may differ from `_callbacks`.
        self._changed_subjects: dict[str, None] = {}
        self._outbox: deque[_Outgoing] = deque()
        self._outbox_bytes = 0
        self._questions = count(1)
        self._answers: dict[str, asyncio.Future[bytes | None]] = {}
        self._tasks = OwnedTasks(log)
        # Made anew by `open`, which may be called in another event loop.
        self._work, self._tried = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._has_warned_away = self._was_slow = self._was_refused = False
        self._error: BaseException | None = None

    # -- life ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin to connect, and wait until the first attempt has ended. It may have failed."""
        if len(self._tasks):
            return
        self._closing = False
        self._work, self._tried = asyncio.Event(), asyncio.Event()
        self._tasks.start_logged(self._stay_connected(), "the live bus has ended")
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS + 1):
                await self._tried.wait()

    async def close(self) -> None:
        """Send what is in the outbox, if the server takes it soon, and end the connection."""
        self._closing = True
        self._work.set()
        if self.is_up and len(self._tasks):
            await asyncio.wait(self._tasks, timeout=FLUSH_SECONDS + ANSWER_SECONDS)
        await self._tasks.close(CONNECT_SECONDS)

    async def _stay_connected(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing:
            client = Client()
            since = asyncio.get_running_loop().time()
            try:
                await self._connect(client)
                await self._serve(client)
            except Exception as error:  # whatever the other end of the socket sends
                # That no server is left says less than what was wrong with the last one.
                if self._error is None or not isinstance(error, errors.NoServersError):
                    self._error = error
            finally:
                await self._end(client)
            if not self._closing:
                self._warn_away()
                if asyncio.get_running_loop().time() - since > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                # Nodes that lost the same server must not come back in the same instant.
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST_PAUSE)

    def _warn_away(self) -> None:
        """Log a warning, once for each outage."""
        self._tried.set()
        if self._has_warned_away:
            return
        self._has_warned_away = True
        error = self._error
        reason = redact_address(str(error) or type(error).__name__) if error else "it closed"
        log.warning(
            "the live bus %s is away (%s): runs go on; meanwhile, those of other processes are "
            "read from the store",
            self._address.display,
            reason,
        )

    # -- one connection -----------------------------------------------------------------------

    async def _connect(self, client: Client) -> None:
        address, self._error = self._address, None
        options: dict[str, Any] = {}
        if address.is_tls:
            options["tls"] = ssl.create_default_context(cafile=address.ca)
        if address.secret is not None:
            secret = partial(_expose, client, address, address.secret)
            is_token = address.user is None
            options |= {"token": secret} if is_token else {"user": address.user, "password": secret}
        servers = list(address.servers)
        try:
            async with asyncio.timeout(CONNECT_SECONDS * len(servers)):
                await client.connect(
                    servers,
                    error_cb=self._on_error,
                    closed_cb=self._on_close,
                    **_OPTIONS,
                    **options,
                )
        except (BrokenPipeError, ConnectionResetError) as error:
            # A server that refuses may close before its word has arrived.
            told = "the server closed the connection: are the credentials right?"
            raise errors.Error(told) from error
        _check_tls(client, address)

    async def _on_error(self, error: Exception) -> None:
        """The client has met an error. It ends the connection itself, if it has to."""
        if isinstance(error, errors.SlowConsumerError):
            self._counts["unread"] += 1
            self._on_overrun(error.subject)
            return
        self._error = error
        if "permissions violation" in str(error).lower() and not self._was_refused:
            self._was_refused = True
            log.warning(
                "the live bus %s: %s; give its account the permission to publish and subscribe "
                "awk.>",
                self._address.display,
                error,
            )

    async def _on_close(self) -> None:
        self._work.set()

    async def _serve(self, client: Client) -> None:
        """Send and subscribe until the connection ends."""
        self._client, self._subscriptions = client, {}
        self._changed_subjects = dict.fromkeys(self._callbacks)
        self._forget_outbox()
        await self._subscribe(client, f"{self._inbox}.*", self._take_answer)
        self.is_up = True
        if self._has_warned_away:
            log.warning("the live bus %s is back", self._address.display)
        self._has_warned_away = self._was_slow = False
        self._on_connect()
        self._tried.set()
        self._work.set()
        while not client.is_closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._work.wait()
            self._work.clear()
            await self._sync_subscriptions(client)
            await self._send(client)
            if self._closing:
                return

    async def _sync_subscriptions(self, client: Client) -> None:
        """Subscribe to the subjects that have a callback, and to no others."""
        while self._changed_subjects and client.is_connected:
            subject = next(iter(self._changed_subjects))
            del self._changed_subjects[subject]
            callback, known = self._callbacks.get(subject), self._subscriptions.pop(subject, None)
            if known is not None:
                await known.unsubscribe()
            if callback is not None:
                await self._subscribe(client, subject, partial(_call_back, callback))

    async def _subscribe(
        self, client: Client, subject: str, take: Callable[[Msg], Awaitable[None]]
    ) -> None:
        self._subscriptions[subject] = await client.subscribe(
            subject,
            cb=take,
            pending_msgs_limit=MAX_UNHANDLED,
            pending_bytes_limit=MAX_UNHANDLED_BYTES,
        )

    async def _send(self, client: Client) -> None:
        while self._outbox and client.is_connected:
            size = 0
            while self._outbox and size < WINDOW:
                message = self._outbox.popleft()
                self._outbox_bytes -= len(message.data)
                size += len(message.data)
                self.sent += 1
                await client.publish(message.subject, message.data, message.reply)
            # A server that has stopped reading would else be given more and more.
            await client.flush(FLUSH_SECONDS)  # type: ignore[arg-type]  # seconds, as a float

    async def _end(self, client: Client) -> None:
        was_up, self.is_up, self._client = self.is_up, False, None
        subscriptions, self._subscriptions = self._subscriptions, {}
        self._forget_outbox()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)
        if was_up:
            self._on_disconnect()
        error = self._error
        with suppress(Exception):
            async with asyncio.timeout(ANSWER_SECONDS):
                await client.close()
        await _release_client(client, subscriptions.values())
        self._error = error  # not what came of closing

    def _forget_outbox(self) -> None:
        self._outbox.clear()
        self._outbox_bytes = 0

    # -- what the bus uses --------------------------------------------------------------------

    @property
    def longest(self) -> int:
        """How many bytes a message may have."""
        return self._client.max_payload if self._client is not None else 0

    def subscribe(self, subject: str, callback: MessageCallback) -> None:
        """Call `callback` with every message of a subject, now and after each reconnect."""
        self._callbacks[subject] = callback
        self._mark_changed(subject)

    def unsubscribe(self, subject: str) -> None:
        if self._callbacks.pop(subject, None) is not None:
            self._mark_changed(subject)

    def _mark_changed(self, subject: str) -> None:
        if self.is_up:
            self._changed_subjects[subject] = None
            self._work.set()

    def publish(self, subject: str, data: bytes, events: int = 0) -> None:
        """Send a message, unless the connection is away. If the server is slow, the oldest messages
        that wait are dropped; `events` is how many events count as dropped then."""
        if self.is_up:
            self._put(_Outgoing(subject, data, events=events))

    def _put(self, message: _Outgoing) -> None:
        self._outbox.append(message)
        self._outbox_bytes += len(message.data)
        while self._outbox_bytes > OUTBOX_BYTES:
            oldest = self._outbox.popleft()
            self._outbox_bytes -= len(oldest.data)
            self._counts["slow"] += oldest.events
            if not self._was_slow:
                self._was_slow = True
                log.warning(
                    "the live bus %s is slow: live events for other processes are dropped",
                    self._address.display,
                )
        self._work.set()

    async def request(self, subject: str, data: bytes) -> bytes | None:
        """The answer to a message; `None` if no process hears the subject, or does not answer
        within a second."""
        if not self.is_up:
            return None
        # The client has a `request` of its own, which may swallow the cancelling of its caller.
        reply = f"{self._inbox}.{next(self._questions)}"
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._answers[reply] = answer
        self._put(_Outgoing(subject, data, reply))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._answers[reply]

    async def _take_answer(self, message: Msg) -> None:
        answer = self._answers.get(message.subject)
        if answer is not None and not answer.done():
            is_answer = message.headers != _NO_RESPONDERS
            answer.set_result(message.data if is_answer else None)


async def _release_client(client: Client, subscriptions: Iterable[Subscription]) -> None:
    """End what a client leaves behind if its server does not read any more, or its socket breaks
    while it closes: the socket, and its tasks. It has no public way to do so."""
    writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
    own = (getattr(client, name, None) for name in ("_reading_task", "_flusher_task"))
    theirs = (getattr(each, "_wait_for_msgs_task", None) for each in subscriptions)
    tasks = [task for task in (*own, *theirs) if task is not None]
    for task in tasks:
        task.cancel()
    if tasks:
        ended, _ = await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
        for task in ended:
            # Asked for, so that asyncio does not complain of errors that the client has told.
            _ = task.cancelled() or task.exception()


async def _call_back(callback: MessageCallback, message: Msg) -> None:
    callback(message.data, message.reply)


def _expose(client: Client, address: NatsAddress, secret: RedactedString) -> str:
    """Called by the client when it tells the server the secret."""
    _check_tls(client, address)
    return secret.expose_secret()


def _check_tls(client: Client, address: NatsAddress) -> None:
    """Refuse a server without TLS if the address demands TLS."""
    if address.is_tls and not client._server_info.get("tls_required"):
        raise errors.SecureConnWantedError
