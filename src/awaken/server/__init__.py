"""Serves agents over HTTP; `app` makes an application to serve or to mount.

Needs the extra `server`: `pip install 'awaken[server]'`.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.server.app import app
    from awaken.server.keys import Authenticator
    from awaken.server.limits import Limits

__all__ = ["Authenticator", "Limits", "app"]

lazy_names(
    __name__,
    {".app": "app", ".keys": "Authenticator", ".limits": "Limits"},
    extra="server",
)
