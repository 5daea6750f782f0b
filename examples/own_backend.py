"""A backend of your own: agents that are jobs of a web service."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from urllib.parse import quote, unquote, urlsplit

import msgspec

from awaken import Message, RemoteAgent, Runtime
from awaken.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
    ExecutionBackendFactoryError,
    RemoteEndpoint,
    RemoteError,
)
from awaken.events import NATURAL_END, Failed
from awaken.ids import UUID7
from awaken.models import Role


class JobBackend(ExecutionBackend):
    """Puts the prompt up as a job, and waits for the job's answer.

    A job is called what its run is called. So nothing has to be kept of it: whoever knows the run
    finds the job, after a crash, too, and putting it up twice is putting it up once.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout

    def capabilities(self) -> BackendCapabilities:
        """One prompt in, one text out; a job can be stopped, and found again."""
        return msgspec.structs.replace(
            BackendCapabilities.remote_stateless_text(),
            cancellation=BackendCancellationCapability.REMOTE_ABORT,
            continuation=BackendContinuationCapability.REMOTE_STATE,
        )

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        job = request.run_identity.run_id
        await self._start(job, request.messages)
        return await self._outcome(request.agent_id, job)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        job = UUID7.new()
        try:
            await self._start(job, request.messages)
            return await self._outcome(request.agent_id, job)
        except asyncio.CancelledError:
            await self._stop(job)  # nobody calls abort for a delegate
            raise

    async def abort(self, request: BackendAbortRequest) -> None:
        await self._stop(request.run_identity.run_id)

    async def _start(self, job: str, messages: Sequence[Message]) -> None:
        prompt = next(m.text() for m in reversed(messages) if m.role is Role.USER)
        status, text = await self._http("PUT", job, prompt)
        if status != 200:
            raise RemoteError(f"{self._url} takes no job: {status} {text}")

    async def _stop(self, job: str) -> None:
        await self._http("DELETE", job)  # one that is over, or unknown, is no error

    async def _outcome(self, agent_id: str, job: str) -> BackendRunResult:
        try:
            async with asyncio.timeout(self._timeout):
                status, text = await self._http("GET", job)
        except TimeoutError:
            await self._stop(job)
            late = f"job {job} took longer than {self._timeout} s"
            return BackendRunResult(
                agent_id=agent_id, status=BackendRunStatus.timeout(), termination=Failed(value=late)
            )
        if status != 200:
            return BackendRunResult(
                agent_id=agent_id,
                status=BackendRunStatus.failed(text),
                termination=Failed(value=text),
            )
        return BackendRunResult(
            agent_id=agent_id,
            status=BackendRunStatus.completed(),
            termination=NATURAL_END,
            response=text,
            output=BackendRunOutput.from_text(text),
            steps=1,
        )

    async def _http(self, method: str, job: str, body: str = "") -> tuple[int, str]:
        """One exchange; whoever cancels it hangs up. Yours is an HTTP client's."""
        place, data = urlsplit(f"{self._url}/{quote(job, safe='')}"), body.encode()
        head = f"{method} {place.path} HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n"
        try:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            try:
                writer.write(head.encode() + data)
                answer = await reader.read()
            finally:
                writer.close()
            first, _, text = answer.decode().partition("\r\n\r\n")
            return int(first.split()[1]), text
        except (OSError, ValueError, IndexError) as error:
            raise RemoteError(f"{self._url} does not answer: {error}") from error


class JobBackendFactory:
    """Makes backends for `RemoteAgent(…, backend="jobs")`."""

    def backend(self) -> str:
        return "jobs"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        self.build(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        if not endpoint.base_url.startswith("http://"):
            raise ExecutionBackendFactoryError(f"{endpoint.base_url} is no http:// URL")
        return JobBackend(endpoint.base_url, endpoint.timeout_ms / 1000)


# -- the other side, in a few lines, so that this runs by itself ------------------------------


class JobService:
    """PUT /<name> starts a job, unless it is there; GET waits for it, DELETE stops it."""

    def __init__(self, work: Callable[[str], Awaitable[str]]) -> None:
        self.url = ""
        self._work = work
        self._jobs: dict[str, asyncio.Future[str]] = {}

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # a caller may hang up
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            body = await reader.readexactly(int(head.rpartition("Content-Length: ")[2]))
            method, path, _ = head.split(" ", 2)
            status, text = await self._answer(method, unquote(path[1:]), body.decode())
            writer.write(f"HTTP/1.0 {status} -\r\n\r\n{text}".encode())
            await writer.drain()
        writer.close()

    async def _answer(self, method: str, name: str, body: str) -> tuple[int, str]:
        if method == "PUT":
            if name not in self._jobs:
                self._jobs[name] = asyncio.ensure_future(self._work(body))
            return 200, ""
        if name not in self._jobs:
            return 404, f"there is no {name}"
        job = self._jobs[name]
        if method == "DELETE":
            job.cancel()
        await asyncio.wait([job])
        if job.cancelled():
            return 410, f"{name} was stopped"
        return (200, job.result()) if job.exception() is None else (500, str(job.exception()))


async def main() -> None:
    at_work = asyncio.Event()

    async def shout(prompt: str) -> str:
        if prompt == "wait":
            at_work.set()
            try:
                await asyncio.Event().wait()
            finally:
                print("the service: that job was stopped")
        return prompt.upper()

    service = JobService(shout)
    async with await service.start():
        agents = [RemoteAgent("shouter", service.url, backend="jobs")]
        async with Runtime(agents, backends=[JobBackendFactory()]) as runtime:
            print("answered:", (await runtime.run("shouter", "hello")).response)

            running = asyncio.ensure_future(runtime.run("shouter", "wait", thread="t"))
            await at_work.wait()
            await runtime.cancel("t")
            print("ended:", (await running).termination)


if __name__ == "__main__":
    asyncio.run(main())
