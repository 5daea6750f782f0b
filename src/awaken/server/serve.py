"""The life of a serving process: it starts, serves, drains and ends. And the sockets it listens on.

The runtime is opened before the socket listens, so a process that cannot work gets no requests. A
process that is to stop leaves its runs to other processes first, and only then closes its streams.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from awaken.core.aio.owned_tasks import OwnedTasks, start_task
from awaken.errors import AwakenError, ConfigError
from awaken.runtime.runtime import Runtime
from awaken.server.http_protocol import LimitedHttpProtocol
from awaken.server.metrics import MetricsPage
from awaken.server.observe import Observer

log = logging.getLogger("awaken.server")

POLL_SECONDS = 0.3
"""Seconds between two searches for runs that another server has left."""
SHUTDOWN_SECONDS = 2
"""Seconds for answers that are still being written when the process ends."""
KEEP_ALIVE_SECONDS = 75
"""Seconds after which an idle connection is closed. Proxies keep theirs for 60, and must not use
one that is being closed."""
_RESUME_FAILED = "cannot look for runs to resume"


class Serving:
    """One process that serves an application.

    SIGTERM and SIGINT (Ctrl-C) drain it: it takes no more work, leaves its runs at the end of their
    steps for other processes, closes its streams, and ends. A second one ends it at once. SIGHUP
    calls `reload`; SIGUSR1 has it look for runs whose process has died.

    Args:
        drain: the seconds that runs have for the end of their step.
        reload: loads again what can change while the server runs; returns a text for the log.
        proxies: the addresses and networks of proxies whose `X-Forwarded-For` is believed.
    """

    def __init__(
        self,
        runtime: Runtime,
        application: Starlette,
        *,
        drain: float,
        reload: Callable[[], str],
        proxies: Sequence[str] = (),
    ) -> None:
        self._runtime, self._drain, self._reload = runtime, drain, reload
        self._observer: Observer = application.state.observer
        self._server = _server(application, proxies)
        self._metrics = _server(MetricsPage(self._observer.metrics))
        self._tasks = OwnedTasks(log)
        self._is_stopping = False
        self._listening: list[socket.socket] = []

    async def run(
        self,
        listening: socket.socket,
        on_ready: Callable[[], None],
        metrics: socket.socket | None = None,
    ) -> None:
        """Serve until a signal ends it. `on_ready` is called when clients are answered. `/metrics`
        is served at a socket of its own, if there is one, until the process has ended its runs.

        Raises:
            AwakenError: the runtime cannot be opened.
        """
        self._listening = [sock for sock in (listening, metrics) if sock is not None]
        with self._signals():
            async with self._runtime:
                serving = start_task(self._server.serve([listening]))
                resuming = self._tasks.start_repeating(
                    self._resume_later, POLL_SECONDS, _RESUME_FAILED
                )
                while not (self._server.started or serving.done()):  # noqa: ASYNC110 no event for it
                    await asyncio.sleep(0.01)
                if self._server.started and not self._is_stopping:
                    on_ready()
                if metrics is None:
                    await serving
                else:
                    await self._serve_metrics(metrics, serving)
                resuming.cancel()

    async def _serve_metrics(self, listening: socket.socket, until: asyncio.Task[None]) -> None:
        figures = start_task(self._metrics.serve([listening]))
        await asyncio.wait([until])
        self._metrics.should_exit = True
        await asyncio.wait([figures])
        until.result()

    def on_parent_exit(self) -> None:
        """Drain a worker whose parent has died. Its ports are free at once, so that the parent can
        be started again; requests on open connections are still answered."""
        for served in (self._server, self._metrics):
            for listener in getattr(served, "servers", ()):  # it has none before it has started
                listener.close()
        for listening in self._listening:
            listening.close()
        self.stop()

    def stop(self) -> None:
        """Drain the process, and end it."""
        if not self._is_stopping:
            self._is_stopping = True
            self._tasks.start_logged(self._stop(), "the process could not be drained")

    async def _stop(self) -> None:
        try:
            log.info(
                "stopping: runs are left at the end of their step, for up to %g s", self._drain
            )
            await self._runtime.drain(self._drain)
        finally:
            self._observer.streams.close()
            self._server.should_exit = True

    async def _resume_later(self) -> None:
        await asyncio.sleep(POLL_SECONDS)
        await self._runtime.look_around()

    def _resume_now(self) -> None:
        self._tasks.start_logged(self._runtime.look_around(), _RESUME_FAILED)

    def _reload_settings(self) -> None:
        try:
            log.info("%s", self._reload())
        except AwakenError as error:
            log.error("nothing was reloaded: %s", error)
        except Exception:
            log.exception("nothing was reloaded")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle signals here. Not with `loop.add_signal_handler`: a tool that blocks the loop
        would block that, too, and a second SIGTERM could not end the process."""
        loop = asyncio.get_running_loop()

        def stop(number: int, frame: FrameType | None) -> None:
            if self._is_stopping:
                os._exit(128 + number)
            loop.call_soon_threadsafe(self.stop)

        def call(callback: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
            return lambda number, frame: (loop.call_soon_threadsafe(callback), None)[1]

        handlers = {
            signal.SIGTERM: stop,
            signal.SIGINT: stop,
            signal.SIGHUP: call(self._reload_settings),
            signal.SIGUSR1: call(self._resume_now),
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _server(application: ASGIApp, proxies: Sequence[str] = ()) -> _Server:
    return _Server(
        uvicorn.Config(
            application,
            http=LimitedHttpProtocol,
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # By default, uvicorn trusts the headers of every client on this machine.
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers, which would close streams before the runs are left."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


SEND_BUFFER_BYTES = 128 * 1024
"""Bytes that the kernel may buffer for a client that does not read; Linux doubles the number. With
a larger buffer, the client would only read older data."""
_MAX_PORTS = 20
"""How many ports are tried."""
_BACKLOG = 128
"""How many clients may wait for a server that starts."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound and does not listen yet: clients are refused until the server starts.

    Raises:
        ConfigError: the address cannot be used; the text says why and what to do.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ConfigError(
            f"host {host!r} is no address of this machine: {error.strerror}"
        ) from None
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigError(explain_bind_error(host, port, error)) from None
    return listening


def bind_free(host: str, port: int) -> socket.socket:
    """A socket that listens on a port, or on the next one that is free; on any port if none of the
    next few is. Clients wait until the server starts.

    Raises:
        ConfigError: the address cannot be used; the text says why and what to do.
    """
    for one in range(port, min(port + _MAX_PORTS, 65_536)) if port else ():
        with suppress(ConfigError):
            return _listen(host, one)
    return _listen(host, 0)


def _listen(host: str, port: int) -> socket.socket:
    listening = bind(host, port)
    try:
        listening.listen(_BACKLOG)
    except OSError as error:  # another program was bound to it as well, and was quicker
        listening.close()
        raise ConfigError(explain_bind_error(host, port, error)) from None
    return listening


def explain_bind_error(host: str, port: int, error: OSError) -> str:
    """Why an address cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is taken: another program listens there. Stop it, or give "
            "another port, as in --port 8701 (0 picks a free one)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user: give one above 1023, as in --port 8700"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host {host!r} is no address of this machine: give 127.0.0.1, or 0.0.0.0 for all"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def address_of(listening: socket.socket, host: str) -> str:
    """The address to give to clients on this machine, such as `http://127.0.0.1:8700`."""
    port = listening.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
