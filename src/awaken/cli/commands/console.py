"""`awaken console`: see in the browser what agents did, answer them, stop them."""

from __future__ import annotations

import os
import urllib.request
from urllib.error import HTTPError, URLError

import click
import msgspec

from awaken.cli.commands.serve import CONSOLE, ServeOptions, check_extra, serve_here
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import store_option
from awaken.cli.output import say
from awaken.codec import loads

HOST, PORT = "127.0.0.1", 8700
KEY_VARIABLE = "AWAKEN_KEY"


@click.command("console", short_help="See and answer your agents in the browser.")
@click.argument("target", metavar="[APP.PY[:NAME]]", required=False, envvar="AWAKEN_APP")
@store_option
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True)
@click.option("--no-open", is_flag=True, help="Print the address of the page, and open nothing.")
@click.option("--link", is_flag=True, help="Print one more address of a server that runs already.")
def console(
    target: str | None, store: str | None, port: int, no_open: bool, link: bool
) -> ExitCode:
    """Open the console in a browser, on the threads of the store.

    \b
      awaken console           look, answer, cancel; no agent runs here
      awaken console app.py    the agents of app.py run here, and can be asked
      awaken console --link    another address, if the first was used or is too old

    If the port is taken, the next free one is used. With --link, a server that has keys wants one
    with the role admin, in AWAKEN_KEY.
    """
    if link:
        say(f"http://{HOST}:{port}{CONSOLE}#t={_word(port)}")
        return ExitCode.DONE
    check_extra()
    return serve_here(
        ServeOptions(
            target=target,
            store=store,
            host=HOST,
            port=port,
            workers=1,
            keys=None,
            no_auth=False,
            cors_origins=(),
            drain=25.0,
            log="none",
            opens=not no_open,
            is_console=True,
        )
    )


class _Word(msgspec.Struct, frozen=True):
    word: str


def _word(port: int) -> str:
    """A one-time word of the server that listens on the port."""
    key = os.environ.get(KEY_VARIABLE)
    head = {"authorization": f"Bearer {key}"} if key else {}
    asked = urllib.request.Request(f"http://{HOST}:{port}/v1/session/words", b"{}", head)
    asked.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return loads(answer.read(), _Word).word
    except HTTPError as error:
        raise Mistake(
            f"the server on port {port} gives no link (status {error.code}): "
            f"set {KEY_VARIABLE} to a key with the role admin"
        ) from error
    except (URLError, OSError) as error:
        raise Mistake(
            f"no server listens on port {port} of {HOST}: start `awaken serve`"
        ) from error
