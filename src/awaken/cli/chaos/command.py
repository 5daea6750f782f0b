"""The command `awaken chaos`."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from awaken.cli.chaos.child_main import ProcessOptions, run_process
from awaken.cli.chaos.report import build_report, print_report
from awaken.cli.chaos.trial import Trial, Trials, python_command
from awaken.cli.exit_codes import ExitCode, describe_ending, exit_code_for
from awaken.cli.options import (
    agent_option,
    model_option,
    print_json,
    stdout_for_events,
)
from awaken.cli.output import complain, open_console
from awaken.cli.target import Target, load_target
from awaken.codec import loads
from awaken.core.tool import ToolEffect
from awaken.core.tool_context import Tool, traits_of
from awaken.core.value import Value
from awaken.runtime import Agent
from awaken.testing.chaos import Damage


class KillOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints for each kill; `at` is `None` if the point was not reached."""

    at: str | None
    damage: Damage
    trouble: str | None

    @classmethod
    def of(cls, trial: Trial) -> KillOutput:
        return cls(at=trial.killed_at, damage=trial.damage, trouble=trial.trouble)


@click.command(short_help="Kill an agent of yours again and again, and see what it survives.")
@click.argument("target", metavar="MODULE:AGENT")
@click.argument("prompt")
@click.option(
    "--kills", type=click.IntRange(1), metavar="N", help="Kill at N points only; else at every one."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which N points those are.")
@click.option("--yes", is_flag=True, help="Approve every call that needs it; else they are denied.")
@click.option("--json", "as_json", is_flag=True, help="Print a line for each kill, and the report.")
@agent_option
@model_option
@click.option("--life", hidden=True, help="Be one of the processes that are killed.")
def chaos(
    target: str,
    prompt: str,
    kills: int | None,
    seed: int,
    yes: bool,
    as_json: bool,
    agent: str | None,
    model: str | None,
    life: str | None,
) -> ExitCode:
    """Run an agent in processes of its own, kill them with SIGKILL, recover, and compare.

    First the agent runs undisturbed. Then it runs again and again, each time on an empty store in a
    temporary file, and is killed before or after a commit, at the start or at the end of a tool;
    a new process recovers it. The report says, tool by tool, what was cut short, run again,
    reported as unknown, verified or asked, and what was lost or done twice.

    \b
      awaken chaos app:agent "Refund order 7" --yes
      awaken chaos examples/shop.py:agents "Where is order 7?" --kills 10

    TOOLS REALLY RUN, and the model is really asked, about twice for each kill: use a test account,
    and a model that costs nothing (`--model demo`) or little.

    The exit code is 0 if nothing was lost or doubled, 1 if something was, 2 if the command makes no
    sense.
    """
    with stdout_for_events(as_json):
        found = load_target(target)
    agents = found.agents(model)
    if life is not None:
        run_process(loads(life, ProcessOptions), agents)
        return ExitCode.DONE
    agent_id, tools = found.agent_id(agent), _resolve_tools(found, agents, model)
    trials = Trials(
        options=ProcessOptions(home="", agent=agent_id, prompt=prompt, approve=yes),
        command=python_command(target, model),
        once={name for name, tool in tools.items() if traits_of(tool).effect is ToolEffect.ONCE},
    )
    complain("tools really run and the model is really asked, about twice for each kill")
    complain(f"calls that need an approval are {'approved' if yes else 'denied; --yes approves'}")
    first = trials.run_undisturbed()
    if wrong := _find_baseline_problem(first):
        complain(
            f"undisturbed, {agent_id!r} does not come to its end, so nothing was killed: {wrong}"
        )
        return ExitCode.FAILED
    done = []
    for trial in _run_killed_trials(trials, _choose_points(len(first.points), kills, seed)):
        done.append(trial)
        if as_json:
            print_json(KillOutput.of(trial))
    report = build_report(first, done, tools.values())
    if as_json:
        print_json(report)
    else:
        print_report(open_console(sys.stdout), report)
    return ExitCode.DONE if report.whole else ExitCode.FAILED


def _resolve_tools(found: Target, agents: Sequence[Agent], model: str | None) -> dict[str, Tool]:
    """Every tool of every agent, including those of plugins and delegates.

    Raises:
        Mistake: the agents do not fit together.
    """
    resolver = found.open("memory:", model).engine.registry.snapshot()
    return {
        name: tool for agent in agents for name, tool in resolver.resolve(agent.id).tools.items()
    }


def _find_baseline_problem(trial: Trial) -> str | None:
    """The reason why the undisturbed conversation is no basis for a comparison, or `None`."""
    if trial.trouble is not None or not trial.final.runs:
        return trial.trouble or "it never started"
    ending = trial.final.runs[0].termination_reason
    return None if exit_code_for(ending) is ExitCode.DONE else describe_ending(ending)


def _choose_points(points: int, kills: int | None, seed: int) -> list[int]:
    everything = range(1, points + 1)
    if kills is None or kills >= points:
        return list(everything)
    return sorted(random.Random(seed).sample(everything, kills))


def _run_killed_trials(trials: Trials, points: Sequence[int]) -> Iterator[Trial]:
    """A trial for each point, with a progress bar."""
    console = open_console(sys.stderr)
    with Progress(
        TextColumn("killing"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        for point in progress.track(points):
            yield trials.run_killed_at(point)
