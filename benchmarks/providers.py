"""W2 through the providers' SDKs: CPU per streamed delta, ours beside the bare SDK's.

`python -m benchmarks.providers`: a server in a process of its own streams the same answer to all.
It is read in three ways, turn by turn: by the SDK's own typed stream, by our adapter alone, and
by the reader of `runtime.stream`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
)

from anthropic import AsyncAnthropic
from google import genai
from openai import AsyncOpenAI

from awaken import Agent, Runtime
from awaken.core.event import TextDelta
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message
from awaken.models.anthropic import AnthropicMessages
from awaken.models.google import GoogleGemini
from awaken.models.openai import OpenAIChat, OpenAIResponses
from benchmarks.table import aligned, number

DELTAS = 5_000
KEY = "sk-none"
QUESTION = "go"

Read = Callable[[], Awaitable[int]]
"""Has the server answer once, and counts the deltas."""
Reader = Callable[[str], AbstractAsyncContextManager[Read]]
"""Opens a client for the server at an address."""


# -- the bare SDKs ------------------------------------------------------------------------------


@asynccontextmanager
async def chat(url: str) -> AsyncIterator[Read]:
    async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1") as client:

        async def read() -> int:
            count = 0
            stream = await client.chat.completions.create(
                model="gpt-5-mini",
                messages=[{"role": "user", "content": QUESTION}],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    count += 1
            return count

        yield read


@asynccontextmanager
async def responses(url: str) -> AsyncIterator[Read]:
    async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1") as client:

        async def read() -> int:
            count = 0
            stream = await client.responses.create(model="gpt-5-mini", input=QUESTION, stream=True)
            async for event in stream:
                if event.type == "response.output_text.delta" and event.delta:
                    count += 1
            return count

        yield read


@asynccontextmanager
async def messages(url: str) -> AsyncIterator[Read]:
    async with AsyncAnthropic(api_key=KEY, base_url=url) as client:

        async def read() -> int:
            count = 0
            stream = await client.messages.create(
                model="claude-opus-5-5",
                max_tokens=32_000,
                messages=[{"role": "user", "content": QUESTION}],
                stream=True,
            )
            async for event in stream:
                if event.type == "content_block_delta" and event.delta.type == "text_delta":
                    count += 1
            return count

        yield read


@asynccontextmanager
async def contents(url: str) -> AsyncIterator[Read]:
    options = genai.types.HttpOptions(base_url=url)
    async with genai.Client(api_key=KEY, http_options=options).aio as client:

        async def read() -> int:
            count = 0
            stream = await client.models.generate_content_stream(
                model="gemini-3-pro", contents=QUESTION
            )
            async for chunk in stream:
                if chunk.text:
                    count += 1
            return count

        yield read


# -- ours ---------------------------------------------------------------------------------------


Open = Callable[[str], OpenAIChat | OpenAIResponses | AnthropicMessages | GoogleGemini]


def adapter(open_at: Open, upstream_model: str) -> Reader:
    """The adapter, read as the loop reads it."""
    request = InferenceRequest(upstream_model=upstream_model, messages=[Message.user(QUESTION)])

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Read]:
        async with aclosing(open_at(url)) as model:

            async def read() -> int:
                count = 0
                async for event in model.execute_stream(request):
                    if type(event) is TextDelta:
                        count += 1
                return count

            yield read

    return opened


def runtime(open_at: Open, upstream_model: str) -> Reader:
    """The whole way, to whoever reads a run's events."""
    name = f"bench:{upstream_model}"

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Read]:
        async with (
            aclosing(open_at(url)) as model,
            Runtime([Agent("bench", model=name)], models={name: model}) as runtime,
        ):

            async def read() -> int:
                count = 0
                async with runtime.stream("bench", QUESTION) as events:
                    async for event in events:
                        if isinstance(event.event, TextDelta):
                            count += 1
                return count

            yield read

    return opened


def open_chat(url: str) -> OpenAIChat:
    return OpenAIChat(api_key=KEY, base_url=f"{url}/v1")


def open_responses(url: str) -> OpenAIResponses:
    return OpenAIResponses(api_key=KEY, base_url=f"{url}/v1")


def open_messages(url: str) -> AnthropicMessages:
    return AnthropicMessages(api_key=KEY, base_url=url)


def open_contents(url: str) -> GoogleGemini:
    return GoogleGemini(api_key=KEY, base_url=url)


APIS: dict[str, tuple[Reader, Open, str]] = {
    "OpenAI, chat completions": (chat, open_chat, "gpt-5-mini"),
    "OpenAI, responses": (responses, open_responses, "gpt-5-mini"),
    "Anthropic, messages": (messages, open_messages, "claude-opus-5-5"),
    "Google, Gemini": (contents, open_contents, "gemini-3-pro"),
}


# -- measuring ----------------------------------------------------------------------------------


def sample(reader: Reader, url: str, deltas: int) -> float:
    """CPU microseconds a delta, after a warm-up.

    Raises:
        AssertionError: not all of them came.
    """
    return asyncio.run(_sample(reader, url, deltas))


async def _sample(reader: Reader, url: str, deltas: int) -> float:
    async with reader(url) as read:
        await read()
        gc.collect()
        before = time.process_time()
        count = await read()
        spent = time.process_time() - before
    if count != deltas:
        raise AssertionError(f"{count} deltas came, not {deltas}")
    return spent / deltas * 1e6


def best(readers: Sequence[Reader], url: str, deltas: int, repeat: int) -> list[float]:
    """The best sample of each, taken turn by turn."""
    rounds = [[sample(reader, url, deltas) for reader in readers] for _ in range(repeat)]
    return [min(samples) for samples in zip(*rounds, strict=True)]


@contextmanager
def server(deltas: int) -> Iterator[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "benchmarks.wire", str(deltas)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.providers", description=__doc__)
    parser.add_argument("--repeat", type=int, default=7, help="samples of each figure")
    parser.add_argument("--deltas", type=int, default=DELTAS, help="pieces of the answer")
    options = parser.parse_args()
    rows = [["µs of CPU a delta", "SDK", "our adapter", "runtime.stream", "ours : SDK"]]
    with server(options.deltas) as url:
        for name, (bare, open_at, model) in APIS.items():
            readers = (bare, adapter(open_at, model), runtime(open_at, model))
            figures = best(readers, url, options.deltas, options.repeat)
            ratio = f"{figures[-1] / figures[0]:.2f}"
            rows.append([name, *(number(figure) for figure in figures), ratio])
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    main()
