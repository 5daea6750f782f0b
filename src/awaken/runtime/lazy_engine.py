"""What a runtime's methods use of the engine, loaded when a method first needs it.

So `from awaken import Agent, Runtime` loads what describes agents, the first `Runtime(…)` loads the
loop, and following, outlines and background tasks are loaded when they are asked for.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.core.blobs import FreedBlobs, RunBlobs
    from awaken.core.llm import InferenceRequest, preview_of
    from awaken.core.registry import ContentResolver
    from awaken.core.search.query import SearchQuery
    from awaken.core.search.usage import UsagePart, UsageQuery
    from awaken.core.store.commits import ThreadCommit
    from awaken.core.store.threads import ChildStrategy, RunQuery, ThreadQuery, TicketQuery
    from awaken.core.task import TaskStatus
    from awaken.core.thread_ids import is_given_in, is_scope, join_scope
    from awaken.engine.large_content import load_media
    from awaken.ext.tasks.listing import list_tasks
    from awaken.plugin.resolved_agent import ResolvedAgent
    from awaken.runtime.assembly import Assembly, shapes_of, with_teams
    from awaken.runtime.live.follow import follow
    from awaken.runtime.live.outline import outline
    from awaken.runtime.live.tree import follow_tree
    from awaken.runtime.search.service import SearchService
    from awaken.runtime.stream import RunStream
    from awaken.runtime.submit import submit
    from awaken.runtime.sync import SyncBridge, call_in
    from awaken.runtime.waiting import wait_for_end_or_question, wait_idle, wait_tree_idle
    from awaken.stores.bus.local import LocalBus
    from awaken.worker.cancel_receipt import cancel_with_receipt
    from awaken.worker.edited_arguments import check_edit
    from awaken.worker.operations import decide, send
    from awaken.worker.read_thread import resolve
    from awaken.worker.recovery import Recovery
    from awaken.worker.shutdown import close_plugins
    from awaken.worker.worker import RESOLVER

__all__ = [
    "RESOLVER",
    "Assembly",
    "ChildStrategy",
    "ContentResolver",
    "FreedBlobs",
    "InferenceRequest",
    "LocalBus",
    "Recovery",
    "ResolvedAgent",
    "RunBlobs",
    "RunQuery",
    "RunStream",
    "SearchQuery",
    "SearchService",
    "SyncBridge",
    "TaskStatus",
    "ThreadCommit",
    "ThreadQuery",
    "TicketQuery",
    "UsagePart",
    "UsageQuery",
    "call_in",
    "cancel_with_receipt",
    "check_edit",
    "close_plugins",
    "decide",
    "follow",
    "follow_tree",
    "is_given_in",
    "is_scope",
    "join_scope",
    "list_tasks",
    "load_media",
    "outline",
    "preview_of",
    "resolve",
    "send",
    "shapes_of",
    "submit",
    "wait_for_end_or_question",
    "wait_idle",
    "wait_tree_idle",
    "with_teams",
]

lazy_names(
    __name__,
    {
        "awaken.core.task": "TaskStatus",
        "awaken.core.blobs": "FreedBlobs RunBlobs",
        "awaken.core.store.commits": "ThreadCommit",
        "awaken.core.search.query": "SearchQuery",
        "awaken.core.search.usage": "UsagePart UsageQuery",
        "awaken.runtime.search.service": "SearchService",
        "awaken.core.llm": "InferenceRequest preview_of",
        "awaken.core.registry": "ContentResolver",
        "awaken.core.store.threads": "ChildStrategy RunQuery ThreadQuery TicketQuery",
        "awaken.core.thread_ids": "is_given_in is_scope join_scope",
        "awaken.runtime.assembly": "Assembly shapes_of with_teams",
        "awaken.runtime.stream": "RunStream",
        "awaken.runtime.submit": "submit",
        "awaken.runtime.sync": "SyncBridge call_in",
        "awaken.ext.tasks.listing": "list_tasks",
        "awaken.runtime.waiting": "wait_idle wait_for_end_or_question wait_tree_idle",
        "awaken.stores.bus.local": "LocalBus",
        "awaken.runtime.live.follow": "follow",
        "awaken.runtime.live.outline": "outline",
        "awaken.runtime.live.tree": "follow_tree",
        "awaken.engine.large_content": "load_media",
        "awaken.plugin.resolved_agent": "ResolvedAgent",
        "awaken.worker.shutdown": "close_plugins",
        "awaken.worker.edited_arguments": "check_edit",
        "awaken.worker.operations": "decide send",
        "awaken.worker.read_thread": "resolve",
        "awaken.worker.cancel_receipt": "cancel_with_receipt",
        "awaken.worker.recovery": "Recovery",
        "awaken.worker.worker": "RESOLVER",
    },
)
