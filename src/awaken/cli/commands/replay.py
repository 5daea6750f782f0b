"""`awaken replay`: running a finished run again, with changes."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

from awaken.cli.commands.export import find_run_id
from awaken.cli.exit_codes import ExitCode, Mistake, describe_ending
from awaken.cli.options import json_value_option, print_json, stdout_for_events, store_option
from awaken.cli.output import open_console, print_fields, print_table, terminal_line
from awaken.cli.store_view import open_store_view
from awaken.cli.target import Target, load_target
from awaken.core.lifecycle import TerminationReason
from awaken.core.value import Value
from awaken.errors import BuildError, ConfigError, ResolveError
from awaken.runtime.replay import Difference, Recording, first_difference, read_recording
from awaken.runtime.replay import replay as play
from awaken.runtime.replay.compare import agent_changes
from awaken.runtime.replay.play import Tools
from awaken.testing import ScriptedModel

MOST_LINES = 60
_LONGEST_LINE = 400
_STYLES = {"-": "red", "+": "green"}


class ReplayFigures(Value, frozen=True, kw_only=True):
    """What a run used; `money` only if it had a budget in money."""

    model: str | None
    steps: int
    calls: int
    input_tokens: int
    output_tokens: int
    money: float | None = None
    ended: TerminationReason
    response: str

    @classmethod
    def of(cls, run: Recording) -> ReplayFigures:
        return cls(
            model=run.model,
            steps=run.steps,
            calls=len(run.calls),
            input_tokens=run.input_tokens,
            output_tokens=run.output_tokens,
            money=run.money,
            ended=run.termination,
            response=run.response,
        )


class ReplayOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints; `stopped` says why a replay did not finish, and `changes` what has
    changed in the agent."""

    run_id: str
    agent: str
    same: bool
    difference: Difference | None
    was: ReplayFigures
    now: ReplayFigures
    stopped: str | None = None
    changes: tuple[str, ...] = ()


@click.command(short_help="Run a finished run again and show the first difference.")
@click.argument("id", metavar="RUN|THREAD")
@click.argument("target", metavar="[MODULE:AGENT]", required=False)
@click.option("--model", metavar="NAME", help="Ask this model.  [default: the recorded answers]")
@click.option(
    "--prompt", metavar="TEXT|@FILE", help="A system prompt that replaces the agent's own."
)
@click.option(
    "--tools",
    type=click.Choice(["recorded", "real"]),
    default="recorded",
    show_default=True,
    help="At a call that was not recorded: stop, or run the tool of MODULE:AGENT.",
)
@click.option(
    "--ignore-text", is_flag=True, help="Compare only the calls and the end, not the texts."
)
@store_option
@json_value_option
def replay(
    id: str,
    target: str | None,
    model: str | None,
    prompt: str | None,
    tools: Tools,
    ignore_text: bool,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """Run a finished run again, with another model, prompt or tool set, and show the first
    difference.

    \b
      awaken replay 0199f3a2 app:agent --model demo
      awaken replay 0199f3a2 app:agent --prompt @prompt.md --ignore-text
      awaken replay case-7 app:agent       the recorded answers: does the code still do the same?

    The run gets the same input, after the same history, in a thread in memory; the store is only
    read. A call of the same tool with the same arguments returns its recorded result, so that no
    side effect happens twice. A request for an approval gets the recorded answer. With --tools
    real, any other call runs.

    Without MODULE:AGENT, a stand-in is run that has only the recorded calls: prompts and
    descriptions of tools are not stored. If ID is a thread, its latest run is replayed.

    The exit code is 0 if all is the same, 1 if something differs, 2 if the command makes no sense.
    """
    if tools == "real" and target is None:
        raise Mistake("--tools real needs the agent whose tools are meant: name MODULE:AGENT")

    async def main() -> tuple[Recording, Recording]:
        async with open_store_view(store) as store_view:
            was = await read_recording(store_view.store, await find_run_id(store_view, id))
        return was, await _replay_run(was, found, model, _read_prompt(prompt), tools)

    out = sys.stdout
    with stdout_for_events(as_json):
        found = load_target(target) if target is not None else None
        was, now = asyncio.run(main())
    difference = first_difference(was, now, text=not ignore_text)
    output = ReplayOutput(
        run_id=was.run_id,
        agent=was.agent,
        same=difference is None,
        difference=difference,
        was=ReplayFigures.of(was),
        now=ReplayFigures.of(now),
        stopped=now.stray,
        changes=agent_changes(was, now) if target is not None else (),
    )
    if as_json:
        print_json(output)
    else:
        _print_output(open_console(out), output, model)
    return ExitCode.DONE if output.same else ExitCode.FAILED


async def _replay_run(
    was: Recording, found: Target | None, model: str | None, prompt: str | None, tools: Tools
) -> Recording:
    own = found is not None
    agents = found.all_agents() if found is not None else None
    scene = was.scene(own_code=own)
    if found is not None:
        # If there is only one agent, it is used even if its name has changed.
        only = found.agent_ids() if len(found.agent_ids()) == 1 else [was.agent]
        scene = msgspec.structs.replace(scene, agent=found.agent_id(only[0]))
    if model is not None:
        # The recorded end and model override belong to the recorded answers.
        scene = msgspec.structs.replace(scene, end=None)
        if scene.overrides is not None:
            overrides = msgspec.structs.replace(scene.overrides, upstream_model=None)
            scene = msgspec.structs.replace(scene, overrides=overrides)
    try:
        return await play(
            scene,
            model or ScriptedModel(was.answers(own_code=own), name=was.model or "recorded"),
            agents,
            prompt=prompt,
            tools=tools,
        )
    except (BuildError, ResolveError, ConfigError) as error:
        raise Mistake(f"{found.name if found is not None else 'it'} cannot run: {error}") from error


def _read_prompt(prompt: str | None) -> str | None:
    """The given prompt, or the content of the file it names.

    Raises:
        Mistake: the file cannot be read.
    """
    if prompt is None or not prompt.startswith("@"):
        return prompt
    try:
        return Path(prompt[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"the prompt {prompt[1:]!r} cannot be read: {error}") from error


# -- for people ---------------------------------------------------------------------------------


def _print_output(console: Console, output: ReplayOutput, model: str | None) -> None:
    console.print(Text(f"run {output.run_id} of {output.agent}, again", "bold"))
    fields = (
        ("asked", model or "the recorded answers"),
        ("changed", ", ".join(output.changes).replace("_", " ")),
        ("stopped", output.stopped or ""),
    )
    print_fields(console, fields)
    if output.difference is not None:
        step = output.difference.step
        place = "at the end" if step is None else f"in step {step}"
        console.print(Text(f"\nfirst difference, {place}", "bold yellow"))
        for line in _render_diff(output.difference):
            console.print(Text(f"  {line}", _STYLES.get(line[0], "")))
    console.print()
    print_table(console, ("", "WAS", "IS"), _build_rows(output.was, output.now))
    words, style = ("the same", "bold green") if output.same else ("different", "bold red")
    console.print(Text(f"\n{words}", style))


def _render_diff(difference: Difference) -> Iterator[str]:
    """The difference as a diff, including the lines that both share."""
    every = max(len(difference.was), len(difference.now))
    changes = difflib.unified_diff(difference.was, difference.now, lineterm="", n=every)
    _, _, _, *shared = (
        changes  # the diff's header has file names and line numbers, which mean nothing here
    )
    lines = [f"{line[0]} {terminal_line(line[1:], _LONGEST_LINE)}" for line in shared]
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        yield f"  … {len(lines) - MOST_LINES} lines more: --json has them all"


def _build_rows(was: ReplayFigures, now: ReplayFigures) -> Iterator[tuple[str, str, str]]:
    yield "model", was.model or "–", now.model or "–"
    yield "steps", str(was.steps), str(now.steps)
    yield "calls", str(was.calls), str(now.calls)
    yield "tokens", _format_tokens(was), _format_tokens(now)
    if was.money is not None or now.money is not None:
        yield "cost", _format_money(was), _format_money(now)
    yield "ended", _format_ending(was), _format_ending(now)


def _format_money(figures: ReplayFigures) -> str:
    return f"{figures.money:,.4g}" if figures.money is not None else "–"


def _format_ending(figures: ReplayFigures) -> str:
    return terminal_line(describe_ending(figures.ended), 60)


def _format_tokens(figures: ReplayFigures) -> str:
    return f"{figures.input_tokens:,} in, {figures.output_tokens:,} out"
