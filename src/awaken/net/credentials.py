"""Credentials for other servers: to which origins they may go, and removing them from answers."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.secret import RedactedString
from awaken.core.value import Value
from awaken.net.url_policy import HttpUrl

_LONG = 8
"""The shortest secret that is looked for in an answer."""


class Credentials(Value, frozen=True, kw_only=True):
    """An authentication header, and the origins that it may be sent to."""

    header: str
    secret: RedactedString
    audience: str
    hosts: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        """`text` with the secret removed."""
        bare = RedactedString(self.secret.expose_secret().removeprefix("Bearer "))
        return bare.redact(self.secret.redact(text))

    def without_secret(self, value: Json) -> Json:
        """A JSON value with the secret removed from its texts and keys."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self.without_secret(item) for item in value]
        if isinstance(value, dict):
            return {self.redact(key): self.without_secret(item) for key, item in value.items()}
        return value

    def is_in(self, data: bytes) -> bool:
        """Whether an answer may contain the secret. A short secret is not looked for: it may be any
        word."""
        bare = self.secret.expose_secret().removeprefix("Bearer ")
        # With escapes it may be written in many ways.
        return len(bare) >= _LONG and (bare.encode() in data or b"\\" in data)

    def may_go_to(self, url: HttpUrl) -> bool:
        return url.origin == self.audience or any(
            entry == url.origin if "://" in entry else url.scheme == "https" and entry == url.host
            for entry in self.hosts
        )
