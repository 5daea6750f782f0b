"""The table of providers and settings on the page is what the adapters do."""

from awaken import ModelSettings
from awaken.runtime.open_by_name import _PROVIDERS
from provider_table import MODELS, PAGE, SETTINGS, page_with, table


def test_the_page_says_what_becomes_of_each_setting() -> None:
    """09/FD-11; if this fails, run `python tools/provider_table.py`."""
    assert PAGE.read_text() == page_with(table())


def test_every_provider_and_every_setting_is_in_the_table() -> None:
    """All providers are sent `extra`; `timeout` is not sent to any, the runtime keeps it."""
    assert {name for names in MODELS for name in names.split(", ")} == set(_PROVIDERS)
    columns = {name for setting in SETTINGS.values() for name in setting}
    own = {"tool_choice", "reasoning_effort", "timeout", "extra"}
    assert columns | own == set(ModelSettings.__struct_fields__)
