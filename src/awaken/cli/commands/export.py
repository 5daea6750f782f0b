"""`awaken export`: writing a finished run as a test."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import click
import msgspec

from awaken.backend.delegate_tool import delegate_tool_name
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import stdout_for_events, store_option
from awaken.cli.output import complain, say
from awaken.cli.pytest_file import PytestFile, ReplaySetup, folder_from, slug, write_test
from awaken.cli.store_view import StoreView, open_store_view
from awaken.cli.target import TargetAgent, load_target
from awaken.codec import dumps_text
from awaken.runtime import Agent
from awaken.runtime.replay import Recording, first_difference, read_recording, replay
from awaken.runtime.replay.compare import Difference
from awaken.testing import ScriptedModel

STDOUT = "-"


@click.command(short_help="Write a finished run as a pytest file that replays it.")
@click.argument("id", metavar="RUN|THREAD")
@click.option(
    "--pytest", "as_pytest", is_flag=True, help="Write a pytest file, the only format so far."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="The file to write; - for standard output.  [default: test_AGENT_RUN.py]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--agent",
    "target",
    metavar="MODULE:AGENT",
    help="Test your own agent; without it, a stand-in that has only the recorded calls.",
)
@click.option(
    "--tools",
    type=click.Choice(["recorded", "real"]),
    default="recorded",
    show_default=True,
    help="With --agent: whether its tools return recorded results, or run.",
)
@store_option
def export(
    id: str,
    as_pytest: bool,
    output: str | None,
    force: bool,
    target: str | None,
    tools: Literal["recorded", "real"],
    store: str | None,
) -> ExitCode:
    """Write a finished run as a test that replays it without a key or a network.

    \b
      awaken export 0199f3a2 --pytest
      awaken export case-7 --pytest --agent app:agent -o tests/test_case_7.py

    Every run can be exported: the store has its input, the model's answers, the results of calls
    and the approvers' decisions. The model's answers become a script, and the test expects the same
    calls, the same answer and the same end.

    With --agent, the test runs your own code: prompt, tools, gates, plugins and stop conditions.
    With --tools real, its tools run, too, except those that start other agents or background tasks:
    these return their recorded results. If ID is a thread, its latest run is written.
    """
    if not as_pytest:
        raise Mistake("say what the run is to become: --pytest writes a test")
    if tools == "real" and target is None:
        raise Mistake("--tools real needs the agent whose tools are meant: --agent MODULE:AGENT")

    async def main() -> Recording:
        async with open_store_view(store) as store_view:
            return await read_recording(store_view.store, await find_run_id(store_view, id))

    recording = asyncio.run(main())
    file = Path(output or f"test_{slug(recording.agent)}_{slug(recording.run_id)[-8:]}.py")
    with stdout_for_events(output == STDOUT):
        agents = load_target(target).all_agents() if target is not None else None
        cast = None if target is None else _cast(target, agents or (), tools, file, recording)
        if tools == "recorded":
            asyncio.run(_check(recording, agents))
    made = write_test(recording, cast, has_neighbours=output != STDOUT)
    if output == STDOUT:
        say(made.source.removesuffix("\n"))
    else:
        _write(made, file, force)
    return ExitCode.DONE


def _write(made: PytestFile, file: Path, force: bool) -> None:
    """
    Raises:
        Mistake: the file exists already, or cannot be written.
    """
    contents = {file: made.source}
    if made.texts:
        texts = msgspec.json.format(dumps_text(made.texts), indent=2)
        contents[file.with_suffix(".json")] = f"{texts}\n"
    for path in contents:
        if path.exists() and not force:
            raise Mistake(f"{path} is there already: --force writes over it, or give another -o")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            path.write_text(content, encoding="utf-8", newline="\n")
    except OSError as error:
        raise Mistake(f"{file} cannot be written: {error}") from error
    say("\n".join([*map(str, contents), f"  pytest {shlex.quote(str(file))}"]))


async def find_run_id(store_view: StoreView, text: str) -> str:
    """The run that an id names; for a thread, its latest run.

    Raises:
        Mistake: there is none, or there are several.
    """
    subject = await store_view.find(text)
    run_id = subject.run.run_id if subject.run is not None else subject.thread.latest_run_id
    if run_id is None:
        raise Mistake(f"{subject.words} has no run")
    return run_id


def _cast(
    target: str,
    agents: Sequence[TargetAgent],
    tools: Literal["recorded", "real"],
    file: Path,
    recording: Recording,
) -> ReplaySetup:
    ids = [agent.id for agent in agents if isinstance(agent, Agent)]
    if recording.agent not in ids:
        known = ", ".join(ids) or "none that runs here"
        raise Mistake(
            f"{target} has no agent {recording.agent!r}, whose run it is; it has: {known}"
        )
    where, _, name = target.rpartition(":")
    played = _list_delegating_tools(agents) if tools == "real" else None
    if where.endswith(".py"):
        path = Path(where)
        return ReplaySetup(path.stem, name, folder_from(file, path.parent), played)
    return ReplaySetup(where, name, _folder_of(where, file), played)


def _folder_of(module: str, test: Path) -> str | None:
    """The folder from which the test imports a module of the current directory; `None` if it is
    installed."""
    top = Path.cwd() / module.partition(".")[0]
    if top.with_suffix(".py").is_file() or top.is_dir():
        return folder_from(test, Path.cwd())
    return None


def _list_delegating_tools(agents: Sequence[TargetAgent]) -> Collection[str]:
    """List the tools whose calls start another agent or a task, which is not part of the run."""
    specs = [agent.spec for agent in agents if isinstance(agent, Agent)]
    return {
        name
        for spec in specs
        for name in (*map(delegate_tool_name, spec.delegates), *spec.background_tools)
    }


async def _check(recording: Recording, agents: Sequence[TargetAgent] | None) -> None:
    """Run what the test will run.

    Raises:
        Mistake: the run cannot be replayed, though no code of the user is involved.
    """
    own = agents is not None
    model = ScriptedModel(recording.answers(own_code=own))
    again = await replay(recording.scene(own_code=own), model, agents)
    difference = first_difference(recording, again)
    if difference is None:
        return
    words = _describe_difference(difference) + (f"; it {again.stray}" if again.stray else "")
    if agents is None:
        raise Mistake(f"run {recording.run_id} cannot be replayed from its log: {words}")
    complain(f"the test fails with the agent as it is now: {words}")


def _describe_difference(difference: Difference) -> str:
    place = "at its end" if difference.step is None else f"in step {difference.step}"
    was, now = " ".join(difference.was), " ".join(difference.now)
    return f"{place} it was {was!r} and is {now!r}"
