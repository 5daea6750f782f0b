"""The crash matrix: kill a process at every point of every scenario, recover, and look.

    python tests/recovery/crash_matrix.py                    every point, 20 seeds
    python tests/recovery/crash_matrix.py --short            a sample, in seconds
    python tests/recovery/crash_matrix.py --scenario approval --seed 3 --kill 14
    python tests/recovery/crash_matrix.py --postgres --nats --share 8 --seeds 2

Children are forked from processes that have imported everything; each is a process of its own,
and really killed with SIGKILL.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import random
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec
from crash_ground import Ground, add_options, ground_of
from crash_life import Role, Stage, live
from crash_play import Play, check, play
from crash_scenarios import CARELESS, LIAR, ORPHANED, Answered, Cancelled
from crash_teams import SCENARIOS

from awaken.core.tool import MAX_TAKEOVERS

KNOWN = SCENARIOS | {one.name: one for one in (LIAR, CARELESS, ORPHANED)}
SEEDS = 20
THOROUGH, SHARE = 6, 3
"""So many seeds are played at every point, each of the others at every third, in turn."""

SHORT_POINTS = 2

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""What a killed process has written is there, on a disk or not; and this one does not wait."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario under one seed: all its points, some of them, or exactly the kills given."""

    scenario: str
    seed: int
    share: int = 1
    sample: int | None = None
    kills: tuple[int, ...] | None = None
    kill_after: float | None = None
    ground: Ground = Ground()


class Report(msgspec.Struct, kw_only=True):
    """What a unit came to; each failure says how to see it again."""

    scenario: str
    points: int = 0
    kills: int = 0
    lost: int = 0
    doubled: int = 0
    invalid: int = 0
    left_open: int = 0
    ownerless: int = 0
    failures: list[str] = msgspec.field(default_factory=list)


# -- one unit ---------------------------------------------------------------------------------


def play_unit(unit: Unit) -> Report:
    """Play a scenario undisturbed, then with every kill in turn."""
    report = Report(scenario=unit.scenario)
    undisturbed = _play(unit, report, None, ())
    report.points = len(undisturbed.points)
    for kills, kill_after in _kills(unit, undisturbed):
        _play(unit, report, undisturbed, kills, kill_after)
    return report


def _kills(unit: Unit, undisturbed: Play) -> Iterator[tuple[Collection[int], float | None]]:
    if unit.kills is not None or unit.kill_after is not None:
        yield unit.kills or (), unit.kill_after
        return
    chance = random.Random(f"{unit.scenario}:{unit.seed}")
    points: Sequence[int] = range(1, len(undisturbed.points) + 1)
    if unit.sample is not None:
        points = sorted(chance.sample(points, unit.sample))
    points = points[unit.seed % unit.share :: unit.share]
    for point in points:
        kills = {point}
        # Killed again while it recovers, and perhaps once more; after too often it is given up.
        while chance.random() < 1 / 3 and len(kills) < MAX_TAKEOVERS:
            kills.add(max(kills) + chance.randint(1, 10))
        yield kills, None
    if unit.sample is None:  # once from outside, at any instant
        yield (), chance.uniform(0, undisturbed.seconds * 0.8)


def _play(
    unit: Unit,
    report: Report,
    undisturbed: Play | None,
    kills: Collection[int],
    kill_after: float | None = None,
) -> Play:
    """Play once, and add what came of it to the report."""
    home = Path(tempfile.mkdtemp(prefix="awaken-crash-", dir=MEMORY))
    try:
        scenario = KNOWN[unit.scenario]
        site = unit.ground.at(home)
        stage = Stage(
            scenario=scenario, seed=unit.seed, home=home, site=site, kills=frozenset(kills)
        )
        played = play(stage, kill_after=kill_after)
        damage = check(stage, undisturbed or played, played)
    finally:
        shutil.rmtree(home)
    report.kills += len(played.thread_dumps)
    report.lost += len(damage.lost)
    report.doubled += len(damage.doubled)
    report.invalid += len(damage.invalid)
    report.left_open += len(damage.left_open)
    report.ownerless += len(damage.ownerless)
    if damage:
        report.failures.append(
            "\n  ".join((_reproduce(unit, played, kills, kill_after), *damage.sentences()))
        )
    return played


def _reproduce(unit: Unit, played: Play, kills: Collection[int], kill_after: float | None) -> str:
    command = f"{Path(sys.argv[0])} --scenario {unit.scenario} --seed {unit.seed}"
    command += " --postgres" * bool(unit.ground.postgres) + " --nats" * bool(unit.ground.nats)
    places = [
        f"{kill} ({played.points[kill - 1]})"
        for kill in sorted(kills)
        if kill <= len(played.points)
    ]
    if kills:
        command += f" --kill {','.join(map(str, sorted(kills)))}"
    if kill_after is not None:
        command += f" --kill-after {kill_after:.4f}"
    return f"{command}\n  killed at: {', '.join(places) or 'an instant, or never'}"


# -- all of them ------------------------------------------------------------------------------


def chosen_units(options: argparse.Namespace, ground: Ground) -> list[Unit]:
    names = options.scenario or list(SCENARIOS)
    if options.short:
        # Odd and even seeds are recovered in different ways.
        return [
            Unit(scenario=name, seed=1 + place % 2, sample=options.points, ground=ground)
            for place, name in enumerate(names)
        ]
    seeds = range(options.seeds) if options.seed is None else [options.seed]
    kills = tuple(int(kill) for kill in options.kill.split(",")) if options.kill else None
    return [
        Unit(
            scenario=name,
            seed=seed,
            share=options.share or (1 if place < THOROUGH else SHARE),
            kills=kills,
            kill_after=options.kill_after,
            ground=ground,
        )
        for place, seed in enumerate(seeds)
        for name in names
    ]


def warm_up(units: Sequence[Unit]) -> None:
    """Play the scenarios here, so that no child has to import or compile anything."""
    for name in {unit.scenario for unit in units}:
        scenario = KNOWN[name]
        if scenario.is_deadly:
            continue
        if scenario.answered is Answered.BY_ITSELF and scenario.cancelled is Cancelled.NEVER:
            with tempfile.TemporaryDirectory(prefix="awaken-crash-", dir=MEMORY) as home:
                site = Ground().at(Path(home))
                stage = Stage(scenario=scenario, seed=0, home=Path(home), site=site)
                asyncio.run(live(stage, Role.WORK))
    gc.collect()
    gc.freeze()  # what is there by now stays shared between all the processes


def play_all(units: Sequence[Unit], jobs: int) -> Iterator[Report]:
    warm_up(units)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for played, report in enumerate(pool.imap_unordered(play_unit, units), start=1):
            if sys.stderr.isatty():
                print(f"\r{played} of {len(units)}", end="\r", file=sys.stderr)
            yield report


def summary(reports: Sequence[Report]) -> str:
    points = {report.scenario: 0 for report in reports}
    for report in reports:
        points[report.scenario] = max(points[report.scenario], report.points)
    return (
        f"points {sum(points.values())}, "
        f"kills {sum(report.kills for report in reports)}, "
        f"lost results {sum(report.lost for report in reports)}, "
        f"doubled once effects {sum(report.doubled for report in reports)}, "
        f"invalid transcripts {sum(report.invalid for report in reports)}, "
        f"runs left open {sum(report.left_open for report in reports)}, "
        f"remote tasks without an owner {sum(report.ownerless for report in reports)}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Kill, recover, and look what is left.")
    parser.add_argument("--short", action="store_true", help="a sample of the points, one seed")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=3, help="they often wait for the disk")
    parser.add_argument("--scenario", choices=KNOWN, nargs="+", help="these only")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--kill", metavar="N,N", help="at these points, and no others")
    parser.add_argument("--kill-after", type=float, metavar="SECONDS", help="from outside")
    parser.add_argument("--share", type=int, metavar="N", help="every Nth point, of every seed")
    parser.add_argument("--points", type=int, default=SHORT_POINTS, help="of the short version")
    add_options(parser)
    options = parser.parse_args(arguments)
    reports = []
    with ground_of(options) as ground:
        for report in play_all(chosen_units(options, ground), options.jobs):
            reports.append(report)
            for failure in report.failures:
                print(failure)
    print(summary(reports))
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
