"""The format of structured output."""

from __future__ import annotations

import re
from typing import Any

from awaken.core.value import Value


class OutputFormat(Value, frozen=True, kw_only=True):
    """The format of an agent's final answers: a JSON Schema of an object, with a name."""

    name: str
    schema: dict[str, Any]
    description: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.name):
            raise ValueError(
                f"output name {self.name!r} must be 1 to 64 letters, digits, _ and - only"
            )
        if self.schema.get("type") != "object":
            raise ValueError(
                f"output {self.name!r} is not an object: models write objects only, so make it a "
                "property of an object"
            )
