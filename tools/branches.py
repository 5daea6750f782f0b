"""Prints the branches that no test takes, by package: `python tools/branches.py branches.json`.

The file is what `coverage json` writes after a run with `branch = true`. `120→124` is a jump from
line 120 to line 124 that never happened; `→exit` leaves the function.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def main(report: Path) -> None:
    for line in listing(json.loads(report.read_text())["files"]):
        print(line)


def listing(files: Mapping[str, Any]) -> Iterator[str]:
    """A heading for each package, with its files beneath; files that miss nothing are left out."""
    packages: dict[str, dict[str, Any]] = {}
    for path, file in sorted(files.items()):
        name = path.rpartition("src/awaken/")[2]
        packages.setdefault(name.partition("/")[0], {})[name] = file
    for package, its in packages.items():
        branches = sum(file["summary"]["num_branches"] for file in its.values())
        missing = sum(file["summary"]["missing_branches"] for file in its.values())
        yield f"{package}: {missing} of {branches} branches not taken"
        for name, file in its.items():
            if jumps := [jump(*each) for each in file["missing_branches"]]:
                yield f"  {name}: {', '.join(jumps)}"


def jump(start: int, end: int) -> str:
    return f"{start}→{end if end > 0 else 'exit'}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
