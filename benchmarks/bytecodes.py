"""Bytecodes a unit of work takes, by function: `python -m benchmarks.bytecodes w1`.

They are counted by tracing, so the load of the machine does not matter, and a run takes seconds. On
Python 3.11 they go with the time that is measured better than instructions do: each is a jump that
the processor has to guess. What C code does, and the garbage collector, is not in them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from benchmarks.measure import build, start_runs
from benchmarks.ours import Awaken
from benchmarks.work import WORKLOADS, Tally, Workload

WARM_UP = 3
MOST_AT_ONCE = 20
WIDTH = 40


class Trace:
    """Counts what runs while it is the trace function of Python."""

    def __init__(self) -> None:
        self.bytecodes: Counter[CodeType] = Counter()
        self.calls: Counter[CodeType] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Trace:
        code = frame.f_code
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self.calls[code] += 1
        elif event == "opcode":
            self.bytecodes[code] += 1
        return self


async def count(workload: Workload, at_once: int) -> Trace:
    trace = Trace()
    async with workload.open(Awaken(), Tally()) as run:
        for _ in range(WARM_UP):
            await run()
        sys.settrace(trace)
        try:
            # In a task of its own: a frame is traced if it is entered while tracing is on.
            async with asyncio.TaskGroup() as group:
                group.create_task(start_runs(run, at_once))
        finally:
            sys.settrace(None)
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytecodes", description=__doc__)
    parser.add_argument("key", choices=[workload.key for workload in WORKLOADS])
    parser.add_argument("--most", type=int, default=WIDTH, help="how many functions to list")
    options = parser.parse_args()
    workload = next(each for each in WORKLOADS if each.key == options.key)
    at_once = min(workload.at_once, MOST_AT_ONCE)
    trace = asyncio.run(count(workload, at_once))
    units = workload.per if workload.at_once == 1 else at_once
    print(f"{workload.title}; {build()}")
    print(f"{sum(trace.bytecodes.values()) / units:10.1f} bytecodes in all")
    for code, found in trace.bytecodes.most_common(options.most):
        file = code.co_filename.rpartition("/awaken/")[2].rpartition("python3.")[2]
        place = f"{file}:{code.co_firstlineno} {code.co_qualname}"
        print(f"{found / units:10.1f} {trace.calls[code] / units:7.2f} calls  {place}")


if __name__ == "__main__":
    main()
