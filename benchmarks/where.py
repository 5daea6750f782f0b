"""Where a step's time goes: `python -m benchmarks.where` samples W1 at 200 steps.

A timer interrupts the program every few milliseconds of CPU time; the share of interruptions
that find a function on the stack is its share of the time, whatever it calls included.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from types import FrameType

from benchmarks.ours import Awaken
from benchmarks.work import Tally

STEPS, INTERVAL = 200, 0.001
PARTS = {
    "asking the model (`ask_model`)": ("inference.py", "ask_model"),
    "… of that the model itself": ("ours.py", "execute_stream"),
    "… of that retry and breaker": ("retry.py", "drive"),
    "… of that putting the answer together": ("answer_builder.py", None),
    "commits, two (`persist_checkpoint`)": ("checkpoint.py", "persist_checkpoint"),
    "… of that the memory store": ("commits.py", "commit"),
    "… of that writing state as JSON": ("store.py", "take_unsaved"),
    "running the tool (`execute_tool`)": ("execute.py", "execute_tool"),
    "state updates": ("store.py", "update"),
    "log, ledger and event of the call": ("call_results.py", "_record"),
    "cancellation scopes": ("cancel.py", None),
}


class Samples:
    """What the timer found, function by function."""

    def __init__(self) -> None:
        self.total = 0
        self.found: Counter[tuple[str, str | None]] = Counter()

    def take(self, _: int, frame: FrameType | None) -> None:
        self.total += 1
        here: set[tuple[str, str | None]] = set()
        while frame is not None:
            code = frame.f_code
            file = code.co_filename.rpartition("/")[2]
            here |= {(file, code.co_name), (file, None)}
            frame = frame.f_back
        # The model, and what hears it, run beneath whoever drives the stream: only they count then.
        if here & {("ours.py", "execute_stream"), ("answer_builder.py", None)}:
            here.discard(("retry.py", "drive"))
        self.found.update(here)


async def measure(runs: int, samples: Samples) -> float:
    """Microseconds a step, while samples are taken."""
    async with Awaken().steps(STEPS, 0.0, Tally()) as run:
        await run()
        signal.signal(signal.SIGPROF, samples.take)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        started = time.process_time()
        for _ in range(runs):
            await run()
        spent = time.process_time() - started
        signal.setitimer(signal.ITIMER_PROF, 0)
    return spent / runs / STEPS * 1e6


def main() -> None:
    samples = Samples()
    step = asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, samples))
    print(f"a step takes {step:.1f} µs here; {samples.total:,} samples")
    for name, part in PARTS.items():
        share = samples.found[part] / samples.total
        print(f"{share:6.1%} {share * step:6.1f} µs  {name}")


if __name__ == "__main__":
    main()
