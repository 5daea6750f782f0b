"""The outline of a run: a row for each step, read by page.

A page is made from the commits of its own steps. They are found by two binary searches, over the
run's messages and over the thread's events, so a page of a long run costs as much as one of a short
run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from awaken.core.event import (
    AgentEvent,
    Error,
    InferenceComplete,
    RunEvent,
    StepEnd,
    StepStart,
    ToolCallCancel,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
)
from awaken.core.message import Message, MessageRecord, Role
from awaken.core.run import RunRecord
from awaken.core.store.threads import CommitView, RunQuery, Threads
from awaken.core.value import Value
from awaken.errors import NotFound

MOST_WORDS = 80
"""How many characters of a step's answer its row has."""
_PAGE = 100
_PROBE = 16


class StepOutcome(StrEnum):
    """How a step ended, from the best to the worst. A call `waits` until it is answered."""

    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    DENIED = "denied"
    WAITS = "waits"
    FAILED = "failed"


class StepOutline(Value, frozen=True, kw_only=True):
    """One step of a run.

    `step` counts from 1. `seq` is the number of the step's first event, `message_id` the id of its
    answer, and `words` are the first words of that. `ended_at_ms` is `None` while the step goes on.
    `calls` are the names of the tools that were called, `outcome` is that of the worst call. `cost`
    is `None` if the price of the model is not known.
    """

    step: int
    seq: int
    message_id: str
    agent_id: str | None = None
    started_at_ms: int
    ended_at_ms: int | None = None
    calls: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    outcome: StepOutcome = StepOutcome.SUCCEEDED
    words: str = ""

    @property
    def duration_ms(self) -> int | None:
        return None if self.ended_at_ms is None else self.ended_at_ms - self.started_at_ms


async def outline(
    store: Threads, run_id: str, *, after_step: int = 0, limit: int = 50
) -> Sequence[StepOutline]:
    """The first `limit` steps of a run behind the step `after_step`, in order.

    Raises:
        NotFound: no such run.
    """
    found = (await store.list_runs(RunQuery(run_id=run_id))).items
    if not found:
        raise NotFound("run", run_id)
    (run,) = found
    if limit <= 0 or after_step > run.steps:
        return []
    steps = _Steps(run_id)
    before = await _last_answer(store, run, after_step) if after_step > 0 else None
    if before is not None:
        steps.begin_at(before.message)
    cursor = await _find_commit(store, run, before.seq if before is not None else None)
    await _read(store, run, cursor, steps, until=after_step + limit)
    rows = [step.row() for step in steps.found]
    return [row for row in rows if after_step < row.step <= after_step + limit]


# -- finding the page -------------------------------------------------------------------------


async def _last_answer(store: Threads, run: RunRecord, step: int) -> MessageRecord | None:
    """The last answer of the run's first `step` steps; `None` if they have none."""
    wrote = run.output.range if run.output is not None else None
    found: MessageRecord | None = None
    low, high = (wrote.from_seq, wrote.to_seq + 1) if wrote is not None else (0, 0)
    while low < high:
        middle = (low + high) // 2
        answer = await _next_answer(store, run, middle, high)
        if answer is not None and _step_of(answer.message) <= step:
            found, low = answer, answer.seq + 1
        else:
            high = middle
    return found


async def _next_answer(store: Threads, run: RunRecord, seq: int, stop: int) -> MessageRecord | None:
    """The run's first answer at position `seq` of the log or behind it, before `stop`."""
    while seq < stop:
        limit = min(_PROBE, stop - seq)
        page = await store.load_records(run.thread_id, after=seq - 1, limit=limit, hidden=True)
        for record in page:
            if record.produced_by_run_id == run.run_id and _step_of(record.message):
                return record
        seq += limit
    return None


def _step_of(message: Message) -> int:
    """The number of the step that an answer belongs to; 0 if the message is no answer."""
    metadata = message.metadata
    if message.role is not Role.ASSISTANT or metadata is None or metadata.step_index is None:
        return 0
    return metadata.step_index + 1


async def _find_commit(store: Threads, run: RunRecord, seq: int | None) -> int:
    """The event behind which the commit with the message at `seq` lies; without `seq`, the commit
    with the run's input."""
    asked = run.input.range if run.input is not None else None
    wrote = run.output.range if run.output is not None else None
    if seq is None and asked is not None:
        seq = asked.to_seq
    elif seq is None and wrote is not None:
        seq = wrote.from_seq

    def is_reached(view: CommitView) -> bool:
        if seq is None:
            return view.at_ms >= run.created_at_ms  # it has neither: only its time is known
        return view.first_seq + len(view.messages) > seq

    return await _bisect(store, run.thread_id, is_reached)


async def _bisect(store: Threads, thread_id: str, is_reached: Callable[[CommitView], bool]) -> int:
    """An event just before the first commit for which `is_reached` is true, as it is for all behind
    that one."""
    thread = await store.load_thread(thread_id)
    low, high = 0, thread.event_count if thread is not None else 0
    while low < high:
        middle = (low + high) // 2
        views = await store.load_commits(thread_id, after=middle, limit=1)
        if not views or is_reached(views[0]):
            high = middle
        else:
            low = max(middle + 1, views[0].first_event + len(views[0].events) - 1)
    # Behind an event there may be a commit without events before the one with the next event, and
    # only the first was looked at.
    return max(0, low - 1)


async def _read(store: Threads, run: RunRecord, cursor: int, steps: _Steps, until: int) -> None:
    """Read commits behind the event `cursor` until the step behind `until` begins, or the run has
    no more."""
    last, limit = 0, _PAGE
    while True:
        page = await store.load_commits(run.thread_id, after=cursor, limit=limit)
        fresh = [view for view in page if view.position > last]
        for view in fresh:
            is_over = steps.is_begun and view.run_id not in (None, run.run_id)
            if is_over or steps.last > until:
                return
            steps.add(view)
            last = view.position
            cursor = max(cursor, view.first_event + len(view.events) - 1)
        if len(page) < limit:
            return
        # Commits without events are given again: behind as many of them, a longer page is needed.
        limit = limit if fresh else 2 * limit


# -- making the rows --------------------------------------------------------------------------


class _OpenStep(msgspec.Struct):
    """A step whose events are being read."""

    number: int
    begin: RunEvent
    start: StepStart
    ended_at_ms: int | None = None
    names: list[str] = msgspec.field(default_factory=list)
    outcomes: dict[str, StepOutcome] = msgspec.field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    words: str = ""

    def add(self, event: AgentEvent) -> None:
        match event:
            case ToolCallReady():
                self.names.append(event.name)
            case ToolCallDone():
                self.outcomes[event.id] = _outcome(event.outcome.value)
            case ToolCallResumed(outcome=outcome):
                known = outcome.value if outcome is not None else "succeeded"
                self.outcomes[event.target_id] = _outcome(known)
            case ToolCallCancel():
                self.outcomes[event.id] = StepOutcome.CANCELLED
            case InferenceComplete(usage=usage):
                if usage is not None:
                    self.input_tokens += usage.prompt_tokens or 0
                    self.output_tokens += usage.completion_tokens or 0
                if event.cost is not None:
                    self.cost = (self.cost or 0) + event.cost
            case Error():
                self.outcomes[""] = StepOutcome.FAILED
            case _:
                pass

    def row(self) -> StepOutline:
        worst = max(self.outcomes.values(), key=_ORDER.index, default=StepOutcome.SUCCEEDED)
        return StepOutline(
            step=self.number,
            seq=self.begin.seq or 0,
            message_id=self.start.message_id,
            agent_id=self.start.agent_id,
            started_at_ms=self.begin.at_ms,
            ended_at_ms=self.ended_at_ms,
            calls=tuple(self.names),
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost=self.cost,
            outcome=worst,
            words=self.words,
        )


_ORDER = tuple(StepOutcome)
_OUTCOMES = {
    "suspended": StepOutcome.WAITS,
    "failed": StepOutcome.FAILED,
    "denied": StepOutcome.DENIED,
    "expired": StepOutcome.DENIED,
    "superseded": StepOutcome.CANCELLED,
    "cancelled": StepOutcome.CANCELLED,
}


def _outcome(word: str) -> StepOutcome:
    return _OUTCOMES.get(word, StepOutcome.SUCCEEDED)


class _Steps:
    """The steps of a run, as its commits are read one after the other.

    A step begins with the first `StepStart` behind the end of the one before; another one within
    it begins a further piece of a long answer. What is told between two steps belongs to the first.
    """

    def __init__(self, run_id: str) -> None:
        self.found: list[_OpenStep] = []
        self.last = 0
        self.is_begun = False
        self._run_id = run_id
        self._is_open = False
        self._skipped_until: str | None = None

    def begin_at(self, answer: Message) -> None:
        """Begin with the step of this answer, which may have begun earlier."""
        self.last = _step_of(answer) - 1
        self._skipped_until = answer.id

    def add(self, view: CommitView) -> None:
        texts = {message.id: message.text() for message in view.messages}
        for event in view.events:
            if event.run_id == self._run_id:
                self.is_begun = True
                self._take(event, texts)
        if self._skipped_until in texts:
            # The answer continues a step that began before: its row is on an earlier page.
            self._skipped_until, self.last, self._is_open = None, self.last + 1, True

    def _take(self, event: RunEvent, texts: dict[str | None, str]) -> None:
        told = event.event
        if self._skipped_until is not None:
            if not isinstance(told, StepStart) or told.message_id != self._skipped_until:
                return
            self._skipped_until = None
        if isinstance(told, StepStart) and not self._is_open:
            self.last, self._is_open = self.last + 1, True
            words = " ".join(texts.get(told.message_id, "").split())
            self.found.append(_OpenStep(self.last, event, told, words=words[:MOST_WORDS]))
        elif isinstance(told, StepEnd):
            self._is_open = False
            if self.found:
                self.found[-1].ended_at_ms = event.at_ms
        elif self.found:
            self.found[-1].add(told)
