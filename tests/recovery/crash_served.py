"""What the crash matrix plays of that which a server does: it submits, interrupts, follows, and
keeps large results."""

from __future__ import annotations

from collections.abc import Iterable

from crash_scenarios import Part, Said, Scenario

from awaken.core.lifecycle import CANCELLED, NATURAL_END
from awaken.testing.chaos import ThreadDump

_SAID = (
    Said(),
    Said(text="Once more!"),
    Said(text="No, this!", mode="interrupt"),
    Said(text="And then that."),
)


def _went_on_after_the_interrupt(final: ThreadDump) -> Iterable[str]:
    """What was said from the interrupt on was done, in its order; what was said before, if it was
    begun, came first. Each submission has one run."""
    texts = [said.text for said in _SAID]
    ends = [run.termination_reason for run in final.runs]
    if len(ends) != len(texts) or set(ends) - {NATURAL_END, CANCELLED}:
        yield f"the runs ended as {ends}"
    heard = [message.text() for message in final.messages if message.text() in texts]
    if heard[-2:] != texts[-2:] or heard[:-2] != texts[: len(heard) - 2]:
        yield f"the user was heard to say {heard}"
    if ends.count(NATURAL_END) < 2:
        yield f"{ends.count(NATURAL_END)} runs were done"


SERVED = (
    Scenario(
        name="submitted-and-interrupted",
        main=Part([[("charge", {"order": 1})], [("ship", {"order": 1})]]),
        said=_SAID,
        submitted=True,
        holds=_went_on_after_the_interrupt,
    ),
    Scenario(
        name="followed",
        main=Part(
            [
                [("look", {"order": 1}), ("refund", {"order": 1, "euros": 9})],
                [("charge", {"order": 1})],
            ]
        ),
        said=(Said(), Said(text="Once more!")),
        submitted=True,
        followed=True,
    ),
    Scenario(
        name="large-result-anew",
        main=Part(
            [
                [("survey_anew", {"order": 1}), ("charge", {"order": 1})],
                [("survey_anew", {"order": 2}), ("survey", {"order": 1})],
            ]
        ),
        followed=True,
        volatile={"survey_anew"},
    ),
)
