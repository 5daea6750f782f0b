"""The sums of what runs have used, in SQL: kept by day as runs are indexed, and read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from awaken.core.search.query import NANOS, EndWord
from awaken.core.search.usage import UsageQuery, UsageRow, day_of, load_zone
from awaken.stores.sql.search_tables import Work, load_zone_name, where_clause


class RunSums(NamedTuple):
    """What an entry adds to the sums, and where."""

    day: str
    scope: str
    agent: str
    model: str
    user: str
    amounts: tuple[int, ...]


def amounts_of(status: str, given: int, made: int, cost: int | None) -> tuple[int, ...]:
    """One run, whether it failed, its tokens and its cost, and whether its price is unknown."""
    is_unpriced = cost is None and given + made > 0
    return (1, int(status == EndWord.FAILED), given, made, cost or 0, int(is_unpriced))


def sums_of_row(entry: Sequence[Any]) -> RunSums:
    _, _, day, scope, agent, model, user, status, given, made, cost, _ = entry
    return RunSums(day, scope, agent, model, user, amounts_of(status, given, made, cost))


def add_sums(new: RunSums | None, old: RunSums | None) -> Work[None]:
    if new == old:
        return
    changes: dict[tuple[str, ...], list[int]] = {}
    for sums, sign in ((new, 1), (old, -1)):
        if sums is not None:
            changed = changes.setdefault(sums[:5], [0] * 6)
            changed[:] = [
                one + sign * other for one, other in zip(changed, sums.amounts, strict=True)
            ]
    for (day, scope, agent, model, user), amounts in changes.items():
        for table, *names in (
            ("search_sums", agent, model, ""),
            ("search_user_days", "", "", user),
            ("search_user_sums", agent, model, user),
        ):
            yield _ADD_SUMS.format(table), (day, scope, *names, *amounts)
            if amounts[0] < 0:
                yield _DROP_SUMS.format(table), (day, scope, *names)


_ADD_SUMS = """
INSERT INTO {0} AS s (day, scope, agent, model, user_id, runs, failed, input_tokens, output_tokens,
    cost, unpriced)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (day, scope, agent, model, user_id) DO UPDATE SET runs = s.runs + excluded.runs,
    failed = s.failed + excluded.failed, input_tokens = s.input_tokens + excluded.input_tokens,
    output_tokens = s.output_tokens + excluded.output_tokens, cost = s.cost + excluded.cost,
    unpriced = s.unpriced + excluded.unpriced
"""
_DROP_SUMS = """
DELETE FROM {0}
WHERE day = ? AND scope = ? AND agent = ? AND model = ? AND user_id = ? AND runs <= 0
"""
_SUMS = ("runs", "failed", "input_tokens", "output_tokens", "cost", "unpriced")
_COLUMN = {"user": "user_id"}


def sum_usage(query: UsageQuery) -> Work[Sequence[UsageRow]]:
    zone = yield from load_zone_name()
    if query.zone is not None and query.zone != zone:
        return (yield from _sum_in_zone(query, load_zone(query.zone)))
    where, values = _usage_conditions(query)
    if query.after is not None:
        where, values = [*where, "day >= ?"], [*values, query.after]
    if query.before is not None:
        where, values = [*where, "day < ?"], [*values, query.before]
    columns = [_COLUMN.get(part, part) for part in query.by]
    sums = [f"CAST(sum({name}) AS BIGINT)" for name in _SUMS]
    text = f"SELECT {', '.join([*columns, *sums])} FROM {_table_for(query)}{where_clause(where)}"
    if columns:
        order = ["day"] if "day" in query.by else []
        order += [f"{sums[4]} DESC", f"{sums[2]} DESC", *columns]
        text += f" GROUP BY {', '.join(columns)} ORDER BY {', '.join(order)}"
    rows = yield f"{text} LIMIT ?", (*values, query.limit)
    return [_usage_row(query, row) for row in rows if row[len(columns)]]


def _table_for(query: UsageQuery) -> str:
    """The smallest table that has the parts which a query names."""
    if query.user is None and "user" not in query.by:
        return "search_sums"
    is_narrow = query.agent is None and query.model is None
    if is_narrow and not {"agent", "model"}.intersection(query.by):
        return "search_user_days"
    return "search_user_sums"


def _usage_conditions(query: UsageQuery) -> tuple[list[str], list[Any]]:
    asked = (
        ("scope", query.scope),
        ("agent", query.agent),
        ("model", query.model),
        ("user_id", query.user),
    )
    named = [(column, value) for column, value in asked if value is not None]
    return [f"{column} = ?" for column, _ in named], [value for _, value in named]


def _usage_row(query: UsageQuery, row: Sequence[Any]) -> UsageRow:
    parts: dict[str, Any] = dict(zip(query.by, row, strict=False))
    runs, failed, given, made, cost, unpriced = row[len(query.by) :]
    amounts = {"runs": runs, "failed": failed, "input_tokens": given, "output_tokens": made}
    return UsageRow(**parts, **amounts, cost=cost / NANOS, unpriced=unpriced)


_QUARTER_MS = 900_000


def _sum_in_zone(query: UsageQuery, zone: tzinfo) -> Work[Sequence[UsageRow]]:
    """Sums by the days of another zone than the index's: made from the runs, by quarters of an
    hour, since all zones differ by such. That costs more the more runs there are."""
    where, values = _usage_conditions(query)
    where.append("run IS NOT NULL")
    for day, sign in ((query.after, ">="), (query.before, "<")):
        if day is not None:
            where.append(f"started_ms {sign} ?")
            values.append(_start_of(day, zone))
    others = [_COLUMN.get(part, part) for part in query.by if part != "day"]
    columns = [f"started_ms / {_QUARTER_MS}", *others]
    sums = ", ".join(_RUN_SUMS)
    rows = yield (
        f"SELECT {', '.join(columns)}, {sums} FROM search_entries{where_clause(where)} "
        f"GROUP BY {', '.join(columns)}",
        values,
    )
    totals: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        names = iter(row[1 : len(columns)])
        day = day_of(row[0] * _QUARTER_MS, zone)
        parts = tuple(day if part == "day" else next(names) for part in query.by)
        known = totals.setdefault(parts, [0] * len(_SUMS))
        known[:] = [one + int(more) for one, more in zip(known, row[len(columns) :], strict=True)]
    found = [_usage_row(query, (*parts, *amounts)) for parts, amounts in totals.items()]
    found.sort(key=lambda row: (row.day or "", -row.cost, -row.input_tokens))
    return found[: query.limit]


_RUN_SUMS = (
    "count(*)",
    "sum(CASE status WHEN 'failed' THEN 1 ELSE 0 END)",
    "CAST(sum(input_tokens) AS BIGINT)",
    "CAST(sum(output_tokens) AS BIGINT)",
    "CAST(sum(coalesce(cost, 0)) AS BIGINT)",
    "sum(CASE WHEN cost IS NULL AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END)",
)


def _start_of(day: str, zone: tzinfo) -> int:
    """The first millisecond of a day in a zone."""
    noon = datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC)
    local = (noon - timedelta(hours=12)).replace(tzinfo=zone)
    return round(local.timestamp() * 1000)
