"""Serves agents over HTTP; `app` makes an application to serve or to mount."""

from awaken.server.app import app

__all__ = ["app"]
