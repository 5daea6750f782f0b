"""The backend of `examples/own_backend.py`, and the page it is shown on."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

import pytest

from awaken.core.backend import (
    BackendRootRunRequest,
    BackendRunStatus,
    ExecutionBackend,
)
from awaken.core.event import NullEventSink
from awaken.core.identity import RunIdentity
from awaken.core.message import Message
from awaken.core.spec import RemoteEndpoint
from awaken.testing.conformance import BackendCheck, BackendPart, BackendSubject, backend_checks
from page_blocks import HOME, blocks_of

pytestmark = pytest.mark.anyio

EXAMPLE = HOME / "examples" / "own_backend.py"
PAGE = "docs/backends.md"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_backend", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own_backend = load()


# -- the page ---------------------------------------------------------------------------------

BLOCKS = blocks_of(PAGE)


def test_the_page_shows_the_example_as_it_is() -> None:
    assert EXAMPLE.read_text() in BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_on_the_page_runs(block: str) -> None:
    exec(compile(block, PAGE, "exec"), {"__name__": "page"})


# -- the backend ------------------------------------------------------------------------------


class JobSubject(BackendSubject):
    """A service for each kind of agent."""

    def __init__(self) -> None:
        self._working = asyncio.Event()
        self._stopped = asyncio.Event()
        works: dict[BackendPart, Callable[[str], Awaitable[str]]] = {
            BackendPart.ECHO: self._echo,
            BackendPart.SLOW: self._work,
            BackendPart.FAILING: self._fail,
            BackendPart.ASKING: self._fail,
            BackendPart.RECALLING: self._echo,
        }
        self.services: dict[BackendPart, Any] = {
            part: own_backend.JobService(work) for part, work in works.items()
        }

    async def _echo(self, prompt: str) -> str:
        return prompt

    async def _fail(self, prompt: str) -> str:
        raise RuntimeError("out of order")

    async def _work(self, prompt: str) -> str:
        self._stopped.clear()
        self._working.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._stopped.set()
        return "never"

    def backend(self, part: BackendPart) -> ExecutionBackend:
        endpoint = RemoteEndpoint(backend="jobs", base_url=self.services[part].url)
        built: ExecutionBackend = own_backend.JobBackendFactory().build(endpoint)
        return built

    async def until_working(self) -> None:
        await self._working.wait()
        self._working.clear()

    async def until_stopped(self) -> None:
        await self._stopped.wait()


@pytest.fixture
async def subject() -> AsyncIterator[JobSubject]:
    async with AsyncExitStack() as stack:
        subject = JobSubject()
        for service in subject.services.values():
            await stack.enter_async_context(await service.start())
        yield subject


@pytest.mark.parametrize("check", backend_checks(), ids=lambda check: check.__name__)
async def test_the_example_does_what_it_says(check: BackendCheck, subject: JobSubject) -> None:
    await check(subject)


def request(backend_subject: JobSubject, text: str = "hello") -> BackendRootRunRequest:
    message = Message.user(text, id="m")
    return BackendRootRunRequest(
        agent_id="echo",
        messages=[message],
        new_messages=[message],
        sink=NullEventSink(),
        resolver=backend_subject.resolver,
        run_identity=RunIdentity(thread_id="t", run_id="r", agent_id="echo"),
    )


async def test_a_run_that_goes_on_finds_its_job(subject: JobSubject) -> None:
    """The job of a run is there once, whoever asks for it."""
    first = await subject.backend(BackendPart.ECHO).execute_root(request(subject, "hello"))
    again = await subject.backend(BackendPart.ECHO).execute_root(request(subject, "not again"))

    assert (first.response, again.response) == ("hello", "hello")


async def test_a_job_that_takes_too_long_is_stopped(subject: JobSubject) -> None:
    """02/B1."""
    backend = own_backend.JobBackend(subject.services[BackendPart.SLOW].url, timeout=0.05)

    result = await backend.execute_root(request(subject))

    assert result.status == BackendRunStatus.timeout()
    await subject.until_stopped()
