"""A store and the one it is held against, in random use; needs Hypothesis.

    TestMyStore = store_machine(open_my_store, open_memory_store).TestCase

After each step everything that can be read is compared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.commits import CallEntry, CallPhase, Fence, ThreadCommit, call_key
from awaken.contract.profile import ProfileOwner
from awaken.contract.store import Store
from awaken.contract.threads import ChildStrategy
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message
from awaken.domain.run import MessageSeqRange, RunMessageOutput, RunRecord
from awaken.domain.suspension import ToolCallResume
from awaken.domain.ticket import Ticket, TicketStatus, call_digest
from awaken.testing.conformance.making import asks, event, raw, record, says, ticket
from awaken.testing.conformance.pair import StorePair

THREADS = ("a", "a b", "ä'", "b")
RUNS = ("1", "2")
KEYS = ("k0", "k1", "k2")
FLAWS = ("length", "run", "parent", "itself", "twice", "nameless", "state", "fence", "old fence")

threads = st.sampled_from(THREADS)
few = st.integers(min_value=0, max_value=2)
changes = st.dictionaries(st.sampled_from("xyz"), few | st.none(), max_size=2)
places = st.lists(st.integers(min_value=0, max_value=30), max_size=3)
maybe_run = st.none() | st.sampled_from(RUNS)
unanswered = st.sampled_from((TicketStatus.OPEN, TicketStatus.CLOSED, TicketStatus.EXPIRED))
targets = st.sampled_from((*KEYS, "ticket-k0", "call-k1", "same", "ghost"))
answers = st.builds(
    ToolCallResume.approve, few, id=st.sampled_from(("", "d1", "d2")), by=st.just("ann")
) | st.builds(ToolCallResume.deny, id=st.sampled_from(("", "d1")))
digests = st.sampled_from((None, "forged", *(call_digest("r", "tool", key) for key in KEYS)))
profile_owners = st.sampled_from((ProfileOwner(), ProfileOwner(agent="a")))


class StoreMachine(RuleBasedStateMachine):
    """All deeds of the contract, done to both stores; times and ids are counted up here."""

    def __init__(self, pair: StorePair) -> None:
        super().__init__()
        self.pair = pair
        self.now = 0
        self.lengths: dict[str, int] = {}
        self.turns: dict[str, tuple[Message, str]] = {}
        self.born: dict[str, int] = {}
        self.asked: dict[tuple[str, str], int] = {}

    def teardown(self) -> None:
        self.pair.close()

    @invariant()
    def both_read_alike(self) -> None:
        self.pair.compare(self.now)

    def tick(self) -> int:
        self.now += 1
        return self.now

    # -- commits ------------------------------------------------------------------------------

    @rule(
        thread=threads,
        words=few,
        calls=few,
        events=few,
        run=maybe_run,
        status=st.sampled_from(RunStatus),
        run_state=changes,
        thread_state=changes,
        phases=st.lists(st.sampled_from(CallPhase), max_size=2),
        tickets=st.dictionaries(st.sampled_from(KEYS), unanswered, max_size=2),
        acks=places,
        parent=st.none() | threads,
        release=st.booleans(),
    )
    def commit(
        self,
        thread: str,
        words: int,
        calls: int,
        events: int,
        run: str | None,
        status: RunStatus,
        run_state: dict[str, Any],
        thread_state: dict[str, Any],
        phases: list[CallPhase],
        tickets: dict[str, TicketStatus],
        acks: list[int],
        parent: str | None,
        release: bool,
    ) -> None:
        now = self.tick()
        made = self._run(thread, run, status) if run else None
        commit = ThreadCommit(
            thread_id=thread,
            expected_length=self.lengths.get(thread, 0),
            messages=self._messages(words, calls, made),
            run=made,
            run_state=raw(**run_state) if made else {},
            thread_state=raw(**thread_state),
            events=tuple(event(thread_id=thread, run_id=run or "") for _ in range(events)),
            tickets=tuple(self._ticket(thread, made, *asked) for asked in tickets.items()),
            parent_thread_id=parent,
            at_ms=now,
            release=release,
        )
        self._commit(replace(commit, calls=self._lines(commit, phases)), acks)

    def _run(self, thread: str, name: str, status: RunStatus) -> RunRecord:
        run_id = f"{thread} {name}"
        hull = MessageSeqRange.new(1, self.lengths.get(thread, 0))
        return record(
            run_id,
            thread,
            agent_id=name,
            status=status,
            output=RunMessageOutput(thread_id=thread, range=hull),
            created_at=self.born.get(run_id, self.now),
            updated_at=self.now,
            revision=self.now,
        )

    def _messages(self, words: int, calls: int, run: RunRecord | None) -> tuple[Message, ...]:
        messages = says(*(f"{self.now}.{number}" for number in range(words)))
        if run is not None and calls:
            turn = asks(f"turn {self.now}", *(f"c{index}" for index in range(calls)))
            messages = (*messages, turn.mark_produced_by(run.run_id))
        return messages

    def _lines(self, commit: ThreadCommit, phases: list[CallPhase]) -> tuple[CallEntry, ...]:
        """Lines for calls of the run's own last turn, which may be in the commit itself."""
        found = self._turn(commit) or self.turns.get(commit.thread_id)
        if commit.run is None or found is None or found[1] != commit.run.run_id:
            return ()
        turn, run_id = found
        return tuple(
            CallEntry(
                key=call_key(turn.id or "", index),
                run_id=run_id,
                call_id=call.id,
                tool_name=call.name,
                phase=phase,
                arguments={"at": self.now} if phase is CallPhase.INTENT else None,
            )
            for index, (call, phase) in enumerate(zip(turn.tool_calls or (), phases, strict=False))
        )

    def _turn(self, commit: ThreadCommit) -> tuple[Message, str] | None:
        turns = [message for message in commit.messages if message.tool_calls]
        return (turns[-1], commit.run.run_id) if turns and commit.run else None

    def _ticket(self, thread: str, run: RunRecord | None, key: str, status: TicketStatus) -> Ticket:
        asked_at = self.asked.get((thread, key), self.now * 10 + KEYS.index(key))
        return ticket(
            key,
            thread_id=thread,
            run_id=run.run_id if run else f"{thread} 1",
            call_id=f"call-{key}" if key == "k1" else "same",
            asked_at=asked_at,
            expires_at=self.now + 5 if key == "k2" else None,
            status=status,
        )

    def _commit(self, commit: ThreadCommit, acks: list[int]) -> None:
        known = [place for place in set(acks) if place < len(self.pair.commands)]
        committed = self.pair.commit(commit, known)
        if committed is None:
            return
        self.lengths[commit.thread_id] = committed.length
        if turn := self._turn(commit):
            self.turns[commit.thread_id] = turn
        if commit.run is not None:
            self.born.setdefault(commit.run.run_id, commit.run.created_at)
        for asked in commit.tickets:
            self.asked.setdefault((commit.thread_id, asked.key), asked.asked_at)

    @rule(thread=threads, other=threads, flaw=st.sampled_from(FLAWS))
    def commit_with_a_flaw(self, thread: str, other: str, flaw: str) -> None:
        now, length = self.tick(), self.lengths.get(thread, 0)
        word = says(str(now))
        flaws: dict[str, dict[str, Any]] = {
            "length": {"expected_length": length + 1},
            "run": {"run": record(f"{other} 1", thread)},
            "parent": {"parent_thread_id": "ghost"},
            "itself": {"parent_thread_id": thread},
            "twice": {"messages": word * 2},
            "nameless": {"messages": (replace(word[0], id=None),)},
            "state": {"run_state": raw(x=1)},
        }
        good: dict[str, Any] = {
            "thread_id": thread,
            "expected_length": length,
            "messages": word,
            "thread_state": raw(x="flawed"),
            "events": (event(thread_id=thread),),
            "at_ms": now,
        }
        commit = ThreadCommit(**(good | flaws.get(flaw, {})))
        if flaw in flaws:
            return self._commit(commit, [])
        forged = Fence(thread_id=thread, owner="stranger", epoch=1)
        old = [pair for pair in self.pair.given_up if pair[0].thread_id == thread]
        fences = old[-1] if flaw == "old fence" and old else (forged, forged)
        done = self.pair.do(lambda store, side: store.commit(replace(commit, fence=fences[side])))
        assert done is None
        return None

    # -- owners, commands, answers ------------------------------------------------------------

    @rule(thread=threads)
    def claim(self, thread: str) -> None:
        self.pair.claim(thread, self.tick())

    @rule(thread=threads)
    def release(self, thread: str) -> None:
        if thread in self.pair.fences:
            fences = self.pair.fences[thread]
            self.pair.do(lambda store, side: store.release(fences[side]))
            self.pair.give_up(thread)

    @precondition(lambda self: self.pair.given_up)
    @rule(place=places)
    def release_again(self, place: list[int]) -> None:
        fences = self.pair.given_up[sum(place) % len(self.pair.given_up)]
        self.pair.do(lambda store, side: store.release(fences[side]))

    @rule(thread=threads, kind=st.sampled_from(CommandKind), run=maybe_run)
    def send(self, thread: str, kind: CommandKind, run: str | None) -> None:
        command = ThreadCommand(
            thread_id=thread,
            kind=kind,
            run_id=f"{thread} {run}" if run else None,
            messages=says("go") if kind is CommandKind.MESSAGES else (),
            at_ms=self.tick(),
        )
        self.pair.tell(lambda store, _: store.send(command))

    @rule(thread=threads, decisions=st.lists(st.tuples(targets, answers, digests), max_size=2))
    def decide(self, thread: str, decisions: list[tuple[str, ToolCallResume, str | None]]) -> None:
        now = self.tick()
        given = [(target, replace(resume, digest=seal)) for target, resume, seal in decisions]
        self.pair.tell(lambda store, _: store.decide(thread, given, at_ms=now))

    # -- whole threads ------------------------------------------------------------------------

    @rule(thread=threads, new=threads, at=st.none() | st.integers(min_value=0, max_value=12))
    def fork(self, thread: str, new: str, at: int | None) -> None:
        if new in self.pair.fences:
            return  # the contract does not say whether somebody's claim takes a name
        now = self.tick()
        fork = self.pair.agree(lambda store, _: store.fork(thread, new, at=at, at_ms=now))
        if fork is not None:
            self.lengths[new] = fork.message_count

    @rule(thread=threads, children=st.sampled_from(ChildStrategy))
    def delete(self, thread: str, children: ChildStrategy) -> None:
        now = self.tick()
        self.pair.agree(lambda store, _: store.delete_thread(thread, children=children, at_ms=now))
        self._forget()

    @rule(age=st.integers(min_value=0, max_value=30))
    def prune(self, age: int) -> None:
        self.pair.agree(lambda store, _: store.prune(before_ms=self.now - age))
        self._forget()

    def _forget(self) -> None:
        """Drop what was known of threads that are gone."""
        for thread in [name for name in self.lengths if not self.pair.has(name)]:
            del self.lengths[thread]
            self.turns.pop(thread, None)
            for name in RUNS:
                self.born.pop(f"{thread} {name}", None)
            for key in KEYS:
                self.asked.pop((thread, key), None)

    # -- profiles -----------------------------------------------------------------------------

    @rule(owner=profile_owners, key=st.sampled_from("xy"), value=few, version=st.none() | few)
    def set_profile(self, owner: ProfileOwner, key: str, value: int, version: int | None) -> None:
        self.pair.do(
            lambda store, _: store.profiles.set(owner, key, value, expected_version=version)
        )
        self._compare_profiles(owner)

    @rule(owner=profile_owners, key=st.none() | st.sampled_from("xy"))
    def drop_profile(self, owner: ProfileOwner, key: str | None) -> None:
        if key is None:
            self.pair.do(lambda store, _: store.profiles.clear_owner(owner))
        else:
            self.pair.do(lambda store, _: store.profiles.delete(owner, key))
        self._compare_profiles(owner)

    def _compare_profiles(self, owner: ProfileOwner) -> None:
        listed = self.pair.do(lambda store, _: store.profiles.list(owner))
        assert listed is not None
        left, right = ([(e.key, e.value, e.version) for e in entries] for entries in listed)
        assert left == right


class ReopeningMachine(StoreMachine):
    """The same, for data that outlives the store that was closed."""

    @rule()
    def reopen(self) -> None:
        self.pair.reopen()


def store_machine(
    open_store: Callable[[], Awaitable[Store]],
    reference: Callable[[], Awaitable[Store]],
    *,
    reopens: bool = False,
) -> type[StoreMachine]:
    """A machine that holds new stores of the first kind against new ones of the second.

    Both are to be opened and empty. With `reopens`, they are also closed and opened again.
    """
    base = ReopeningMachine if reopens else StoreMachine

    class Machine(base):  # type: ignore[valid-type,misc]  # one of two classes, both known
        def __init__(self) -> None:
            super().__init__(StorePair(open_store, reference))

    return Machine
