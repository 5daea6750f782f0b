"""Reading what runs and background tasks have left in a store, for programs that show it."""

from awaken.runtime.delegates import parent_of, spending_in
from awaken.runtime.operations import descendants
from awaken.runtime.task_records import KeptTask, is_task

__all__ = ["KeptTask", "descendants", "is_task", "parent_of", "spending_in"]
