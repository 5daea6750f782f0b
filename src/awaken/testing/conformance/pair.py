"""Two stores side by side: each operation runs on both, and both must return the same.

Owners, epochs and command ids differ between the stores; all other values are given by the caller,
so that they can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from awaken.core.store.commands import Submission, Submitted, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import DeleteResult, ThreadQuery
from awaken.core.thread import Thread
from awaken.errors import StoreError
from awaken.testing.conformance.helpers import all_runs, everything, names, waiting_threads

Sides = tuple[Any, Any]
Operation = Callable[[Store, int], Awaitable[Any]]
NEVER = 10**15


class StorePair:
    """A store and the one it is compared with.

    An operation gets a store and its side, 0 or 1, to pick the values that differ between the two.
    """

    def __init__(
        self, open_store: Callable[[], Awaitable[Store]], reference: Callable[[], Awaitable[Store]]
    ) -> None:
        self._runner = asyncio.Runner()
        self.stores = (self._run(open_store()), self._run(reference()))
        self.fences: dict[str, tuple[Fence, Fence]] = {}
        self.given_up: list[tuple[Fence, Fence]] = []
        self.commands: list[tuple[int, int]] = []

    def _run(self, operation: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await operation

        return self._runner.run(wait())

    # -- operations ---------------------------------------------------------------------------

    def do(self, operation: Operation) -> Sides | None:
        """What both stores returned, or `None` if both raised the same error class."""
        answers: list[Any] = []
        refusals: list[StoreError] = []
        for side, store in enumerate(self.stores):
            try:
                answers.append(self._run(operation(store, side)))
            except StoreError as refusal:
                refusals.append(refusal)
        if not refusals:
            return answers[0], answers[1]
        assert not answers, f"only one refused: {refusals[0]!r}, the other said {answers[0]!r}"
        assert type(refusals[0]) is type(refusals[1]), refusals
        return None

    def agree(self, operation: Operation) -> Any:
        """The value that both stores returned, which must be equal."""
        answers = self.do(operation)
        if answers is None:
            return None
        left, right = (self._plain(answer, side) for side, answer in enumerate(answers))
        assert left == right
        return left

    def commit(self, commit: ThreadCommit, acks: Sequence[int] = ()) -> Any:
        """Commit with the fence held now; `acks` are indexes into `commands`."""
        held = self.fences.get(commit.thread_id)

        def build_commit(side: int) -> ThreadCommit:
            numbers = tuple(self.commands[place][side] for place in acks)
            return replace(commit, fence=held[side] if held else None, acks=numbers)

        committed = self.agree(lambda store, side: store.commit(build_commit(side)))
        if committed is not None and commit.sends:
            self._number_sends({command.thread_id for command in commit.sends})
        if committed is not None and commit.run is not None:
            assert committed == self.agree(
                lambda store, side: store.find_commit(build_commit(side))
            )
        if committed is not None and commit.release:
            self.give_up(commit.thread_id)
        return committed

    def claim(self, thread_id: str, at_ms: int) -> None:
        fences = self.do(lambda store, _: store.claim(thread_id, at_ms=at_ms))
        assert (fences is None) == (thread_id in self.fences)
        if fences is not None:
            self.fences[thread_id] = fences

    def give_up(self, thread_id: str) -> None:
        """Note that a thread was released."""
        if thread_id in self.fences:
            self.given_up.append(self.fences.pop(thread_id))

    def send(self, operation: Operation) -> None:
        """Run an operation that stores a command or none."""
        numbers = self.do(operation)
        if numbers is None:
            return
        kept = [bool(number) for number in numbers]
        assert kept[0] == kept[1], "one of them keeps it, and the other does not"
        if kept[0]:
            self._number(numbers)

    def cancel_tree(self, thread_id: str, at_ms: int) -> None:
        told = self.do(lambda store, _: store.cancel_tree(thread_id, at_ms=at_ms))
        assert told is not None
        left, right = ([self._plain(head, side) for head in told[side]] for side in (0, 1))
        assert left == right
        self._number_sends([head.id for head in left])

    def submit(self, submission: Submission) -> Submitted | None:
        answer: Submitted | None = self.agree(lambda store, _: store.submit(submission))
        threads = self._run(self.stores[1].list_threads(ThreadQuery(limit=1000)))
        self._number_sends(sorted(thread.id for thread in threads))
        return answer

    def claim_next(self, agents: Collection[str], limit: int, at_ms: int) -> None:
        claimed = self.do(
            lambda store, _: store.claim_next(agents, limit=limit, at_ms=at_ms, overdue_ms=at_ms)
        )
        assert claimed is not None
        assert [run for _, run in claimed[0]] == [run for _, run in claimed[1]]
        for (left, _), (right, _) in zip(*claimed, strict=True):
            assert left.thread_id not in self.fences
            self.fences[left.thread_id] = left, right

    def _number(self, numbers: Sides) -> None:
        for side in (0, 1):
            assert all(numbers[side] > sent[side] for sent in self.commands)
        self.commands.append(numbers)

    def _number_sends(self, thread_ids: Iterable[str]) -> None:
        """Find the ids that a commit's commands got; some commands may be gone already."""
        new: list[list[int]] = []
        for side, store in enumerate(self.stores):
            known = {sent[side] for sent in self.commands}
            found = [c.id for name in thread_ids for c in self._run(store.load_commands(name))]
            new.append(sorted(set(found) - known))
        for numbers in zip(*new, strict=True):
            self._number(numbers)

    def reopen(self) -> None:
        for store in self.stores:
            self._run(store.close())
            self._run(store.open())
        for thread_id in list(self.fences):
            self.give_up(thread_id)

    def close(self) -> None:
        for store in self.stores:
            self._run(store.close())
        self._runner.close()

    # -- looking ------------------------------------------------------------------------------

    def has(self, thread_id: str) -> bool:
        return self._run(self.stores[1].load_thread(thread_id)) is not None

    def compare(self, now_ms: int) -> None:
        """Check that everything that can be read is the same."""
        left, right = (self._run(self._look(side, now_ms)) for side in (0, 1))
        for name in left.keys() | right.keys():
            assert left.get(name) == right.get(name), name

    async def _look(self, side: int, now_ms: int) -> dict[str, Any]:
        store = self.stores[side]
        found = await everything(store)
        for now in (now_ms, NEVER):
            interrupted = names(await store.list_interrupted(now_ms=now))
            found[f"interrupted at {now}"] = interrupted
            has_work = await store.lease.has_work(at_ms=now, overdue_ms=now)
            assert has_work or not interrupted
        for name in found["runs"]:
            found[f"children of {name}"] = await all_runs(store, parent_run_id=name)
        for name in found["threads"]:
            read = found[f"thread {name}"]
            for part in (read, read["context"]):
                part["head"] = self._plain(part["head"], side)
                part["commands"] = [self._plain(sent, side) for sent in part["commands"]]
            assert await store.wait_changed(name, 0) > 0
        found["ready"] = await waiting_threads(store)
        return found

    def _plain(self, value: Any, side: int) -> Any:
        """A value without owners, epochs and command ids."""
        if isinstance(value, Thread):
            return replace(value, owner=value.owner and "somebody")
        if isinstance(value, ThreadCommand):
            numbers = [sent[side] for sent in self.commands]
            return replace(value, id=numbers.index(value.id))
        if isinstance(value, DeleteResult):
            return (value.threads, value.runs)
        return value
