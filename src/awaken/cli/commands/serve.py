"""`awaken serve`: agents over HTTP."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from awaken.cli.builtin_agent import build_builtin_agent
from awaken.cli.commands.db import is_postgres, migrate_tables, migration_lines
from awaken.cli.entry import ITSELF
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import store_option
from awaken.cli.output import open_page, say
from awaken.cli.stdin_lines import is_tty
from awaken.cli.store_address import BUS_VARIABLE, STORE_VARIABLE, bus_address, store_address
from awaken.cli.target import Target, load_served
from awaken.core.secret import redact_address
from awaken.runtime.open_by_name import load

BUILT_IN = "the built-in agent"
_STORES_IN_MEMORY = "memory:"
CONSOLE = "/console/"


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `awaken serve`.

    `opens`: the console is opened in the user's browser, if there is one. `is_console`: the server
    is there for its console, so without a target it has no agents. `inherited` are the descriptors
    that a worker gets from its parent: the socket, the pipe it writes to when it is ready, and the
    pipe that ends with the parent.
    """

    target: str | None
    store: str | None
    bus: str | None = None
    host: str
    port: int
    workers: int
    keys: str | None
    no_auth: bool
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...]
    drain: float
    log: str
    metrics_port: int | None = None
    migrate: bool = False
    opens: bool = False
    is_console: bool = False
    inherited: tuple[int, ...] = ()

    def for_worker(self, number: int, *inherited: int) -> list[str]:
        """The command that starts a worker. Each has a port of its own for its figures."""
        words = [*ITSELF, "serve"]
        if self.target:
            words.append(self.target)
        given = {
            "--store": self.store,
            "--bus": self.bus,
            "--keys": self.keys,
        }
        words += [word for option, value in given.items() if value for word in (option, value)]
        words += ["--no-auth"] if self.no_auth else []
        many = {
            "--allow-host": self.hosts,
            "--proxy": self.proxies,
            "--cors-origin": self.cors_origins,
        }
        words += [word for option, values in many.items() for v in values for word in (option, v)]
        words += ["--host", self.host, "--drain", str(self.drain), "--log", self.log]
        if self.metrics_port is not None:
            words += ["--metrics-port", str(self.metrics_port + number)]
        return [*words, "--inherited", ",".join(map(str, inherited))]


def _variable(name: str) -> dict[str, Any]:
    return {"envvar": f"AWAKEN_{name}", "show_envvar": True, "show_default": True}


def _check_proxies(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    for address in given:
        try:
            ipaddress.ip_network(address)
        except ValueError as error:
            raise click.BadParameter(f"give an address such as 127.0.0.1: {error}") from None
    return given


@click.command(short_help="Serve your agents over HTTP.")
@click.argument("target", metavar="[APP.PY[:NAME]]", required=False, envvar="AWAKEN_APP")
@store_option
@click.option(
    "--bus",
    metavar="ADDRESS",
    help="The NATS server over which several servers hear each other's runs, as in "
    f"nats://host:4222.  [env: {BUS_VARIABLE}]",
)
@click.option("--host", default="127.0.0.1", help="The address to listen on.", **_variable("HOST"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8700,
    help="The port to listen on; 0 picks a free one.",
    **_variable("PORT"),
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    help="How many processes serve.",
    **_variable("WORKERS"),
)
@click.option(
    "--keys",
    metavar="FILE",
    help="The keys of clients (`awaken keys add`), or the word `store` for those in the store.",
    **_variable("KEYS"),
)
@click.option(
    "--no-auth",
    is_flag=True,
    help="Let everyone in who can reach the address.",
    **_variable("NO_AUTH"),
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A name that the server answers to without keys, besides localhost and addresses; "
    "* is every name.",
    envvar="AWAKEN_ALLOW_HOST",
    show_envvar=True,
)
@click.option(
    "--proxy",
    "proxies",
    metavar="ADDRESS",
    multiple=True,
    callback=_check_proxies,
    help="The address or network of a proxy whose X-Forwarded-For is believed (uvicorn's "
    "--forwarded-allow-ips). The audit then has the client's address.",
    envvar="AWAKEN_PROXY",
    show_envvar=True,
)
@click.option(
    "--cors-origin",
    "cors_origins",
    metavar="ORIGIN",
    multiple=True,
    help="An origin whose pages may use the server.",
    envvar="AWAKEN_CORS_ORIGIN",
    show_envvar=True,
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=25.0,
    help="Seconds that runs have to end their step when the server stops.",
    **_variable("DRAIN"),
)
@click.option(
    "--log",
    type=click.Choice(["text", "json", "none"]),
    default="text",
    help="How requests are logged, on standard error.",
    **_variable("LOG"),
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Serve /metrics at this port alone; further workers at the ports above it.",
    **_variable("METRICS_PORT"),
)
@click.option(
    "--migrate",
    is_flag=True,
    help="First bring the tables of a store in Postgres up to date (`awaken db migrate`).",
    **_variable("MIGRATE"),
)
@click.option("--no-open", is_flag=True, help="Do not open the console in a browser.")
@click.option("--inherited", hidden=True, default="")
def serve(inherited: str, no_open: bool, **given: Any) -> ExitCode:
    """Serve your agents to browsers and programs.

    APP.PY gives a Runtime, a list of Agents, or Agents; with :NAME, also a function that returns
    one. It may be a module, too. Without it, a small built-in agent is served; it needs no key.

    \b
      awaken serve app.py
      awaken serve app.py:agents --port 8000 --store sqlite:////var/lib/app/awaken.db

    A run that a client asks for is stored before the answer, and goes on whether the client stays
    or not. SIGTERM or Ctrl-C stops the server: runs are left at the end of their step, and the next
    start, or another server on the same store, goes on with them; a second one ends it at once.
    SIGHUP reads the file and the keys again; runs under way keep the agents they have.

    Without --keys, only this machine's own addresses are used, unless --no-auth says otherwise.
    On a terminal with a display, the console is opened in a browser.
    """
    fds = tuple(int(fd) for fd in inherited.split(",") if fd)
    options = ServeOptions(inherited=fds, opens=is_tty() and not no_open, **given)
    check_extra()
    return serve_here(options)


def serve_here(options: ServeOptions) -> ExitCode:
    """Serve until a signal ends it."""
    load("awaken.server.observe", "set_up_logs")(options.log)
    if options.inherited:
        return _serve_as_worker(options)
    _check_auth(options)
    if options.migrate:
        _migrate(options)
    return _serve_alone(options) if options.workers == 1 else _serve_with_workers(options)


def check_extra() -> None:
    try:
        for module in ("starlette", "uvicorn", "httptools"):
            load(module, "__name__")
    except ModuleNotFoundError as error:
        raise Mistake(
            f"awaken serve needs {error.name}, which comes with the extra `server`: "
            "pip install 'awaken[server]'"
        ) from error


def _check_auth(options: ServeOptions) -> None:
    if options.keys and options.no_auth:
        raise Mistake("give either --keys, or --no-auth, which lets everyone in")
    is_loopback: Callable[[str], bool] = load("awaken.server.serve", "is_loopback")
    if not (options.keys or options.no_auth or is_loopback(options.host)):
        raise Mistake(
            f"{options.host} can be reached from other machines: give --keys FILE or --keys store, "
            "or let everyone in with --no-auth"
        )


def _migrate(options: ServeOptions) -> None:
    """A file needs nothing: it is brought up to date when it is opened."""
    if _load_target(options).makes_runtime:
        raise Mistake(
            f"{options.target} makes its own Runtime, with a store of its own: run "
            "`awaken db migrate --store …` instead of --migrate"
        )
    address = store_address(options.store)
    if is_postgres(address):
        for line in migration_lines(migrate_tables(address)):
            say(line)


# -- one process ----------------------------------------------------------------------------------


def _serve_alone(options: ServeOptions) -> ExitCode:
    found = _load_target(options)
    listening = _bind_socket(options)

    def on_started(agents: Sequence[str], application: Any) -> None:
        console = _build_console_path(options, application)
        _print_addresses(options, listening, agents, own_store=found.makes_runtime, console=console)

    with listening:  # also if the socket of the figures cannot be bound
        return _run(options, found, listening, on_started)


def _serve_as_worker(options: ServeOptions) -> ExitCode:
    """Serve as a worker of a parent process, which has bound the socket."""
    sock, ready, _ = options.inherited

    def on_started(agents: Sequence[str], application: Any) -> None:
        os.write(ready, load("awaken.server.processes", "PID").pack(os.getpid()))

    return _run(options, _load_target(options), socket.socket(fileno=sock), on_started)


def _run(
    options: ServeOptions,
    found: Target,
    listening: socket.socket,
    on_started: Callable[[Sequence[str], Any], None],
) -> ExitCode:
    port = options.metrics_port
    metrics = _bind_socket(options, port) if port is not None else None
    runtime = found.open_to_serve(options.store, options.bus)
    application = load("awaken.server", "app")(runtime, **_build_edge_options(options))

    def reload() -> str:
        if hasattr(application.state.keys, "reload"):  # keys in the store are always read
            application.state.keys.reload()
        again = _load_target(options)
        if again.makes_runtime:
            return f"{again.name} makes its own Runtime, so its agents stay as they were"
        runtime.replace(again.all_agents())
        return f"serving {', '.join(runtime.agent_ids)} from now on"

    async def main() -> None:
        serving = load("awaken.server.serve", "Serving")(
            runtime, application, drain=options.drain, reload=reload, proxies=options.proxies
        )
        if options.inherited:
            _call_on_pipe_end(options.inherited[2], serving.on_parent_exit)
        await serving.run(listening, lambda: on_started(runtime.agent_ids, application), metrics)

    try:
        with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
            runner.run(main())
    except OSError as error:  # another program was bound to the port as well, and was quicker
        if error.errno != errno.EADDRINUSE:
            raise
        raise Mistake(
            load("awaken.server.serve", "explain_bind_error")(options.host, options.port, error)
        ) from error
    _exit_despite_threads()
    return ExitCode.DONE


def _call_on_pipe_end(pipe: int, callback: Callable[[], None]) -> None:
    """Call a function once, when the other end of a pipe is closed."""
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        loop.remove_reader(pipe)  # the end of a pipe can be read again and again
        callback()

    loop.add_reader(pipe, on_readable)


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop factory of uvloop; `None`, for asyncio's own, if uvloop is not installed."""
    try:
        made: Callable[[], asyncio.AbstractEventLoop] = load("uvloop", "new_event_loop")
    except ModuleNotFoundError:
        return None
    return made


def _build_edge_options(options: ServeOptions) -> dict[str, Any]:
    """The options of the application that concern its clients."""
    edge_options: dict[str, Any] = {}
    if options.keys:
        edge_options["keys"] = options.keys
    if options.cors_origins:
        edge_options["cors_origins"] = options.cors_origins
    if options.hosts or options.no_auth:
        edge_options["hosts"] = [
            *load("awaken.server.origins", "LOOPBACK"),
            options.host,
            *options.hosts,
        ]
    if options.metrics_port is not None:
        edge_options["metrics"] = False
    return edge_options


def _load_target(options: ServeOptions) -> Target:
    if options.target:
        return load_served(options.target)
    if options.is_console:
        return Target("no agents", [])
    return Target(BUILT_IN, [build_builtin_agent()])


def _bind_socket(options: ServeOptions, port: int | None = None) -> socket.socket:
    is_any_next = options.is_console and port is None
    name = "bind_free" if is_any_next else "bind"
    port = options.port if port is None else port
    bound: socket.socket = load("awaken.server.serve", name)(options.host, port)
    return bound


def _exit_despite_threads() -> None:
    """Exit at once if a tool's thread would keep the process alive: its run was left to others."""
    others = [t for t in threading.enumerate() if t is not threading.main_thread()]
    if any(not thread.daemon for thread in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ExitCode.DONE)


# -- several --------------------------------------------------------------------------------------


def _serve_with_workers(options: ServeOptions) -> ExitCode:
    address = store_address(options.store)
    if address.startswith(_STORES_IN_MEMORY):
        raise Mistake(
            "each worker would have a memory of its own: name a store that they share, as in "
            f"--store sqlite:///awaken.db or {STORE_VARIABLE}"
        )
    found = _load_target(options)  # a mistake is printed once, before any worker starts
    listening = _bind_socket(options)
    workers = load("awaken.server.processes", "WorkerProcesses")(
        options.for_worker, options.workers, listening
    )
    agents, own_store = found.agent_ids(), found.makes_runtime
    code = workers.run(lambda: _print_addresses(options, listening, agents, own_store=own_store))
    return ExitCode(code) if code in tuple(ExitCode) else ExitCode.FAILED


# -- telling ------------------------------------------------------------------------------------


def _build_console_path(options: ServeOptions, application: Any) -> str:
    """The path of the console. A server without keys adds a one-time word, with which the page
    begins a session; with keys, the page asks for a key."""
    if options.keys:
        return CONSOLE
    local = load("awaken.server.auth", "LOCAL")
    return f"{CONSOLE}#t={application.state.sessions.make_word(local)}"


def _print_addresses(
    options: ServeOptions,
    listening: socket.socket,
    agents: Sequence[str],
    *,
    own_store: bool,
    console: str = CONSOLE,
) -> None:
    address: str = load("awaken.server.serve", "address_of")(listening, options.host)
    names = ", ".join(agents) or "no agents"
    say(f"awaken serves {names} at {address}")
    if not own_store:
        say(f"  store   {redact_address(store_address(options.store))}")
        if bus := bus_address(options.bus):
            say(f"  bus     {redact_address(bus)}")
    say(f"  console {address}{console}")
    if agents:
        _print_curl_example(options, address, agents)
    say("  stop    Ctrl-C; runs go on at the next start")
    sys.stdout.flush()
    if options.opens:
        open_page(f"{address}{console}")


def _print_curl_example(options: ServeOptions, address: str, agents: Sequence[str]) -> None:
    key = " -H 'authorization: Bearer YOUR_KEY'" if options.keys else ""
    which = f'"agent_id": "{agents[0]}", ' if len(agents) > 1 else ""
    say(
        f"  try     curl -N {address}/v1/threads/first/runs{key} -H 'accept: text/event-stream' "
        f"-H 'content-type: application/json' -d '{{{which}\"messages\": [\"Hello\"]}}'"
    )
