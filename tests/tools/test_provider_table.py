"""The table of providers and settings on the page is what the adapters do."""

from provider_table import PAGE, page_with, table


def test_the_page_says_what_becomes_of_each_setting() -> None:
    """09/FD-11; if this fails, run `python tools/provider_table.py`."""
    assert PAGE.read_text() == page_with(table())
