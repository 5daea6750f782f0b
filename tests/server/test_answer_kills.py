"""A server that is killed around an answer, at a few points; `make proof` kills at each of them."""

from __future__ import annotations

import pytest
from answer_killed import Play, play_once


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("point", [1, 2, 9])
def test_an_answer_and_its_end_survive_the_server(point: int, repeats: bool) -> None:
    """Before and during the commit of the answer, and while its call is carried out."""
    _, _, faults = play_once(Play(point, repeats, "idempotent"))
    assert faults == []
