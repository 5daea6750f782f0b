"""Reading finished runs from the store and running them again, unchanged or with changes."""

from awaken import lazy
from awaken.runtime.replay.compare import Difference, first_difference
from awaken.runtime.replay.play import EXPORT_AGAIN, replay
from awaken.runtime.replay.read import read_recording
from awaken.runtime.replay.recording import Recording
from awaken.runtime.replay.scene import Approval, RecordedCall, RecordedStep, Scene, answer, call

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

lazy.lazy_names(__name__, {}, otherwise=EXPORT_AGAIN)
