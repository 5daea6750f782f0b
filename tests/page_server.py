"""Serves an app of a page while one of its blocks runs: a page says that the reader has started it.

The page names the port 8700. The server takes a free one, and connections to 8700 go there.
"""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
from typing import Any

PORT = 8700


def serve(app: str, *words: str) -> None:
    """Have `awaken serve app` answer until this process ends."""
    command = [sys.executable, "-m", "awaken.cli", "serve", app, "--port", "0", "--log", "none"]
    server = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)
    atexit.register(_end, server)
    assert server.stdout is not None
    port = int(server.stdout.readline().rpartition(":")[2])
    connect = socket.create_connection

    def connect_there(address: tuple[str, int], *args: Any, **named: Any) -> socket.socket:
        host, asked = address
        return connect((host, port if asked == PORT else asked), *args, **named)

    vars(socket)["create_connection"] = connect_there


def _end(server: subprocess.Popen[str]) -> None:
    server.terminate()
    server.communicate()
