"""Reading what runs and background tasks have left in a store, for programs that show it."""

from awaken.worker.delegates import parent_of, spending_in
from awaken.worker.operations import descendants
from awaken.worker.task_records import TASK_AGENT, KeptTask

__all__ = ["TASK_AGENT", "KeptTask", "descendants", "parent_of", "spending_in"]
