"""What runs have used: tokens and money, by day, agent, model and user. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Literal

from awaken.core.value import Value
from awaken.errors import ConfigError

UsagePart = Literal["day", "agent", "model", "user", "scope"]


class UsageQuery(Value, frozen=True, kw_only=True):
    """Which runs to sum, and by which parts.

    `scope` selects one tenant (the default scope is the empty text), `None` all. `after` and
    `before` are days such as `2026-11-19`, the first included, the second not. Days are those of
    the time zone `zone`; `None` is the zone of the index, in which sums are kept.
    """

    by: tuple[UsagePart, ...] = ("day",)
    scope: str | None = None
    agent: str | None = None
    model: str | None = None
    user: str | None = None
    after: str | None = None
    before: str | None = None
    zone: str | None = None
    limit: int = 1000


class UsageRow(Value, frozen=True, kw_only=True):
    """What some runs have used: those of one day, agent, model and user, as far as the query groups
    by them. A run counts on the day it began, for the model that answered last, without what its
    delegates used: they are runs, too. `cost` is the sum of the known prices; `unpriced` runs used
    tokens whose price is unknown."""

    day: str | None = None
    scope: str | None = None
    agent: str | None = None
    model: str | None = None
    user: str | None = None
    runs: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0


def load_zone(name: str) -> tzinfo:
    """The time zone of a name.

    Raises:
        ConfigError: this system knows no such zone.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # it reads how Python was built: most never need it

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"time zone {name!r} is not known here: write a name such as Europe/Vienna "
            "(on systems without a zone database: pip install tzdata)"
        ) from error


def day_of(at_ms: int, zone: tzinfo) -> str:
    """The day of a moment in a time zone, such as `2026-11-19`."""
    return datetime.fromtimestamp(at_ms / 1000, zone).date().isoformat()


def check_day(name: str, day: str | None) -> None:
    """
    Raises:
        ConfigError: it is not written as a day.
    """
    if day is None:
        return
    try:
        is_day = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat() == day
    except ValueError:
        is_day = False
    if not is_day:
        raise ConfigError(f"{name} is a day such as 2026-11-19, not {day!r}")
