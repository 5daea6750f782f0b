"""Every backend against the one suite: it does what it says, and no more (02 §2)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from backend_subjects import SUBJECTS

from awaken.testing.conformance import BackendCheck, BackendSubject, backend_checks

pytestmark = pytest.mark.anyio


@pytest.fixture(params=SUBJECTS)
async def subject(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BackendSubject]:
    async with SUBJECTS[request.param](monkeypatch) as opened:
        yield opened


@pytest.mark.parametrize("check", backend_checks(), ids=lambda check: check.__name__)
async def test_backend(check: BackendCheck, subject: BackendSubject) -> None:
    await check(subject)
