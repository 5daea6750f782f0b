"""The shape an answer has to have."""

from __future__ import annotations

import re
from typing import Any

from awaken.domain.value import Value


class OutputFormat(Value, frozen=True, kw_only=True):
    """A shape for answers, as a JSON Schema of an object."""

    name: str
    schema: dict[str, Any]
    description: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.name):
            raise ValueError(f"output name {self.name!r} is not of letters, digits, _ and - alone")
        if self.schema.get("type") != "object":
            raise ValueError(
                f"output {self.name!r} is no object: models write objects only, so put it into "
                "one, under a property"
            )
