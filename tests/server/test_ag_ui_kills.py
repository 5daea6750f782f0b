"""06/SV-21 for AG-UI, behind a few frames; `make proof` does it behind each of them."""

from __future__ import annotations

import pytest
from ag_ui_killed import Page, kill_behind, undisturbed


@pytest.fixture(scope="module")
def whole() -> Page:
    return undisturbed()


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_a_client_whose_server_is_killed_ends_with_the_same_messages(
    whole: Page, part: float
) -> None:
    assert kill_behind(round(whole.frames * part)).told() == whole.told()
