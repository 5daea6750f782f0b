"""`awaken resume`: resuming runs that a process left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

import click

from awaken.cli.asyncio_main import Interrupts, run_to_exit
from awaken.cli.children import agent_of, parent_thread_of
from awaken.cli.conversation import TerminalConversation
from awaken.cli.exit_codes import ExitCode, Mistake, describe_ending, exit_code_for
from awaken.cli.live_tasks import LiveTasks
from awaken.cli.options import (
    MOST_LISTED,
    json_option,
    model_option,
    open_decider,
    open_view,
    stdout_for_events,
    store_option,
    yes_option,
)
from awaken.cli.output import complain, count
from awaken.cli.stdin_lines import StdinLines
from awaken.cli.store_address import WayBack, resolve_existing_store
from awaken.cli.store_view import StoreView, Subject
from awaken.cli.target import load_target
from awaken.cli.view import TurnView
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery
from awaken.errors import AwakenError, ResolveError, RuntimeFault
from awaken.runtime import Runtime
from awaken.runtime.metrics_hooks import parent_of
from awaken.runtime.resume import has_agent, list_abandoned, resume_run, resume_task


@click.command(short_help="Go on with what a process has left behind.")
@click.argument("target", metavar="MODULE:AGENT")
@click.argument("id", metavar="[THREAD|RUN]", required=False)
@model_option
@store_option
@yes_option
@json_option
def resume(
    target: str, id: str | None, model: str | None, store: str | None, yes: bool, as_json: bool
) -> ExitCode:
    """Resume runs whose process has ended, and runs that were answered meanwhile.

    \b
      awaken resume app:agent            all of them, one after another
      awaken resume app:agent case-7     this one, also if it still waits for an answer

    A run goes on from its last commit: the model is not asked again for an answer it gave, a
    finished call is not run again, and a call with an unknown outcome is settled as its tool says.
    Only runs of the agents in MODULE:AGENT are resumed. Approvals are asked for as in `awaken run`.

    The exit code is that of the first run that did not finish, as for `awaken run`.
    """
    out = sys.stdout
    with stdout_for_events(as_json):
        found = load_target(target)

        async def work(interrupts: Interrupts) -> ExitCode:
            address = store if found.makes_runtime else resolve_existing_store(store)
            async with found.open(address, model) as runtime:
                back = WayBack(target, store)
                resumer = Resumer(
                    runtime=runtime,
                    agents=found.agent_ids(),
                    interrupts=interrupts,
                    new_view=lambda: open_view(as_json, out, back),
                    back=back,
                    yes=yes,
                )
                store_view = StoreView(runtime, address or target)
                if id is not None:
                    return await resumer.resume_one(await store_view.find(id))
                return await resumer.resume_all(store_view)

        return run_to_exit(work)


@dataclass(kw_only=True)
class Resumer:
    """Resumes runs, one after another, each with its own transcript."""

    runtime: Runtime
    agents: Collection[str]
    interrupts: Interrupts
    new_view: Callable[[], TurnView]
    back: WayBack
    yes: bool

    async def resume_one(self, subject: Subject) -> ExitCode:
        """Resume a run, or the open run of a thread.

        Raises:
            Mistake: the run has ended, or is a delegate, which is resumed with its parent run.
        """
        run_id = subject.run.run_id if subject.run is not None else subject.thread.open_run_id
        run = await self.runtime.find_run(run_id) if run_id is not None else None
        if run is None or run.status.is_terminal:
            raise Mistake(f"{subject.words} has nothing to go on with: no run of it is open")
        if parent := await parent_of(self.runtime.store, run):
            raise Mistake(
                f"{subject.words} works for run {parent.run_id} of {parent.agent_id} and goes on "
                f"with it: resume thread {parent.thread_id}"
            )
        if run.is_background_task_waiting():
            await self._resume_tasks(run.thread_id)
            return await self._wait_for_tasks(run)
        return await self._resume(run)

    async def resume_all(self, store_view: StoreView) -> ExitCode:
        """Resume every run that has no process any more and whose agent is in `agents`."""
        codes = await wait_recovered(self.runtime)
        resumable = await store_view.store.list_interrupted(now_ms=store_view.now_ms())
        owners = await self._resume_tasks()
        # Delegates are not among them: they go on with their parent runs.
        for run in await list_abandoned(self.runtime):
            if self.interrupts.was_ever_pressed:
                break
            if not run.is_task:
                codes.append(await self._try(run))
        for run in await self._list_runs_waiting_for_tasks(owners):
            if not self.interrupts.was_ever_pressed:
                codes.append(await self._wait_for_tasks(run))
        others = sorted({agent_of(run) for run in resumable} - set(self.agents))
        if others:
            complain(f"runs of other agents were left, too: {', '.join(others)}")
        if not codes:
            complain(f"nothing to resume{await self._describe_waiting()}")
        return next((code for code in codes if code is not ExitCode.DONE), ExitCode.DONE)

    async def _try(self, run: RunRecord) -> ExitCode:
        try:
            if run.is_delegated or not has_agent(self.runtime, run):
                # The run only has to be ended.
                ended = await resume_run(self.runtime, run)
                complain(
                    f"run {run.run_id} of {run.agent_id}: {describe_ending(ended.termination)}"
                )
                return ExitCode.DONE
            return await self._resume(run)
        except (RuntimeFault, ResolveError) as error:
            complain(f"run {run.run_id}: {error}")
            return ExitCode.FAILED

    async def _resume(self, run: RunRecord) -> ExitCode:
        conversation, view = self._open_conversation(run)
        view.note(
            f"thread {run.thread_id}: {run.agent_id} goes on after {count(run.steps, 'step')}"
        )
        return await conversation.resume_run(run, view)

    async def _wait_for_tasks(self, run: RunRecord) -> ExitCode:
        """Wait until the tasks of a run have ended and the run has read their results."""
        conversation, view = self._open_conversation(run)
        view.note(f"thread {run.thread_id}: {run.agent_id} goes on with its background tasks")
        return await conversation.wait_for_tasks(view)

    def _open_conversation(self, run: RunRecord) -> tuple[TerminalConversation, TurnView]:
        view, lines = self.new_view(), StdinLines()
        conversation = TerminalConversation(
            runtime=self.runtime,
            thread=run.thread_id,
            agent=None,
            decider=open_decider(lines, lambda: view, yes=self.yes),
            interrupts=self.interrupts,
            lines=lines,
            back=self.back,
        )
        return conversation, view

    async def _resume_tasks(self, thread: str | None = None) -> set[str | None]:
        """Resume the abandoned tasks of one thread or of all. Returns the threads that own them."""
        owners: set[str | None] = set()
        for run in await list_abandoned(self.runtime):
            if run.is_task and thread in (None, parent_thread_of(run)):
                await resume_task(self.runtime, run)
                owners.add(parent_thread_of(run))
        return owners

    async def _list_runs_waiting_for_tasks(self, owners: Collection[str | None]) -> list[RunRecord]:
        """List the runs that wait for tasks of this process: tasks that run, or ended just now."""
        page = await self.runtime.list_runs(RunQuery(status=RunStatus.WAITING, limit=MOST_LISTED))
        return [
            run
            for run in page
            if run.is_background_task_waiting()
            and run.agent_id in self.agents
            and (run.thread_id in owners or await LiveTasks(self.runtime, run).list_running())
        ]

    async def _describe_waiting(self) -> str:
        page = await self.runtime.list_runs(RunQuery(status=RunStatus.WAITING, limit=1))
        return "; some wait for an answer: awaken runs --status waiting" if page.items else ""


async def wait_recovered(runtime: Runtime) -> list[ExitCode]:
    """Wait for the runs that a runtime resumed when it was opened. Returns their exit codes.

    Closing the runtime earlier would cancel those runs.
    """
    codes: list[ExitCode] = []
    for run in runtime.recovered:
        try:
            result = await run
        except AwakenError as error:
            complain(f"run {run.run_id} of {run.agent_id}: {error}")
            codes.append(ExitCode.FAILED)
            continue
        complain(f"run {run.run_id} of {run.agent_id}: {describe_ending(result.termination)}")
        codes.append(exit_code_for(result.termination))
    return codes
