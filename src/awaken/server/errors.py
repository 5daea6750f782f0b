"""What goes wrong, as clients are told: one table from exceptions to answers."""

from __future__ import annotations

from typing import Any

from awaken.codec import Json
from awaken.server.call import JsonResponse


class Refused(Exception):
    """A request that is refused, with the answer to it."""

    def __init__(
        self, status: int, code: str, message: str, *, hint: str | None = None, **details: Json
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.hint, self.details = status, code, hint, details


def answer_to(error: Exception) -> JsonResponse:
    """The answer to a request that has failed."""
    if isinstance(error, Refused):
        body: dict[str, Any] = {"code": error.code, "message": str(error)}
        if error.hint:
            body["hint"] = error.hint
        if error.details:
            body["details"] = error.details
        return JsonResponse({"error": body}, status_code=error.status)
    raise error
