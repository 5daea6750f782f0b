"""Splitting addresses that may name several hosts."""

from __future__ import annotations

import re
from urllib.parse import SplitResult

# The parts of an address by RFC 3986, appendix B.
_PARTS = re.compile(
    r"(?:(?P<scheme>[A-Za-z][\w+.-]*):)?(?://(?P<netloc>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)


def split_address(address: str) -> SplitResult:
    """The parts of an address. Unlike `urlsplit`, it does not look into the hosts: newer versions
    of Python refuse a list of hosts in which one after the first has brackets, as in `a,[::1]`."""
    found = _PARTS.fullmatch(address)
    assert found is not None, "every text matches"
    parts = found.groupdict(default="")
    return SplitResult(**{**parts, "scheme": parts["scheme"].lower()})
