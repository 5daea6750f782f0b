"""Compares two stores under random operations; needs Hypothesis.

    TestMyStore = store_machine(open_my_store, open_memory_store).TestCase

After each step everything that can be read is compared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from awaken.core.lifecycle import RunStatus
from awaken.core.profile import ProfileOwner
from awaken.core.storable import is_storable
from awaken.core.store.commands import CommandKind, Submission, SubmitMode, ThreadCommand
from awaken.core.store.commits import CallPhase, Committed, Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import ChildStrategy
from awaken.core.suspension import Decision, TicketStatus, ToolCallResume, call_digest
from awaken.errors import UnreadableValue
from awaken.testing.conformance.helpers import KEYS, RUNS, WAITING, Author, raw, record, says
from awaken.testing.conformance.pair import StorePair

T = TypeVar("T")

THREADS = ("a", "a b", "ä'", "b")
FLAWS = (
    "length",
    "run",
    "parent",
    "itself",
    "twice",
    "nameless",
    "state",
    "sends",
    "fence",
    "old fence",
)


def _change_run(commit: ThreadCommit, **changed: Any) -> dict[str, Any]:
    assert commit.run is not None, "it was made with one"
    return {"run": replace(commit.run, **changed)}


MISFITS: dict[str, Callable[[ThreadCommit], dict[str, Any]]] = {
    "a message's id": lambda commit: {"messages": (replace(commit.messages[0], id=7),)},
    "an event's time": lambda commit: {"events": (replace(commit.events[0], at_ms=1.5),)},
    "an agent": lambda commit: _change_run(commit, agent_id=7),
    "a canceller": lambda commit: _change_run(commit, cancelled_by=7),
    "agents": lambda commit: _change_run(commit, agent_changes=(7,)),
    "half a token": lambda commit: _change_run(commit, input_tokens=1.5),
    "a ticket's tool": lambda commit: {"tickets": (replace(commit.tickets[0], tool_name=7),)},
    "half a millisecond": lambda commit: {"at_ms": commit.at_ms + 0.5},
}
"""Changes of a commit after which a part of it has a wrong type."""
OPEN = TicketStatus.OPEN
UNANSWERED = (OPEN, OPEN, OPEN, OPEN, TicketStatus.CLOSED, TicketStatus.EXPIRED)
SUBMITTED = ("s1", "s2", "s3")
KINDS = (CommandKind.CANCEL, CommandKind.CANCEL, CommandKind.MESSAGES, CommandKind.DECISIONS)

threads = st.sampled_from(THREADS)
runs = st.sampled_from(RUNS)
few = st.integers(min_value=0, max_value=2)
places = st.integers(min_value=0, max_value=20)
changes = st.dictionaries(st.sampled_from("xyz"), few | st.none(), max_size=2)
asked = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(UNANSWERED), min_size=1)
targets = st.sampled_from(("{0}", "{0}", "{0}", "ticket-{0}", "call-{0}", "same", "ghost"))
answers = st.builds(
    ToolCallResume.approve, few, id=st.sampled_from(("", "d1", "d2")), by=st.just("ann")
) | st.builds(ToolCallResume.deny, id=st.sampled_from(("", "d1")))
orders = st.lists(st.tuples(threads, st.sampled_from(KINDS[:-1]), st.none() | runs), max_size=2)
digests = st.sampled_from((None, None, None, "right", "forged"))


def _decide(
    thread: str, given: Sequence[Decision], at_ms: int, store: Store, _: int
) -> Awaitable[int | None]:
    return store.decide(thread, given, at_ms=at_ms)


def _command(thread: str, kind: CommandKind, run: str | None, at_ms: int) -> ThreadCommand:
    return ThreadCommand(
        thread_id=thread,
        kind=kind,
        run_id=f"{thread} {run}" if run else None,
        messages=says("go") if kind is CommandKind.MESSAGES else (),
        at_ms=at_ms,
    )


async def _load_rewound(store: Store, thread: str, to: int) -> tuple[Any, ...]:
    """Load what a run that rewinds a thread would start from."""
    context = await store.load_rewound(thread, to, tail=2)
    assert context is not None
    calls = sorted(context.calls, key=lambda entry: entry.key)
    state = (context.thread_state, context.run_state)
    return list(context.messages), context.hidden, context.skipped, calls, state


async def _commit_readable(store: Store, commit: ThreadCommit) -> Committed:
    """Commit what can be read back. A store in memory keeps values as they are, so their types are
    checked here."""
    if store.immediate and not is_storable(commit, ThreadCommit):
        raise UnreadableValue(f"commit to thread {commit.thread_id!r}", "a part has a wrong type")
    return await store.commit(commit)


def pick(items: Sequence[T], place: int) -> T:
    return items[place % len(items)]


class StoreMachine(RuleBasedStateMachine):
    """Runs all operations of the contract on both stores."""

    def __init__(self, pair: StorePair) -> None:
        super().__init__()
        self.pair = pair
        self.author = Author()

    def teardown(self) -> None:
        self.pair.close()

    @invariant()
    def both_read_alike(self) -> None:
        self.pair.compare(self.author.now)

    def existing(self, place: int) -> str:
        """One of the existing threads; the name of a missing one if there is none."""
        return pick(list(self.author.lengths) or list(THREADS), place)

    # -- commits ------------------------------------------------------------------------------

    def write(self, commit: ThreadCommit, acks: Sequence[int] = ()) -> None:
        sent = len(self.pair.commands)
        committed = self.pair.commit(commit, sorted({place % sent for place in acks if sent}))
        if committed is not None:
            self.author.note(commit, committed)

    @rule(thread=threads, words=few, events=few, state=changes, parent=st.none() | places)
    def talk(
        self, thread: str, words: int, events: int, state: dict[str, Any], parent: int | None
    ) -> None:
        """A commit without a run."""
        older = None if parent is None else self.existing(parent)
        commit = self.author.commit(
            thread, words=words, events=events, thread_state=state, parent_thread_id=older
        )
        self.write(commit)

    @rule(
        thread=threads,
        run=st.tuples(runs, st.sampled_from(RunStatus)),
        words=few,
        events=few,
        phases=st.lists(st.sampled_from(CallPhase), max_size=2),
        states=st.tuples(changes, changes),
        acks=st.lists(places, max_size=3),
        sends=orders,
        release=st.booleans(),
    )
    def step(
        self,
        thread: str,
        run: tuple[str, RunStatus],
        words: int,
        events: int,
        phases: list[CallPhase],
        states: tuple[dict[str, Any], dict[str, Any]],
        acks: list[int],
        sends: list[tuple[str, CommandKind, str | None]],
        release: bool,
    ) -> None:
        """A commit of a run, perhaps its last one."""
        commit = self.author.commit(
            thread,
            run=run,
            words=words,
            events=events,
            phases=phases,
            run_state=states[0],
            thread_state=states[1],
            sends=tuple(_command(*command, self.author.tick()) for command in sends),
            release=release,
        )
        self.write(commit, acks)

    @rule(
        thread=threads,
        run=runs,
        calls=st.integers(min_value=1, max_value=3),
        phases=st.lists(st.sampled_from(CallPhase), max_size=3),
    )
    def turn(self, thread: str, run: str, calls: int, phases: list[CallPhase]) -> None:
        """A message with tool calls, some of which have started."""
        running = (run, RunStatus.RUNNING)
        self.write(self.author.commit(thread, run=running, calls=calls, phases=phases, events=1))

    @rule(thread=threads, run=runs, to=places, words=few, state=changes)
    def rewind(self, thread: str, run: str, to: int, words: int, state: dict[str, Any]) -> None:
        """A commit that rewinds the thread, perhaps to where no message is behind."""
        length = self.author.lengths.get(thread, 0)
        position = to % (length + 1)
        if position < length:
            self.pair.agree(lambda store, _: _load_rewound(store, thread, position))
        running = (run, RunStatus.RUNNING)
        commit = self.author.commit(thread, run=running, words=words, events=1, thread_state=state)
        self.write(replace(commit, rewinds_to=position))

    @rule(thread=threads, run=runs, tickets=asked, release=st.booleans())
    def ask(self, thread: str, run: str, tickets: dict[str, TicketStatus], release: bool) -> None:
        """A commit that opens tickets and closes some."""
        waiting = (run, WAITING)
        self.write(self.author.commit(thread, run=waiting, tickets=tickets, release=release))

    @rule(thread=threads, other=threads, flaw=st.sampled_from(FLAWS))
    def blunder(self, thread: str, other: str, flaw: str) -> None:
        """A commit with one flaw that would otherwise change data of every kind."""
        commit = self.author.commit(thread, words=1, events=1, thread_state={"x": "flawed"})
        words = commit.messages
        flaws: dict[str, dict[str, Any]] = {
            "length": {"expected_length": commit.expected_length + 1},
            "run": {"run": record(f"{other} {RUNS[0]}", thread)},
            "parent": {"parent_thread_id": "ghost"},
            "itself": {"parent_thread_id": thread},
            "twice": {"messages": words * 2},
            "nameless": {"messages": (replace(words[0], id=None),)},
            "state": {"run_state": raw(x=1)},
            "sends": {"sends": tuple(_command(other, kind, None, 0) for kind in CommandKind)},
        }
        if flaw in flaws:
            return self.write(replace(commit, **flaws[flaw]))
        forged = Fence(thread_id=thread, owner="stranger", epoch=1)
        old = [fences for fences in self.pair.given_up if fences[0].thread_id == thread]
        fences = old[-1] if flaw == "old fence" and old else (forged, forged)
        done = self.pair.do(lambda store, side: store.commit(replace(commit, fence=fences[side])))
        assert done is None
        return None

    @rule(thread=threads, run=runs, part=st.sampled_from(list(MISFITS)))
    def misfit(self, thread: str, run: str, part: str) -> None:
        """A commit that could not be read back, which changes nothing."""
        commit = self.author.commit(
            thread, run=(run, WAITING), words=1, events=1, tickets={KEYS[0]: OPEN}
        )
        commit = replace(commit, **MISFITS[part](commit))
        assert self.pair.do(lambda store, _: _commit_readable(store, commit)) is None

    # -- owners, commands, answers ------------------------------------------------------------

    @rule(thread=threads)
    def claim(self, thread: str) -> None:
        self.pair.claim(thread, self.author.tick())

    @precondition(lambda self: self.pair.fences)
    @rule(place=places)
    def release(self, place: int) -> None:
        fences = pick(list(self.pair.fences.values()), place)
        self.pair.do(lambda store, side: store.release(fences[side]))
        self.pair.give_up(fences[0].thread_id)

    @precondition(lambda self: self.pair.given_up)
    @rule(place=places)
    def release_too_late(self, place: int) -> None:
        fences = pick(self.pair.given_up, place)
        self.pair.do(lambda store, side: store.release(fences[side]))

    @rule(place=places, kind=st.sampled_from(KINDS), run=st.none() | runs)
    def send(self, place: int, kind: CommandKind, run: str | None) -> None:
        command = _command(self.existing(place), kind, run, self.author.tick())
        self.pair.send(lambda store, _: store.send(command))

    @rule(
        thread=threads,
        run=st.sampled_from(SUBMITTED),
        mode=st.sampled_from(SubmitMode),
        key=st.none() | st.sampled_from(("k1", "k2")),
        later=st.booleans(),
        answers_to=st.none() | targets,
    )
    def submit(
        self,
        thread: str,
        run: str,
        mode: SubmitMode,
        key: str | None,
        later: bool,
        answers_to: str | None,
    ) -> None:
        """Submit a run, or an answer to a ticket."""
        now = self.author.tick()
        answer = answers_to and (answers_to.format(KEYS[0]), ToolCallResume.approve(id="d1"))
        answered = self.pair.submit(
            Submission(
                thread_id=thread,
                run_id=f"{thread} {run}",
                agent_id="agent",
                messages=says("go"),
                decisions=(answer,) if answer else (),
                mode=mode,
                key=key,
                not_before_ms=now + 2 if later else None,
                at_ms=now,
            )
        )
        if answered is not None:
            self.author.lengths.setdefault(thread, 0)
            self.author.events.setdefault(thread, 0)

    @rule(place=places)
    def cancel_submitted(self, place: int) -> None:
        thread = self.existing(place)
        run_id, now = f"{thread} {pick(SUBMITTED, place)}", self.author.tick()
        self.pair.send(lambda store, _: store.send(ThreadCommand.cancel(thread, run_id, at_ms=now)))

    @rule(limit=few)
    def claim_next(self, limit: int) -> None:
        self.pair.claim_next(["agent"], limit, self.author.tick())

    @rule(place=places)
    def cancel_tree(self, place: int) -> None:
        self.pair.cancel_tree(self.existing(place), self.author.tick())

    @precondition(lambda self: self.author.asked)
    @rule(
        place=places,
        decisions=st.lists(st.tuples(places, targets, answers, digests), min_size=1, max_size=2),
        again=st.booleans(),
    )
    def decide(
        self, place: int, decisions: list[tuple[int, str, ToolCallResume, Any]], again: bool
    ) -> None:
        """Answer tickets of a thread, perhaps twice."""
        thread, _ = pick(list(self.author.asked), place)
        keys = [key for name, key in self.author.asked if name == thread]
        given: list[Decision] = []
        for which, target, answer, seal in decisions:
            key = pick(keys, which)
            fits = call_digest("r", "tool", key) if seal == "right" else seal
            given.append((target.format(key), replace(answer, digest=fits)))
        for at_ms in [self.author.tick() for _ in range(1 + again)]:
            self.pair.send(partial(_decide, thread, given, at_ms))

    # -- whole threads ------------------------------------------------------------------------

    @rule(place=places, new=st.sampled_from((*THREADS, "f1", "f2", "f3")), at=st.none() | places)
    def fork(self, place: int, new: str, at: int | None) -> None:
        if new in self.pair.fences:
            return  # the contract does not say whether a claim alone takes a thread's id
        thread, now = self.existing(place), self.author.tick()
        if at is not None:
            at %= self.author.events.get(thread, 0) + 2
        fork = self.pair.agree(lambda store, _: store.fork(thread, new, at=at, at_ms=now))
        if fork is not None:
            self.author.note_fork(new, fork.message_count, fork.event_count)

    @rule(place=places, children=st.none() | st.sampled_from(ChildStrategy))
    def delete(self, place: int, children: ChildStrategy | None) -> None:
        """Delete one thread with a strategy, or prune all old ones."""
        thread, now = self.existing(place), self.author.tick()
        if children is None:
            self.pair.agree(lambda store, _: store.prune(before_ms=now - 2 * place))
        else:
            self.pair.agree(
                lambda store, _: store.delete_thread(thread, children=children, at_ms=now)
            )
        self.author.forget([name for name in self.author.lengths if not self.pair.has(name)])

    # -- profiles -----------------------------------------------------------------------------

    @rule(
        owner=st.sampled_from((ProfileOwner(), ProfileOwner(agent="a"))),
        key=st.none() | st.sampled_from("xy"),
        value=few | st.none(),
        version=st.none() | few,
    )
    def profile(
        self, owner: ProfileOwner, key: str | None, value: int | None, version: int | None
    ) -> None:
        """Write an entry; without a value delete it, without a key delete all entries."""

        def operation(store: Store, _: int) -> Awaitable[Any]:
            if key is None:
                return store.profiles.clear_owner(owner)
            if value is None:
                return store.profiles.delete(owner, key)
            return store.profiles.set(owner, key, value, expected_version=version)

        self.pair.do(operation)
        listed = self.pair.do(lambda store, _: store.profiles.list(owner))
        assert listed is not None
        left, right = ([(e.key, e.value, e.version) for e in entries] for entries in listed)
        assert left == right


class ReopeningMachine(StoreMachine):
    """A machine that also closes and reopens the stores."""

    @rule()
    def reopen(self) -> None:
        self.pair.reopen()


def store_machine(
    open_store: Callable[[], Awaitable[Store]],
    reference: Callable[[], Awaitable[Store]],
    *,
    reopens: bool = False,
) -> type[StoreMachine]:
    """A machine that compares new stores of the first kind with new stores of the second.

    Both functions return open, empty stores. With `reopens`, stores are also closed and reopened.
    """
    base = ReopeningMachine if reopens else StoreMachine

    class Machine(base):  # type: ignore[valid-type,misc]  # one of two classes, both known
        def __init__(self) -> None:
            super().__init__(StorePair(open_store, reference))

    return Machine
