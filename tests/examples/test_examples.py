"""Every file in `examples/` runs, complains about nothing, and prints what it is there to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTS = {
    "own_model": """\
I counted 5 words
28 tokens in 2 steps
""",
    "own_backend": """\
answered: HELLO
the service: that job was stopped
ended: CancelledEnd()
""",
    "first_agent": """\
run: weather answered: Paris: 21°C, sunny.
stream: [I] [will] [use] [weather.] [weather] [answered:] [Rome:] [21°C,] [sunny.]
log: user → assistant → tool → assistant → user → assistant → tool → assistant
""",
    "typed_state": """\
c1: {"added":"apple","pieces":2}
c2: {"added":"pear","pieces":1}
c3: {"added":"apple","pieces":1}
c4: {"apple":3,"pear":1}
Three apples and a pear.
""",
    "plugin": """\
house/menu.txt: contents of house/menu.txt
/etc/passwd: only files in house/ may be read
house/guests.txt: contents of house/guests.txt
ended: Stopped(value=StoppedReason(code='long_enough', detail=None))
""",
    "approval": """\
no question: pay answered: paid 20 € to Ann.
suspended: True pay {'amount': 500, 'to': 'Bob'}
approved: pay answered: paid 500 € to Bob.
denied: pay was denied: Denied: Eve is not on the list.
asked at once: pay answered: paid 300 € to Dan.
""",
    "survives_a_kill": """\
the first process was killed: True
Done: 'pay' took effect; what it returned was lost when the process ended.
payments: 1
""",
    "frontend_tool": """\
dialog 'Wall paint': the user picks green
pick_colour answered: colour green, hex #00aa44.
""",
    "handoff": """\
guest: I want my money back.
agent: Billing here: your money is on its way.
guest: When?
agent: Still billing: with you tomorrow.
calls: ['handoff', 'refund']
""",
    "cancelling": """\
cancelled: True
the digger puts the spade away
ended: CancelledEnd()
the call was told: Cancelled: the run was cancelled; it is unknown whether 'dig' took effect. \
Do not assume either: find out, or say so, before it is called again
the thread goes on: You said: “Never mind”. Name a tool and I will call it: dig.
heard enough after: You
still running: False
""",
}

STREAMED = """\
run_start
step_start
text_delta          I
text_delta          will
text_delta          use
text_delta          weather.
tool_call_done
step_end
step_start
text_delta          weather
text_delta          answered:
text_delta          Paris:
text_delta          21°C,
text_delta          sunny.
step_end
run_finish
"""
"""The lines that matter; a run may tell more in between."""


def output_of(name: str) -> str:
    """What an example prints; any warning or leak is an error."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", EXAMPLES / f"{name}.py"],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
        timeout=30,
        check=False,
    )
    # How long a step took says something of the machine, and nothing of the example.
    said = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert (done.returncode, said) == (0, [])
    return done.stdout


@pytest.mark.parametrize("name", PRINTS)
def test_example_prints(name: str) -> None:
    assert output_of(name) == PRINTS[name]


def test_example_streams_a_run_over_http() -> None:
    expected = STREAMED.splitlines()
    told = [line for line in output_of("streaming_web").splitlines() if line in expected]
    assert told == expected


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*PRINTS, "streaming_web"}
