"""Kept until 1.0: the earlier path of `awaken.runtime.replay`, which exported tests import."""

from awaken import lazy
from awaken.runtime.replay import (
    Approval,
    Difference,
    RecordedCall,
    RecordedStep,
    Recording,
    Scene,
    answer,
    call,
    first_difference,
    read_recording,
    replay,
)
from awaken.runtime.replay.play import EXPORT_AGAIN

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
