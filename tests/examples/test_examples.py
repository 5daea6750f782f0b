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
    "dependencies": """\
run: Statement(customer=7, balance=120.5)
submitted: Statement(customer=7, balance=120.5)
""",
    "support_desk": """\
price_paid answered: no such order.
refund answered: refunded 40 euros.
it waits for answers to its tickets: pass answers={ticket: True}, or call decide
Approve refund? {'order': 8}
refund answered: refunded 300 euros. 2 refunds
""",
    "invoices": """\
2026-03-03: 80 euros to Ann's Lamps, 2 steps
2026-03-04: 25 euros to Bob's Chairs, 1 steps
""",
    "research_team": """\
editor calls agent_run_engineer
editor calls agent_run_historian
engineer calls look_up
historian calls look_up
The mill of 1702 is older than the bridge of 1811.
2 steps of the editor, 6 of all
""",
    "chat_service": """\
ann shop_restock answered: 20 of lamp.
bob You said: “Please restock the item 'lamp', pieces: 20”. Name a tool and I will call it: \
shop_stock.
{'lamp': 20}
""",
    "order_bot": """\
told: Try again: use the article's number: LAMP-1, CHAIR-2
told: 40.0
told: Try again: one order is for 1 to 10 pieces
told: {"article":"LAMP-1","pieces":2,"euros":80.0}
ordered 2 × LAMP-1 for 80 €
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
    "served": """\
calls weather {'city': 'Paris'}
says: weather answered: Paris: 21°C, sunny.
calls pay {'amount': 500, 'to': 'Bob'}
asks: Approve pay?
""",
    "frontend_tool": """\
dialog 'Wall paint': the user picks green
pick_colour answered: colour green, hex #00aa44.
""",
    "handoff": """\
guest: I want my money back.
agent: Billing here: your money is on its way.
after a restart: billing
guest: When?
agent: Still billing: with you tomorrow.
guest: Then a room for tonight, please.
agent: The desk again: room 12 is yours.
calls: ['handoff', 'refund', 'handoff']
""",
    "delegate": """\
planner calls agent_run_travel: {'prompt': 'Venice, two nights.'}
    travel says: The Lido is free.
    travel calls book: {'hotel': 'Lido', 'nights': 2}
to be approved: book {'hotel': 'Lido', 'nights': 2}, by travel
    travel goes on: 2 nights at the Lido, paid
    travel says: You have a room at the Lido.
planner says: All set: you stay at the Lido.
the answer: All set: you stay at the Lido.
""",
    "remote_agent": """\
answered: The menu is printed.
asks: How many posters?
answered: 200 posters are printed.
under way: volume 1 is in the press
cancelled: the run of shop was stopped
over there: the presses stand still
""",
    "background_research": """\
agent: I have written some letters.
  research: 0%, waiting for the library
  research: 33%, waiting for the archive
the first process was killed: True
  research: 0%, waiting for the library
  research: 33%, waiting for the archive
  research: 67%, waiting for the miller
agent: I have it: the mill was built in 1702, burnt in 1790, rebuilt in 1801.
""",
    "budget_asks": """\
asks: the budget of 2 steps has 0 left, and the next call may take 1. Allow more?
asks: the budget of 4 steps has 0 left, and the next call may take 1. Allow more?
answers: It was the gardener.
spent: 6 steps, 0.042 €
ended: Stopped(value=StoppedReason(code='budget', detail='read it yourself'))
""",
    "isolated_tool": """\
rendering elsewhere: True
the run 'studio' was stopped
the call 'render' was stopped
ended: CancelledEnd()
still rendering: False
""",
    "cancelling": """\
the digger puts the spade away
cancelled: True and nothing is left running: True
the run 'digger' was stopped
the call 'dig' was stopped, it is unknown whether it took effect
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
        timeout=250,
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
