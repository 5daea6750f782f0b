"""Joining the counts of tokens that providers report for one answer."""

from __future__ import annotations

import msgspec

from awaken.core.inference import TokenUsage


def merged_usage(old: TokenUsage | None, new: TokenUsage) -> TokenUsage:
    """`old` updated by `new`: a field without a count, or with a negative one, keeps the old."""
    fields: dict[str, int] = {}
    for name in new.__struct_fields__:
        before: int | None = getattr(old, name) if old is not None else None
        count: int | None = getattr(new, name)
        if count is not None and count < 0:
            count = before or 0
        if count is None:
            count = before
        if count is not None:
            fields[name] = count
    return TokenUsage(**fields)


def total_usage(one: TokenUsage | None, other: TokenUsage | None) -> TokenUsage | None:
    """The sum of two usages; a count that neither reports stays unknown."""
    return one or other if one is None or other is None else _added(one, other)


def _added(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    return TokenUsage(
        **{
            name: (getattr(one, name) or 0) + (getattr(other, name) or 0)
            for name in one.__struct_fields__
            if getattr(one, name) is not None or getattr(other, name) is not None
        }
    )


def has_negative(usage: TokenUsage) -> bool:
    """Whether a provider has reported a count below zero."""
    counts = filter(None, msgspec.structs.astuple(usage))
    return min(counts, default=0) < 0
