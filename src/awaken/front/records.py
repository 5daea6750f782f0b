"""Reading what runs and background tasks have left in a store, for programs that show it."""

from awaken.runtime.delegates import parent_of, spending_in
from awaken.runtime.operations import descendants
from awaken.runtime.task_records import TASK_AGENT, KeptTask

__all__ = ["TASK_AGENT", "KeptTask", "descendants", "parent_of", "spending_in"]
