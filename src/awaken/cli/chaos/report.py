"""The report on all trials, tool by tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from awaken.cli.chaos.trial import Trial
from awaken.cli.output import count, print_table, terminal_line
from awaken.core.lifecycle import Failed
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.thread_ids import task_key
from awaken.core.tool import OUTCOME_UNKNOWN, Recover, ToolEffect
from awaken.core.tool_context import Tool, traits_of
from awaken.core.value import Value
from awaken.testing.chaos import Damage, NoteKind, task_of

MOST_SHOWN = 20


class ToolReport(Value, frozen=True, kw_only=True):
    """What the kills did to one tool's calls, over all trials.

    `called_again` counts the additional calls that the model made after it was told that an outcome
    is unknown.
    """

    name: str
    effect: ToolEffect
    recover: Recover
    calls: int = msgspec.field(default_factory=int)
    interrupted: int = msgspec.field(default_factory=int)
    ran_again: int = msgspec.field(default_factory=int)
    reported_unknown: int = msgspec.field(default_factory=int)
    verified: int = msgspec.field(default_factory=int)
    asked: int = msgspec.field(default_factory=int)
    called_again: int = msgspec.field(default_factory=int)

    def list_remarks(self) -> list[str]:
        """Remarks for the tool's author."""
        found = []
        if self.repeated:
            found.append(
                f"ran again {_format_times(self.ran_again)}: is it really {self.effect.value}?"
            )
        elif self.ran_again:
            found.append(
                f"ran again {_format_times(self.ran_again)}, when told that it had not happened"
            )
        if self.reported_unknown:
            found.append(
                f"was cut short {_format_times(self.reported_unknown)} with an unknown outcome, "
                'and the model was told so: say effect="read" if it changes nothing, or '
                "give it a verify=… that looks it up"
            )
        if self.called_again:
            found.append(
                f"was called once more by the model {_format_times(self.called_again)} after that: "
                "a new call runs"
            )
        return found

    @property
    def repeated(self) -> bool:
        """Whether calls ran again, as the tool's `recover="retry"` allows."""
        return self.ran_again > 0 and self.recover is Recover.RETRY


class Report(Value, frozen=True, kw_only=True):
    """What `--json` prints at the end."""

    points: int
    kills: int
    tools: tuple[ToolReport, ...]
    damage: Damage
    troubles: tuple[str, ...] = msgspec.field(default_factory=tuple)

    @property
    def whole(self) -> bool:
        return not self.damage and not self.troubles


def build_report(undisturbed: Trial, trials: Sequence[Trial], tools: Iterable[Tool]) -> Report:
    killed = [trial for trial in trials if trial.at_kill is not None]
    return Report(
        points=len(undisturbed.points),
        kills=len(killed),
        tools=tuple(_build_tool_report(tool, undisturbed, killed) for tool in tools),
        damage=Damage(
            lost=_collect_texts(trials, lambda trial: trial.damage.lost),
            doubled=_collect_texts(trials, lambda trial: trial.damage.doubled),
            invalid=_collect_texts(trials, lambda trial: trial.damage.invalid),
            left_open=_collect_texts(trials, lambda trial: trial.damage.left_open),
        ),
        troubles=_collect_texts(trials, lambda trial: [trial.trouble] if trial.trouble else []),
    )


def _collect_texts(
    trials: Sequence[Trial], texts_of: Callable[[Trial], Iterable[str]]
) -> tuple[str, ...]:
    """The texts of all trials, each with the point at which the trial was killed."""
    return tuple(
        f"{text} (killed at: {trial.killed_at})" if trial.killed_at else text
        for trial in trials
        for text in texts_of(trial)
    )


def _build_tool_report(tool: Tool, undisturbed: Trial, trials: Sequence[Trial]) -> ToolReport:
    name, traits = tool.descriptor().id, traits_of(tool)
    usual = len(_list_calls(undisturbed, name))
    sums: Counter[str] = Counter()
    for trial in trials:
        calls = _list_calls(trial, name)
        interrupted = trial.at_kill.open_calls() if trial.at_kill else set()
        unknown = sum(call.phase is CallPhase.UNKNOWN for call in calls)
        unknown += _count_lost_tasks(trial, name, interrupted)
        sums["calls"] += len(calls)
        sums["interrupted"] += sum(call.key in interrupted for call in calls)
        sums["ran_again"] += _count_reruns(trial, name)
        sums["reported_unknown"] += unknown
        sums["verified"] += len(_list_keys(trial, name, NoteKind.VERIFIED))
        sums["asked"] += sum(
            ticket.tool_name == name and ticket.reason == OUTCOME_UNKNOWN
            for thread in trial.final.threads()
            for ticket in thread.tickets
        )
        sums["called_again"] += max(0, len(calls) - usual) if unknown else 0
    return ToolReport(name=name, effect=traits.effect, recover=traits.recovery, **sums)


def _list_calls(trial: Trial, name: str) -> list[CallEntry]:
    """All calls of a tool, including those of delegates."""
    threads = trial.final.threads()
    return [call for thread in threads for call in thread.calls if call.tool_name == name]


def _count_lost_tasks(trial: Trial, name: str, interrupted: Collection[str]) -> int:
    """Count the background tasks of a tool that ended with an unknown outcome."""
    runs = [run for thread in trial.final.threads() for run in thread.runs]
    return sum(
        task_key(run.run_id) in interrupted and isinstance(run.termination_reason, Failed)
        for run in runs
        if (task := task_of(run)) is not None and task["task"]["description"] == name
    )


def _list_keys(trial: Trial, name: str, kind: NoteKind) -> list[str]:
    return [note.key for note in trial.notes if note.name == name and note.kind is kind]


def _count_reruns(trial: Trial, name: str) -> int:
    """Count how often the tool ran again for the same call, apart from asking for an approval."""
    runs = Counter(_list_keys(trial, name, NoteKind.START))
    runs.subtract(_list_keys(trial, name, NoteKind.ASKED))
    return sum(times - 1 for times in runs.values() if times > 1)


# -- for people -------------------------------------------------------------------------------


def print_report(console: Console, report: Report) -> None:
    """Print the table of tools, the remarks, the problems, and the verdict."""
    columns = ("TOOL", "EFFECT", "RECOVER", "CALLS:", "CUT SHORT:", "RAN AGAIN:", "UNKNOWN:")
    print_table(
        console,
        (*columns, "VERIFIED:", "ASKED:"),
        [
            (
                tool.name,
                tool.effect.value,
                tool.recover.value,
                *(
                    str(number)
                    for number in (
                        tool.calls,
                        tool.interrupted,
                        tool.ran_again,
                        tool.reported_unknown,
                        tool.verified,
                        tool.asked,
                    )
                ),
            )
            for tool in report.tools
        ],
    )
    console.print()
    for tool in report.tools:
        for remark in tool.list_remarks():
            console.print(Text("  · ").append(tool.name, "bold").append(f" {remark}"))
    wrong = [*report.troubles, *report.damage.sentences()]
    for text in wrong[:MOST_SHOWN]:
        console.print(Text("  ✗ ", "red").append(terminal_line(text, 400)))
    if len(wrong) > MOST_SHOWN:
        console.print(Text(f"  … and {len(wrong) - MOST_SHOWN:,} more; --json has all of them"))
    damage = report.damage
    console.print(
        f"points {report.points}, kills {report.kills}, lost results {len(damage.lost)}, "
        f"doubled once effects {len(damage.doubled)}, invalid transcripts {len(damage.invalid)}, "
        f"runs left open {len(damage.left_open)}"
    )
    console.print(Text(render_verdict(report), "bold green" if report.whole else "bold red"))


def render_verdict(report: Report) -> str:
    """Render the last line: whether killing the agent did any damage."""
    if report.troubles:
        return f"{count(len(report.troubles), 'process')} did not end as expected; see above"
    if not report.whole:
        return "killing this agent loses or doubles something; see above"
    if not report.kills:
        return "nothing was killed, so nothing was shown"
    if repeated := [tool.name for tool in report.tools if tool.repeated]:
        return (
            f"nothing was lost or doubled, provided that {' and '.join(repeated)} may be repeated"
        )
    return "nothing was lost or doubled"


def _format_times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
