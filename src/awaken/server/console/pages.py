"""The console's files, as browsers get them."""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from awaken.server.errors import not_found_error

FOLDER = Path(__file__).parent / "static"
_HOME = "console/"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STYLES = ("tokens.css", "app.css", "parts.css")
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""The console shows texts of models, tools and strangers: the browser may run our files alone, and
may send data to this server alone."""

MISSING = """\
The console is not in this installation: its libraries were not there when it was built.
In a checkout, `make console` fetches them; it needs npm.
"""


class _File(NamedTuple):
    content: bytes
    packed: bytes
    media_type: str


class Pages:
    """The console's page and the files that it loads. They are read once.

    The addresses of the files have the digest of all of them: browsers may cache them for ever, and
    a page never mixes the files of two builds.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    @property
    def is_there(self) -> bool:
        """Whether this installation has the console, with its libraries."""
        return (self._folder / "vendor" / "versions.txt").is_file()

    @cached_property
    def build(self) -> str:
        """The digest of the console's files."""
        digest = hashlib.sha256()
        for name, file in sorted(self._files.items()):
            digest.update(f"{name} {len(file.content)}\n".encode() + file.content)
        return digest.hexdigest()[:16]

    @cached_property
    def _files(self) -> dict[str, _File]:
        found = {
            path.relative_to(self._folder).as_posix(): _build_file(path.read_bytes(), path.suffix)
            for path in self._folder.rglob("*")
            if path.suffix in _TYPES
        }
        # One request for all of them: a style that is late would let the page jump.
        return found | {
            "all.css": _build_file(b"".join(found[name].content for name in _STYLES), ".css")
        }

    @cached_property
    def _index(self) -> str:
        return (self._folder / "index.html").read_text().replace("{digest}", self.build)

    def routes(self) -> list[Route]:
        return [
            Route("/", self._home),
            Route("/console", self._home),
            Route("/console/static/{name:path}", self._file),
            Route("/console/{place:path}", self._page),
        ]

    async def _home(self, request: Request) -> Response:
        # Relative, as all addresses of the console: an application or a proxy in front may add a
        # prefix, and only the browser knows it.
        return RedirectResponse(_HOME, status_code=307)

    async def _page(self, request: Request) -> Response:
        if not self.is_there:
            return Response(MISSING, 404, HEADERS, "text/plain")
        place: str = request.path_params["place"]
        if place.endswith("/"):
            last = place.rstrip("/").rpartition("/")[2]
            return RedirectResponse(f"../{quote(last, safe='')}", status_code=307)
        # An address has one part, or a name and an id. A proxy may have decoded a slash of the id.
        index = self._index.replace("{up}", "../" if "/" in place else "")
        return Response(index, headers=HEADERS | _NO_CACHE, media_type="text/html")

    async def _file(self, request: Request) -> Response:
        build, _, name = request.path_params["name"].partition("/")
        file = self._files.get(name)
        if file is None or build != self.build:
            raise not_found_error("file")
        headers = HEADERS | _CACHE | {"vary": "accept-encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(file.content, headers=headers, media_type=file.media_type)
        headers["content-encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.media_type)


_CACHE = {"cache-control": "public, max-age=31536000, immutable"}
_NO_CACHE = {"cache-control": "no-store"}


def _build_file(content: bytes, suffix: str) -> _File:
    return _File(content, gzip.compress(content, mtime=0), _TYPES[suffix])
