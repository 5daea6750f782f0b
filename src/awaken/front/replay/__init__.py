"""Reading finished runs from the store and running them again, unchanged or with changes."""

from awaken import lazy
from awaken.front.replay.compare import Difference, first_difference
from awaken.front.replay.parts import Approval, RecordedCall, RecordedStep, Scene, answer, call
from awaken.front.replay.play import EXPORT_AGAIN, replay
from awaken.front.replay.reading import read_recording
from awaken.front.replay.recording import Recording

__all__ = [
    "Approval",
    "Difference",
    "RecordedCall",
    "RecordedStep",
    "Recording",
    "Scene",
    "answer",
    "call",
    "first_difference",
    "read_recording",
    "replay",
]

__getattr__, __dir__ = lazy.lazy_names(__name__, {}, otherwise=EXPORT_AGAIN)
